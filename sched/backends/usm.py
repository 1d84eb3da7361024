"""A tile's memory on its way between ranks: handed to MPI itself, or staged through the host.

* `Span` is memory that MPI may be given: no byte is copied.
* `Staged` is memory that MPI must not see. Its pieces pass through *slots*: pinned memory of the host, which
  all values of a rank share. While one piece is sent, the next is copied into a slot of its own.
* A `Port` is the way into and out of the memory of one device and context. It has a queue of its own, so
  that no copy stands behind the task that computes there.

Nothing here waits, except `settle`: a copy that is not done yet is asked for again.

dpctl is handed in, and not imported.
"""

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy

from sched.backends.pool import LEAST, MIB, Pool
from sched.errors import ProtocolError

SLOT = 4 * MIB
"""Bytes of a slot, and so of the largest piece that is staged.

64 MiB between two ranks on the CPU device, which stands for a GPU (MPICH, two busy cores): 70 ms with slots
of 4 MiB, 230 ms with slots of 1 MiB. Handed to MPI without staging they take 4 ms.
"""

SLOTS = 2
"""Slots for each direction. Neither can take the other's, so what arrives never waits for what leaves."""

_HUGE = 2 * MIB
_MADV_HUGEPAGE = 14


class Piece:
    """A part of a USM allocation, for whoever asks by `__sycl_usm_array_interface__`.

    dpctl keeps this object alive in all that is made of it, and so does a kernel until it has ended.

    Attributes:
        owner: what keeps the memory.
    """

    def __init__(self, address: int, nbytes: int, queue: Any, owner: Any) -> None:
        self.owner = owner
        self.__sycl_usm_array_interface__ = {
            "data": (address, False),
            "shape": (nbytes,),
            "strides": None,
            "typestr": "|u1",
            "version": 1,
            "syclobj": queue,
        }


def view(address: int, nbytes: int, owner: Any) -> memoryview:
    """Return bytes at an address. It is not looked at here: the host may not be able to see it."""
    memory: Any = (ctypes.c_char * nbytes).from_address(address)
    memory.owner = owner
    return numpy.frombuffer(memory, numpy.uint8).data


class Span:
    """Memory that MPI may be given. See `transport.base.Memory`.

    Beside that it can `settle`, which waits until all that landed is there, and make itself `again`, for one
    message more: which then need not wait for the first one's target.

    Args:
        memory: its bytes. Whatever they belong to is kept alive by this view.
        usm: the same memory for dpctl; None where the rank has no tile, and this is ordinary memory.
    """

    __slots__ = ("memory", "nbytes", "usm")

    def __init__(self, memory: memoryview, usm: Any) -> None:
        self.memory = memory
        self.nbytes = memory.nbytes
        self.usm = usm

    def read(self, start: int, stop: int) -> memoryview | None:
        return self.memory[start:stop]

    def sent(self, start: int, stop: int) -> None:
        pass

    def space(self, start: int, stop: int) -> memoryview | None:
        return self.memory[start:stop]

    def landed(self, start: int, stop: int) -> bool:
        return True

    def settle(self) -> None:
        pass

    def again(self) -> "Span":
        return self


class Port:
    """The way into and out of the memory of one device and context.

    Args:
        dpctl: the module.
        queue: a queue of its own on that device, on which nothing but copies runs.
        may_touch: tells whether the calling thread may use it.
    """

    def __init__(self, dpctl: ModuleType, queue: Any, may_touch: Callable[[], bool]) -> None:
        self.queue = queue
        self.may_touch = may_touch
        self._dpctl = dpctl
        self._pool: Pool[Any] = Pool(self._allocate)
        self._slots: dict[bool, list[_Slot]] = {True: [], False: []}

    def room(self, nbytes: int, queue: Any) -> Any:
        """Return USM memory (`dpctl.memory`) for arrays on a queue of this device and context."""
        memory = self._dpctl.memory
        if nbytes < LEAST:
            return memory.MemoryUSMDevice(max(nbytes, 1), queue=queue)
        return memory.as_usm_memory(
            self._pool.lend(nbytes, lambda raw: Piece(raw._pointer, nbytes, queue, raw))
        )

    def part(self, address: int, nbytes: int, owner: Any) -> Any:
        """Return part of some USM memory as memory of its own, which keeps the owner alive."""
        return self._dpctl.memory.as_usm_memory(Piece(address, nbytes, self.queue, owner))

    def copy(self, target: Any, source: Any, nbytes: int) -> None:
        """Copy between USM memory and host buffers, and wait for it."""
        self.queue.memcpy(target, source, nbytes)

    def start(self, target: Any, source: Any, nbytes: int) -> Any:
        """Begin such a copy. Whoever has the event must keep both alive until it is complete."""
        return self.queue.memcpy_async(target, source, nbytes)

    def complete(self, event: Any) -> bool:
        """Tell, without waiting, whether the event has come to pass."""
        return bool(event.execution_status == self._dpctl.event_status_type.complete)

    def let_go(self) -> None:
        """Let go of the memory of which slots hold copies that have ended."""
        for slots in self._slots.values():
            for slot in slots:
                slot.ready()

    def slot(self, sending: bool, owed: bool) -> "_Slot | None":
        """Lend a slot.

        Args:
            sending: for which direction.
            owed: make one more if there is none.
        """
        slots = self._slots[sending]
        for slot in slots:
            if not slot.lent and slot.ready():
                break
        else:
            if len(slots) >= SLOTS and not owed:
                return None
            slot = _Slot(self)
            slots.append(slot)
        slot.lent = True
        return slot

    def give_back(self, slot: "_Slot", sending: bool) -> None:
        """Take a slot back. Its last copy may still run: it is lent again when that has ended."""
        slot.lent = False
        slots = self._slots[sending]
        if len(slots) > SLOTS and slot.ready():
            slots.remove(slot)

    def new_slot(self) -> Any:
        """Make pinned memory of the host."""
        return self._dpctl.memory.MemoryUSMHost(SLOT, queue=self.queue)

    def _allocate(self, nbytes: int) -> Any:
        make = self._dpctl.memory.MemoryUSMDevice
        if not self.queue.sycl_device.is_cpu or nbytes < _HUGE:
            return make(nbytes, queue=self.queue)
        raw = make(nbytes, alignment=_HUGE, queue=self.queue)
        # A hint, and so is its failure: receiving 64 MiB into fresh pages takes a thirtieth of the time.
        ctypes.CDLL(None).madvise(ctypes.c_void_p(raw._pointer), ctypes.c_size_t(nbytes), _MADV_HUGEPAGE)
        return raw


class _Slot:
    """Pinned memory of the host that holds one piece at a time.

    Attributes:
        memory: for dpctl.
        bytes: the same, for MPI.
        users: how many messages send the piece that is in it.
        lent: whether somebody has it.
    """

    __slots__ = ("_event", "_held", "_port", "bytes", "lent", "memory", "users")

    def __init__(self, port: Port) -> None:
        self.memory = port.new_slot()
        self.bytes = memoryview(self.memory)
        self.users = 0
        self.lent = False
        self._port = port
        self._event: Any = None
        self._held: Any = None

    def fill(self, source: Any, nbytes: int) -> None:
        """Begin to copy a piece into it."""
        self._event, self._held = self._port.start(self.memory, source, nbytes), source

    def empty(self, target: Any, nbytes: int) -> Any:
        """Begin to copy a piece out of it, and return the event."""
        self._event, self._held = self._port.start(target, self.memory, nbytes), target
        return self._event

    def ready(self) -> bool:
        """Tell whether its last copy has ended."""
        if self._event is None or self._port.complete(self._event):
            self._event = self._held = None
            return True
        return False


class Staged:
    """Memory that passes through slots. See `transport.base.Memory`.

    Several messages may send it at a time: those that are at the same piece share its slot. A message
    that has no slot is owed one, because those who have them may send to a rank that is busy for long;
    one that arrives has to wait for one of the few.

    Args:
        port: that of the device and context where the memory is.
        usm: the memory, a `dpctl.memory` object.
        nbytes: how many of its bytes.
    """

    __slots__ = ("_events", "_port", "_slots", "nbytes", "usm")

    def __init__(self, port: Port, usm: Any, nbytes: int) -> None:
        self.usm = usm
        self.nbytes = nbytes
        self._port = port
        self._slots: dict[tuple[int, int], _Slot] = {}
        self._events: list[Any] = []

    def read(self, start: int, stop: int) -> memoryview | None:
        if not self._port.may_touch():
            return None
        slot = self._load(start, stop, owed=not self._slots)
        if slot is None:
            return None
        if stop < self.nbytes:
            self._load(stop, min(2 * stop - start, self.nbytes), owed=False)
        if not slot.ready():
            return None
        slot.users += 1
        return slot.bytes[: stop - start]

    def sent(self, start: int, stop: int) -> None:
        slot = self._slots[start, stop]
        slot.users -= 1
        if not slot.users:
            del self._slots[start, stop]
            self._port.give_back(slot, sending=True)

    def space(self, start: int, stop: int) -> memoryview | None:
        self._check(start, stop)
        slot = self._port.slot(sending=False, owed=False) if self._port.may_touch() else None
        if slot is None:
            return None
        self._slots[start, stop] = slot
        return slot.bytes[: stop - start]

    def landed(self, start: int, stop: int) -> bool:
        if not self._port.may_touch():
            return False
        slot = self._slots.pop((start, stop))
        self._events.append(slot.empty(self._part(start, stop), stop - start))
        self._port.give_back(slot, sending=False)
        return True

    def settle(self) -> None:
        for event in self._events:
            event.wait()
        self._events.clear()
        self._port.let_go()

    def again(self) -> "Staged":
        return Staged(self._port, self.usm, self.nbytes)

    def _load(self, start: int, stop: int, *, owed: bool) -> _Slot | None:
        slot = self._slots.get((start, stop))
        if slot is None:
            self._check(start, stop)
            slot = self._port.slot(sending=True, owed=owed)
            if slot is not None:
                self._slots[start, stop] = slot
                slot.fill(self._part(start, stop), stop - start)
        return slot

    def _part(self, start: int, stop: int) -> Any:
        return self._port.part(self.usm._pointer + start, stop - start, self.usm)

    def _check(self, start: int, stop: int) -> None:
        if stop - start > SLOT:
            raise ProtocolError(f"a piece of {stop - start} bytes was asked for, and a slot has {SLOT}")
