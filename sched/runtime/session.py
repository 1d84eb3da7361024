"""The run that this process takes part in: started by `sched run`, or, failing that, at first use."""

import atexit
import dataclasses
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable

from sched.backends.base import settle_at
from sched.errors import RequestError, UsageError
from sched.runtime import start
from sched.runtime.engine import Engine
from sched.runtime.interrupt import hold_back_interrupts
from sched.siblings import ranks
from sched.sizes import parse_size

_lock = threading.Lock()
_engine: Engine | None = None
_owned: "weakref.WeakSet[Engine]" = weakref.WeakSet()


def use(engine: Engine | None) -> None:
    """Make this the process's run."""
    global _engine
    _engine = engine
    if engine is not None:
        hold_back_interrupts(engine)
    settle_at(engine.home if engine is not None else None)


def engine() -> Engine:
    """Return the process's run; outside `sched run`, start one with the local tiles.

    `SCHED_DEVICE`, `SCHED_TILES` and `SCHED_TILE_MEMORY` say what `--device`, `--tiles` and `--tile-memory`
    would.

    Raises:
        UsageError: This is one of several ranks that were not started by `sched run`.
        RequestError: One of the variables is wrong.
        DeviceError: There is no such device.
    """
    with _lock:
        if _engine is None or _engine.closed:
            world = ranks.find(os.environ)
            if (world.size or 1) > 1:
                raise UsageError(
                    f"this is one of {world.size} ranks that {world.launcher} started, and each would run "
                    "the whole script: start it with `mpiexec -n N python -m sched run job.py`; or, if "
                    "every rank is meant to have a scheduler of its own, use sched.local()"
                )
            use(own(start.local(_settings(), announce=start.say)))
        assert _engine is not None
        return _engine


def begin(settings: start.Settings, world: ranks.World, announce: Callable[[str], None]) -> Engine | None:
    """Start the run that this process is to take part in, alone or as one of its ranks. Collective.

    Returns:
        The engine; or None, after the reason was printed on rank 0, if no rank can begin.
    """
    started: Engine | None
    if world.launcher is None or world.size == 1:
        if world.launcher is not None and settings.tiles is None and settings.device == "host":
            settings = dataclasses.replace(settings, tiles=1)  # `mpiexec -n 1` is one tile, as `-n 2` is two
        started = start.local(settings, announce=None if settings.quiet else announce)
    else:
        started = start.parallel(settings, world, announce)
    if started is not None:
        use(started)
    return started


def serve(engine: Engine) -> None:
    """Be a rank other than 0, until the run ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all ranks, and rank 0 decides
    engine.serve()
    engine.close(0, grace=60.0)


def own(engine: Engine) -> Engine:
    """See that an engine finishes its tasks when the interpreter ends, as every executor does."""
    _owned.add(engine)
    return engine


def _settings() -> start.Settings:
    """Read what the environment says."""
    tiles, memory = os.environ.get("SCHED_TILES"), os.environ.get("SCHED_TILE_MEMORY")
    try:
        count = int(tiles) if tiles else None
    except ValueError:
        raise RequestError(f"SCHED_TILES={tiles!r} is not a number of tiles") from None
    return start.Settings(
        device=os.environ.get("SCHED_DEVICE") or "auto",
        tiles=count,
        tile_memory=parse_size(memory, "SCHED_TILE_MEMORY") if memory else None,
    )


@atexit.register
def _end() -> None:
    if _engine is not None and _engine not in _owned and not _engine.closed:
        # One of several ranks, for which the others wait; and MPI, which ends after this, waits for them.
        start.say(f"rank {_engine.rank} ends before the run has ended, and so the run ends")
        _engine.abort()
    failed = hasattr(sys, "last_type")  # the script ended by an exception, so nobody waits for its tasks
    for engine in list(_owned):
        if not engine.closed and engine.pid == os.getpid():
            if not failed:
                engine.wait(engine.idle, None, lambda task: True)
            engine.close(int(failed))
