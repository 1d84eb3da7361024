"""Messages over MPI. The one module that imports mpi4py.

A message is a *frame* of at most `SLOT` bytes, which says what follows it, and maybe a *payload*. For
frames every rank has receives posted all the time, so nothing is ever probed for (probing crashes some
MPI libraries at scale). Frames are matched in the order of posting, which is why a ring of receives is
read in turn and keeps every sender's order. A payload is received when its frame announces it, into memory
of its exact size and in pieces of at most `PIECE` bytes, which any MPI can count.

A private copy of the world communicator keeps all of this out of the user's way.
"""

import os
import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NoReturn

import mpi4py

mpi4py.rc.initialize = False  # importing it must not start MPI: it may be the wrong one for this launcher
mpi4py.rc.finalize = True

from mpi4py import MPI

from sched.errors import LaunchError
from sched.model import DRIVER, RankId
from sched.transport.base import Buffer, Lane, Message

SLOT = 16 << 10
PIECE = 1 << 30
POSTED = 16
POSTED_AT_DRIVER = 64

_FRAME = struct.Struct("<IIQI")  # payload tag, number of buffers, bytes of body, whether the body follows
_LENGTH = struct.Struct("<Q")
_FIRST_TAG = len(Lane)


def library() -> str:
    """Return what the MPI library calls itself. It need not be started."""
    return MPI.Get_library_version().split("\n")[0].strip("\0 ")


class MpiTransport:
    """One rank's end; see `base.Transport`. Making one is collective over all ranks."""

    def __init__(self) -> None:
        if not MPI.Is_initialized():
            MPI.Init_thread()
        if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
            raise LaunchError(
                "this MPI was started without thread support (MPI_THREAD_SERIALIZED is needed): "
                "import nothing that starts MPI before sched, and leave mpi4py.rc.thread_level alone"
            )
        self._comm = MPI.COMM_WORLD.Dup()
        self.rank = RankId(self._comm.rank)
        self.size: int = self._comm.size
        shared = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
        self.shared_rank: int = shared.rank
        shared.Free()
        tag_ub = self._comm.Get_attr(MPI.TAG_UB) or 32767
        self._tags = int(tag_ub) - _FIRST_TAG
        self._next_tag = 0
        self._sending: deque[tuple[MPI.Request, object]] = deque()
        posted = POSTED_AT_DRIVER if self.rank == DRIVER else POSTED
        self._rings = [_Ring(self._comm, lane, posted) for lane in Lane] if self.size > 1 else []

    def allgather(self, item: Any) -> list[Any]:
        """Exchange one picklable object with every rank. Collective; for start-up only."""
        return self._comm.allgather(item)

    def send(self, target: RankId, lane: Lane, data: bytes, buffers: Sequence[Buffer] = ()) -> None:
        lengths = b"".join([_LENGTH.pack(memoryview(buffer).nbytes) for buffer in buffers])
        whole = len(lengths) + len(data)
        inline = _FRAME.size + whole <= SLOT
        tag = 0
        if buffers or not inline:
            tag = _FIRST_TAG + self._next_tag
            self._next_tag = (self._next_tag + 1) % self._tags
        frame = _FRAME.pack(tag, len(buffers), whole, not inline)
        if inline:
            self._start(frame + lengths + data, target, lane)
        else:
            self._start(frame, target, lane)
            self._start_pieces(lengths + data, target, tag)
        for buffer in buffers:
            self._start_pieces(buffer, target, tag)

    def receive(self) -> Message | None:
        self._reap()
        for ring in self._rings:
            message = ring.next()
            if message is not None:
                return message
        return None

    def close(self, grace: float) -> bool:
        deadline = time.monotonic() + grace
        barrier: MPI.Request | None = None
        while True:
            while self.receive() is not None:
                pass
            if barrier is None and not self._sending:
                barrier = self._comm.Ibarrier()
            if barrier is not None and barrier.Test():
                break
            if time.monotonic() > deadline:
                return False
            time.sleep(0.0005)
        # All that was announced has been sent by now, since every rank had sent all before it came here.
        while any(ring.is_receiving for ring in self._rings):
            self.receive()
        for ring in self._rings:
            ring.close()
        self._comm.Free()
        return True

    def abort(self, status: int) -> NoReturn:
        MPI.COMM_WORLD.Abort(status)
        os._exit(status)  # MPICH's may return while it waits for the others to be killed

    def _start(self, buffer: Buffer, target: int, tag: int) -> None:
        request = self._comm.Isend([buffer, MPI.BYTE], target, tag)
        if not request.Test():
            self._sending.append((request, buffer))

    def _start_pieces(self, buffer: Buffer, target: int, tag: int) -> None:
        view = memoryview(buffer).cast("B")
        for start in range(0, view.nbytes, PIECE):
            self._start(view[start : start + PIECE], target, tag)

    def _reap(self) -> None:
        """Let go of what is sent. A few at a time, in turn: a slow one must not hold back the rest."""
        for _ in range(min(4, len(self._sending))):
            if self._sending[0][0].Test():
                self._sending.popleft()
            else:
                self._sending.rotate(-1)


class _Ring:
    """The posted receives of one lane, and the payloads that are on their way."""

    def __init__(self, comm: MPI.Intracomm, lane: Lane, posted: int) -> None:
        self._comm = comm
        self._lane = lane
        self._slots = [bytearray(SLOT) for _ in range(posted)]
        self._requests = [comm.Irecv([slot, MPI.BYTE], MPI.ANY_SOURCE, lane) for slot in self._slots]
        self._turn = 0
        self._status = MPI.Status()
        # By source, in order. A message overtakes no other of the same source.
        self._arriving: dict[int, deque[_Arrival]] = {}

    def next(self) -> Message | None:
        frame = self._next_frame()
        if frame is not None:
            source, (tag, count, whole, follows), body = frame
            if not count and not follows and source not in self._arriving:
                return Message(RankId(source), self._lane, body, [])
            arrival = _Arrival(self._comm, source, tag, count, whole, body)
            self._arriving.setdefault(source, deque()).append(arrival)
        for source, queue in self._arriving.items():
            if queue[0].complete():
                arrival = queue.popleft()
                if not queue:
                    del self._arriving[source]
                return Message(RankId(source), self._lane, arrival.data, arrival.buffers)
        return None

    @property
    def is_receiving(self) -> bool:
        return bool(self._arriving)

    def close(self) -> None:
        for request in self._requests:
            request.Cancel()
            request.Wait()

    def _next_frame(self) -> tuple[int, tuple[int, int, int, int], bytes] | None:
        turn, status = self._turn, self._status
        if not self._requests[turn].Test(status):
            return None
        slot, source = self._slots[turn], status.Get_source()
        header = _FRAME.unpack_from(slot)
        body = bytes(memoryview(slot)[_FRAME.size : status.Get_count(MPI.BYTE)])
        self._requests[turn] = self._comm.Irecv([slot, MPI.BYTE], MPI.ANY_SOURCE, self._lane)
        self._turn = (turn + 1) % len(self._slots)
        return source, header, body


class _Arrival:
    """One message whose payload is being received: first its body, if that did not fit, then its buffers."""

    def __init__(
        self, comm: MPI.Intracomm, source: int, tag: int, count: int, whole: int, body: bytes
    ) -> None:
        self._comm, self._source, self._tag, self._count = comm, source, tag, count
        self._requests: list[MPI.Request] = []
        self.data: Buffer = b""
        self.buffers: list[Buffer] = []
        self._body: bytearray | None = None
        if len(body) == whole:
            self._open(body)
        else:
            self._body = self._expect(whole)

    def complete(self) -> bool:
        while self._requests:
            if not self._requests[-1].Test():
                return False
            self._requests.pop()
        if self._body is not None:
            body, self._body = self._body, None
            self._open(bytes(body))
            return self.complete()
        return True

    def _open(self, body: bytes) -> None:
        start = self._count * _LENGTH.size
        self.data = body[start:]
        self.buffers = [self._expect(length) for (length,) in _LENGTH.iter_unpack(body[:start])]

    def _expect(self, length: int) -> bytearray:
        memory = bytearray(length)
        view = memoryview(memory)
        for start in range(0, length, PIECE):
            piece = view[start : start + PIECE]
            self._requests.append(self._comm.Irecv([piece, MPI.BYTE], self._source, self._tag))
        return memory
