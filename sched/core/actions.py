"""What is to be done, in the one order in which the core decided it.

Each rank obeys its own part of that order, and every action only waits for earlier ones. So the
earliest action that is not done can always be done: whatever the transport does, there is no deadlock.
"""

import enum
from typing import NamedTuple

from sched.model import RankId, Ref, TaskId, TileId


class Run(NamedTuple):
    """Make the call on this tile, as soon as its inputs are on the tile's rank."""

    task: TaskId
    tile: TileId
    attempt: int


class Move(NamedTuple):
    """Copy a value from one rank to another, as soon as it is there.

    It is one action and concerns two ranks: `source` sends, `target` expects. If the value never
    comes to be, `source` sends that instead, and the tasks that wait for it at `target` fail.
    """

    ref: Ref
    source: RankId
    target: RankId


class Free(NamedTuple):
    """Forget the value on this rank; also if it is still on its way there."""

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
