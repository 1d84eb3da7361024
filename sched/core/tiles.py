"""What each tile has to do, and which tiles have room.

A tile takes so many ready tasks (its *limit*), and some ahead; `policy` says how many of which. The limit is
`depth`, but 0 while a tile on demand is closed, and while a tile is *held*: collected for a task on several
tiles, or running one (see `gangs`).
"""

from collections import OrderedDict
from collections.abc import Collection

from sched.model import TileId


class Tiles:
    """Loads and limits.

    Args:
        count: how many tiles there are.
        depth: how many ready tasks one takes, at least 1.
        on_demand: tiles that take a task only after `open`.
        budgeted: whether tiles may be over a budget (see `window`).

    Attributes:
        load: for each tile, how many ready tasks it has.
        ahead: how many others.
        limit: how many ready tasks it takes now.
        over: whether it is over its budget.
        room: the tiles with room, by load, by tasks ahead, and by whether they are over their budget; first
            who has waited longest. (Not plain dicts: to find the first key, those step over every key that
            was deleted before it.)
        sides: how many entries of `room` there are for each load and number of tasks ahead: 2 if budgeted.
        on_demand: the same as the argument.
        resting: those on demand that are closed, and have nothing to do.
    """

    def __init__(
        self, count: int, depth: int, on_demand: Collection[TileId], *, budgeted: bool = False
    ) -> None:
        self._depth = depth
        self.on_demand = frozenset(on_demand)
        self.resting = set(on_demand)
        self.load = [0] * count
        self.ahead = [0] * count
        self.limit = [0 if tile in self.on_demand else depth for tile in range(count)]
        self.over = [False] * count
        self.sides = 1 + budgeted
        self._slot = [0] * count
        self.room: list[OrderedDict[TileId, None]] = [
            OrderedDict() for _ in range(depth * (depth + 1) * self.sides)
        ]
        self.room[0].update((TileId(tile), None) for tile in range(count) if self.limit[tile])

    def tasks(self, tile: TileId) -> int:
        """Count the tasks of a tile, also those ahead."""
        return self.load[tile] + self.ahead[tile]

    def has_room_ahead(self, tile: TileId) -> bool:
        """Tell whether a tile may take a task whose inputs are still being computed."""
        ahead, limit = self.ahead[tile], self.limit[tile]
        return ahead < limit and ahead + self.load[tile] <= limit

    def change(self, tile: TileId, ready: int, ahead: int) -> None:
        """Count tasks in or out."""
        load, limit, slot = self.load[tile], self.limit[tile], self._slot[tile]
        if load < limit:
            del self.room[slot][tile]
        load += ready
        slot += (ready * (self._depth + 1) + ahead) * self.sides
        if load < limit:
            self.room[slot][tile] = None
        self.load[tile], self._slot[tile] = load, slot
        self.ahead[tile] += ahead

    def note_budget(self, tile: TileId, *, over: bool) -> None:
        """Enter whether a tile is over its budget."""
        has_room = self.load[tile] < self.limit[tile]
        if has_room:
            del self.room[self._slot[tile]][tile]
        self._slot[tile] += 1 if over else -1
        self.over[tile] = over
        if has_room:
            self.room[self._slot[tile]][tile] = None

    # -- tiles on demand -------------------------------------------------------------------------------

    def open(self, tile: TileId) -> None:
        """Let a tile that works on demand take one task."""
        self._set_limit(tile, 1)
        self.resting.discard(tile)

    def use_up(self, tile: TileId) -> None:
        """Note that it has taken it."""
        self._set_limit(tile, 0)
        self.resting.discard(tile)

    def close(self, tile: TileId) -> None:
        """Let it take no more."""
        self._set_limit(tile, 0)
        self.rest(tile)

    def rest(self, tile: TileId) -> None:
        """Note that it has nothing to do, if that is so and it is closed."""
        if not self.load[tile] and not self.limit[tile]:
            self.resting.add(tile)

    # -- tasks on several tiles ------------------------------------------------------------------------

    def hold(self, tile: TileId) -> None:
        """Let a tile take nothing more, until it is let go or vacated."""
        self._set_limit(tile, 0)

    def let_go(self, tile: TileId) -> None:
        """Let a tile that was held be as it was before."""
        self._set_limit(tile, 1 if tile in self.on_demand else self._depth)

    def occupy(self, tile: TileId) -> None:
        """Give a tile that is held, and empty, to a task on several."""
        self.change(tile, +1, 0)

    def vacate(self, tile: TileId) -> None:
        """Take it back."""
        self.change(tile, -1, 0)
        if tile in self.on_demand:
            self.rest(tile)
        else:
            self._set_limit(tile, self._depth)

    def _set_limit(self, tile: TileId, limit: int) -> None:
        had_room, has_room = self.load[tile] < self.limit[tile], self.load[tile] < limit
        self.limit[tile] = limit
        if had_room and not has_room:
            del self.room[self._slot[tile]][tile]
        elif has_room and not had_room:
            self.room[self._slot[tile]][tile] = None
