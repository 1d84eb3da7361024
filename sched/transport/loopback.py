"""Ranks that live in one process: for a laptop's single rank, and to test many without MPI."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from sched.errors import LaunchError
from sched.model import RankId
from sched.transport.base import Buffer, Lane, Memory, Message
from sched.transport.pieces import is_memory, ordinary_room, pieces
from sched.transport.streams import PIECE, Room


def loopback(size: int = 1, piece: int = PIECE) -> "list[Loopback]":
    """Make `size` ranks that can send to each other."""
    ends = [Loopback(RankId(rank), size, piece) for rank in range(size)]
    for end in ends:
        end.peers = ends
    return ends


class Loopback:
    """One rank's end; see `base.Transport`. Bytes are copied, as a wire would.

    A rank's memory is read, and filled, by that rank alone, when it calls: ranks may be threads.
    """

    def __init__(self, rank: RankId, size: int, piece: int = PIECE) -> None:
        self.rank = rank
        self.size = size
        self.room: Room = ordinary_room
        self.piece = piece
        self.peers: list[Loopback] = []
        self._inbox: list[deque[_Parcel]] = [deque() for _ in Lane for _ in range(size)]
        self._loading: deque[Iterator[None]] = deque()
        self._unloading: dict[int, tuple[Message, Iterator[None]]] = {}

    def send(self, target: RankId, lane: Lane, data: bytes, buffers: Sequence[Buffer | Memory] = ()) -> None:
        kinds = [(is_memory(b), b.nbytes if is_memory(b) else memoryview(b).nbytes) for b in buffers]
        parcel = _Parcel(self.rank, lane, bytes(data), kinds)
        self._loading.append(self._load(parcel, buffers))
        self._load_on()
        self.peers[target]._inbox[lane * self.size + self.rank].append(parcel)

    def receive(self) -> Message | None:
        self._load_on()
        for number, inbox in enumerate(self._inbox):
            if number not in self._unloading and inbox:
                self._unloading[number] = self._unload(inbox.popleft())
            if number in self._unloading:
                message, unloading = self._unloading[number]
                if _is_done(unloading):
                    del self._unloading[number]
                    return message
        return None

    def is_moving(self) -> bool:
        return bool(self._loading or self._unloading or any(self._inbox))

    def group(self, ranks: Sequence[RankId]) -> Any:
        raise LaunchError(
            "a task on several ranks needs MPI, and this run is one process without it: "
            "start it by `mpiexec -n N python -m sched run job.py`"
        )

    def close(self, grace: float) -> bool:
        for inbox in self._inbox:
            inbox.clear()
        self._unloading.clear()
        return True

    def abort(self, status: int) -> NoReturn:
        os._exit(status)

    def _load_on(self) -> None:
        for _ in range(len(self._loading)):
            loading = self._loading.popleft()
            if not _is_done(loading):
                self._loading.append(loading)

    def _load(self, parcel: "_Parcel", buffers: Sequence[Buffer | Memory]) -> Iterator[None]:
        """Copy the buffers to the wire; pause where they cannot be read."""
        for buffer, (_, nbytes) in zip(buffers, parcel.kinds, strict=True):
            for piece in pieces(buffer, nbytes, self.piece):
                while (what := piece.read()) is None:
                    yield
                parcel.wire.append(bytes(what))
                piece.sent()

    def _unload(self, parcel: "_Parcel") -> tuple[Message, Iterator[None]]:
        buffers = [self.room(nbytes, tile) for tile, nbytes in parcel.kinds]

        def unload() -> Iterator[None]:
            """Copy them from the wire; pause where nothing has come, or it cannot be taken."""
            for buffer, (_, nbytes) in zip(buffers, parcel.kinds, strict=True):
                for piece in pieces(buffer, nbytes, self.piece):
                    while not parcel.wire:
                        yield
                    while (where := piece.space()) is None:
                        yield
                    memoryview(where)[:] = parcel.wire.popleft()
                    while not piece.landed():
                        yield

        return Message(parcel.source, parcel.lane, parcel.data, buffers), unload()


@dataclass(slots=True)
class _Parcel:
    """A message on its way: what it says, and the pieces of its buffers that have been read."""

    source: RankId
    lane: Lane
    data: bytes
    kinds: list[tuple[bool, int]]  # of each buffer: whether it is a tile's memory, bytes
    wire: deque[bytes] = field(default_factory=deque)


_DONE = object()


def _is_done(moving: Iterator[None]) -> bool:
    """Go on to where it pauses; tell whether it has come to its end."""
    return next(moving, _DONE) is _DONE
