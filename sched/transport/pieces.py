"""Payloads in pieces: ordinary memory goes by the same protocol as a tile's."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from sched.transport.base import Buffer, Memory

if TYPE_CHECKING:
    from typing_extensions import TypeIs


def is_memory(buffer: Buffer | Memory) -> "TypeIs[Memory]":
    """Tell a tile's memory from ordinary memory, which is anything else that has the buffer protocol."""
    return hasattr(buffer, "landed")  # isinstance with a protocol costs ten times as much


def ordinary_room(nbytes: int, tile: bool) -> Buffer | Memory:
    """Make memory of the host's for whatever arrives: the first value of `Transport.room`."""
    memory = bytearray(nbytes)
    return Plain(memory) if tile else memory


def no_room(nbytes: int, tile: bool) -> Buffer | Memory:
    """Make memory for what is to be dropped."""
    return Nowhere(nbytes) if tile else bytearray(nbytes)


class Plain:
    """Ordinary memory, as a `Memory`: every piece is there at once."""

    def __init__(self, buffer: Buffer) -> None:
        view = memoryview(buffer)
        self.nbytes = view.nbytes
        self._bytes = view.cast("B") if view.nbytes else memoryview(b"")  # a view with a 0 cannot be cast

    def __bytes__(self) -> bytes:
        return bytes(self._bytes)

    def read(self, start: int, stop: int) -> Buffer | None:
        return self._bytes[start:stop]

    def sent(self, start: int, stop: int) -> None:
        pass

    def space(self, start: int, stop: int) -> Buffer | None:
        return self._bytes[start:stop]

    def landed(self, start: int, stop: int) -> bool:
        return True


class Nowhere:
    """Takes in what nobody wants any more, one piece at a time."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._lent = False

    def read(self, start: int, stop: int) -> Buffer | None:
        return None

    def sent(self, start: int, stop: int) -> None:
        pass

    def space(self, start: int, stop: int) -> Buffer | None:
        if self._lent:
            return None
        self._lent = True
        return bytearray(stop - start)

    def landed(self, start: int, stop: int) -> bool:
        self._lent = False
        return True


class Piece(NamedTuple):
    """A part of a payload that moves as one."""

    memory: Memory
    start: int
    stop: int

    def read(self) -> Buffer | None:
        return self.memory.read(self.start, self.stop)

    def sent(self) -> None:
        self.memory.sent(self.start, self.stop)

    def space(self) -> Buffer | None:
        return self.memory.space(self.start, self.stop)

    def landed(self) -> bool:
        return self.memory.landed(self.start, self.stop)


def pieces(buffer: Buffer | Memory, nbytes: int, longest: int) -> Iterator[Piece]:
    """Cut a payload of `nbytes` into pieces of at most `longest` bytes."""
    memory = buffer if is_memory(buffer) else Plain(buffer)
    for start in range(0, nbytes, longest):
        yield Piece(memory, start, min(start + longest, nbytes))
