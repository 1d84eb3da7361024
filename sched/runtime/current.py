"""What a task may ask about itself: `sched.current()`."""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from sched.backends.base import Backend, Tile
from sched.errors import UsageError


@dataclass(slots=True, eq=False)
class Current:
    """The task that runs here, and where that is.

    Attributes:
        tile: number of the tile in the whole run.
        rank: the rank that owns the tile.
        name: the task's name.
        attempt: 0 at first, then the number of the retry.
        queue: the tile's `dpctl.SyclQueue`; None on `host`.
        device: the tile's `dpctl.SyclDevice`; None on `host`.
        tiles: all tiles of this rank that the task has: one, or more for a task that asked for `tiles=`.
        comm: an mpi4py communicator of the task's ranks, if `tiles=` has given it tiles of several; else
            None. Its rank 0 is the one whose value counts. It ends with the task.
    """

    tile: int
    rank: int
    name: str
    attempt: int
    queue: Any
    device: Any
    tiles: tuple[Tile, ...]
    comm: Any
    _backend: Backend
    _tile: Tile

    def asarray(self, value: Any) -> Any:
        """Return the value as an array of this tile, copied only if it lies elsewhere."""
        if self._backend.is_array(value):
            return self._backend.rebind(value, self._tile)[0]
        return self._backend.xp.asarray(value)


running: ContextVar[Current | None] = ContextVar("sched_running", default=None)


def current() -> Current:
    """Return the running task's view of itself.

    Raises:
        UsageError: No task runs here: this is the script, or a thread that the task started.
    """
    found = running.get()
    if found is None:
        raise UsageError("sched.current() is for use inside a task; no task runs in this thread")
    return found


def keep(value: Any) -> Any:
    """Return the value: the task of `Scheduler.put`."""
    return value


def collect(values: list[Any], stack: bool) -> Any:
    """Return the values, all as arrays of this tile: the task of `Scheduler.gather` to a tile."""
    task = current()
    found = [task.asarray(value) if hasattr(value, "dtype") else value for value in values]
    return task._backend.xp.stack(found) if stack else found
