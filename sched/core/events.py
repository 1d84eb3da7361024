"""What has happened, as the core is told it. Past tense; ids and byte counts only.

Named tuples rather than dataclasses: one is made for every task, and they cost a third.
"""

from typing import NamedTuple

from sched.model import Ref, TaskId, TileId


class Submitted(NamedTuple):
    """The script asked for a call.

    `inputs` are the tasks whose values it takes, each once, in order of first use. `tile` pins it;
    `near` wishes it beside another task's value, without taking that value as an input. `retries` is
    how many more times it may be tried after it raised. `tiles` is how many it needs at the same time;
    a `tile` is then the first of them. Tasks of one `kind` are thought to last about as long as each other.
    """

    task: TaskId
    inputs: tuple[Ref, ...] = ()
    tile: TileId | None = None
    near: Ref | None = None
    priority: int = 0
    retries: int = 0
    tiles: int = 1
    kind: int = 0


class Finished(NamedTuple):
    """The call returned, on all of its ranks; its value of `nbytes` lies on the tile where it ran.

    It took `seconds`, if that is known.
    """

    task: TaskId
    nbytes: int
    seconds: float = 0.0


class Failed(NamedTuple):
    """The call raised (`cause` is None), or was not made because the task `cause` has no value."""

    task: TaskId
    cause: TaskId | None = None


class CancelRequested(NamedTuple):
    """The script would rather not have this. It comes too late for a placed task, and is then ignored."""

    task: TaskId


class Released(NamedTuple):
    """Nobody in the script can name this value any more."""

    task: Ref


class Wanted(NamedTuple):
    """The script waits for this value itself, on the driver's rank."""

    task: Ref


class Spread(NamedTuple):
    """The script wishes this value to be on every rank that has a tile."""

    task: Ref


class TilesOpened(NamedTuple):
    """Tiles that work on demand take one task each now (see `policy.Policy`)."""

    tiles: tuple[TileId, ...]


class TileClosed(NamedTuple):
    """A tile that works on demand takes no task any more."""

    tile: TileId


Event = (
    Submitted | Finished | Failed | CancelRequested | Released | Wanted | Spread | TilesOpened | TileClosed
)
