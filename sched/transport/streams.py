"""Messages with a payload: how they are laid out, and how one rank's arrive, piece by piece.

A message is a *body*, then its large buffers. The body holds the kinds and lengths of all buffers, then the
small buffers themselves, then the data. Body and large buffers are cut into pieces, and the pieces of all
messages from one rank on one lane form one *stream*: they are sent and received in that order, so there is
nothing else by which they must be told apart.

A receive is posted only for a piece that the sender says it has sent (`Inflow.promise`). `base.Memory` says
why.
"""

import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Protocol

from sched.transport.base import Buffer, Memory
from sched.transport.pieces import Nowhere, Piece, is_memory, pieces

PIECE = 1 << 30
"""Bytes in a piece of ordinary memory: less than 2 GiB, which any MPI can count."""

SMALL = 16 << 10
"""Bytes in a buffer that is copied into the body.

Two ranks, MPICH, ms for n buffers of as many KiB, each by itself and joined: 48 x 1: 0.042 and 0.017;
48 x 8: 0.15 and 0.06; 48 x 16: 0.17 and 0.10; 48 x 32: 0.22 and 0.17; 48 x 64: 0.33 and 0.35.
"""

_ALIGNED = 16
_HEAD = struct.Struct("<?Q")  # whether it is a tile's memory, bytes

Room = Callable[[int, bool], Buffer | Memory]


class Request(Protocol):
    """What MPI does meanwhile."""

    def Test(self) -> bool:
        """Tell whether it is done; also once more when it was."""


def pack(data: bytes, buffers: Sequence[Buffer | Memory]) -> tuple[bytes, list[tuple[Buffer | Memory, int]]]:
    """Return the body of a message, and the buffers that follow it, with their bytes."""
    if not buffers:
        return data, []
    heads: list[bytes] = []
    small: list[Buffer] = []
    large: list[tuple[Buffer | Memory, int]] = []
    for buffer in buffers:
        if is_memory(buffer):
            heads.append(_HEAD.pack(True, buffer.nbytes))
            large.append((buffer, buffer.nbytes))
            continue
        nbytes = memoryview(buffer).nbytes
        heads.append(_HEAD.pack(False, nbytes))
        if nbytes > SMALL:
            large.append((buffer, nbytes))
        elif nbytes:
            small += (buffer, bytes(-nbytes % _ALIGNED))
    gap = bytes(-len(heads) * _HEAD.size % _ALIGNED)
    return b"".join([*heads, gap, *small, data]), large


class Arrival:
    """A message that is being received.

    Args:
        count: the number of its buffers.
        nbytes: of its body.
        body: it, if it has come with the announcement. It must be writable if there are buffers.
        room: see `base.Transport`.
        piece: bytes in a piece of a tile's memory.
    """

    def __init__(self, count: int, nbytes: int, body: Buffer | None, room: Room, piece: int) -> None:
        self.data: Buffer = b""
        self.buffers: list[Buffer | Memory] = []
        self.unposted: deque[Piece] = deque()
        self._missing = 0
        self._announced = time.perf_counter()
        self._count, self._room, self._piece = count, room, piece
        self._body: Buffer | Memory | None = body
        if body is None:
            self._body = room(nbytes, False)
            self._expect(self._body, nbytes, PIECE)
        else:
            self._open()

    @property
    def opened(self) -> bool:
        """Whether it is known what follows the body."""
        return self._body is None

    @property
    def seconds(self) -> float:
        """How long ago it was announced."""
        return time.perf_counter() - self._announced

    @property
    def whole(self) -> bool:
        return self.opened and not self._missing

    def note_landed(self) -> None:
        """Take note that one more piece has landed."""
        self._missing -= 1
        if not self._missing and not self.opened:
            self._open()

    def drop(self) -> None:
        """Receive what has not been posted into nothing."""
        if self.opened:
            nowhere = Nowhere(0)
            self.unposted = deque(piece._replace(memory=nowhere) for piece in self.unposted)

    def _open(self) -> None:
        body, self._body = self._body, None
        assert body is not None
        assert not is_memory(body)
        if not self._count:
            self.data = body
            return
        view = memoryview(body).cast("B")
        start = self._count * _HEAD.size
        heads = _HEAD.iter_unpack(view[:start])
        start += -start % _ALIGNED
        for tile, nbytes in heads:
            if tile or nbytes > SMALL:
                buffer = self._room(nbytes, tile)
                self.buffers.append(buffer)
                self._expect(buffer, nbytes, self._piece if tile else PIECE)
            else:
                self.buffers.append(view[start : start + nbytes])
                start += nbytes + -nbytes % _ALIGNED
        self.data = view[start:]

    def _expect(self, buffer: Buffer | Memory, nbytes: int, longest: int) -> None:
        before = len(self.unposted)
        self.unposted.extend(pieces(buffer, nbytes, longest))
        self._missing += len(self.unposted) - before


class Inflow:
    """What one rank sends on one lane: its messages that are not whole yet, in order.

    Args:
        post: has MPI receive the stream's next piece into a buffer, which the request keeps alive.
    """

    def __init__(self, post: Callable[[Buffer], Request]) -> None:
        self._post_into = post
        self._promised = 0
        self._arrivals: deque[Arrival] = deque()
        self._posting: deque[Arrival] = deque()
        self._under_way: deque[tuple[Request, Arrival, Piece]] = deque()

    def __len__(self) -> int:
        return len(self._arrivals)

    def promise(self, count: int) -> None:
        """Take note that the sender has sent so many more pieces."""
        self._promised += count

    def expect(self, arrival: Arrival) -> None:
        """Let a message follow."""
        self._arrivals.append(arrival)
        self._posting.append(arrival)

    def advance(self) -> bool:
        """Post and complete what can be; tell whether there was anything."""
        moved = self._post()
        if self._land():
            self._post()  # in what has become free, before anybody goes to sleep
            return True
        return moved

    def take(self) -> Arrival | None:
        """Return the next message, if it is whole."""
        return self._arrivals.popleft() if self._arrivals and self._arrivals[0].whole else None

    def drop(self) -> None:
        """Ask no memory for anything any more: what comes is not wanted."""
        for arrival in self._arrivals:
            arrival.drop()
        nowhere = Nowhere(0)
        self._under_way = deque(
            (request, arrival, piece._replace(memory=nowhere)) for request, arrival, piece in self._under_way
        )

    def _post(self) -> bool:
        moved = False
        while self._posting:
            arrival = self._posting[0]
            while arrival.unposted:
                where = arrival.unposted[0].space() if self._promised else None
                if where is None:
                    return moved
                self._under_way.append((self._post_into(where), arrival, arrival.unposted.popleft()))
                self._promised -= 1
                moved = True
            if not arrival.opened:
                break
            self._posting.popleft()
        return moved

    def _land(self) -> bool:
        moved = False
        while self._under_way:
            request, arrival, piece = self._under_way[0]
            if not (request.Test() and piece.landed()):
                break
            self._under_way.popleft()
            arrival.note_landed()
            moved = True
        return moved


class Outflow:
    """What one rank is to be sent on one lane, in order, and cannot be read yet."""

    def __init__(self) -> None:
        self._unread: deque[Piece] = deque()

    def __len__(self) -> int:
        return len(self._unread)

    def add(self, body: bytes | None, large: list[tuple[Buffer | Memory, int]], piece: int) -> None:
        """Let a message follow: its body, unless that goes with its announcement, and its large buffers."""
        if body is not None:
            self._unread.extend(pieces(body, len(body), PIECE))
        self._unread.extend(
            chain.from_iterable(pieces(b, nbytes, piece if is_memory(b) else PIECE) for b, nbytes in large)
        )

    def read(self, most: int | None = None) -> list[tuple[Piece, Buffer]]:
        """Return what can be sent now, at most so many pieces."""
        found: list[tuple[Piece, Buffer]] = []
        while self._unread and len(found) != most:
            what = self._unread[0].read()
            if what is None:
                break
            found.append((self._unread.popleft(), what))
        return found
