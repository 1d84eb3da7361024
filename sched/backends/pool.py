"""Memory that is lent, and lent again when nobody has it any more.

Fresh pages cost more than the copy into them: a 64 MiB value is received at 0.4 GB/s into fresh USM memory
of the CPU device, and at 10 GB/s into memory that was used before.

What is lent stands behind a *borrower*, an object that everything that uses the memory keeps alive. When it
dies, the memory comes back. A borrower may die in any thread and at any moment, also inside `lend` itself,
so its finaliser waits for nothing: where it cannot have the lock it lets the memory go.
"""

import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy

Raw = TypeVar("Raw")
Borrower = TypeVar("Borrower")

MIB = 1 << 20

LEAST = MIB
"""Bytes of the smallest memory that is kept."""

KEPT = 256 * MIB
"""Bytes that are kept at most."""


class Pool(Generic[Raw]):
    """Keeps memory of one kind.

    Args:
        make: makes memory of so many bytes.
        kept: bytes that are kept at most.
        least: bytes of the smallest memory that is kept.
    """

    def __init__(self, make: Callable[[int], Raw], kept: int = KEPT, least: int = LEAST) -> None:
        self._make = make
        self._limit = kept
        self._least = least
        self._lock = threading.Lock()
        self._kept: list[tuple[int, Raw]] = []  # the last was used last, so its pages are warmest

    @property
    def nbytes(self) -> int:
        """Bytes that are kept, and lent to nobody."""
        return sum(size for size, _ in self._kept)

    def lend(self, nbytes: int, to: Callable[[Raw], Borrower]) -> Borrower:
        """Make a borrower of memory of at least so many bytes.

        Args:
            nbytes: how many.
            to: makes the borrower, which must not be the memory itself. It can be referred to weakly.

        Raises:
            Exception: Whatever `make` raises, after all that was kept has been let go of.
        """
        if nbytes < self._least:
            return to(self._fresh(max(nbytes, 1)))
        size = rounded(nbytes)
        raw = self._take(size)
        if raw is None:
            raw = self._fresh(size)
        borrower = to(raw)
        weakref.finalize(borrower, self._back, size, raw).atexit = False
        return borrower

    def clear(self) -> None:
        """Let go of all that is kept."""
        with self._lock:
            kept, self._kept = self._kept, []
        del kept

    def _fresh(self, size: int) -> Raw:
        try:
            return self._make(size)
        except Exception:
            if not self._kept:
                raise
            self.clear()
            return self._make(size)

    def _take(self, size: int) -> Raw | None:
        with self._lock:
            for index in range(len(self._kept) - 1, -1, -1):
                if self._kept[index][0] == size:
                    return self._kept.pop(index)[1]
        return None

    def _back(self, size: int, raw: Raw) -> None:
        if size > self._limit or not self._lock.acquire(blocking=False):
            return
        old = []
        try:
            room = self._limit - size
            while self.nbytes > room:
                old.append(self._kept.pop(0))
            self._kept.append((size, raw))
        finally:
            self._lock.release()


def rounded(nbytes: int) -> int:
    """Round up by at most an eighth, so that memory for one value serves for others of about its size."""
    step = 1 << max(nbytes.bit_length() - 4, 0)
    return -(-nbytes // step) * step


class HostPool:
    """Ordinary memory. NumPy asks for huge pages where it is large."""

    def __init__(self) -> None:
        self._pool: Pool[numpy.ndarray] = Pool(_bytes)

    def room(self, nbytes: int) -> memoryview:
        """Make a writable buffer of so many bytes, with anything in it."""
        return self._pool.lend(nbytes, lambda raw: raw[:nbytes]).data


def _bytes(size: int) -> numpy.ndarray:
    return numpy.empty(size, numpy.uint8)
