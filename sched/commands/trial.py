"""Call a function on every tile of a run that begins exactly as a job's does."""

import os
import traceback
from collections.abc import Callable
from typing import TypeVar

from sched.runtime.settings import Settings

CANNOT_BEGIN = 2
FAILED = 1

T = TypeVar("T")


def on_every_tile(
    settings: Settings,
    function: Callable[[], T],
    use: Callable[[list[T]], None],
    announce: Callable[[str], None],
) -> int:
    """Begin a run, call a function on each tile, and end the run. Collective, under a launcher.

    Args:
        settings: of the run.
        function: to be called; of a module, so that it is found on other ranks.
        use: takes what it has returned, by tile. Called on rank 0 only.
        announce: says on rank 0 what people should know: which tiles, or why none.

    Returns:
        The exit status: 0; 1 if a call has raised, which rank 0 says; 2 if the run could not begin.

    Raises:
        SchedError: The run could not begin, and no rank speaks for the others.
    """
    from sched.runtime import session
    from sched.siblings import ranks

    engine = session.begin(settings, ranks.find(os.environ), announce)
    if engine is None:
        return CANNOT_BEGIN
    if engine.driver is None:
        session.serve(engine)
        return 0
    status = 0
    try:
        from sched.client import Scheduler

        with Scheduler() as s:
            futures = [s.options(tile=tile).submit(function) for tile in range(s.tiles)]
            use([future.result() for future in futures])
    except Exception as error:
        announce("".join(traceback.format_exception_only(error)).strip())
        status = FAILED
    except KeyboardInterrupt:
        status = 130
    engine.finish(status)
    return status
