"""What a simulation is told, and what it tells."""

from dataclasses import dataclass
from typing import NamedTuple

from sched.core.actions import Settle
from sched.model import RankId, TaskId, TileId


class Until(NamedTuple):
    """The script waits until it is told how this task ended."""

    task: TaskId


class Pause(NamedTuple):
    """The script computes something itself."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Link:
    """The same way from any rank to any other.

    Args:
        seconds: what a value of no bytes takes.
        bandwidth: bytes per second.
    """

    seconds: float = 10e-6
    bandwidth: float = 5e9

    def __call__(self, source: RankId, target: RankId, nbytes: int) -> float:
        return self.seconds + nbytes / self.bandwidth


LINK = Link()


@dataclass(frozen=True, slots=True)
class Report:
    """What happened.

    Attributes:
        makespan: when the driver heard of the last task, in seconds.
        runs: calls that were made or refused for want of an input, each attempt counted.
        moves: values, and news that there is none, that went from one rank to another.
        nbytes_moved: what these values came to.
        messages: what went between the driver and the other ranks, apart from values.
        events: what the core was told.
        held: for each rank, how many values lay there at most.
        nbytes_held: for each rank, how many bytes lay there at most.
        left: for each rank, how many values lie there still.
        busy: for each tile, how many seconds it ran tasks.
        homes: where each task ran last.
        outcomes: how each task ended.
        remembered: how many tasks the core has not forgotten.
    """

    makespan: float
    runs: int
    moves: int
    nbytes_moved: int
    messages: int
    events: int
    held: list[int]
    nbytes_held: list[int]
    left: list[int]
    busy: list[float]
    homes: dict[TaskId, TileId]
    outcomes: dict[TaskId, Settle]
    remembered: int
