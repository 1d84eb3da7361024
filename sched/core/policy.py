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

*Turns.* Short tasks are given to a tile several at a time, which count as one: see `pace`.

*On demand.* The tile that shares its thread with the user's script has no room except while the script
waits, and then for one task: nothing is ever stuck behind user code. While it rests, one ready task stays
free for it that would otherwise be second on another tile: a tile that has run out of work may take that.

*Sources.* With a budget (see `window`), a tile that is over it takes no task without inputs, unless pinned:
these wait in a line of their own, where they keep nobody from what comes after them.

*Order.* Higher priority first; then tasks pinned to the tile, then tasks whose data is on it, the one that
lacks the fewest bytes first, then the oldest. No step here costs more for more tiles or more waiting tasks,
but for a heap's logarithm.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice

from sched.core.graph import Task
from sched.core.pace import MOST, TURN, Pace
from sched.core.tiles import Tiles
from sched.model import RankId, TaskId, TileId

CHEAP = 1 << 20
"""Bytes. Less than this is rather sent to an idle tile than queued for on a busy one, and no more than this
is sent to a busy one."""

CANDIDATES = 8
"""How many tiles that hold inputs of a task are compared, and how many tasks that wait for a tile."""

_Heap = list[tuple[tuple[int, TaskId], Task]]


class Policy:
    """Queues of the tasks that have no tile.

    Args:
        ranks: the rank of each tile.
        depth: how many ready tasks a tile takes, at least 1.
        tiles: what each has to do.
    """

    def __init__(self, ranks: Sequence[RankId], depth: int, tiles: Tiles) -> None:
        self._ranks = ranks
        self._depth = depth
        self._tiles = tiles
        # The same things, once more: these are looked at for every task.
        self._change, self._has_room_ahead = tiles.change, tiles.has_room_ahead
        self._on_demand = tiles.on_demand
        self._load, self._limit, self._over = tiles.load, tiles.limit, tiles.over
        self._room, self._sides, self._resting = tiles.room, tiles.sides, tiles.resting
        self._lifted = True
        self.pace = Pace()
        self._oldest: _Heap = []
        self._sources: _Heap = []
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
        rooms, sides, held_back = self._room, self._sides, False
        if sides == 2 and not task.inputs and not self._lifted:
            rooms, sides, held_back = rooms[::2], 1, True
        idle = next((t for t in rooms[0] if t != avoid), None)
        if sides == 2 and idle is None:
            idle = next((t for t in rooms[1] if t != avoid), None)
        best, best_rank = None, (-1, 0, 0)
        for tile in homes:
            if (
                tile != avoid
                and self._load[tile] < self._limit[tile]
                and not (held_back and self._over[tile])
            ):
                rank = (*self._pull(task, tile), -self._tiles.tasks(tile))
                if rank > best_rank:
                    best, best_rank = tile, rank
        if best is not None and (not self._tiles.tasks(best) or idle is None or best_rank[0] > CHEAP):
            return task, best
        second = avoid is not None or (_is_light(task) and self._waiting() >= len(self._resting))
        for room in rooms if second else rooms[: (self._depth + 1) * sides]:
            for tile in room:
                if tile != avoid:
                    older = self._older(task, tile) if self._load[tile] else None
                    if older is None:
                        return task, tile
                    self._queue(task, homes)
                    return heappop(older)[1], tile
        self._queue(task, homes)
        return None

    def _queue(self, task: Task, homes: Sequence[TileId]) -> None:
        if self._sides == 2 and not task.inputs:
            heappush(self._sources, (task.key, task))
            return
        heappush(self._oldest, (task.key, task))
        for tile in homes:
            heappush(self._beside.setdefault(tile, []), (task.key, task))

    def _waiting(self) -> int:
        return len(self._oldest) + len(self._sources)

    def _line(self, tile: TileId) -> _Heap:
        """Return the tasks of which an idle tile takes the first: those with inputs, or the sources."""
        oldest, sources = self._oldest, self._sources
        if (self._over[tile] and not self._lifted) or not _settle_top(sources, ready=True):
            return oldest
        return oldest if _settle_top(oldest, ready=True) and oldest[0] < sources[0] else sources

    def _older(self, task: Task, tile: TileId) -> _Heap | None:
        """Return the tasks whose first comes before this one, and may be second on the tile."""
        line = self._line(tile) if self._sources else self._oldest
        if not _settle_top(line, ready=True):
            return None
        first = line[0][1]
        return line if first.key < task.key and first.shunned != tile and _is_light(first) else None

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
            return min(good, key=lambda tile: (self._tiles.tasks(tile), -self._bytes_at(task, tile)))
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
        line = self._line(tile) if self._sources else self._oldest
        best: _Heap | None = None
        for heap in (self._pinned.get(tile), self._beside.get(tile), line):
            if not heap or not _settle_top(heap, ready=True):
                continue
            if heap is line and self._load[tile] and not self._may_be_second(heap):
                continue
            if best is None or heap[0][0][0] < best[0][0][0]:
                best = heap
        if best is None:
            return None
        return self._nearest(best, tile, ready=True) if best is self._beside.get(tile) else heappop(best)[1]

    def along(self, first: Task, tile: TileId) -> Iterator[Task]:
        """Yield more tasks for the turn that `first` has begun on a tile, if all of them are short.

        Each has to be put there before the next is asked for.
        """
        left = TURN - self.pace.of(first.kind)
        for _ in range(MOST - 1):
            if left <= 0 or (task := self.pick_along(tile, first, left)) is None:
                return
            left -= self.pace.of(task.kind)
            yield task

    def pick_along(self, tile: TileId, first: Task, left: float) -> Task | None:
        """Choose one more task for the turn that `first` has begun, if one lasts no longer than what is left.

        It comes from where the first may have come from, and is of no lower priority than any other there.
        """
        line = self._line(tile) if self._sources else self._oldest
        best: _Heap | None = None
        for heap in (self._pinned.get(tile), self._beside.get(tile), line):
            if heap and _settle_top(heap, ready=True) and (best is None or heap[0][0][0] < best[0][0][0]):
                best = heap
        if best is None or (best is line and self._waiting() <= len(self._ranks)):
            return None
        task = best[0][1]
        if task.shunned == tile or self.pace.of(task.kind) > left or not _is_light(task):
            return None
        heappop(best)
        first.turn = task.turn = first.turn or [1]
        return task

    def rather(self, task: Task, tile: TileId) -> TileId:
        """Return the tile that should have a task which `tile` has picked, while others have got room too.

        The first of them picks among the tasks of all. One whose data is on another is that one's; and one
        that raised here had better go elsewhere.
        """
        if task.pin is not None:
            return tile
        held_back = not task.inputs and not self._lifted

        def able(other: TileId) -> bool:
            has_room = self._load[other] < self._limit[other]
            return has_room and other != task.shunned and not (held_back and self._over[other])

        if task.shunned == tile:
            others = (other for room in self._room for other in room if able(other))
            other = next(others, None)
            if other is not None and (_is_light(task) or not self._load[other]):
                return other
        homes = [home for home in self._homes(task) if able(home)]
        return max([tile, *homes], key=lambda home: self._pull(task, home))

    def _may_be_second(self, heap: _Heap) -> bool:
        """Whether a tile that has a task may take the first of these: is it light, and nobody's who rests?"""
        return self._waiting() > len(self._resting) and _is_light(heap[0][1])

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
        if task.turn is not None:
            task.turn[0] += 1
            return
        self._change(tile, +1, 0)
        if tile in self._on_demand:
            self._tiles.use_up(tile)

    def matured(self, tile: TileId) -> None:
        """Count a task that was placed ahead as ready: its last input is there."""
        self._change(tile, +1, -1)

    def left(self, task: Task, tile: TileId) -> None:
        """Give back the room of a task that ended."""
        if task.unfinished:
            self._change(tile, 0, -1)
            return
        turn, task.turn = task.turn, None
        if turn is not None:
            turn[0] -= 1
            if turn[0]:
                return
        self._change(tile, -1, 0)
        if tile in self._on_demand:
            self._tiles.rest(tile)

    def lift(self) -> list[TileId]:
        """Let tiles take sources though they are over their budget; return such as can."""
        self._lifted = True
        if not _settle_top(self._sources, ready=True):
            return []
        return list(islice((tile for room in self._room[1::2] for tile in room), len(self._sources)))

    def enforce(self) -> None:
        """Let them take none any more."""
        self._lifted = False

    def has_pinned(self, tile: TileId) -> bool:
        """Tell whether ready tasks wait for this tile that can run nowhere else."""
        heap = self._pinned.get(tile)
        return heap is not None and _settle_top(heap, ready=True)

    def _leads(self, task: Task, tile: TileId) -> bool:
        """Whether the tile may take this task ahead: it is pinned here, or the heir of what is made here."""
        if not self._has_room_ahead(tile):
            return False
        if task.pin is None:
            for source in task.inputs:
                if source.led and source.home == tile and not source.settled:
                    return False
        return True

    # -- where the data is -----------------------------------------------------------------------------

    def _homes(self, task: Task) -> list[TileId]:
        """Tell where the task would like to run: beside another, or at its data."""
        if task.near is not None and task.near.home is not None:
            return [task.near.home]
        sources = task.inputs
        if not sources:
            return []
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

    def _pull(self, task: Task, tile: TileId) -> tuple[int, int]:
        """Weigh how much draws a task to a tile: what is on its rank; of that, what was made on the tile."""
        return self._bytes_at(task, tile), self._made_at(task, tile)

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
