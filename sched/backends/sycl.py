"""dpnp arrays on SYCL devices: Level Zero tiles, or the OpenCL CPU device. Alone imports dpctl and dpnp.

Both are one backend with two selectors, so the code that a laptop runs is the code that Aurora runs; what
differs (the host sees a CPU device's memory, and not a GPU's) can be switched off there: `Sycl("level_zero",
["opencl:cpu:0"], ...)` takes the very steps of Level Zero on the CPU device.
**No part of it has been run on a Level Zero GPU yet.**

Facts that shape it (dpctl 0.21 and 0.22, dpnp 0.19 and 0.20; seen on the OpenCL CPU device):

* Two queues of one device are different places for dpnp: their arrays do not mix. Hence one per tile.
* Within one context `to_device` is an alias without any dependency, so the source is waited for first.
  Between contexts it copies all of the memory that a slice is a view of, so it is not used there.
* A deleted array is not free before its queue's order manager has been waited for.
* What a kernel uses is kept alive until it has ended, by the kernel itself.
* Arrays made without `device=` or `sycl_queue=` all go through `Device.create_device(None)`: that is the
  one place where the ambient tile comes in.
"""

import importlib.util
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal

import numpy

from sched.backends import base
from sched.backends.base import Exported, Rung, Tile
from sched.backends.devices import (
    find_cpu_driver as find_cpu_driver,
    lacking,
    open_device,
    reaches,
    usable,
)
from sched.backends.pool import HostPool
from sched.backends.usm import SLOT, Piece, Port, Span, Staged, view
from sched.errors import DeviceError
from sched.model import DRIVER, RankId, TileId

staging_piece = SLOT
"""Bytes of a piece in which a transport must ask for memory that is staged (`direct` is False)."""


def visible(kind: str) -> list[str]:
    """List the filter strings of the usable devices: Level Zero GPU root devices, or OpenCL CPUs."""
    return usable(_dpctl(), kind)


class Sycl:
    """See `base.Backend`.

    Args:
        filters: the filter string of each tile. "opencl:cpu:0.1" is sub-device 1 of "opencl:cpu:0". One that
            is named twice gets a second queue: a tile that is emulated.
        ids: the tiles' numbers in the run.
        rank: the rank that owns them.

    Raises:
        DeviceError: A device cannot be opened.
    """

    background = False

    def __init__(self, kind: str, filters: list[str], ids: range, rank: RankId) -> None:
        self.kind = kind
        # On the CPU device all USM is the host's memory.
        self.readable = self.direct = kind == "cpu"
        self.may_touch: Callable[[], bool] = lambda: True
        self._dpctl = _dpctl()
        import dpnp
        from dpctl.utils import SequentialOrderManager

        self.xp: ModuleType = dpnp
        self._order: Any = SequentialOrderManager
        self._host = HostPool()
        self._ports: list[Port] = []
        tiles = []
        for number, (name, tile_id) in enumerate(zip(filters, ids, strict=True)):
            device, queue = open_device(self._dpctl, name, again=name in filters[:number])
            nbytes = int(device.global_mem_size)
            tiles.append(Tile(TileId(tile_id), rank, device.name, name, nbytes, device, queue))
        self.tiles = tuple(tiles)
        if self.tiles:
            _follow_ambient_tile(dpnp, self.tiles[0].queue)
            if rank != DRIVER:
                _seed(dpnp, self.tiles[0].queue)

    def is_array(self, value: object) -> bool:
        return isinstance(value, self.xp.ndarray)

    # -- within this rank ------------------------------------------------------------------------------

    def to_host(self, array: Any, *, computed: bool = False) -> Any:
        self._await(array, computed)
        return self._to_host(array)

    def from_host(self, array: Any, tile: Tile) -> Any:
        array = numpy.asarray(array)
        if array.dtype.kind not in "biufc" or not array.dtype.isnative:
            return self.xp.asarray(array, sycl_queue=tile.queue)  # which knows what it can make of it
        made = self._made(array.dtype, array.shape, _order(array.flags), tile)
        if not array.size:
            return made
        if self.kind == "cpu":
            _host_view(made)[...] = array
        else:
            if not array.flags.forc:
                array = numpy.ascontiguousarray(array)
            self._port(tile.queue).copy(made.get_array().usm_data, _bytes(array), array.nbytes)
        return made

    def rebind(self, array: Any, tile: Tile, *, computed: bool = False) -> tuple[Any, Rung]:
        source, target = array.sycl_queue, tile.queue
        if source == target:
            return array, Rung.QUEUE
        self._await(array, computed)
        if source.sycl_context == target.sycl_context:
            if source.sycl_device == tile.device:
                return array.to_device(target), Rung.ALIAS
            if reaches(tile.device, source.sycl_device):
                return self._copied(array, tile), Rung.DEVICE
        return self.from_host(self._to_host(array), tile), Rung.PROCESS

    # -- between ranks ---------------------------------------------------------------------------------

    def export(self, array: Any, *, computed: bool = False) -> Exported:
        self._await(array, computed)
        dtype = numpy.dtype(array.dtype)
        order = _order(array.flags)
        if not array.size:
            return Exported(Span(memoryview(b""), None), dtype.str, array.shape, order)
        port = self._port(array.sycl_queue)
        if not array.flags.forc:
            array = self._compact(array, port)
        address, nbytes = array.get_array()._pointer, array.size * dtype.itemsize
        usm = port.part(address, nbytes, array)
        memory = Span(view(address, nbytes, usm), usm) if self.direct else Staged(port, usm, nbytes)
        return Exported(memory, dtype.str, array.shape, order)

    def restore(self, exported: Exported, tile: Tile | None) -> Any:
        memory, dtype, shape, order = exported
        usm = getattr(memory, "usm", None)
        if usm is None:
            plain = memory.memory if isinstance(memory, Span) else memory
            host = numpy.ndarray(shape, dtype, plain, order=order)
            return host if tile is None else self.from_host(host, tile)
        memory.settle()
        if tile is not None:
            _check(numpy.dtype(dtype), tile)
        array = self.xp.ndarray(shape, numpy.dtype(dtype), usm, order=order)
        return self._to_host(array) if tile is None else self.rebind(array, tile, computed=True)[0]

    def room(self, nbytes: int, tile: bool) -> Any:
        if not tile:
            return self._host.room(nbytes)
        if not nbytes or not self.tiles:
            return Span(self._host.room(nbytes), None)
        queue = self.tiles[0].queue
        port = self._port(queue)
        usm = port.room(nbytes, queue)
        return Span(view(usm._pointer, nbytes, usm), usm) if self.direct else Staged(port, usm, nbytes)

    def allocation(self, array: Any) -> tuple[int, int]:
        usm = array.get_array().usm_data
        while True:
            under = usm.reference_obj
            if isinstance(under, Piece):
                under = under.owner
            if self.is_array(under):
                under = under.get_array().usm_data
            if not hasattr(under, "reference_obj"):
                return int(usm._pointer), int(usm.nbytes)
            usm = under

    # -- waiting ---------------------------------------------------------------------------------------

    def mark(self, tile: Tile) -> "Barrier":
        return Barrier(tile.queue.submit_barrier(), self._dpctl.event_status_type.complete)

    def finish(self, tile: Tile) -> None:
        self._order[tile.queue].wait()
        tile.queue.wait()

    # -- the rest --------------------------------------------------------------------------------------

    def _await(self, array: Any, computed: bool) -> None:
        """Wait for an array, unless it is computed: that can be known of a tile's queue only."""
        queue = array.sycl_queue
        if not (computed and any(queue == tile.queue for tile in self.tiles)):
            queue.wait()

    def _port(self, queue: Any) -> Port:
        for port in self._ports:
            own = port.queue
            if own.sycl_context == queue.sycl_context and own.sycl_device == queue.sycl_device:
                return port
        own = self._dpctl.SyclQueue(queue.sycl_context, queue.sycl_device)
        port = Port(self._dpctl, own, lambda: self.may_touch())
        self._ports.append(port)
        return port

    def _made(self, dtype: Any, shape: tuple[int, ...], order: str, tile: Tile) -> Any:
        """Make an array with anything in it."""
        _check(dtype, tile)
        nbytes = numpy.prod(shape, dtype=int).item() * dtype.itemsize
        usm = self._port(tile.queue).room(nbytes, tile.queue)
        return self.xp.ndarray(shape, dtype, usm, order=order)

    def _to_host(self, array: Any) -> Any:
        if self.kind == "cpu":
            return _host_view(array)  # no kernel and no copy
        host = numpy.empty(array.shape, array.dtype, _order(array.flags))
        if array.size:
            port = self._port(array.sycl_queue)
            if not array.flags.forc:
                array = self._compact(array, port)
            port.copy(_bytes(host), port.part(array.get_array()._pointer, host.nbytes, array), host.nbytes)
        return host

    def _copied(self, array: Any, tile: Tile) -> Any:
        """Return a copy on another device in the same context."""
        if self.kind == "cpu":
            # Not by dpnp: its driver hangs in most memcpys between two sub-devices (oneAPI 2026.2).
            return self.from_host(_host_view(array), tile)
        # It is made on the target's queue, whose own order is all the order that there has to be.
        return array.to_device(tile.queue).copy(order="K")

    def _compact(self, array: Any, port: Port) -> Any:
        """Return a copy in C order, made beside whatever runs on the array's queue."""
        if self.kind == "cpu":
            host = _host_view(array)
            made = self.xp.ndarray(
                array.shape, array.dtype, port.room(host.size * host.itemsize, port.queue), order="C"
            )
            _host_view(made)[...] = host
            return made
        copy = array.to_device(port.queue).copy(order="C")
        self._order[port.queue].wait()
        return copy


class Barrier:
    """See `base.Mark`."""

    __slots__ = ("_complete", "_event")

    def __init__(self, event: Any, complete: Any) -> None:
        self._event = event
        self._complete = complete

    def done(self) -> bool:
        if self._event is not None and self._event.execution_status == self._complete:
            self._event = None
        return self._event is None


def _dpctl() -> Any:
    try:
        import dpctl
        import dpctl.memory

        if importlib.util.find_spec("dpnp") is None:
            raise ImportError("dpnp")
    except ImportError as error:
        raise DeviceError(
            "this device needs dpctl and dpnp: load the module that brings them, "
            "or run `pip install 'tilesched[sycl]'`"
        ) from error
    return dpctl


def _order(flags: Any) -> Literal["C", "F"]:
    return "F" if flags.fnc else "C"


def _bytes(array: Any) -> memoryview:
    return memoryview(array.reshape(-1, order="A").view(numpy.uint8))


def _check(dtype: Any, tile: Tile) -> None:
    aspect = lacking(dtype, tile.device)
    if aspect is not None:
        raise DeviceError(
            f"an array of dtype {dtype} cannot come to tile {tile.id}: its device ({tile.name}) has no "
            f"{aspect}; convert the array before, to float32 or complex64 say"
        )


def _host_view(array: Any) -> Any:
    usm = array.get_array()
    dtype, shape = numpy.dtype(array.dtype), array.shape
    if array.size == 0:
        return numpy.empty(shape, dtype)
    strides = [step * dtype.itemsize for step in usm.strides]
    reach = [step * (length - 1) for step, length in zip(strides, shape, strict=True)]
    before = sum(step for step in reach if step < 0)
    span = sum(abs(step) for step in reach) + dtype.itemsize
    # The view keeps the array alive.
    return numpy.ndarray(shape, dtype, view(usm._pointer + before, span, array), -before, strides)


def _seed(dpnp: Any, queue: Any) -> None:
    """Let this rank draw other random numbers than the others.

    dpnp's older generators (`gamma`, `poisson`, `permutation`, ...) begin with one seed in every process.
    NumPy's, which `seed` sets as well, is left as it is.
    """
    state = numpy.random.get_state()
    dpnp.random.seed(int.from_bytes(os.urandom(4), "little"), sycl_queue=queue)
    numpy.random.set_state(state)


def _follow_ambient_tile(dpnp: Any, queue: Any) -> None:
    """Let creation functions use the ambient tile where neither device nor queue is given.

    Raises:
        DeviceError: This dpnp makes its arrays in another way.
    """
    device_type: Any = type(dpnp.empty(0, sycl_queue=queue).device)
    if getattr(device_type, "follows_sched", False):
        return
    original = device_type.create_device.__func__

    def create_device(cls: Any, device: Any = None) -> Any:
        if device is None:
            tile = base.ambient()
            if tile is not None and tile.queue is not None:
                device = tile.queue
        return original(cls, device)

    device_type.create_device = classmethod(create_device)
    probe = Tile(TileId(-1), RankId(-1), "", "", queue=_dpctl().SyclQueue(queue.sycl_device))
    with base.on(probe):
        if dpnp.empty(0).sycl_queue != probe.queue:
            device_type.create_device = classmethod(original)
            raise DeviceError(
                f"dpnp {dpnp.__version__} does not make arrays where sched tells it to; "
                "use a version that the README lists"
            )
    device_type.follows_sched = True
