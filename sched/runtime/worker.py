"""A rank's half of the work: its values, and the calls that it was told to make.

The methods that change the tables are called under the engine's lock; `run` is called without it, by the
one thread that works for the tile. A *slot* is the place of a value on this rank: it exists from the
moment the rank hears of the value (`Assign`: it will be made here, `Expect`: it will come) to `Drop`.
"""

import contextvars
import enum
import platform
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from sched.backends.base import Backend, Tile, on
from sched.errors import ProtocolError
from sched.model import RankId, Ref, TaskId, TileId, assert_never
from sched.runtime.current import Current, running
from sched.runtime.messages import (
    Assign,
    Broke,
    Define,
    Done,
    Drop,
    Expect,
    Fault,
    Forget,
    Packed,
    Send,
    Stop,
    ToDriver,
    ToRank,
    Value,
)
from sched.runtime.packing import Packer, describe, nbytes


class State(enum.Enum):
    """What is in a slot."""

    EMPTY = enum.auto()
    FULL = enum.auto()
    BROKEN = enum.auto()


class Slot:
    """A value's place. `packed` is a form that came, or is ready to go; `value` the form tasks use."""

    __slots__ = (
        "cause",
        "dropped",
        "fault",
        "has_value",
        "name",
        "packed",
        "state",
        "targets",
        "tile",
        "unsendable",
        "unsent",
        "value",
        "waiting",
    )

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.state = State.EMPTY
        self.value: Any = None
        self.has_value = False
        self.tile: Tile | None = None
        self.packed: Packed | None = None
        self.cause: TaskId | None = None
        self.fault: Fault | None = None
        self.unsendable: Fault | None = None
        self.waiting: list[Call] = []
        self.targets: list[RankId] = []
        self.unsent = 0
        self.dropped = False


class Call:
    """A call that this rank was told to make."""

    __slots__ = ("ended", "missing", "nbytes", "order")

    def __init__(self, order: Assign) -> None:
        self.order = order
        self.missing = 0
        self.ended = False
        self.nbytes = 0


class Worker:
    """The tables of one rank.

    Args:
        rank: this rank.
        backend: what its tiles are.
        tell: takes reports to the driver.
        runnable: is told the tile of each call that may start.
    """

    def __init__(
        self,
        rank: RankId,
        backend: Backend,
        tell: Callable[[ToDriver], None],
        runnable: Callable[[TileId], None],
    ) -> None:
        self.packer = Packer(backend)
        self.stopped = False
        # What is let go of. Emptied without the lock: a finaliser of the user's may run then.
        self.dropped: deque[object] = deque()
        self._rank = rank
        self._backend = backend
        self._tiles: dict[TileId, Tile] = {tile.id: tile for tile in backend.tiles}
        self._tell = tell
        self._runnable = runnable
        self._slots: dict[Ref, Slot] = {}
        self._functions: dict[int, Packed] = {}
        self._loaded: dict[tuple[int, TileId], Any] = {}
        self._calls: dict[TileId, deque[Call]] = {tile: deque() for tile in self._tiles}
        self._assigned: dict[TileId, int] = dict.fromkeys(self._tiles, 0)
        self._to_send: deque[tuple[Ref, RankId]] = deque()

    # -- orders ----------------------------------------------------------------------------------------

    def obey(self, message: ToRank) -> None:
        """Take in one order of the driver."""
        match message:
            case Assign():
                self._assign(message)
            case Expect(ref):
                # Unless the value was quicker than the news of it: the two come from different ranks.
                self._slots.setdefault(ref, Slot())
            case Send(ref, target):
                slot = self._slots[ref]
                slot.unsent += 1
                if slot.state is State.EMPTY:
                    slot.targets.append(target)
                else:
                    self._to_send.append((ref, target))
            case Drop(ref):
                self._drop(ref)
            case Define(function, code):
                self._functions[function] = code
            case Forget(function):
                del self._functions[function]
                for tile in self._tiles:
                    self.dropped.append(self._loaded.pop((function, tile), None))
            case Stop():
                self.stopped = True
            case _:
                assert_never(message)

    def arrive(self, message: Value) -> None:
        """Take in a value that another rank sent."""
        slot = self._slots.setdefault(message.ref, Slot())
        if slot.state is not State.EMPTY:
            raise ProtocolError(f"the value {message.ref} came to rank {self._rank} a second time")
        slot.packed = message.packed
        self._fill(message.ref, slot, message.cause, message.fault)

    # -- calls -----------------------------------------------------------------------------------------

    def next(self, tile: TileId) -> Call | None:
        """Take the next call that may start on a tile."""
        calls = self._calls[tile]
        return calls.popleft() if calls else None

    def has_calls(self, tile: TileId) -> bool:
        """Tell whether the tile has calls that have not ended, also such as wait for a value."""
        return self._assigned[tile] > 0

    def run(self, call: Call) -> tuple[Any, Fault | None]:
        """Make the call.

        Returns:
            Its value, or the fault that it ended with.
        """
        # In a context of its own: what the task sets (a decimal precision, say) ends with it.
        return contextvars.copy_context().run(self._run, call)

    def _run(self, call: Call) -> tuple[Any, Fault | None]:
        order = call.order
        tile = self._tiles[order.tile]
        running.set(
            Current(
                tile.id, self._rank, order.name, order.attempt, tile.queue, tile.device, self._backend, tile
            )
        )
        try:
            with on(tile):
                function = self._function(order.function, tile)
                args, kwargs = self.packer.unpack_call(
                    order.arguments, tile, lambda ref: self.value(ref, tile)
                )
                value = function(*args, **kwargs)
                del args, kwargs
                self._backend.finish(tile)
                value = self.packer.freeze(value)
                slot = self._slots[order.task]
                slot.value, slot.tile, slot.has_value = value, tile, True
                if slot.targets:
                    self._pack(slot)
                call.nbytes = nbytes(value)
                return value, None
        except BaseException as error:
            attempt = f", attempt {order.attempt}" if order.attempt else ""
            where = f"{order.name} (task {order.task}{attempt}) on tile {tile.id}, rank {self._rank}, "
            where += platform.node()
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            return None, describe(error, order.name, where)

    def ended(self, call: Call, value: Any, fault: Fault | None) -> None:
        """Enter what came of a call, and report it."""
        order = call.order
        slot = self._slots[order.task]
        self._end(call)
        if fault is None:
            small = None if slot.targets else self.packer.pack_small(value)
            self._tell(Done(order.task, call.nbytes, small))
        else:
            slot.value, slot.has_value, slot.packed = None, False, None
            self._tell(Broke(order.task, None, fault))
        self._fill(order.task, slot, order.task, fault)

    # -- values ----------------------------------------------------------------------------------------

    def slot(self, ref: Ref) -> Slot | None:
        """Return the place of a value, if this rank has heard of it."""
        return self._slots.get(ref)

    def value(self, ref: Ref, tile: Tile | None) -> Any:
        """Return a value that is here, such that it mixes with others of the tile."""
        slot = self._slots[ref]
        packed = slot.packed
        if not slot.has_value and packed is not None:
            slot.value, slot.tile = self.packer.freeze(self.packer.unpack(packed, tile)), tile
            slot.has_value, slot.packed = True, None
        return (
            slot.value if tile is None else self.packer.adopt(slot.value, tile, moved=tile is not slot.tile)
        )

    def outgoing(self, may_pack: bool) -> Sequence[tuple[RankId, Value]]:
        """Take the values that can be sent now.

        Args:
            may_pack: whether this thread may read the arrays of a tile.
        """
        ready = []
        for _ in range(len(self._to_send)):
            ref, target = self._to_send.popleft()
            slot = self._slots[ref]
            if slot.state is State.FULL and slot.packed is None:
                if not may_pack:
                    self._to_send.append((ref, target))
                    continue
                self._pack(slot)
            if slot.unsendable is not None:
                ready.append((target, Value(ref, None, ref, slot.unsendable)))
            else:
                ready.append((target, Value(ref, slot.packed, slot.cause, slot.fault)))
            slot.unsent -= 1
            if not slot.unsent and slot.has_value:
                slot.packed = None  # the host's copy has served
            if slot.dropped:
                self._drop(ref)
        return ready

    # -- the rest --------------------------------------------------------------------------------------

    def _assign(self, order: Assign) -> None:
        call = Call(order)
        self._slots[order.task] = Slot(order.name)
        self._assigned[order.tile] += 1
        broken: Slot | None = None
        for ref in order.inputs:
            slot = self._slots[ref]
            if slot.state is State.EMPTY:
                call.missing += 1
                slot.waiting.append(call)
            elif slot.state is State.BROKEN:
                broken = slot
        if broken is not None:
            self._give_up(call, broken)
        elif not call.missing:
            self._start(call)

    def _start(self, call: Call) -> None:
        self._calls[call.order.tile].append(call)
        self._runnable(call.order.tile)

    def _end(self, call: Call) -> None:
        call.ended = True
        self._assigned[call.order.tile] -= 1

    def _give_up(self, call: Call, broken: Slot) -> None:
        """End a call that cannot be made, and tell those who wait for it."""
        assert broken.fault is not None
        self._end(call)
        self._tell(Broke(call.order.task, broken.cause, broken.fault))
        self._fill(call.order.task, self._slots[call.order.task], broken.cause, broken.fault)

    def _fill(self, ref: Ref, slot: Slot, cause: TaskId | None, fault: Fault | None) -> None:
        slot.state = State.FULL if fault is None else State.BROKEN
        slot.cause, slot.fault = (None, None) if fault is None else (cause, fault)
        self._to_send.extend((ref, target) for target in slot.targets)
        slot.targets.clear()
        waiting, slot.waiting = slot.waiting, []
        for call in waiting:
            if call.ended:
                continue
            if fault is not None:
                self._give_up(call, slot)
            else:
                call.missing -= 1
                if not call.missing:
                    self._start(call)
        if slot.dropped:
            self._drop(ref)

    def _drop(self, ref: Ref) -> None:
        slot = self._slots[ref]
        if slot.state is State.EMPTY or slot.unsent:
            slot.dropped = True
        else:
            self.dropped.append(self._slots.pop(ref))

    def _pack(self, slot: Slot) -> None:
        try:
            slot.packed = self.packer.pack(slot.value)
        except Exception as error:
            # The value stays good where it is; whoever wants it elsewhere learns why it cannot go there.
            where = f"sending the value of {slot.name} from rank {self._rank}, {platform.node()}"
            slot.unsendable, slot.packed = describe(error, slot.name, where), Packed(b"")

    def _function(self, number: int, tile: Tile) -> Any:
        # Once for each tile: a function may hold arrays.
        loaded = self._loaded.get((number, tile.id))
        if loaded is None:
            loaded = self._loaded[number, tile.id] = self.packer.unpack(self._functions[number], tile)
        return loaded
