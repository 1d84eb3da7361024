"""What a rank holds on its tiles, and what it has moved: bytes and seconds, as `Scheduler.stats` shows them.

It counts what the runtime itself has placed: values, copies of them, and memory in which they land. What a
task allocates while it runs is not seen, unless the task states it (`memory=`).
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from sched.backends.base import Rung
from sched.model import RankId, TileId


class TileStats(NamedTuple):
    """The values on one tile, in bytes.

    Attributes:
        tile: its number in the run.
        rank: the rank that owns it.
        now: on the tile at this moment.
        peak: the most there has been.
        limit: of the tile (`--tile-memory`).
        spilled: of its values, what waits in the host's memory at this moment.
    """

    tile: TileId
    rank: RankId
    now: int
    peak: int
    limit: int
    spilled: int


class MoveStats(NamedTuple):
    """What went by one rung: how often, bytes in all, seconds in all."""

    times: int
    nbytes: int
    seconds: float


class Stats(NamedTuple):
    """A run so far.

    Attributes:
        tiles: every tile, by number.
        moves: by the name of the rung (see `backends.base.Rung`), over all ranks.
    """

    tiles: tuple[TileStats, ...]
    moves: Mapping[str, MoveStats]

    @classmethod
    def of(cls, reports: Iterable["Stats"]) -> "Stats":
        """Put together what the ranks report."""
        tiles: list[TileStats] = []
        moves: dict[str, MoveStats] = {}
        for report in reports:
            tiles += report.tiles
            for rung, more in report.moves.items():
                times, nbytes, seconds = moves.get(rung, (0, 0, 0.0))
                moves[rung] = MoveStats(times + more.times, nbytes + more.nbytes, seconds + more.seconds)
        return cls(tuple(sorted(tiles)), moves)


class _Move:
    """One move while it is being made; whoever makes it says by which rung."""

    __slots__ = ("rung",)

    def __init__(self) -> None:
        self.rung: Rung | None = None


class Moves:
    """Counts moves by rung. Any thread may enter one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[Rung, list[float]] = {}

    def note(self, rung: Rung, nbytes: int, seconds: float = 0.0) -> None:
        """Enter one move."""
        with self._lock:
            sums = self._sums.setdefault(rung, [0, 0, 0.0])
            sums[0] += 1
            sums[1] += nbytes
            sums[2] += seconds

    @contextmanager
    def timed(self, nbytes: int) -> Iterator[_Move]:
        """Enter the move that is made inside, if it says by which rung."""
        move, begun = _Move(), time.perf_counter()
        yield move
        if move.rung is not None:
            self.note(move.rung, nbytes, time.perf_counter() - begun)

    def sums(self) -> dict[str, MoveStats]:
        """Return what has been entered, by the name of the rung."""
        with self._lock:
            return {rung.value: MoveStats(int(n), int(b), s) for rung, (n, b, s) in self._sums.items()}


Holdings = Mapping[int, int]
"""Addresses of allocations, and their sizes: what a value keeps alive on a tile."""


class Ledger:
    """Bytes on each tile of a rank. An allocation that several values share counts once.

    Its callers hold a lock.

    Args:
        tiles: of this rank.
        limit: bytes for each.
    """

    def __init__(self, tiles: Iterator[TileId] | tuple[TileId, ...], limit: int) -> None:
        self.limit = limit
        self.now: dict[TileId, int] = dict.fromkeys(tiles, 0)
        self.peak = dict(self.now)
        self.spilled = dict(self.now)
        # Promised to calls that run.
        self.reserved = dict(self.now)
        self._users: dict[TileId, Counter[int]] = defaultdict(Counter)

    def add(self, tile: TileId, holdings: Holdings) -> None:
        """Count what a value keeps alive."""
        users = self._users[tile]
        for address, size in holdings.items():
            users[address] += 1
            if users[address] == 1:
                self.now[tile] += size
        self.peak[tile] = max(self.peak[tile], self.now[tile])

    def remove(self, tile: TileId, holdings: Holdings) -> None:
        """Count it out."""
        users = self._users[tile]
        for address, size in holdings.items():
            users[address] -= 1
            if not users[address]:
                del users[address]
                self.now[tile] -= size

    def room(self, tile: TileId) -> int:
        """Return how many bytes still fit; negative if there are too many already."""
        return self.limit - self.now[tile] - self.reserved[tile]
