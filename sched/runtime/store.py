"""The values of a rank: on its tiles, as they arrived, or spilled to the host's memory.

A *slot* is the place of a value on this rank: it exists from the moment the rank hears of the value (it will
be made here, or it will come) to the moment when it is dropped. The value is in one or both of two forms:
`values`, which tasks use, for each tile that has used it; and `packed`, which came, or is ready to go, or was
put aside because the tile is full.

The store has a lock of its own, taken for moments: tasks fetch values while messages arrive. It may be
taken under the engine's, never the other way round, and no code of the user's runs under it.
"""

import contextlib
import enum
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any

from sched.backends.base import Rung, Tile
from sched.model import RankId, Ref, TaskId, TileId
from sched.runtime.contents import allocations, checksum
from sched.runtime.ledger import Holdings, Ledger, TileStats
from sched.runtime.messages import Fault, Packed
from sched.runtime.packing import Packer


class State(enum.Enum):
    """What is in a slot."""

    EMPTY = enum.auto()
    FULL = enum.auto()
    BROKEN = enum.auto()


class Slot:
    """A value's place; see above."""

    __slots__ = (
        "cause",
        "dropped",
        "fault",
        "fixed",
        "holdings",
        "name",
        "packed",
        "pins",
        "ref",
        "spilled",
        "state",
        "sums",
        "targets",
        "unsendable",
        "unsent",
        "values",
        "waiting",
    )

    def __init__(self, ref: Ref, name: str = "") -> None:
        self.ref = ref
        self.name = name
        self.state = State.EMPTY
        # By tile; by None on a rank that has no tile.
        self.values: dict[TileId | None, Any] = {}
        self.holdings: dict[TileId, Holdings] = {}
        self.sums: dict[TileId | None, int] = {}
        self.packed: Packed | None = None
        # Where and how much, if `packed` was put aside.
        self.spilled: tuple[TileId, int] | None = None
        # How many running calls take it: so long it stays on its tile. And whether it has to stay anyhow.
        self.pins = 0
        self.fixed = False
        self.cause: TaskId | None = None
        self.fault: Fault | None = None
        self.unsendable: Fault | None = None
        self.waiting: list[Any] = []
        self.targets: list[RankId] = []
        self.unsent = 0
        self.dropped = False


class Store:
    """Keeps values, and the tiles within their limit.

    Args:
        packer: for this rank's backend.
        limit: bytes for each tile.
        check: keep a checksum of each value; see `checking`.
    """

    def __init__(self, packer: Packer, limit: int, *, check: bool = False) -> None:
        self.slots: dict[Ref, Slot] = {}
        # What is let go of. Emptied without any lock: a finaliser of the user's may run then.
        self.dropped: deque[object] = deque()
        self._packer = packer
        self._backend = packer.backend
        self._check = check
        # Re-entrant, because a finaliser may run under it; so that can be told, and refused.
        self.lock = threading.RLock()
        self.ledger = Ledger(tuple(tile.id for tile in self._backend.tiles), limit)
        # What lies on each tile, the longest unused first.
        self._resident: dict[TileId, OrderedDict[Ref, Slot]] = {
            tile.id: OrderedDict() for tile in self._backend.tiles
        }

    # -- values in and out -------------------------------------------------------------------------------

    def value(self, slot: Slot, tile: Tile | None) -> Any:
        """Return a value that is here, such that it mixes with others of the tile."""
        place = None if tile is None else tile.id
        try:
            value = slot.values[place]
        except KeyError:
            return self._fetch(slot, tile)
        if tile is not None and tile.id in slot.holdings:
            with self.lock:
                if slot.ref in self._resident[tile.id]:
                    self._resident[tile.id].move_to_end(slot.ref)
        return value

    def keep(self, slot: Slot, tile: Tile, value: Any, reserved: int) -> int:
        """Take in a value that was made on a tile, where so much was promised to the call.

        Returns:
            How many bytes more there are on the tile.
        """
        place = tile.id
        holdings = allocations(value, self._backend)
        if self._check:
            slot.sums[place] = checksum(value, self._backend)
        with self.lock:
            slot.values[place] = value
            self.ledger.reserved[place] -= reserved
            before = self.ledger.now[place]
            if holdings:
                self._enter(slot, place, holdings)
            return self.ledger.now[place] - before

    def land(self, slot: Slot, packed: Packed) -> None:
        """Take in a value that came from another rank."""
        slot.packed = packed
        if packed.memories and self._backend.tiles:
            first = self._backend.tiles[0].id
            holdings = {id(memory): memory.nbytes for memory in packed.memories if _is_of_tile(memory)}
            if holdings:
                with self.lock:
                    self._enter(slot, first, holdings)
                    self.ledger.remove(first, holdings)  # as `room` entered it

    def room(self, nbytes: int, tile: bool) -> Any:
        """Make memory for what arrives: on the first tile only if it fits there."""
        if tile and self._backend.tiles:
            first = self._backend.tiles[0].id
            # Where bytes are staged, only a thread that may use the queues can take them in; and this one is
            # perhaps the relief, while the script is away for long.
            able = self._backend.direct or self._backend.may_touch()
            with self.lock:
                able = able and self.ledger.room(first) >= nbytes
                self.ledger.reserved[first] += nbytes if able else 0
            if able:
                memory = None
                with contextlib.suppress(Exception):  # there is less free than it seemed
                    memory = self._backend.room(nbytes, True)
                with self.lock:
                    self.ledger.reserved[first] -= nbytes
                    if memory is not None:
                        self.ledger.add(first, {id(memory): memory.nbytes})
                if memory is not None:
                    return memory
        return self._backend.room(nbytes, False)

    def pack(self, slot: Slot) -> Packed:
        """Return the form of a value in which it goes to another rank. Raises whatever pickling it raises."""
        with self.lock:
            if slot.packed is not None:
                return slot.packed
            value = next(iter(slot.values.values()))
        packed = self._packer.pack(value)
        with self.lock:
            if slot.packed is None:  # and was not put aside meanwhile
                slot.packed = packed
            return slot.packed

    def sent(self, slot: Slot) -> None:
        """Forget the form in which it went."""
        with self.lock:
            if slot.values:
                slot.packed = None

    def drop(self, slot: Slot) -> None:
        """Forget a value altogether."""
        with self.lock:
            self.slots.pop(slot.ref, None)
            for tile in list(slot.holdings):
                self._leave(slot, tile)
            self._unspill(slot)
        self.dropped.append(slot)

    def empty(self, slot: Slot) -> None:
        """Forget the value, and not its place: the call that made it has failed after all."""
        with self.lock:
            for tile in list(slot.holdings):
                self._leave(slot, tile)
            self.dropped.append((slot.values, slot.packed))
            slot.values, slot.packed = {}, None

    # -- limits ------------------------------------------------------------------------------------------

    def pin(self, slots: Sequence[Slot], by: int = 1) -> None:
        """Hold values where they are (or, `by` -1, no more), while a call uses them."""
        with self.lock:
            for slot in slots:
                slot.pins += by

    def lacking(self, slots: Sequence[Slot], tile: Tile) -> int:
        """Return how many bytes the tile takes up if these values are used there."""
        with self.lock:
            lacks = [s for s in slots if tile.id not in s.values and tile.id not in s.holdings]
            return sum([_bytes(slot) for slot in lacks])

    def largest(self, slots: Sequence[Slot]) -> int:
        """Return the bytes of the largest of these values."""
        with self.lock:
            return max(map(_bytes, slots))

    def reserve(self, tile: Tile, nbytes: int) -> None:
        """Promise room on a tile to a call that is about to run; or take the promise back."""
        with self.lock:
            self.ledger.reserved[tile.id] += nbytes

    def held(self, slot: Slot, tile: Tile) -> int:
        """Return how many bytes of a value are on the tile."""
        return sum(slot.holdings.get(tile.id, {}).values())

    def stuck(self, tile: Tile) -> int:
        """Return how many bytes on the tile cannot be put aside."""
        with self.lock:
            return sum(self.held(slot, tile) for slot in self.slots.values() if slot.fixed)

    def make_room(self, tile: Tile, nbytes: int) -> bool:
        """Put values aside, those first that nobody has used for longest, until so much fits on the tile.

        Only a thread that may use the tile's queue may call it.

        Returns:
            Whether it fits.
        """
        if nbytes > self.ledger.limit:  # it never will
            return False
        before = self.ledger.now[tile.id]
        while self.ledger.room(tile.id) < nbytes:
            with self.lock:
                slot = next((s for s in self._resident[tile.id].values() if not s.pins), None)
            if slot is None:
                break
            self._put_aside(slot, tile)
        if self.ledger.now[tile.id] < before:
            self.dropped.clear()
            self._backend.finish(tile)
        return self.ledger.room(tile.id) >= nbytes

    def stats(self) -> tuple[TileStats, ...]:
        """Return what is on each tile."""
        ledger = self.ledger
        with self.lock:
            return tuple(
                TileStats(
                    tile.id,
                    tile.rank,
                    ledger.now[tile.id],
                    ledger.peak[tile.id],
                    ledger.limit,
                    ledger.spilled[tile.id],
                )
                for tile in self._backend.tiles
            )

    # -- inside ------------------------------------------------------------------------------------------

    def _fetch(self, slot: Slot, tile: Tile | None) -> Any:
        if tile is None:
            return self._bring(slot, None)
        self.pin([slot])
        needs = self.lacking([slot], tile)
        try:
            self.make_room(tile, min(needs, self.ledger.limit))  # what never fits is at least alone there
            self.reserve(tile, needs)
            try:
                return self._bring(slot, tile)
            finally:
                self.reserve(tile, -needs)
        finally:
            self.pin([slot], -1)

    def _bring(self, slot: Slot, tile: Tile | None) -> Any:
        with self.lock:
            packed, spilled = slot.packed, slot.spilled
            source = next(iter(slot.values.items()), None)
            landed = dict(slot.holdings)
        if source is not None:
            if tile is None:
                return source[1]
            made = self._packer.adopt(source[1], tile, moved=True)
            if made is source[1]:
                return made  # nothing in it is bound to a tile
        else:
            assert packed is not None
            begun = time.perf_counter()
            made = self._packer.unpack(packed, tile)
            if spilled is not None:
                self._packer.moves.note(Rung.RELOAD, spilled[1], time.perf_counter() - begun)
        made = self._packer.freeze(made)
        holdings = allocations(made, self._backend) if tile is not None else {}
        place = None if tile is None else tile.id
        sum_ = checksum(made, self._backend) if self._check else 0
        with self.lock:
            if place in slot.values:  # another thread was quicker
                return slot.values[place]
            slot.values[place] = made
            if self._check:
                slot.sums[place] = sum_
            self._unspill(slot)  # also if it was put aside meanwhile
            if not slot.unsent:
                slot.packed = None
            if source is None:
                for where, held in landed.items():
                    if slot.holdings.get(where) is held:
                        self._leave(slot, where)
            if tile is not None and holdings and slot.ref in self.slots:
                self._enter(slot, tile.id, holdings)
        return made

    def _put_aside(self, slot: Slot, tile: Tile) -> None:
        """Move a value of a tile to the host's memory. One that cannot be copied stays there for good."""
        begun = time.perf_counter()
        with self.lock:
            value, packed = slot.values.get(tile.id), slot.packed
            elsewhere = len(slot.values) > (tile.id in slot.values)
        try:
            if not elsewhere:
                if tile.id not in slot.values:  # it has arrived, and was not used yet
                    assert packed is not None
                    value = self._packer.unpack(packed, tile)
                packed = self._packer.pack_aside(value)
        except Exception:
            with self.lock:
                slot.fixed = True
                self._resident[tile.id].pop(slot.ref, None)
            return
        with self.lock:
            if slot.pins or tile.id not in slot.holdings:
                return
            if elsewhere and len(slot.values) == (tile.id in slot.values):  # not any more
                return
            size = sum(slot.holdings[tile.id].values())
            self._leave(slot, tile.id)
            self.dropped.append(slot.values.pop(tile.id, None))
            if not elsewhere:
                slot.packed, slot.spilled = packed, (tile.id, size)
                self.ledger.spilled[tile.id] += size
        if not elsewhere:
            self._packer.moves.note(Rung.SPILL, size, time.perf_counter() - begun)

    def _enter(self, slot: Slot, tile: TileId, holdings: Holdings) -> None:
        slot.holdings[tile] = holdings
        self.ledger.add(tile, holdings)
        if not slot.fixed:
            self._resident[tile][slot.ref] = slot

    def _leave(self, slot: Slot, tile: TileId) -> None:
        self.ledger.remove(tile, slot.holdings.pop(tile))
        self._resident[tile].pop(slot.ref, None)

    def _unspill(self, slot: Slot) -> None:
        if slot.spilled is not None:
            tile, size = slot.spilled
            self.ledger.spilled[tile] -= size
            slot.spilled = None


def _bytes(slot: Slot) -> int:
    """Return how large a value is, as far as that is known."""
    if slot.holdings:
        return max(sum(holdings.values()) for holdings in slot.holdings.values())
    if slot.spilled is not None:
        return slot.spilled[1]
    return 0 if slot.packed is None else slot.packed.nbytes


def _is_of_tile(memory: Any) -> bool:
    """Tell `transport.base.Memory` from ordinary memory."""
    return hasattr(memory, "space")
