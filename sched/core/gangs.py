"""Tasks that need several tiles at the same time, and how those tiles become empty.

*Ready first.* A gang looks for tiles only when its inputs are finished, and runs only when all of its tiles
are empty. So nothing that it waits for can wait for it: what is on its tiles already has a place, takes
only values of tasks that have theirs, and ends whatever the gang does.

*Collecting.* At most one gang collects: the first, by priority and age, of those that wait. The tiles that it
has chosen take nothing new until it runs, so it waits for no more than what was there when it chose; then
it has them to itself. (If one of higher priority comes in between, it gives them back, and chooses again.)
It chooses none on which another gang runs, and while too few are left for it nobody else collects. When a
gang has ended, its tiles take ordinary tasks before the next may choose them. So neither gangs nor ordinary
tasks starve, however many there are of the others.

*Apart.* Two gangs that each span several ranks never share one: a rank has one thread to run both, and if two
ranks began with different ones, each would wait for the other. (One that has a single rank ends by itself.)

*On demand.* Tiles on demand take part where the others do not suffice, or if the gang is pinned to one. Such
a gang collects only while one of those is open, that is, while the script waits; it takes them as they open.
When they close it gives everything back: the script may be waiting for another task by other means.

*Which.* On one card if that can be; else of one rank, of one node, of few nodes and ranks; and of these the
least loaded. Compared are neighbours, in the order of nodes and cards, and on a card the least loaded first.
That takes a step for each tile, once for each gang; all else costs no more for more tiles.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from sched.core.graph import Task
from sched.core.tiles import Tiles
from sched.model import RankId, TaskId, TileId


class Gangs:
    """The gangs that wait, and the one that collects.

    Args:
        ranks: the rank of each tile.
        places: the node and the card of each tile; None if all are on one node, and each rank is a card.
        tiles: what each has to do.
        wake: is told the tiles that are given back unused.
    """

    def __init__(
        self,
        ranks: Sequence[RankId],
        places: Sequence[tuple[int, int]] | None,
        tiles: Tiles,
        wake: Callable[[TileId], None],
    ) -> None:
        self._ranks = ranks
        self._on_demand = dict.fromkeys(sorted(tiles.on_demand))
        self._ordinary = len(ranks) - len(self._on_demand)
        self._places = places
        self._tiles = tiles
        self._wake = wake
        # Made for the first gang: the tiles by node and card, node and card of each, the tiles of each rank.
        self._order: list[TileId] = []
        self._spot: list[tuple[int, int]] = []
        self._tiles_of: dict[RankId, list[TileId]] = {}
        # Those who wait, by the tiles on demand of which one must be open; the collector is among them.
        self.lines: dict[tuple[TileId, ...], list[tuple[tuple[int, TaskId], Task]]] = {}
        self._collector: Task | None = None
        self._chosen: dict[TileId, None] = {}
        # The chosen tiles, without some at the end that are known to be empty: they only get emptier.
        self._pending: list[TileId] = []
        # How many gangs that run keep others from a tile, and how many tiles nobody is kept from.
        self._barred: dict[TileId, int] = {}
        self._free = self._ordinary

    def add(self, task: Task) -> None:
        """Take in a gang that is ready."""
        if not self._order:
            self._survey()
        if task.pin is not None and task.pin in self._on_demand:
            gate: tuple[TileId, ...] = (task.pin,)
        else:
            gate = tuple(self._on_demand) if task.width > self._ordinary else ()
        heappush(self.lines.setdefault(gate, []), (task.key, task))

    def next(self) -> Task | None:
        """Let the first in line collect, and return it when it has its `tiles`, rank by rank."""
        self.look()
        task, pending = self._collector, self._pending
        if task is None:
            return None
        while pending and not self._tiles.tasks(pending[-1]):
            pending.pop()
        if pending or len(self._chosen) < task.width:
            return None
        task.tiles = self._arrange(task)
        self._collector, self._chosen = None, {}
        for tile in task.tiles:
            self._tiles.occupy(tile)
        self._bar(task.tiles)
        return task

    def look(self) -> None:
        """See who is first in line, and let it choose its tiles."""
        task = self._first()
        if task is not self._collector:
            before, self._collector = self._chosen, task
            for tile in before:
                self._tiles.let_go(tile)
            self._chosen, self._pending = {}, []
            if task is not None:
                for tile in self._choose(task):
                    self._hold(tile)
            for tile in before:
                if tile not in self._chosen:
                    self._wake(tile)
        if task is not None:
            for tile in self._on_demand if len(self._chosen) < task.width else ():
                if len(self._chosen) < task.width and self._tiles.limit[tile] and tile not in self._barred:
                    self._hold(tile)

    def holds(self, tile: TileId) -> bool:
        """Tell whether the tile has been chosen, by a gang that does not run yet."""
        return tile in self._chosen

    def closed(self, tile: TileId) -> None:
        """Do without a tile on demand that was chosen."""
        if tile in self._chosen:
            del self._chosen[tile]
            self._pending = list(self._chosen)

    def left(self, task: Task) -> None:
        """Take the tiles of a gang that ended."""
        for tile in task.tiles:
            self._tiles.vacate(tile)
        self._unbar(task.tiles)

    def wait_for(self, tile: TileId) -> bool:
        """Tell whether gangs wait that cannot run while the tile, which works on demand, is closed."""
        return any(tile in gate and self._top(gate) is not None for gate in list(self.lines))

    # -- who collects ----------------------------------------------------------------------------------

    def _first(self) -> Task | None:
        """Return the first gang that may collect, if there are tiles enough without another gang."""
        first: Task | None = None
        for gate in list(self.lines):
            task = self._top(gate)
            if task is None or (first is not None and first.key < task.key):
                continue
            if not gate or any(tile in self._chosen or self._tiles.limit[tile] for tile in gate):
                first = task
        if first is None or first is self._collector:
            return first
        ordinary = min(first.width - (first.pin in self._on_demand), self._ordinary)
        return first if ordinary <= self._free and first.pin not in self._barred else None

    def _top(self, gate: tuple[TileId, ...]) -> Task | None:
        """Return the first in a line, and forget those before it who do not wait any more."""
        line = self.lines[gate]
        while line and not line[0][1].ready:
            heappop(line)
        if line:
            return line[0][1]
        del self.lines[gate]
        return None

    def _bar(self, tiles: Sequence[TileId]) -> None:
        """Keep other gangs from the tiles of one that runs; if it has several ranks, from all of theirs."""
        for tile in self._apart(tiles):
            if tile not in self._barred:
                self._barred[tile] = 0
                self._free -= tile not in self._on_demand
            self._barred[tile] += 1

    def _unbar(self, tiles: Sequence[TileId]) -> None:
        for tile in self._apart(tiles):
            self._barred[tile] -= 1
            if not self._barred[tile]:
                del self._barred[tile]
                self._free += tile not in self._on_demand

    def _apart(self, tiles: Sequence[TileId]) -> Sequence[TileId]:
        ranks = {self._ranks[tile] for tile in tiles}
        return tiles if len(ranks) == 1 else [tile for rank in ranks for tile in self._tiles_of[rank]]

    # -- which tiles -----------------------------------------------------------------------------------

    def _survey(self) -> None:
        places = self._places or [(0, rank) for rank in self._ranks]
        first: dict[tuple[int, int], int] = {}
        for tile, place in enumerate(places):
            first.setdefault(place, tile)
            self._tiles_of.setdefault(self._ranks[tile], []).append(TileId(tile))
        self._spot = [(place[0], first[place]) for place in places]
        self._order = [TileId(tile) for tile in sorted(range(len(places)), key=self._spot.__getitem__)]

    def _hold(self, tile: TileId) -> None:
        self._tiles.hold(tile)
        self._chosen[tile] = None
        self._pending.append(tile)

    def _choose(self, task: Task) -> list[TileId]:
        """Choose the tiles; all that there are, without those on demand, if these are too few."""
        pin, count = task.pin, task.width
        usable = [
            tile
            for tile in self._order
            if tile not in self._barred and (tile not in self._on_demand or tile == pin)
        ]
        if pin is None and task.shunned in usable and len(usable) > count:
            usable.remove(task.shunned)
        if len(usable) <= count:
            return usable
        wish = _wish(task)
        load = {tile: self._tiles.tasks(tile) for tile in usable}
        usable.sort(key=lambda tile: (self._spot[tile], tile != wish, load[tile]))
        first, last = 0, len(usable) - count
        if wish in load:
            at = usable.index(wish)
            first, last = max(first, at - count + 1), min(last, at)
        return self._best(usable, load, count, first, last)

    def _best(
        self, usable: list[TileId], load: dict[TileId, int], count: int, first: int, last: int
    ) -> list[TileId]:
        """Compare neighbours, from those that begin with the `first` to those that begin with the `last`."""
        window = usable[first : first + count]
        ranks: Counter[int] = Counter([self._ranks[tile] for tile in window])
        nodes: Counter[int] = Counter([self._spot[tile][0] for tile in window])
        tasks = sum([load[tile] for tile in window])
        best, least = first, None
        for start in range(first, last + 1):
            a, b = usable[start], usable[start + count - 1]
            cost = (self._spot[a] != self._spot[b], len(ranks) > 1, len(nodes), len(ranks), tasks)
            if least is None or cost < least:
                best, least = start, cost
                if least == _IDEAL:
                    break
            if start < last:
                new = usable[start + count]
                tasks += load[new] - load[a]
                for counts, gone, come in (
                    (ranks, self._ranks[a], self._ranks[new]),
                    (nodes, self._spot[a][0], self._spot[new][0]),
                ):
                    counts[come] += 1
                    counts[gone] -= 1
                    if not counts[gone]:
                        del counts[gone]
        return usable[best : best + count]

    def _arrange(self, task: Task) -> tuple[TileId, ...]:
        """Put the chosen tiles in order: the lead, then those of its rank, then the others by rank."""
        tiles = sorted(self._chosen)
        lead = _wish(task)
        if lead not in self._chosen:
            lead = next(tile for tile in tiles if tile != task.shunned)
        tiles.sort(key=lambda tile: (self._ranks[tile] != self._ranks[lead], self._ranks[tile], tile != lead))
        return tuple(tiles)


def _wish(task: Task) -> TileId | None:
    """Where it should lead, if it may."""
    return task.pin if task.pin is not None or task.near is None else task.near.home


_IDEAL = (False, False, 1, 1, 0)
