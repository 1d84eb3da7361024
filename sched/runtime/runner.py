"""The calls of a rank: made on their tiles, with their arguments there, and their values taken in.

The methods are called without the engine's lock, by the one thread that works for the tile, but for those
that say otherwise.
"""

import contextvars
import platform
import time
from collections.abc import Callable, Sequence
from typing import Any

from sched.backends.base import Backend, Mark, Tile, on
from sched.errors import RequestError
from sched.model import RankId, TileId
from sched.runtime import contents
from sched.runtime.checking import verify
from sched.runtime.current import Current, running
from sched.runtime.faults import describe
from sched.runtime.messages import Assign, Fault, Packed, size
from sched.runtime.packing import Packer
from sched.runtime.store import Slot, Store


class Call:
    """A call that this rank was told to make.

    Attributes:
        slot: where its value goes; None if this is a part of a task on several ranks, and not the first.
        value: what came of it, or
        fault: why nothing did.
        nbytes: how large the value is.
        seconds: how long it took.
        reserved: bytes that it was promised on its tile.
        mark: says when what it has submitted to its tile is computed, if that is not waited for at once.
    """

    __slots__ = (
        "arguments",
        "begun",
        "ended",
        "fault",
        "inputs",
        "mark",
        "missing",
        "nbytes",
        "order",
        "ready",
        "reserved",
        "seconds",
        "slot",
        "value",
    )

    def __init__(self, order: Assign, slot: Slot | None) -> None:
        self.order = order
        self.slot = slot
        self.missing = 0
        self.ready = False
        self.ended = False
        self.inputs: list[Slot] = []
        self.arguments = 0
        self.value: Any = None
        self.fault: Fault | None = None
        self.mark: Mark | None = None
        self.nbytes = 0
        self.reserved = 0
        self.begun = 0.0
        self.seconds = 0.0


class Runner:
    """Makes calls.

    Args:
        rank: this rank.
        backend: its tiles.
        store: the values that calls take, and where theirs go.
        group: makes a communicator of ranks, for a task on several.
        check: find out who writes into arguments.
    """

    def __init__(
        self,
        rank: RankId,
        backend: Backend,
        packer: Packer,
        store: Store,
        group: Callable[[Sequence[RankId]], Any],
        *,
        check: bool,
    ) -> None:
        self._rank = rank
        self._backend = backend
        self._packer = packer
        self._store = store
        self._group = group
        self._check = check
        self._tiles: dict[TileId, Tile] = {tile.id: tile for tile in backend.tiles}
        self._functions: dict[int, Packed] = {}
        self._loaded: dict[tuple[int, TileId], Any] = {}
        # By how much each function's value has filled a tile here, at most: what room the next will need.
        self._growth: dict[int, int] = {}

    def define(self, number: int, code: Packed) -> None:
        """Note a function. Under the engine's lock."""
        self._functions[number] = code

    def forget(self, number: int) -> None:
        """Forget a function: no call of it will come. Under the engine's lock."""
        del self._functions[number]
        self._growth.pop(number, None)
        for tile in self._tiles:
            self._store.dropped.append(self._loaded.pop((number, tile), None))

    def pack(self, slot: Slot) -> Packed | None:
        """Make a value ready to be sent; or note why it cannot be, and return None."""
        try:
            return self._store.pack(slot)
        except Exception as error:
            # The value stays good where it is; whoever wants it elsewhere learns why it cannot go there.
            where = f"sending the value of {slot.name} from rank {self._rank}, {platform.node()}"
            slot.unsendable = describe(error, slot.name, where)
            return None

    def run(self, call: Call, *, wait: bool = True) -> bool:
        """Make the call; its value or fault is then in `call`.

        Args:
            wait: until what it has submitted to its tile is computed.

        Returns:
            Whether that is so. If not, `call.mark` says when it is, and then `land` has to be called.
        """
        call.begun = time.perf_counter()
        try:
            # In a context of its own: what the task sets (a decimal precision, say) ends with it.
            return contextvars.copy_context().run(self._run, call, wait)
        finally:
            call.seconds = time.perf_counter() - call.begun

    def land(self, call: Call) -> None:
        """Take in what a call has computed."""
        with on(self._tiles[call.order.tile]):
            self._land(call)
        call.seconds = time.perf_counter() - call.begun

    def _run(self, call: Call, wait: bool) -> bool:
        order = call.order
        tile = self._tiles[order.tile]
        tiles = (tile,) if not order.tiles else tuple([self._tiles[each] for each in order.tiles])
        if order.inputs:
            slots = self._store.slots
            call.inputs = [slots[ref] for ref in order.inputs]
            self._store.pin(call.inputs)
        with on(tile):
            try:
                self._compute(call, tile, tiles)
                if not wait and len(tiles) == 1:
                    call.mark = self._backend.mark(tile)
                    if call.mark is not None and not call.mark.done():
                        return False
            except BaseException as error:
                call.fault = self._describe(error, order)
            self._land(call)
        return True

    def _compute(self, call: Call, tile: Tile, tiles: tuple[Tile, ...]) -> None:
        order = call.order
        comm = self._group(order.ranks) if order.ranks else None
        try:
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
            self._admit(call, tile)
            for each in tiles[1:]:
                self._store.make_room(each, order.memory)
            if self._check:
                verify(call.inputs, tile, self._backend, order.name, after=False)
            function = self._function(order.function, tile)
            args, kwargs = self._packer.unpack_call(
                order.arguments, tile, lambda ref: self._store.value(self._store.slots[ref], tile)
            )
            call.value = self._make(function, args, kwargs)
        finally:
            if comm:  # and not one that the task has freed itself
                comm.Free()

    @staticmethod
    def _make(function: Any, args: Any, kwargs: Any) -> Any:
        """Run code of the user's: where Ctrl-C may strike (see `interrupt`)."""
        return function(*args, **kwargs)

    def _land(self, call: Call) -> None:
        order, tile = call.order, self._tiles[call.order.tile]
        try:
            if call.fault is None:
                for each in order.tiles or (order.tile,):
                    self._backend.finish(self._tiles[each])
                if self._check:
                    verify(call.inputs, tile, self._backend, order.name, after=True)
                self._keep(call, tile)
        except BaseException as error:
            call.value, call.fault = None, self._describe(error, order)
        finally:
            if call.inputs:
                self._store.pin(call.inputs, -1)
                call.inputs = []
            if call.reserved:
                self._store.reserve(tile, -call.reserved)

    def _admit(self, call: Call, tile: Tile) -> None:
        """Make room on the tile for a call: its arguments, and what it states or is known to return.

        Raises:
            RequestError: It states more than can be had.
        """
        order, store = call.order, self._store
        call.arguments = sum([size(buffer) for buffer in order.arguments.buffers])
        lacks = store.lacking(call.inputs, tile) if call.inputs else 0
        if order.memory:
            takes = call.arguments + lacks + sum(store.held(slot, tile) for slot in call.inputs)
            if takes + order.memory > store.ledger.limit:
                raise RequestError(
                    f"{order.name} states memory={order.memory} bytes and takes values of {takes} bytes: "
                    f"together more than the {store.ledger.limit} bytes of a tile (--tile-memory); use "
                    "smaller blocks"
                )
        growth = self._growth.get(order.function)
        if growth is None:  # not known yet; a guess
            growth = store.largest(call.inputs) if call.inputs else 0
        needs = call.arguments + (order.memory or growth)
        if not lacks and not needs:
            return
        fits = store.make_room(tile, lacks + needs)
        if order.memory and not fits and (stuck := store.stuck(tile)):
            raise RequestError(
                f"{order.name} states memory={order.memory} bytes, and of the {store.ledger.limit} bytes of "
                f"tile {tile.id} {stuck} are values that cannot be copied to the host's memory"
            )
        store.reserve(tile, needs)
        call.reserved = needs

    def _keep(self, call: Call, tile: Tile) -> None:
        value = call.value = self._packer.freeze(call.value)
        call.nbytes = contents.nbytes(value)
        slot = call.slot
        if slot is None:
            return
        grown = self._store.keep(slot, tile, value, call.reserved) - call.arguments
        call.reserved = 0
        if grown > self._growth.get(call.order.function, -1):
            self._growth[call.order.function] = grown
        if slot.targets:
            self.pack(slot)
        if self._store.ledger.room(tile.id) < 0:
            self._store.make_room(tile, 0)

    def _describe(self, error: BaseException, order: Assign) -> Fault:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_globals is globals():
            trace = trace.tb_next
        error.__traceback__ = trace
        attempt = f", attempt {order.attempt}" if order.attempt else ""
        where = f"{order.name} (task {order.task}{attempt}) on tile {order.tile}, rank {self._rank}, "
        return describe(error, order.name, where + platform.node())

    def _function(self, number: int, tile: Tile) -> Any:
        # Once for each tile: a function may hold arrays.
        loaded = self._loaded.get((number, tile.id))
        if loaded is None:
            loaded = self._loaded[number, tile.id] = self._packer.unpack(self._functions[number], tile)
        return loaded
