"""Ranks that live in one process: for a laptop's single rank, and to test many without MPI."""

import os
from collections import deque
from collections.abc import Sequence
from typing import NoReturn

from sched.model import RankId
from sched.transport.base import Buffer, Lane, Message


def loopback(size: int = 1) -> "list[Loopback]":
    """Make `size` ranks that can send to each other."""
    ends = [Loopback(RankId(rank), size) for rank in range(size)]
    for end in ends:
        end.peers = ends
    return ends


class Loopback:
    """One rank's end; see `base.Transport`. Bytes are copied, as a wire would."""

    def __init__(self, rank: RankId, size: int) -> None:
        self.rank = rank
        self.size = size
        self.peers: list[Loopback] = []
        self._inbox: deque[Message] = deque()

    def send(self, target: RankId, lane: Lane, data: bytes, buffers: Sequence[Buffer] = ()) -> None:
        copies: list[Buffer] = [bytearray(buffer) for buffer in buffers]
        self.peers[target]._inbox.append(Message(self.rank, lane, bytes(data), copies))

    def receive(self) -> Message | None:
        return self._inbox.popleft() if self._inbox else None

    def close(self, grace: float) -> bool:
        self._inbox.clear()
        return True

    def abort(self, status: int) -> NoReturn:
        os._exit(status)
