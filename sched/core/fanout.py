"""Who sends a copy: a value that many ranks take reaches N of them in log2 N steps.

Each rank that has a value, or will have it, sends at most two copies of it: first the one that made it, then
the others in the order in which they get theirs. That is a binary tree: copy number k comes from number
(k - 1) // 2. The driver's rank sends nothing on, unless it made the value: its thread may be away.

But the rank that made a value goes on sending it while it has not been told to send more, of all values
together, than the next in line: if all have as much to send, as in an all-to-all, there is nothing to gain,
and a tree, the same for every value, would have half of the ranks send everything. (12 or 48 ranks, 8 MiB
each: twice the time.)
"""

from collections.abc import Sequence

from sched.core.graph import Task
from sched.model import DRIVER, RankId

COPIES = 2
"""How many copies of a value each rank sends."""


class Fanout:
    """Counts the copies that each rank has been told to send.

    Args:
        ranks: the rank of each tile.
    """

    def __init__(self, ranks: Sequence[RankId]) -> None:
        self._told = [0] * (max(DRIVER, *ranks) + 1)

    def sender(self, task: Task, home: RankId, target: RankId) -> RankId:
        """Choose who sends the task's value to one more rank, which is among the holders already.

        Args:
            home: the rank that makes it.
            target: the rank that gets it, and may send it on.
        """
        told, source = self._told, home
        if len(task.holders) - 2 >= COPIES:
            following = task.senders[task.sent_on // COPIES]
            # What the home has not sent in the past is not owed: it is never far behind.
            told[home] = max(told[home], told[following] - COPIES)
            if told[home] > told[following]:
                task.sent_on += 1
                source = following
        if target != DRIVER:
            if task.senders:
                task.senders.append(target)
            else:
                task.senders = [target]
        told[source] += 1
        return source
