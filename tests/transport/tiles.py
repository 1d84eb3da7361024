"""A stand-in for a tile's memory: the transport sees nothing but copies of pieces, and not at once."""

from dataclasses import dataclass


@dataclass
class Stock:
    """How many pieces the memories of a rank may lend at a time."""

    free: int = 4


class Staged:
    """Memory, as `base.Memory` has it, which the host cannot see.

    Args:
        content: what is in it at first.
        stock: what it lends from. None is free: it refuses.
        refusals: how many times each method says no before each piece.
    """

    def __init__(self, content: bytes, stock: Stock, refusals: int = 0) -> None:
        self.nbytes = len(content)
        self.stock = stock
        self._content = bytearray(content)
        self._refusals = refusals
        self._refused: dict[tuple[str, int], int] = {}
        self._sent = 0
        self._lent: dict[int, bytearray] = {}

    def __bytes__(self) -> bytes:
        return bytes(self._content)

    @property
    def has_left(self) -> bool:
        return self._sent == self.nbytes

    def read(self, start: int, stop: int) -> bytearray | None:
        if self._says_no("read", start) or not self.stock.free:
            return None
        self.stock.free -= 1
        self._lent[start] = self._content[start:stop]
        return self._lent[start]

    def sent(self, start: int, stop: int) -> None:
        self._lent.pop(start)[:] = b"?" * (stop - start)  # somebody else uses it from now on
        self.stock.free += 1
        self._sent += stop - start

    def space(self, start: int, stop: int) -> bytearray | None:
        if self._says_no("space", start) or not self.stock.free:
            return None
        self.stock.free -= 1
        self._lent[start] = bytearray(stop - start)
        return self._lent[start]

    def landed(self, start: int, stop: int) -> bool:
        if self._says_no("landed", start):
            return False
        self._content[start:stop] = self._lent.pop(start)
        self.stock.free += 1
        return True

    def _says_no(self, method: str, start: int) -> bool:
        refused = self._refused[method, start] = self._refused.get((method, start), 0) + 1
        return refused <= self._refusals
