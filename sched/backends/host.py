"""NumPy arrays in the host's memory: needs no oneAPI, and is what the others are compared with."""

import platform
from types import ModuleType
from typing import Any

import numpy

from sched.backends.base import Tile
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

    def is_array(self, value: object) -> bool:
        return False

    def to_host(self, array: Any, *, computed: bool = False) -> Any:
        return array

    def from_host(self, array: Any, tile: Tile) -> Any:
        return array

    def rebind(self, array: Any, tile: Tile) -> Any:
        return array

    def finish(self, tile: Tile) -> None:
        pass
