"""Producers do not outrun consumers.

Counted are, for each tile, the bytes of values that were made there and that tasks have still to take. A
tile over its *budget* takes no more *sources* (ready tasks without inputs, unless they are pinned to it)
while a task with inputs has a place anywhere: that one will end, and something be less. When none has a
place, sources are taken regardless, for then it may be they that everything waits for (as in an all-to-all).
"""

from sched.core.graph import Task
from sched.core.policy import Policy
from sched.core.tiles import Tiles
from sched.model import TileId


class Window:
    """What waits on each tile to be taken, and how many tasks have a place that take something.

    Args:
        budget: bytes for each tile, at least 1.
        tiles: is told which are over their budget.
        policy: is told whether that counts.
    """

    def __init__(self, budget: int, tiles: Tiles, policy: Policy) -> None:
        self._budget = budget
        self._held = [0] * len(tiles.load)
        self._tiles = tiles
        self._policy = policy
        self._takers = 0
        self._lifted = True

    def fill(self, value: Task) -> None:
        """Count a finished value that tasks will take."""
        assert value.home is not None
        before = self._held[value.home]
        self._held[value.home] = after = before + value.nbytes
        if before < self._budget <= after:
            self._tiles.note_budget(value.home, over=True)

    def drain(self, value: Task) -> TileId | None:
        """Count it out, as nobody takes it any more; return its tile if that is now below its budget."""
        assert value.home is not None
        before = self._held[value.home]
        self._held[value.home] = after = before - value.nbytes
        if after < self._budget <= before:
            self._tiles.note_budget(value.home, over=False)
            return value.home
        return None

    def placed(self, task: Task) -> None:
        """Note that a task has a place."""
        if task.inputs:
            self._takers += 1
            if self._lifted:
                self._lifted = False
                self._policy.enforce()

    def left(self, task: Task) -> None:
        """Note that it has ended, or is to be tried again."""
        if task.inputs:
            self._takers -= 1

    def rest(self) -> list[TileId]:
        """See, when all is placed that can be, whether tiles may take sources now that could not before."""
        if self._takers or self._lifted:
            return []
        self._lifted = True
        return self._policy.lift()
