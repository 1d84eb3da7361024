"""What one rank has, and what there waits for what it has not."""

from sched.model import RankId, Ref, TaskId


class Rank:
    """A rank's values, in numbers; `machine` says what happens to them."""

    __slots__ = (
        "held",
        "leaving",
        "missing",
        "most",
        "most_nbytes",
        "nbytes_held",
        "outbox",
        "sending",
        "sends_until",
        "takers",
        "unwanted",
        "values",
    )

    def __init__(self) -> None:
        # The values, each with the task to blame where there is none.
        self.values: dict[Ref, TaskId | None] = {}
        # Of the tasks that cannot run yet: how many inputs are not there; and which tasks an input keeps.
        self.missing: dict[TaskId, int] = {}
        self.takers: dict[Ref, list[TaskId]] = {}
        self.outbox: dict[Ref, list[RankId]] = {}
        # Values that were freed while on their way here, and while on their way from here.
        self.unwanted: set[Ref] = set()
        self.leaving: set[Ref] = set()
        self.sending: dict[Ref, int] = {}
        self.sends_until = 0.0
        self.held = self.most = 0
        self.nbytes_held = self.most_nbytes = 0

    def hold(self, nbytes: int) -> None:
        """Count a value in."""
        self.held += 1
        self.nbytes_held += nbytes
        self.most = max(self.most, self.held)
        self.most_nbytes = max(self.most_nbytes, self.nbytes_held)

    def lose(self, nbytes: int) -> None:
        """Count it out."""
        self.held -= 1
        self.nbytes_held -= nbytes
