"""The contract of a backend, and the tile that is meant where none is named.

A backend knows one kind of array and the hardware under it. Everything else about values (containers,
pickling, sending) is the same for all of them and lives in the runtime.
"""

import enum
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol

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


class Rung(enum.Enum):
    """A step of the ladder by which arrays move, cheapest first; each move is recorded under its own.

    A move between ranks is recorded where it ends.
    """

    QUEUE = "same queue"
    ALIAS = "same device and context"
    DEVICE = "same context, other device"
    PROCESS = "same process, other context"
    POINTER = "device pointer to MPI"
    STAGED = "staged through the host"
    HOST = "host memory to MPI"
    SPILL = "spilled to the host"
    RELOAD = "back from the host"


class Exported(NamedTuple):
    """An array taken apart: contiguous memory, and how to read it.

    Attributes:
        memory: its bytes: ordinary memory, or a `transport.base.Memory`. The latter serves one message; its
            method `again()` returns the same for one more, which then waits for no other's target.
        dtype: as NumPy's `dtype.str`.
        shape: of the array.
        order: how `memory` is laid out.
    """

    memory: Any
    dtype: str
    shape: tuple[int, ...]
    order: Literal["C", "F"]


class Mark(Protocol):
    """What was submitted to a queue up to some moment."""

    def done(self) -> bool:
        """Tell, without waiting, whether all of it is computed."""


class Backend(Protocol):
    """One kind of array.

    `computed`, wherever it is asked for, says that the array is complete (its task has ended and was
    waited for), so there is nothing to wait for, and least of all for what runs on its queue now.

    Attributes:
        kind: "level_zero", "cpu" or "host".
        xp: the array module.
        background: whether tasks may run in threads beside the script's.
        readable: whether any thread may read arrays at any time, since it launches nothing.
        tiles: the tiles of this process.
        direct: whether MPI is given a tile's memory itself, and not a copy in the host's.
        may_touch: tells whether the calling thread may use the queues; set by the engine.
    """

    kind: str
    xp: ModuleType
    background: bool
    readable: bool
    tiles: tuple[Tile, ...]
    direct: bool
    may_touch: Callable[[], bool]

    def is_array(self, value: object) -> bool:
        """Tell whether this is an array that lies on a tile, and not simply in the host's memory."""

    def to_host(self, array: Any, *, computed: bool = False) -> Any:
        """Return a NumPy array of the same value. It may share memory: only read it."""

    def from_host(self, array: Any, tile: Tile) -> Any:
        """Return a new array on the tile with the value of a NumPy array."""

    def rebind(self, array: Any, tile: Tile, *, computed: bool = False) -> tuple[Any, Rung]:
        """Return the array such that it mixes with others of the tile, and by which rung it came there.

        What has to be copied is the array, not all of the memory that it is a view of.
        """

    def export(self, array: Any, *, computed: bool = False) -> Exported:
        """Take an array apart for sending. Its memory stays alive as long as what is returned.

        Nothing is copied unless the array is neither C- nor F-contiguous.
        """

    def restore(self, exported: Exported, tile: Tile | None) -> Any:
        """Make an array of what arrived: its memory is what `room` made, or ordinary memory.

        It uses that memory if it is the tile's, and copies it otherwise.

        Args:
            tile: where the array is to be; None: a NumPy array, which may share memory, so only read it.

        Raises:
            DeviceError: The tile's device has no such dtype.
        """

    def room(self, nbytes: int, tile: bool) -> Any:
        """Make memory for what arrives: ordinary (a writable buffer), or (True) of this rank's first tile.

        Memory that is not used any more is kept for a while and handed out again: fresh pages cost more
        than the copy into them. Any thread may call: memory is allocated, but nothing is launched.
        """

    def allocation(self, array: Any) -> tuple[int, int]:
        """Return the address and size, in bytes, of the whole memory that an array keeps alive."""

    def mark(self, tile: Tile) -> Mark | None:
        """Return a mark after all that was submitted to the tile; None if nothing can be pending."""

    def finish(self, tile: Tile) -> None:
        """Wait until everything that was submitted to the tile is computed, and what it held is free."""


_inside: ContextVar[Tile | None] = ContextVar("sched_ambient_tile", default=None)
_home: Tile | None = None


def ambient() -> Tile | None:
    """Return the tile on which arrays are made where no other is named."""
    return _inside.get() or _home


class on:
    """Make the tile the ambient one, in this thread or coroutine only."""

    __slots__ = ("_tile", "_token")

    def __init__(self, tile: Tile) -> None:
        self._tile = tile

    def __enter__(self) -> Tile:
        self._token = _inside.set(self._tile)
        return self._tile

    def __exit__(self, *_: object) -> None:
        _inside.reset(self._token)


def settle_at(tile: Tile | None) -> None:
    """Make the tile the ambient one of this process, wherever no `on` is in force."""
    global _home
    _home = tile
