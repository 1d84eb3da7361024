"""The run that this process takes part in: started by `sched run`, or, failing that, at first use."""

import atexit
import os
import threading

from sched.backends.base import settle_at
from sched.errors import RequestError
from sched.runtime import start
from sched.runtime.engine import Engine

_lock = threading.Lock()
_engine: Engine | None = None


def use(engine: Engine | None) -> None:
    """Make this the process's run."""
    global _engine
    _engine = engine
    settle_at(engine.home if engine is not None else None)


def engine() -> Engine:
    """Return the process's run; outside `sched run`, start one with the local tiles.

    `SCHED_DEVICE` and `SCHED_TILES` say what `--device` and `--tiles` would.
    """
    with _lock:
        if _engine is None or _engine.closed:
            started = start.local(
                start.Settings(device=os.environ.get("SCHED_DEVICE", "auto"), tiles=_tiles()),
                announce=start.say,
            )
            use(started)
            atexit.register(_end, started)
        assert _engine is not None
        return _engine


def _tiles() -> int | None:
    text = os.environ.get("SCHED_TILES")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise RequestError(f"SCHED_TILES={text!r} is not a number of tiles") from None


def _end(engine: Engine) -> None:
    """Finish what is still to be done, as every executor does when the interpreter ends."""
    if not engine.closed:
        engine.wait(engine.idle)
        engine.close(0)
