"""A rank's half of the work: what it was told to do, and what has come of it.

All methods are called under the engine's lock. The values are kept in the `Store`; the calls themselves are
made by the `Runner`, without the lock.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from sched.backends.base import Backend
from sched.errors import ProtocolError
from sched.model import RankId, Ref, TaskId, TileId, assert_never
from sched.runtime.ledger import Stats
from sched.runtime.messages import (
    Answer,
    Ask,
    Assign,
    Broke,
    Conclude,
    Define,
    Done,
    Drop,
    Expect,
    Fault,
    Forget,
    Go,
    Part,
    Ready,
    Send,
    Stop,
    ToDriver,
    ToRank,
    Value,
)
from sched.runtime.packing import Packer
from sched.runtime.runner import Call, Runner
from sched.runtime.store import Slot, State, Store


class Worker:
    """The tables of one rank.

    Args:
        rank: this rank.
        backend: what its tiles are.
        tell: takes reports to the driver.
        runnable: is told the tile of each call that may start.
        group: makes a communicator of ranks, for a task on several.
        limit: bytes for each tile.
        check: find out who writes into arguments.
    """

    def __init__(
        self,
        rank: RankId,
        backend: Backend,
        tell: Callable[[ToDriver], None],
        runnable: Callable[[TileId], None],
        group: Callable[[Sequence[RankId]], Any],
        *,
        limit: int,
        check: bool,
    ) -> None:
        self.packer = Packer(backend)
        self.store = Store(self.packer, limit, check=check)
        self.runner = Runner(rank, backend, self.packer, self.store, group, check=check)
        self.stopped = False
        self._rank = rank
        self._tell = tell
        self._runnable = runnable
        tiles = [tile.id for tile in backend.tiles]
        self._calls: dict[TileId, deque[Call]] = {tile: deque() for tile in tiles}
        self._assigned: dict[TileId, int] = dict.fromkeys(tiles, 0)
        self._to_send: deque[tuple[Ref, RankId]] = deque()
        # Calls of tasks on several ranks that wait for the other ranks.
        self._gangs: dict[TaskId, Call] = {}

    # -- orders ----------------------------------------------------------------------------------------

    def obey(self, message: ToRank) -> None:
        """Take in one order of the driver."""
        slots = self.store.slots
        match message:
            case Assign():
                self._assign(message)
            case Expect(ref):
                # Unless the value was quicker than the news of it: the two come from different ranks.
                slots.setdefault(ref, Slot(ref))
            case Send(ref, target):
                slot = slots[ref]
                slot.unsent += 1
                if slot.state is State.EMPTY:
                    slot.targets.append(target)
                else:
                    self._to_send.append((ref, target))
            case Go(task, fault, cause):
                self._go(task, fault, cause)
            case Conclude(task, fault):
                slot = slots[task]
                if fault is not None:
                    self.store.empty(slot)
                self._fill(slot, task, fault)
            case Drop(ref):
                self._drop(ref)
            case Ask(number):
                self._tell(Answer(number, Stats(self.store.stats(), self.packer.moves.sums())))
            case Define(function, code):
                self.runner.define(function, code)
            case Forget(function):
                self.runner.forget(function)
            case Stop():
                self.stopped = True
            case _:
                assert_never(message)

    def arrive(self, message: Value) -> None:
        """Take in a value that another rank sent."""
        slot = self.store.slots.setdefault(message.ref, Slot(message.ref, message.name))
        if slot.state is not State.EMPTY:
            raise ProtocolError(f"the value {message.ref} came to rank {self._rank} a second time")
        slot.name = message.name
        if message.packed is not None:
            self.store.land(slot, message.packed)
        self._fill(slot, message.cause, message.fault)

    # -- calls -----------------------------------------------------------------------------------------

    def next(self, tile: TileId) -> Call | None:
        """Take the next call that may start on a tile."""
        calls = self._calls[tile]
        return calls.popleft() if calls else None

    def has_calls(self, tile: TileId) -> bool:
        """Tell whether the tile has calls that have not ended, also such as wait for a value."""
        return self._assigned[tile] > 0

    def ended(self, call: Call) -> None:
        """Enter what came of a call, and report it."""
        order, slot, fault = call.order, call.slot, call.fault
        value, call.value = call.value, None
        self._end(call)
        if slot is None:
            self._tell(Part(order.task, fault, None))
            self.store.dropped.append(value)
            return
        if fault is None:
            small = None if slot.targets else self.packer.pack_small(value)
            self._tell(Done(order.task, call.nbytes, small, call.seconds))
        else:
            self.store.empty(slot)
            self._tell(Broke(order.task, None, fault))
        if not order.ranks:  # else the other parts may yet fail: the driver will say
            self._fill(slot, order.task, fault)

    # -- values ----------------------------------------------------------------------------------------

    def slot(self, ref: Ref) -> Slot | None:
        """Return the place of a value, if this rank has heard of it."""
        return self.store.slots.get(ref)

    def owes(self) -> bool:
        """Tell whether values are still to be sent."""
        return bool(self._to_send)

    def outgoing(self, may_pack: bool) -> Sequence[tuple[RankId, Value]]:
        """Take the values that can be sent now.

        Args:
            may_pack: whether this thread may read the arrays of a tile.
        """
        ready = []
        for _ in range(len(self._to_send)):
            ref, target = self._to_send.popleft()
            slot = self.store.slots[ref]
            packed = slot.packed
            if slot.state is State.FULL and packed is None and slot.unsendable is None:
                if not may_pack:
                    self._to_send.append((ref, target))
                    continue
                packed = self.runner.pack(slot)
            if slot.unsendable is not None:
                ready.append((target, Value(ref, slot.name, None, ref, slot.unsendable)))
            else:
                ready.append((target, Value(ref, slot.name, packed, slot.cause, slot.fault)))
            slot.unsent -= 1
            if not slot.unsent:
                self.store.sent(slot)
            if slot.dropped:
                self._drop(ref)
        return ready

    # -- the rest --------------------------------------------------------------------------------------

    def _assign(self, order: Assign) -> None:
        slots = self.store.slots
        slot: Slot | None = None
        if not order.ranks or order.ranks[0] == self._rank:
            slot = slots[order.task] = Slot(order.task, order.name)
        call = Call(order, slot)
        for tile in order.tiles or (order.tile,):
            self._assigned[tile] += 1
        if order.ranks:
            self._gangs[order.task] = call
        broken: Slot | None = None
        for ref in order.inputs:
            source = slots[ref]
            if source.state is State.EMPTY:
                call.missing += 1
                source.waiting.append(call)
            elif source.state is State.BROKEN:
                broken = source
        if broken is not None:
            assert broken.fault is not None
            self._give_up(call, broken.fault, broken.cause)
        elif not call.missing:
            self._start(call)

    def _start(self, call: Call) -> None:
        if call.order.ranks and not call.ready:
            call.ready = True
            self._tell(Ready(call.order.task))
            return
        self._calls[call.order.tile].append(call)
        self._runnable(call.order.tile)

    def _go(self, task: TaskId, fault: Fault | None, cause: TaskId | None) -> None:
        call = self._gangs.pop(task, None)
        if call is None:  # it has ended here: this rank was the one that could not
            return
        if fault is None:
            self._start(call)
        else:
            self._give_up(call, fault, cause)

    def _end(self, call: Call) -> None:
        call.ended = True
        for tile in call.order.tiles or (call.order.tile,):
            self._assigned[tile] -= 1

    def _give_up(self, call: Call, fault: Fault, cause: TaskId | None) -> None:
        """End a call that cannot be made, and tell those who wait for it."""
        task = call.order.task
        self._end(call)
        self._gangs.pop(task, None)
        if call.slot is None:
            self._tell(Part(task, fault, cause))
            return
        self._tell(Broke(task, cause, fault))
        if not call.order.ranks:
            self._fill(call.slot, cause, fault)

    def _fill(self, slot: Slot, cause: TaskId | None, fault: Fault | None) -> None:
        slot.state = State.FULL if fault is None else State.BROKEN
        slot.cause, slot.fault = (None, None) if fault is None else (cause, fault)
        self._to_send.extend((slot.ref, target) for target in slot.targets)
        slot.targets.clear()
        waiting, slot.waiting = slot.waiting, []
        for call in waiting:
            if call.ended:
                continue
            if fault is not None:
                self._give_up(call, fault, cause)
            else:
                call.missing -= 1
                if not call.missing:
                    self._start(call)
        if slot.dropped:
            self._drop(slot.ref)

    def _drop(self, ref: Ref) -> None:
        slot = self.store.slots[ref]
        if slot.state is State.EMPTY or slot.unsent:
            slot.dropped = True
        else:
            self.store.drop(slot)
