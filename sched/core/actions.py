"""What is to be done, in the one order in which the core decided it.

Each rank obeys its own part of that order, and every action only waits for earlier ones. So the
earliest action that is not done can always be done: whatever the transport does, there is no deadlock.
"""

import enum
from typing import NamedTuple

from sched.model import RankId, Ref, TaskId, TileId


class Run(NamedTuple):
    """Make the call on this tile, as soon as its inputs are on the tile's rank.

    For a task on several tiles there is one for each rank concerned, one after the other, the lead's
    first: `tiles` are all that this rank contributes, `tile` the first of them, and `ranks` all of the
    task's ranks, the lead first. The value lies at the lead's. Else both are empty.
    """

    task: TaskId
    tile: TileId
    attempt: int
    tiles: tuple[TileId, ...] = ()
    ranks: tuple[RankId, ...] = ()


class Move(NamedTuple):
    """Copy a value from one rank to another, as soon as it is there.

    It is one action and concerns two ranks: `source` sends, `target` expects. The source may be waiting
    for the value itself, of an earlier move. If the value never comes to be, `source` sends that instead,
    and the tasks that wait for it at `target` fail.
    """

    ref: Ref
    source: RankId
    target: RankId


class Free(NamedTuple):
    """Forget the value on this rank; also if it is still on its way there.

    Earlier moves from this rank come first: what has yet to arrive is sent on, and then forgotten.
    """

    ref: Ref
    rank: RankId


class Outcome(enum.Enum):
    """How a task ended."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Settle(NamedTuple):
    """Tell the script how the task ended.

    `cause` is the task that failed or was cancelled first, where that is another one.
    """

    task: TaskId
    outcome: Outcome
    cause: TaskId | None = None


Action = Run | Move | Free | Settle
