"""What a machine's batch system takes, and which cores lie beside its tiles: Aurora's, so far.

Facts only, from ALCF's pages on Aurora's queues (2026-07-27) and on binding. Queues come and go; `qstat -Q`
on the machine is the truth, so a name that is not here is no fault, only unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True, slots=True)
class Queue:
    """What one queue takes.

    Attributes:
        least: the fewest nodes.
        limits: (nodes, seconds) in rising order: up to so many nodes, a job may last so long.
        shortest: the shortest walltime, in seconds.
    """

    name: str
    least: int
    limits: tuple[tuple[int, int], ...]
    shortest: int = 5 * _MINUTE

    @property
    def most(self) -> int:
        """The most nodes."""
        return self.limits[-1][0]

    def longest(self, nodes: int) -> int:
        """Return the longest walltime for `nodes` nodes, in seconds; above `most` that of the largest job."""
        return next((seconds for most, seconds in self.limits if nodes <= most), self.limits[-1][1])


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine with a batch system.

    Attributes:
        cores: for each tile of a node, in order, the first and the last core beside it.
        queues: the queues that take jobs.
        routed: queues that are fed by another one and take no job themselves, with the name of that one.
        gone: names of queues that old scripts still have.
        array_limit: (queue, elements): with more elements waiting at a time, none of them ever starts there.
    """

    name: str
    cores: tuple[tuple[int, int], ...]
    queues: tuple[Queue, ...]
    routed: tuple[tuple[str, str], ...]
    gone: tuple[str, ...]
    array_limit: tuple[str, int]

    @property
    def tiles(self) -> int:
        """Tiles of a node."""
        return len(self.cores)

    def queue(self, name: str) -> Queue | None:
        """Return the queue of that name, None if it is not known."""
        return next((queue for queue in self.queues if queue.name == name), None)


AURORA = Machine(
    name="Aurora",
    # Tiles 0 to 5 are beside the first socket, 6 to 11 beside the second; cores 0 and 52 are the system's.
    cores=tuple((first, first + 7) for first in (*range(1, 49, 8), *range(53, 101, 8))),
    queues=(
        Queue("debug", 1, ((2, _HOUR),)),
        Queue("capacity", 1, ((16, 168 * _HOUR),)),
        Queue("debug-scaling", 2, ((256, _HOUR),)),
        Queue("prod", 256, ((1024, 12 * _HOUR), (1999, 18 * _HOUR), (10624, 24 * _HOUR))),
        Queue("visualization", 1, ((32, 8 * _HOUR),), shortest=0),  # the page gives no minimum
    ),
    routed=tuple(
        (prefix + size, "prod") for size in ("small", "medium", "large") for prefix in ("", "backfill-")
    ),
    gone=("prod-large", "tiny", "next-eval", "legacy", "EarlyAppAccess", "lustre_scaling"),
    array_limit=("prod", 10),
)
