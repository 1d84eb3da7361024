"""The calls of a rank: made on their tiles, with their arguments there, and their values taken in.

The methods are called without the engine's lock, by the one thread that works for the tile, but for those
that say otherwise.
"""

import contextvars
import platform
from collections.abc import Callable, Sequence
from typing import Any

from sched.backends.base import Backend, Mark, Tile, on
from sched.errors import RequestError
from sched.model import RankId, TileId
from sched.runtime import contents
from sched.runtime.current import Current, running
from sched.runtime.faults import describe
from sched.runtime.messages import Assign, Fault, Packed
from sched.runtime.packing import Packer
from sched.runtime.store import Slot, Store


class Call:
    """A call that this rank was told to make.

    Attributes:
        slot: where its value goes; None if this is a part of a task on several ranks, and not the first.
        value: what came of it, or
        fault: why nothing did.
        nbytes: how large the value is.
        reserved: bytes that it was promised on its tile.
        mark: says when what it has submitted to its tile is computed, if that is not waited for at once.
    """

    __slots__ = (
        "ended",
        "fault",
        "mark",
        "missing",
        "nbytes",
        "order",
        "reserved",
        "slot",
        "started",
        "value",
    )

    def __init__(self, order: Assign, slot: Slot | None) -> None:
        self.order = order
        self.slot = slot
        self.missing = 0
        self.ended = False
        self.value: Any = None
        self.fault: Fault | None = None
        self.mark: Mark | None = None
        self.nbytes = 0
        self.reserved = 0
        self.started = False


class Runner:
    """Makes calls.

    Args:
        rank: this rank.
        backend: its tiles.
        store: the values that calls take, and where theirs go.
        group: makes a communicator of ranks, for a task on several.
    """

    def __init__(
        self,
        rank: RankId,
        backend: Backend,
        packer: Packer,
        store: Store,
        group: Callable[[Sequence[RankId]], Any],
    ) -> None:
        self._rank = rank
        self._backend = backend
        self._packer = packer
        self._store = store
        self._group = group
        self._tiles: dict[TileId, Tile] = {tile.id: tile for tile in backend.tiles}
        self._functions: dict[int, Packed] = {}
        self._loaded: dict[tuple[int, TileId], Any] = {}
        # The largest value that each function has returned here: what room the next will need.
        self._largest: dict[int, int] = {}

    def define(self, number: int, code: Packed) -> None:
        """Note a function. Under the engine's lock."""
        self._functions[number] = code

    def forget(self, number: int) -> None:
        """Forget a function: no call of it will come. Under the engine's lock."""
        del self._functions[number]
        self._largest.pop(number, None)
        for tile in self._tiles:
            self._store.dropped.append(self._loaded.pop((number, tile), None))

    def pack(self, slot: Slot) -> None:
        """Make a value ready to be sent, or note why it cannot be."""
        try:
            self._store.pack(slot)
        except Exception as error:
            # The value stays good where it is; whoever wants it elsewhere learns why it cannot go there.
            where = f"sending the value of {slot.name} from rank {self._rank}, {platform.node()}"
            slot.unsendable, slot.packed = describe(error, slot.name, where), Packed(b"")

    def run(self, call: Call, *, wait: bool = True) -> bool:
        """Make the call; its value or fault is then in `call`.

        Args:
            wait: until what it has submitted to its tile is computed.

        Returns:
            Whether that is so. If not, `call.mark` says when it is, and then `land` has to be called.
        """
        # In a context of its own: what the task sets (a decimal precision, say) ends with it.
        return contextvars.copy_context().run(self._run, call, wait)

    def land(self, call: Call) -> None:
        """Take in what a call has computed."""
        order, tile = call.order, self._tiles[call.order.tile]
        inputs = self._inputs(call)
        try:
            with on(tile):
                if call.fault is None:
                    for each in self._tiles_of(order):
                        self._backend.finish(each)
                    self._store.verify(inputs, tile, order.name, after=True)
                    self._keep(call, tile)
        except BaseException as error:
            call.value, call.fault = None, self._describe(error, order)
        finally:
            self._store.pin(inputs, -1)
            self._store.reserve(tile, -call.reserved)

    def _run(self, call: Call, wait: bool) -> bool:
        order = call.order
        tile = self._tiles[order.tile]
        tiles = self._tiles_of(order)
        inputs = self._inputs(call)
        self._store.pin(inputs)
        comm = None
        try:
            if order.ranks:
                comm = self._group(order.ranks)
            running.set(
                Current(
                    tile.id,
                    self._rank,
                    order.name,
                    order.attempt,
                    tile.queue,
                    tile.device,
                    tiles,
                    comm,
                    self._backend,
                    tile,
                )
            )
            with on(tile):
                self._admit(call, tile, inputs)
                self._store.verify(inputs, tile, order.name, after=False)
                function = self._function(order.function, tile)
                slots = self._store.slots
                args, kwargs = self._packer.unpack_call(
                    order.arguments, tile, lambda ref: self._store.value(slots[ref], tile)
                )
                call.value = function(*args, **kwargs)
                del args, kwargs
            if not wait and len(tiles) == 1:
                call.mark = self._backend.mark(tile)
                if call.mark is not None and not call.mark.done():
                    return False
        except BaseException as error:
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            call.fault = self._describe(error, order)
        finally:
            if comm is not None:
                comm.Free()
        self.land(call)
        return True

    def _admit(self, call: Call, tile: Tile, inputs: Sequence[Slot]) -> None:
        """Make room on the tile for a call: its arguments, and what it states or is known to return.

        Raises:
            RequestError: It states more than can ever be had.
        """
        order = call.order
        limit = self._store.ledger.limit
        arguments = sum(memoryview(buffer).nbytes for buffer in order.arguments.buffers)
        lacks = self._store.lacking(inputs, tile)
        takes = arguments + lacks + sum(self._store.held(slot, tile) for slot in inputs)
        if order.memory and takes + order.memory > limit:
            raise RequestError(
                f"{order.name} states memory={order.memory} bytes and takes values of {takes} bytes: "
                f"together more than the {limit} bytes of a tile (--tile-memory); use smaller blocks"
            )
        needs = arguments + (order.memory or self._largest.get(order.function, 0))
        self._store.make_room(tile, lacks + needs)
        self._store.reserve(tile, needs)
        call.reserved = needs

    def _keep(self, call: Call, tile: Tile) -> None:
        value = call.value = self._packer.freeze(call.value)
        call.nbytes = contents.nbytes(value)
        if call.nbytes > self._largest.get(call.order.function, 0):
            self._largest[call.order.function] = call.nbytes
        slot = call.slot
        if slot is not None:
            self._store.keep(slot, tile, value, call.reserved)
            call.reserved = 0
            if slot.targets:
                self.pack(slot)
            if call.nbytes and self._store.ledger.room(tile.id) < 0:
                self._store.make_room(tile, 0)

    def _describe(self, error: BaseException, order: Assign) -> Fault:
        attempt = f", attempt {order.attempt}" if order.attempt else ""
        where = f"{order.name} (task {order.task}{attempt}) on tile {order.tile}, rank {self._rank}, "
        return describe(error, order.name, where + platform.node())

    def _inputs(self, call: Call) -> list[Slot]:
        slots = self._store.slots
        return [slots[ref] for ref in call.order.inputs]

    def _tiles_of(self, order: Assign) -> tuple[Tile, ...]:
        return tuple([self._tiles[tile] for tile in order.tiles or (order.tile,)])

    def _function(self, number: int, tile: Tile) -> Any:
        # Once for each tile: a function may hold arrays.
        loaded = self._loaded.get((number, tile.id))
        if loaded is None:
            loaded = self._loaded[number, tile.id] = self._packer.unpack(self._functions[number], tile)
        return loaded
