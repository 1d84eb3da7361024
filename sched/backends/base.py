"""The contract of a backend, and the tile that is meant where none is named.

A backend knows one kind of array and the hardware under it. Everything else about values (containers,
pickling, sending) is the same for all of them and lives in the runtime.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

from sched.model import RankId, TileId


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """One schedulable piece of hardware, as the process that owns it sees it.

    Attributes:
        id: number in the whole run, from 0.
        rank: the rank that owns it.
        name: the device's own name.
        filter: how to name the device: a dpctl filter string, or "host".
        nbytes: the device's memory; 0 where it is the host's.
        device: the `dpctl.SyclDevice`, or None.
        queue: the one `dpctl.SyclQueue` of this tile, or None. Arrays on another queue do not mix with its.
    """

    id: TileId
    rank: RankId
    name: str
    filter: str
    nbytes: int = 0
    device: Any = None
    queue: Any = None


class Backend(Protocol):
    """One kind of array.

    Attributes:
        kind: "level_zero", "cpu" or "host".
        xp: the array module.
        background: whether tasks may run in threads beside the script's.
        readable: whether any thread may call `to_host` at any time, since it launches nothing.
        tiles: the tiles of this process.
    """

    kind: str
    xp: ModuleType
    background: bool
    readable: bool
    tiles: tuple[Tile, ...]

    def is_array(self, value: object) -> bool:
        """Tell whether this is an array that lies on a tile, and not simply in the host's memory."""

    def to_host(self, array: Any, *, computed: bool = False) -> Any:
        """Return a NumPy array of the same value, once it is computed. It may share memory: only read it.

        Args:
            computed: `finish` has been called since the array was made on one of the tiles, so there is
                nothing to wait for, and least of all for what runs there now.
        """

    def from_host(self, array: Any, tile: Tile) -> Any:
        """Return a new array on the tile with the value of a NumPy array."""

    def rebind(self, array: Any, tile: Tile) -> Any:
        """Return the array such that it mixes with others of the tile; copied only if it must be."""

    def finish(self, tile: Tile) -> None:
        """Wait until everything that was submitted to the tile is computed, and what it held is free."""


_inside: ContextVar[Tile | None] = ContextVar("sched_ambient_tile", default=None)
_home: Tile | None = None


def ambient() -> Tile | None:
    """Return the tile on which arrays are made where no other is named."""
    return _inside.get() or _home


@contextmanager
def on(tile: Tile) -> Iterator[Tile]:
    """Make the tile the ambient one, in this thread or coroutine only."""
    token = _inside.set(tile)
    try:
        yield tile
    finally:
        _inside.reset(token)


def settle_at(tile: Tile | None) -> None:
    """Make the tile the ambient one of this process, wherever no `on` is in force."""
    global _home
    _home = tile
