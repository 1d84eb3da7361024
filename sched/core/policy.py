"""Which task runs on which tile.

A tile with room picks a task. A task looks for a tile only at the moment it becomes ready, and then
only among tiles with room; if there is none it waits until one picks it. (Letting a task choose when
every tile is busy means choosing whichever tile has room by chance: twice the copies.)

*Room.* A tile takes `depth` ready tasks: the running one, and the next, whose inputs arrive while the
first computes. Besides, it takes `depth` tasks *ahead*, whose inputs are still being computed, if one of
those inputs is computed on this very tile (or the task is pinned here). Tasks ahead have their own
allowance, so that a tile whose tasks all wait for somebody else still has room for work it can do.

*On demand.* The tile that shares its thread with the user's script has no room except while the script
waits, and then for one task: nothing is ever stuck behind user code.

*Order.* Higher priority first; then tasks pinned to the tile, then tasks whose data is on it, then the
oldest. No step here costs more for more tiles or more waiting tasks, but for a heap's logarithm.
"""

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush

from sched.core.graph import Task
from sched.model import RankId, TaskId, TileId

CHEAP = 1 << 20
"""Bytes. Less than this is rather sent to an idle tile than queued for on a busy one."""

CANDIDATES = 8
"""How many tiles that hold inputs of a task are compared."""

_Heap = list[tuple[tuple[int, TaskId], Task]]


class Policy:
    """Loads of the tiles and queues of the tasks that have none.

    Args:
        ranks: the rank of each tile.
        depth: how many ready tasks a tile takes, at least 1.
        on_demand: tiles that take a task only after `open`.
    """

    def __init__(self, ranks: Sequence[RankId], depth: int, on_demand: Collection[TileId]) -> None:
        self._ranks = ranks
        self._depth = depth
        self._on_demand = frozenset(on_demand)
        self._limit = [0 if t in self._on_demand else depth for t in range(len(ranks))]
        self._load = [0] * len(ranks)
        self._ahead = [0] * len(ranks)
        # Tiles with room, by load, the one that has waited longest first.
        self._room: list[dict[TileId, None]] = [{} for _ in range(depth)]
        self._room[0] = {TileId(t): None for t in range(len(ranks)) if self._limit[t]}
        self._oldest: _Heap = []
        self._pinned: dict[TileId, _Heap] = {}
        self._beside: dict[TileId, _Heap] = {}
        self._coming: dict[TileId, _Heap] = {}

    # -- tasks look for a tile ---------------------------------------------------------------------

    def place_ready(self, task: Task, avoid: TileId | None = None) -> TileId | None:
        """Find a tile with room for a ready task, or queue the task for one."""
        if task.pin is not None:
            if self._load[task.pin] < self._limit[task.pin]:
                return task.pin
            heappush(self._pinned.setdefault(task.pin, []), (task.key, task))
            return None
        homes = self._homes(task)
        idle = next((t for t in self._room[0] if t != avoid), None)
        best, best_rank = None, (-1, 0)
        for tile in homes:
            if tile != avoid and self._load[tile] < self._limit[tile]:
                rank = (self._bytes_at(task, tile), -self._load[tile])
                if rank > best_rank:
                    best, best_rank = tile, rank
        if best is not None and (self._load[best] == 0 or idle is None or best_rank[0] > CHEAP):
            return best
        for room in self._room:
            for tile in room:
                if tile != avoid:
                    return tile
        heappush(self._oldest, (task.key, task))
        for tile in homes:
            heappush(self._beside.setdefault(tile, []), (task.key, task))
        return None

    def place_early(self, task: Task) -> TileId | None:
        """Find a tile that computes an input of this task and may take one more ahead, or queue it."""
        homes = [task.pin] if task.pin is not None else self._homes(task)
        homes = [tile for tile in homes if tile not in self._on_demand]
        best, best_rank = None, (-1, 0)
        for tile in homes:
            if self._ahead[tile] < self._depth:
                rank = (self._bytes_at(task, tile), -self._ahead[tile])
                if rank > best_rank:
                    best, best_rank = tile, rank
        if best is None:
            for tile in homes:
                heappush(self._coming.setdefault(tile, []), (task.key, task))
        return best

    # -- tiles look for a task ---------------------------------------------------------------------

    def pick(self, tile: TileId) -> Task | None:
        """Choose the next ready task of a tile, if it has room and there is one."""
        if self._load[tile] >= self._limit[tile]:
            return None
        best: _Heap | None = None
        for heap in (self._pinned.get(tile), self._beside.get(tile), self._oldest):
            if heap and _settle_top(heap, ready=True) and (best is None or heap[0][0][0] < best[0][0][0]):
                best = heap
        return heappop(best)[1] if best else None

    def pick_early(self, tile: TileId) -> Task | None:
        """Choose the next task that a tile takes ahead, if it has room for one."""
        heap = self._coming.get(tile)
        if self._ahead[tile] < self._depth and heap and _settle_top(heap, ready=False):
            return heappop(heap)[1]
        return None

    # -- loads ---------------------------------------------------------------------------------------

    def placed(self, task: Task, tile: TileId) -> None:
        """Take up the room that the task needs on the tile."""
        if task.unfinished:
            self._ahead[tile] += 1
            return
        self._change_load(tile, +1)
        if tile in self._on_demand:
            self._set_limit(tile, 0)

    def matured(self, tile: TileId) -> None:
        """Count a task that was placed ahead as ready: its last input is there."""
        self._ahead[tile] -= 1
        self._change_load(tile, +1)

    def left(self, task: Task, tile: TileId) -> None:
        """Give back the room of a task that ended."""
        if task.unfinished:
            self._ahead[tile] -= 1
        else:
            self._change_load(tile, -1)

    def open(self, tile: TileId) -> None:
        """Let a tile that works on demand take one task."""
        self._set_limit(tile, 1)

    def close(self, tile: TileId) -> None:
        """Let it take no more."""
        self._set_limit(tile, 0)

    def pinned_waiting(self, tile: TileId) -> int:
        """Count the queue entries of tasks that can run nowhere but on this tile."""
        return len(self._pinned.get(tile, ()))

    def _change_load(self, tile: TileId, by: int) -> None:
        self._leave_room(tile)
        self._load[tile] += by
        self._enter_room(tile)

    def _set_limit(self, tile: TileId, limit: int) -> None:
        self._leave_room(tile)
        self._limit[tile] = limit
        self._enter_room(tile)

    def _leave_room(self, tile: TileId) -> None:
        if self._load[tile] < self._limit[tile]:
            del self._room[self._load[tile]][tile]

    def _enter_room(self, tile: TileId) -> None:
        if self._load[tile] < self._limit[tile]:
            self._room[self._load[tile]][tile] = None

    # -- where the data is -----------------------------------------------------------------------------

    def _homes(self, task: Task) -> list[TileId]:
        sources: Iterable[Task] = task.inputs if task.near is None else (task.near, *task.inputs)
        homes: dict[TileId, None] = {}
        for source in sources:
            if source.home is not None:
                homes[source.home] = None
                if len(homes) == CANDIDATES:
                    break
        return list(homes)

    def _bytes_at(self, task: Task, tile: TileId) -> int:
        """Weigh what of the task's data is on the tile; a wish for a neighbour outweighs all of it."""
        rank = self._ranks[tile]
        # One more than the bytes: the size of a value that is still being computed is not known.
        here = sum(i.nbytes + 1 for i in task.inputs if i.home == tile or rank in i.holders)
        if task.near is not None and task.near.home == tile:
            here += 1 << 62
        return here


def _settle_top(heap: _Heap, *, ready: bool) -> bool:
    """Drop entries that are out of date from the top; tell whether one is left.

    A waiting task may stand in several heaps, and is only removed from the one that it left by.
    """
    while heap:
        task = heap[0][1]
        if task.ready if ready else task.early:
            return True
        heappop(heap)
    return False
