"""The contract of a transport: bytes and buffers to a rank, in order, without waiting.

* `send` returns at once. The caller leaves `data` and `buffers` unchanged from then on; the transport
  keeps them alive until they are sent.
* A buffer is ordinary memory, or `Memory` of a tile, which travels in pieces. What was sent from the one
  kind arrives in the same kind, in memory that `room` makes; small ordinary buffers share one.
* `receive` never waits. On one lane, messages from one rank arrive in the order in which they were sent.
  Two lanes know nothing of each other: a large value on `Lane.VALUES` delays no order on `Lane.CONTROL`.
* Only one thread at a time may call (the caller has a lock; MPI need only be THREAD_SERIALIZED). `group`
  alone is for any thread, at any time.
* Everything moves only while somebody calls `receive`.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

from sched.model import RankId

Buffer = bytes | bytearray | memoryview


class Memory(Protocol):
    """Memory of a tile: a payload leaves it, or lands in it, in pieces.

    Pieces are `[start, stop)` in bytes, in order. What `read` and `space` return is touched by MPI alone, and
    may be memory that the host cannot see. Several pieces may be under way at a time. Any method may be
    called by any thread that pumps, under the engine's lock.

    A transport asks for `space` only when the sender has `read` the piece. So what `space` lends comes back
    as soon as MPI has moved the bytes and `landed` takes them; it never waits for another rank's `read`.
    Memory that is lent from a small stock needs this: else a ring of ranks could hold all of it, each
    waiting for the next one's.
    """

    nbytes: int

    def read(self, start: int, stop: int) -> Buffer | None:
        """Return a piece to be sent; None if that is not possible at this moment: ask again later."""

    def sent(self, start: int, stop: int) -> None:
        """Take note that a piece that `read` returned has left."""

    def space(self, start: int, stop: int) -> Buffer | None:
        """Return where a piece is to be received; None if that is not possible at this moment."""

    def landed(self, start: int, stop: int) -> bool:
        """Take note that a piece is in what `space` returned. False: not now, tell it again."""


class Lane(enum.IntEnum):
    """Which queue a message stands in."""

    CONTROL = 0
    VALUES = 1


class Message(NamedTuple):
    """What arrived: `data` as it was sent, and as many buffers, each as long as the one that was sent.

    It took `seconds` from when it was announced to when it was whole; 0 if it came at once.
    """

    source: RankId
    lane: Lane
    data: Buffer
    buffers: list[Buffer | Memory]
    seconds: float = 0.0


class Transport(Protocol):
    """One rank's end of the wire.

    Attributes:
        rank: this rank.
        size: the number of ranks.
        piece: bytes in a piece of a tile's memory, the same on all ranks. It may be changed while nothing is
            under way.
        room: makes memory for a buffer of so many bytes that arrives: ordinary memory (writable, aligned to
            16 bytes), or (True) a tile's, for which it may also make ordinary memory. It is set before
            anything can arrive; at first all that it makes lies in the host's memory.
    """

    rank: RankId
    size: int
    piece: int
    room: Callable[[int, bool], Buffer | Memory]

    def send(self, target: RankId, lane: Lane, data: bytes, buffers: Sequence[Buffer | Memory] = ()) -> None:
        """Send `data`, and `buffers` (each contiguous, any length), to another rank."""

    def receive(self) -> Message | None:
        """Return the next message that has arrived whole, if there is one."""

    def is_moving(self) -> bool:
        """Tell whether anything is on its way that `receive` would bring forward."""

    def group(self, ranks: Sequence[RankId]) -> Any:
        """Make a communicator of these ranks, in this order, for a task that runs on all of them.

        Each of them calls it, with the same list, and waits here for the others. So ranks that are in several
        groups make them in the same order; on one rank they are made one at a time.

        Returns:
            An `mpi4py.MPI.Intracomm`, which the caller frees.

        Raises:
            LaunchError: There is no MPI, or several threads may not use it at a time.
        """

    def close(self, grace: float) -> bool:
        """End together with all other ranks: every rank calls this, and drops what still arrives.

        Returns:
            False if some rank has not come to its own `close` within `grace` seconds, or has not been able
            to send what it had announced.
        """

    def abort(self, status: int) -> NoReturn:
        """End all ranks now, with this exit status."""
