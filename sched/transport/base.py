"""The contract of a transport: bytes and buffers to a rank, in order, without waiting.

* `send` returns at once. The caller leaves `data` and `buffers` unchanged from then on; the transport
  keeps them alive until they are sent.
* `receive` never waits. On one lane, messages from one rank arrive in the order in which they were sent.
  Two lanes know nothing of each other: a large value on `Lane.VALUES` delays no order on `Lane.CONTROL`.
* Only one thread at a time may call (the caller has a lock; MPI need only be THREAD_SERIALIZED).
* Everything moves only while somebody calls `receive`.
"""

import enum
from collections.abc import Sequence
from typing import NamedTuple, NoReturn, Protocol

from sched.model import RankId

Buffer = bytes | bytearray | memoryview


class Lane(enum.IntEnum):
    """Which queue a message stands in."""

    CONTROL = 0
    VALUES = 1


class Message(NamedTuple):
    """What arrived: `data` as it was sent, and as many buffers, each as long as the one that was sent."""

    source: RankId
    lane: Lane
    data: Buffer
    buffers: list[Buffer]


class Transport(Protocol):
    """One rank's end of the wire."""

    rank: RankId
    size: int

    def send(self, target: RankId, lane: Lane, data: bytes, buffers: Sequence[Buffer] = ()) -> None:
        """Send `data`, and `buffers` (each contiguous, any length), to another rank."""

    def receive(self) -> Message | None:
        """Return the next message that has arrived whole, if there is one."""

    def close(self, grace: float) -> bool:
        """End together with all other ranks: every rank calls this, and drops what still arrives.

        Returns:
            False if some rank has not come to its own `close` within `grace` seconds.
        """

    def abort(self, status: int) -> NoReturn:
        """End all ranks now, with this exit status."""
