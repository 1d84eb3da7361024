"""A wire between two memories, as a transport is: pieces in order, several under way, and patience."""

import time
from collections import deque

from tests.gates import PATIENCE


class Wire:
    """One payload under way.

    Args:
        source: the memory that is sent.
        target: the one that it lands in.
        piece: bytes in a piece.
    """

    def __init__(self, source, target, piece):
        assert source.nbytes == target.nbytes
        cuts = [(at, min(at + piece, source.nbytes)) for at in range(0, source.nbytes, piece)]
        self.source, self.target = source, target
        self.unread, self.read, self.posted = deque(cuts), deque(), deque()

    @property
    def over(self):
        return not (self.unread or self.read or self.posted)

    def send(self):
        """Read what can be read."""
        while self.unread:
            data = self.source.read(*self.unread[0])
            if data is None:
                return
            self.read.append((self.unread.popleft(), data))

    def deliver(self):
        """Land what can be landed: a receive is posted only for a piece that has been sent."""
        while self.read:
            cut, data = self.read[0]
            space = self.target.space(*cut)
            if space is None:
                break
            space[:] = data
            self.read.popleft()
            self.source.sent(*cut)
            self.posted.append(cut)
        while self.posted and self.target.landed(*self.posted[0]):
            self.posted.popleft()


def run(*wires):
    """Move all there is to move."""
    patience = time.monotonic() + PATIENCE
    while not all(wire.over for wire in wires):
        assert time.monotonic() < patience, "nothing arrives"
        for wire in wires:
            wire.send()
            wire.deliver()


def across(backend, exported, piece, *, to=None):
    """Return what was exported as another rank would have it, with the tile's memory of `to`."""
    room = (to or backend).room(exported.memory.nbytes, True)
    run(Wire(exported.memory, room, piece))
    return exported._replace(memory=room)
