"""NumPy arrays in the host's memory: needs no oneAPI, and is what the others are compared with."""

import platform
from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal

import numpy

from sched.backends.base import Exported, Mark, Rung, Tile
from sched.backends.pool import HostPool
from sched.model import RankId, TileId


class Host:
    """See `base.Backend`. Every tile is the same memory, so nothing ever has to move within a rank."""

    kind = "host"
    xp: ModuleType = numpy
    background = True
    readable = True

    def __init__(self, ids: range, rank: RankId) -> None:
        name = platform.processor() or platform.machine()
        self.tiles = tuple(Tile(TileId(i), rank, name, "host") for i in ids)
        self.direct = True
        self.may_touch: Callable[[], bool] = lambda: True
        self._pool = HostPool()

    def is_array(self, value: object) -> bool:
        return False

    def to_host(self, array: Any, *, computed: bool = False) -> Any:
        return array

    def from_host(self, array: Any, tile: Tile) -> Any:
        return array

    def rebind(self, array: Any, tile: Tile, *, computed: bool = False) -> tuple[Any, Rung]:
        return array, Rung.QUEUE

    def export(self, array: Any, *, computed: bool = False) -> Exported:
        array = numpy.asarray(array)
        order: Literal["C", "F"] = "F" if array.flags.fnc else "C"
        flat = numpy.asarray(array, order=order).reshape(-1, order=order)  # copies what is not contiguous
        return Exported(flat.view(numpy.uint8).data, array.dtype.str, array.shape, order)

    def restore(self, exported: Exported, tile: Tile | None) -> Any:
        return numpy.ndarray(exported.shape, exported.dtype, exported.memory, order=exported.order)

    def room(self, nbytes: int, tile: bool) -> Any:
        return self._pool.room(nbytes)

    def allocation(self, array: Any) -> tuple[int, int]:
        owner = array
        while True:
            under = owner.base
            if isinstance(under, memoryview):
                under = under.obj
            if not isinstance(under, numpy.ndarray):
                return owner.__array_interface__["data"][0], owner.nbytes
            owner = under

    def mark(self, tile: Tile) -> Mark | None:
        return None

    def finish(self, tile: Tile) -> None:
        pass
