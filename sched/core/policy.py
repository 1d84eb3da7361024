"""Which task runs on which tile.

A tile with room picks a task. A task looks for a tile only at the moment it becomes ready, and then
only among tiles with room; if there is none it waits until one picks it. (Letting a task choose when
every tile is busy means choosing whichever tile has room by chance: twice the copies.)

*Room.* A tile takes `depth` ready tasks: the running one, and the next, whose inputs arrive while the
first computes. If that next one does not have its data here, it is one whose inputs are cheap to bring:
the others are left to the tiles that have them, and to idle ones.

*Ahead.* While it has no more than `depth` tasks in all, a tile takes tasks whose inputs are still being
computed, if one of those is computed on this very tile (or the task is pinned or wished here). Tasks ahead
leave the room for ready ones as it is, so that a tile whose tasks all wait for somebody else still takes
work that it can do. Of the tasks that take a value, its tile takes one ahead, the *heir*; the others find
their tile when they are ready. (Else a fan-out piles up on the tile of its root: a binary tree on 12 tiles
ran on one.)

*On demand.* The tile that shares its thread with the user's script has no room except while the script
waits, and then for one task: nothing is ever stuck behind user code. While it rests, one ready task stays
free for it that would otherwise be second on another tile: a tile that has run out of work may take that.

*Order.* Higher priority first; then tasks pinned to the tile, then tasks whose data is on it, the one that
lacks the fewest bytes first, then the oldest. No step here costs more for more tiles or more waiting tasks,
but for a heap's logarithm.
"""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from heapq import heappop, heappush

from sched.core.graph import Task
from sched.model import RankId, TaskId, TileId

CHEAP = 1 << 20
"""Bytes. Less than this is rather sent to an idle tile than queued for on a busy one, and no more than this
is sent to a busy one."""

CANDIDATES = 8
"""How many tiles that hold inputs of a task are compared, and how many tasks that wait for a tile."""

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
        # Tiles with room, by their slot: by load, and then by tasks ahead; first who has waited longest. Not
        # plain dicts: to find the first key, those step over every key that was deleted before it.
        self._slot = [0] * len(ranks)
        self._room: list[OrderedDict[TileId, None]] = [OrderedDict() for _ in range(depth * (depth + 1))]
        self._room[0].update((TileId(t), None) for t in range(len(ranks)) if self._limit[t])
        self._resting = set(self._on_demand)
        self._oldest: _Heap = []
        self._pinned: dict[TileId, _Heap] = {}
        self._beside: dict[TileId, _Heap] = {}
        self._coming: dict[TileId, _Heap] = {}

    # -- tasks look for a tile ---------------------------------------------------------------------

    def place_ready(self, task: Task) -> tuple[Task, TileId] | None:
        """Find a tile with room for a ready task, but not the one where it raised, or queue the task.

        Returns:
            What to place where: not this task, if another has waited for such a place before it.
        """
        if task.pin is not None:
            if self._load[task.pin] < self._limit[task.pin]:
                return task, task.pin
            heappush(self._pinned.setdefault(task.pin, []), (task.key, task))
            return None
        homes, avoid = self._homes(task), task.shunned
        idle = next((t for t in self._room[0] if t != avoid), None)
        best, best_rank = None, (-1, 0)
        for tile in homes:
            if tile != avoid and self._load[tile] < self._limit[tile]:
                rank = (self._bytes_at(task, tile), -self._tasks(tile))
                if rank > best_rank:
                    best, best_rank = tile, rank
        if best is not None and (best in self._room[0] or idle is None or best_rank[0] > CHEAP):
            return task, best
        second = avoid is not None or (_is_light(task) and len(self._oldest) >= len(self._resting))
        for room in self._room if second else self._room[: self._depth + 1]:
            for tile in room:
                if tile != avoid:
                    if not self._load[tile] or not self._oldest or not self._overtakes(task, tile):
                        return task, tile
                    self._queue(task, homes)
                    return heappop(self._oldest)[1], tile
        self._queue(task, homes)
        return None

    def _queue(self, task: Task, homes: Sequence[TileId]) -> None:
        heappush(self._oldest, (task.key, task))
        for tile in homes:
            heappush(self._beside.setdefault(tile, []), (task.key, task))

    def _overtakes(self, task: Task, tile: TileId) -> bool:
        """Whether a task that waits, and may go to the tile, comes before this one."""
        if not _settle_top(self._oldest, ready=True):
            return False
        first = self._oldest[0][1]
        return first.key < task.key and first.shunned != tile and _is_light(first)

    def place_early(self, task: Task) -> TileId | None:
        """Find a tile that computes an input of this task and may take one more ahead, or queue it."""
        homes = [task.pin] if task.pin is not None else self._homes(task)
        if self._on_demand:
            homes = [tile for tile in homes if tile not in self._on_demand]
        able = [tile for tile in homes if self._leads(task, tile)]
        if len(able) > 1:
            # Where at least half as much was made as at the best of them, little to do weighs more.
            made = {tile: self._made_at(task, tile) for tile in able}
            half = max(made.values()) / 2
            good = [tile for tile in able if made[tile] >= half]
            return min(good, key=lambda tile: (self._tasks(tile), -self._bytes_at(task, tile)))
        if able:
            return able[0]
        for tile in homes:
            heappush(self._coming.setdefault(tile, []), (task.key, task))
        return None

    # -- tiles look for a task ---------------------------------------------------------------------

    def pick(self, tile: TileId) -> Task | None:
        """Choose the next ready task of a tile, if it has room and there is one."""
        if self._load[tile] >= self._limit[tile]:
            return None
        pinned, beside = self._pinned.get(tile), self._beside.get(tile)
        best: _Heap | None = None
        for heap in (pinned, beside, self._oldest):
            if not heap or not _settle_top(heap, ready=True):
                continue
            if heap is self._oldest and self._load[tile] and not self._may_be_second(heap):
                continue
            if best is None or heap[0][0][0] < best[0][0][0]:
                best = heap
        if best is None:
            return None
        return self._nearest(best, tile, ready=True) if best is beside else heappop(best)[1]

    def _may_be_second(self, heap: _Heap) -> bool:
        """Whether a tile that has a task may take the first of these: is it light, and nobody's who rests?"""
        return len(heap) > len(self._resting) and _is_light(heap[0][1])

    def pick_early(self, tile: TileId) -> Task | None:
        """Choose the next task that a tile takes ahead, if it has room for one."""
        heap = self._coming.get(tile)
        while heap and self._has_room_ahead(tile) and _settle_top(heap, ready=False):
            task = self._nearest(heap, tile, ready=False)
            if task is not None:
                return task
            heappop(heap)
        return None

    def _nearest(self, heap: _Heap, tile: TileId, *, ready: bool) -> Task | None:
        """Choose, of the first few with the priority of the top, the one that lacks the fewest bytes here.

        It stays in the heap, as an entry that is out of date.
        """
        rank, priority = self._ranks[tile], heap[0][0][0]
        best, least = None, (0, 0)
        for key, task in heap[:CANDIDATES]:
            if key[0] == priority and (task.ready if ready else task.early and self._leads(task, tile)):
                lacks = (_lacking(task, rank), key[1])
                if best is None or lacks < least:
                    best, least = task, lacks
        return best

    # -- loads ---------------------------------------------------------------------------------------

    def placed(self, task: Task, tile: TileId) -> None:
        """Take up the room that the task needs on the tile."""
        if task.unfinished:
            self._change(tile, 0, +1)
            for source in task.inputs:
                if source.home == tile:
                    source.led = True
            return
        self._change(tile, +1, 0)
        if tile in self._on_demand:
            self._set_limit(tile, 0)
            self._resting.discard(tile)

    def matured(self, tile: TileId) -> None:
        """Count a task that was placed ahead as ready: its last input is there."""
        self._change(tile, +1, -1)

    def left(self, task: Task, tile: TileId) -> None:
        """Give back the room of a task that ended."""
        if task.unfinished:
            self._change(tile, 0, -1)
        else:
            self._change(tile, -1, 0)
            if tile in self._on_demand and not self._limit[tile]:
                self._resting.add(tile)

    def open(self, tile: TileId) -> None:
        """Let a tile that works on demand take one task."""
        self._set_limit(tile, 1)
        self._resting.discard(tile)

    def close(self, tile: TileId) -> None:
        """Let it take no more."""
        self._set_limit(tile, 0)
        if not self._load[tile]:
            self._resting.add(tile)

    def has_pinned(self, tile: TileId) -> bool:
        """Tell whether ready tasks wait for this tile that can run nowhere else."""
        heap = self._pinned.get(tile)
        return heap is not None and _settle_top(heap, ready=True)

    def _has_room_ahead(self, tile: TileId) -> bool:
        ahead = self._ahead[tile]
        return ahead < self._depth and ahead + self._load[tile] <= self._depth

    def _leads(self, task: Task, tile: TileId) -> bool:
        """Whether the tile may take this task ahead: it is pinned here, or the heir of what is made here."""
        if not self._has_room_ahead(tile):
            return False
        if task.pin is None:
            for source in task.inputs:
                if source.led and source.home == tile and not source.settled:
                    return False
        return True

    def _tasks(self, tile: TileId) -> int:
        return self._load[tile] + self._ahead[tile]

    def _change(self, tile: TileId, ready: int, ahead: int) -> None:
        """Count tasks in or out, and keep the tile's place among those with room."""
        load, limit, slot = self._load[tile], self._limit[tile], self._slot[tile]
        if load < limit:
            del self._room[slot][tile]
        load += ready
        slot += ready * (self._depth + 1) + ahead
        if load < limit:
            self._room[slot][tile] = None
        self._load[tile], self._slot[tile] = load, slot
        self._ahead[tile] += ahead

    def _set_limit(self, tile: TileId, limit: int) -> None:
        had_room, has_room = self._load[tile] < self._limit[tile], self._load[tile] < limit
        self._limit[tile] = limit
        if had_room and not has_room:
            del self._room[self._slot[tile]][tile]
        elif has_room and not had_room:
            self._room[self._slot[tile]][tile] = None

    # -- where the data is -----------------------------------------------------------------------------

    def _homes(self, task: Task) -> list[TileId]:
        """Tell where the task would like to run: beside another, or at its data."""
        if task.near is not None and task.near.home is not None:
            return [task.near.home]
        sources = task.inputs
        if len(sources) > CANDIDATES:
            # Not the same few for every task of an all-to-all.
            first = task.id % len(sources)
            sources = sources[first:] + sources[:first]
        homes = dict.fromkeys([source.home for source in sources if source.home is not None])
        return list(homes)[:CANDIDATES]

    def _bytes_at(self, task: Task, tile: TileId) -> int:
        """Weigh what of the task's data is on the tile; a wish for a neighbour outweighs all of it."""
        rank = self._ranks[tile]
        # One more than the bytes: the size of a value that is still being computed is not known.
        here = sum(i.nbytes + 1 for i in task.inputs if rank in i.holders)
        if task.near is not None and task.near.home == tile:
            here += 1 << 62
        return here

    def _made_at(self, task: Task, tile: TileId) -> int:
        """Weigh what of the task's data was made on the tile. Copies do not count: they follow the tasks,
        and if tasks followed them as well, all would end up in one place."""
        return sum(i.nbytes + 1 for i in task.inputs if i.home == tile)


def _lacking(task: Task, rank: RankId) -> int:
    lacks = 0
    for source in task.inputs:
        if rank not in source.holders:
            lacks += source.nbytes + 1
    return lacks


def _is_light(task: Task) -> bool:
    """Whether all of its inputs together are cheap to bring."""
    return sum(source.nbytes for source in task.inputs) <= CHEAP


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
