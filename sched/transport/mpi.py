"""Messages over MPI. The one module that imports mpi4py.

A message is announced by a *frame* of at most `SLOT` bytes; a small one is in its frame as a whole. The rest
follows as the pieces of a stream (`streams.py`). For frames every rank has receives posted all the time, so
nothing is ever probed for (probing crashes some MPI libraries at scale). Frames are matched in the order of
posting, which is why a ring of receives is read in turn and keeps every sender's order. Pieces are received
when a frame says that they are sent: the announcement, or, for those that could not be read yet, a later one.

A private copy of the world communicator keeps all of this out of the user's way.
"""

import os
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import mpi4py

mpi4py.rc.initialize = False  # importing it must not start MPI: it may be the wrong one for this launcher
mpi4py.rc.finalize = True

from mpi4py import MPI

from sched.errors import LaunchError
from sched.model import DRIVER, RankId
from sched.transport.base import Buffer, Lane, Memory, Message
from sched.transport.pieces import Piece, no_room, ordinary_room
from sched.transport.streams import PIECE, Arrival, Inflow, Outflow, Request, Room, pack

SLOT = 16 << 10
POSTED = 16
POSTED_AT_DRIVER = 64

_FRAME = struct.Struct("<IIQ")  # pieces that are sent with it, number of buffers, bytes of body
_MORE = 0xFFFFFFFF  # instead of a number of buffers: no message, but more pieces of those before
_BUSY = 4  # unfinished sends that `_reap` looks at


def library() -> str:
    """Return what the MPI library calls itself. It need not be started."""
    return MPI.Get_library_version().split("\n")[0].strip("\0 ")


class MpiTransport:
    """One rank's end; see `base.Transport`. Making one is collective over all ranks."""

    def __init__(self, piece: int = PIECE) -> None:
        if not MPI.Is_initialized():
            MPI.Init_thread()
        if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
            raise LaunchError(
                "this MPI was started without thread support (MPI_THREAD_SERIALIZED is needed): "
                "import nothing that starts MPI before sched, and leave mpi4py.rc.thread_level alone"
            )
        self._comm = MPI.COMM_WORLD.Dup()
        self._groups = MPI.COMM_WORLD.Dup()  # its own: `group` is called while another thread pumps
        self._grouping = threading.Lock()
        self.rank = RankId(self._comm.rank)
        self.size: int = self._comm.size
        self.room: Room = ordinary_room
        self.piece = piece
        shared = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
        self.shared_rank: int = shared.rank
        shared.Free()
        self._sending: deque[tuple[MPI.Request, Buffer, Piece | None]] = deque()
        self._outflows: dict[tuple[RankId, Lane], Outflow] = {}
        posted = POSTED_AT_DRIVER if self.rank == DRIVER else POSTED
        self._rings = [_Ring(self, self._comm, lane, posted) for lane in Lane] if self.size > 1 else []

    def allgather(self, item: Any) -> list[Any]:
        """Exchange one picklable object with every rank. Collective; for start-up only."""
        return self._comm.allgather(item)

    def send(self, target: RankId, lane: Lane, data: bytes, buffers: Sequence[Buffer | Memory] = ()) -> None:
        body, large = pack(data, buffers)
        inline = _FRAME.size + len(body) <= SLOT
        if inline and not large:
            self._start(_FRAME.pack(0, len(buffers), len(body)) + body, target, lane)
            return
        key = target, lane
        outflow = self._outflows.setdefault(key, Outflow())  # what could not be read yet goes first
        outflow.add(None if inline else body, large, self.piece)
        found = outflow.read()
        if not outflow:
            del self._outflows[key]
        frame = _FRAME.pack(len(found), len(buffers), len(body))
        self._start(frame + body if inline else frame, target, lane)
        for piece, what in found:
            self._start(what, target, _stream_tag(lane), piece)

    def receive(self) -> Message | None:
        self._reap()
        if self._outflows:
            self._read_on()
        for ring in self._rings:
            message = ring.next()
            if message is not None:
                return message
        return None

    def is_moving(self) -> bool:
        return bool(self._sending or self._outflows or any(ring.is_receiving for ring in self._rings))

    def group(self, ranks: Sequence[RankId]) -> MPI.Intracomm:
        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise LaunchError(
                "a task on several ranks needs an MPI that several threads may use at a time "
                "(MPI_THREAD_MULTIPLE), and this one was started with less: import nothing that starts MPI "
                "before sched, and leave mpi4py.rc.thread_level alone"
            )
        # Two threads that made one each at a time, with a tag each, hung now and then (MPICH, Open MPI 5.0).
        with self._grouping:
            everyone = self._groups.Get_group()
            members = everyone.Incl(list(ranks))
            try:
                return self._groups.Create_group(members)
            finally:
                members.Free()
                everyone.Free()

    def close(self, grace: float) -> bool:
        deadline = time.monotonic() + grace
        self.room = no_room
        for ring in self._rings:
            ring.drop()
        barrier: MPI.Request | None = None
        ended = False
        while not ended or any(ring.is_receiving for ring in self._rings):
            while self.receive() is not None:
                pass
            if barrier is None and not self._sending and not self._outflows:
                barrier = self._comm.Ibarrier()
            # Then all that was announced has been sent, since every rank had sent all before it came here.
            ended = ended or (barrier is not None and barrier.Test())
            if not ended:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.0005)
        for ring in self._rings:
            ring.close()
        self._comm.Free()
        self._groups.Free()
        return True

    def abort(self, status: int) -> NoReturn:
        MPI.COMM_WORLD.Abort(status)
        os._exit(status)  # MPICH's may return while it waits for the others to be killed

    def _start(self, buffer: Buffer, target: int, tag: int, piece: Piece | None = None) -> None:
        request = self._comm.Isend([buffer, MPI.BYTE], target, tag)
        if not request.Test():
            self._sending.append((request, buffer, piece))
        elif piece is not None:
            piece.sent()

    def _reap(self) -> None:
        """Let go of what is sent. A few at a time, in turn: a slow one must not hold back the rest."""
        busy = 0
        while busy < min(_BUSY, len(self._sending)):
            request, _, piece = self._sending[0]
            if request.Test():
                self._sending.popleft()
                if piece is not None:
                    piece.sent()
            else:
                self._sending.rotate(-1)
                busy += 1

    def _read_on(self) -> None:
        """Send what can be read by now: a piece of each stream in turn, since a copy of it may need room."""
        moved = True
        while moved:
            moved = False
            for key, outflow in list(self._outflows.items()):
                for piece, what in outflow.read(1):
                    target, lane = key
                    self._start(what, target, _stream_tag(lane), piece)
                    self._start(_FRAME.pack(1, _MORE, 0), target, lane)
                    self._outflows[key] = self._outflows.pop(key)  # the end of the line
                    moved = True
                if not outflow:
                    del self._outflows[key]


def _stream_tag(lane: Lane) -> int:
    return len(Lane) + lane


class _Ring:
    """The posted receives of one lane, and the streams that are on their way."""

    def __init__(self, end: MpiTransport, comm: MPI.Intracomm, lane: Lane, posted: int) -> None:
        self._end = end
        self._comm = comm
        self._lane = lane
        self._slots = [bytearray(SLOT) for _ in range(posted)]
        self._requests = [comm.Irecv([slot, MPI.BYTE], MPI.ANY_SOURCE, lane) for slot in self._slots]
        self._turn = 0
        self._status = MPI.Status()
        # By source. A message overtakes no other of the same source.
        self._inflows: dict[int, Inflow] = {}

    def next(self) -> Message | None:
        for _ in self._slots:
            frame = self._next_frame()
            if frame is None:
                break
            message = self._take_note(*frame)
            if message is not None:
                return message
        for source, inflow in list(self._inflows.items()):
            if inflow.advance():  # it goes to the end of the line: a tile's memory may be scarce
                self._inflows[source] = self._inflows.pop(source)
            arrival = inflow.take()
            if arrival is not None:
                if not inflow:
                    del self._inflows[source]
                return Message(RankId(source), self._lane, arrival.data, arrival.buffers, arrival.seconds)
        return None

    @property
    def is_receiving(self) -> bool:
        return bool(self._inflows)

    def drop(self) -> None:
        for inflow in self._inflows.values():
            inflow.drop()

    def close(self) -> None:
        for request in self._requests:
            request.Cancel()
            request.Wait()

    def _take_note(self, source: int, sent: int, count: int, nbytes: int, body: Buffer) -> Message | None:
        """Return the message that a frame holds, or let it stand in the queue."""
        inflow = self._inflows.get(source)
        if count != _MORE:
            inline = len(body) == nbytes
            if inflow is None and inline and not count:
                return Message(RankId(source), self._lane, body, [])
            arrival = Arrival(count, nbytes, body if inline else None, self._make_room, self._end.piece)
            if inflow is None and arrival.whole:
                return Message(RankId(source), self._lane, arrival.data, arrival.buffers)
            if inflow is None:
                inflow = self._inflows[source] = Inflow(self._post_from(source))
            inflow.expect(arrival)
        assert inflow is not None
        inflow.promise(sent)
        return None

    def _make_room(self, nbytes: int, tile: bool) -> Buffer | Memory:
        return self._end.room(nbytes, tile)

    def _post_from(self, source: int) -> Callable[[Buffer], Request]:
        comm, tag = self._comm, _stream_tag(self._lane)
        return lambda where: comm.Irecv([where, MPI.BYTE], source, tag)

    def _next_frame(self) -> tuple[int, int, int, int, Buffer] | None:
        turn, status = self._turn, self._status
        if not self._requests[turn].Test(status):
            return None
        slot, source = self._slots[turn], status.Get_source()
        sent, count, nbytes = _FRAME.unpack_from(slot)
        view = memoryview(slot)[_FRAME.size : status.Get_count(MPI.BYTE)]
        body: Buffer = bytearray(view) if count else bytes(view)  # buffers must be writable
        self._requests[turn] = self._comm.Irecv([slot, MPI.BYTE], MPI.ANY_SOURCE, self._lane)
        self._turn = (turn + 1) % len(self._slots)
        return source, sent, count, nbytes, body


def takes_device_memory() -> str | None:
    """Return how MPI says that it takes pointers to Level Zero memory; None if it does not say so.

    To be asked after MPI was started. Its word is no proof: see `runtime.selftest`.
    """
    import ctypes

    kinds = MPI.COMM_WORLD.Get_info().Get("mpi_memory_alloc_kinds") or ""
    if any(kind.strip().partition(":")[0] == "level_zero" for kind in kinds.split(",")):
        return f"mpi_memory_alloc_kinds={kinds}"
    # By the handle of mpi4py's module, which leads to the MPI library that it has loaded, and to no other.
    query = getattr(ctypes.CDLL(MPI.__file__), "MPIX_Query_ze_support", None)
    return "MPIX_Query_ze_support()=1" if query is not None and query() == 1 else None
