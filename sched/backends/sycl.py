"""dpnp arrays on SYCL devices: Level Zero tiles, or the OpenCL CPU device. Alone imports dpctl and dpnp.

Both are one backend with two selectors, so the code that a laptop runs is the code that Aurora runs.
**No part of it has been run on a Level Zero GPU yet.**

Facts that shape it (dpctl 0.21 and 0.22, dpnp 0.19 and 0.20; seen on the OpenCL CPU device):

* The device list is read at the first query and never again, so the CPU driver is named before that.
* Two queues of one device are different places for dpnp: their arrays do not mix. Hence one per tile.
* Within one context `to_device` is an alias without any dependency, so the source is waited for first.
* A deleted array is not free before its queue's order manager has been waited for.
* Arrays made without `device=` or `sycl_queue=` all go through `Device.create_device(None)`: that is the
  one place where the ambient tile comes in.
"""

import ctypes
import importlib.metadata
import importlib.util
import os
from types import ModuleType
from typing import Any

import numpy

from sched.backends import base
from sched.backends.base import Tile
from sched.errors import DeviceError
from sched.model import RankId, TileId

_DRIVER_VARIABLES = ("OCL_ICD_FILENAMES", "OCL_ICD_VENDORS")


def find_cpu_driver() -> None:
    """Name the OpenCL CPU driver that pip installed, unless the user has named one.

    The driver's own `.icd` file in the wheel holds a path that does not exist on the user's machine,
    so without this there is no CPU device. It has no effect after the first device query.
    """
    if any(name in os.environ for name in _DRIVER_VARIABLES):
        return
    try:
        files = importlib.metadata.files("intel-opencl-rt") or []
    except importlib.metadata.PackageNotFoundError:
        return
    for file in files:
        if file.name == "libintelocl.so":
            path = os.path.realpath(file.locate())
            if os.path.exists(path):
                os.environ["OCL_ICD_FILENAMES"] = path
                return


def visible(kind: str) -> list[str]:
    """List the filter strings of the usable devices: Level Zero GPU root devices, or OpenCL CPUs.

    OpenCL shows every GPU tile a second time, and a CPU driver without USM (pocl) ends the process
    at the first array: neither is ever listed.
    """
    dpctl = _dpctl()
    backend, device_type = ("level_zero", "gpu") if kind == "level_zero" else ("opencl", "cpu")
    found = dpctl.get_devices(backend=backend, device_type=device_type)
    return [
        device.filter_string
        for device in found
        if device.backend.name == backend
        and device.device_type.name == device_type
        and device.has_aspect_usm_device_allocations
    ]


class Sycl:
    """See `base.Backend`.

    Args:
        filters: the filter string of each tile. One that is named twice gets a second queue: a tile
            that is emulated.
        ids: the tiles' numbers in the run.
        rank: the rank that owns them.

    Raises:
        DeviceError: A device cannot be opened.
    """

    background = False

    def __init__(self, kind: str, filters: list[str], ids: range, rank: RankId) -> None:
        self.kind = kind
        # On the CPU device all USM is the host's memory.
        self.readable = kind == "cpu"
        dpctl = _dpctl()
        import dpnp
        from dpctl.utils import SequentialOrderManager

        self.xp: ModuleType = dpnp
        self._order: Any = SequentialOrderManager
        tiles = []
        for number, (filter_string, tile_id) in enumerate(zip(filters, ids, strict=True)):
            try:
                device = dpctl.SyclDevice(filter_string)
                first = filter_string not in filters[:number]
                queue = dpctl.get_device_cached_queue(device) if first else dpctl.SyclQueue(device)
            except (dpctl.SyclDeviceCreationError, dpctl.SyclQueueCreationError) as error:
                raise DeviceError(f"the device {filter_string!r} cannot be opened: {error}") from error
            nbytes = int(device.global_mem_size)
            tiles.append(Tile(TileId(tile_id), rank, device.name, filter_string, nbytes, device, queue))
        self.tiles = tuple(tiles)
        if self.tiles:
            _follow_ambient_tile(dpnp, self.tiles[0].queue)

    def is_array(self, value: object) -> bool:
        return isinstance(value, self.xp.ndarray)

    def to_host(self, array: Any, *, computed: bool = False) -> Any:
        queue = array.sycl_queue
        if not (computed and any(queue == tile.queue for tile in self.tiles)):
            queue.wait()
        if not queue.sycl_device.is_cpu:
            return self.xp.asnumpy(array)
        # No kernel and no copy.
        return _host_view(array)

    def from_host(self, array: Any, tile: Tile) -> Any:
        return self.xp.asarray(array, sycl_queue=tile.queue)

    def rebind(self, array: Any, tile: Tile) -> Any:
        source = array.sycl_queue
        if source == tile.queue:
            return array
        source.wait()
        if source.sycl_context == tile.queue.sycl_context and source.sycl_device == tile.device:
            return array.to_device(tile.queue)
        return self.xp.asarray(array, sycl_queue=tile.queue)

    def finish(self, tile: Tile) -> None:
        self._order[tile.queue].wait()
        tile.queue.wait()


def _dpctl() -> Any:
    try:
        import dpctl

        if importlib.util.find_spec("dpnp") is None:
            raise ImportError("dpnp")
    except ImportError as error:
        raise DeviceError(
            "this device needs dpctl and dpnp: load the module that brings them, "
            "or run `pip install 'tilesched[sycl]'`"
        ) from error
    return dpctl


def _host_view(array: Any) -> Any:
    usm = array.get_array()
    dtype, shape = numpy.dtype(array.dtype), array.shape
    if array.size == 0:
        return numpy.empty(shape, dtype)
    strides = [step * dtype.itemsize for step in usm.strides]
    reach = [step * (length - 1) for step, length in zip(strides, shape, strict=True)]
    before = sum(step for step in reach if step < 0)
    span = sum(abs(step) for step in reach) + dtype.itemsize
    memory = (ctypes.c_char * span).from_address(usm._pointer + before)
    memory.owner = array  # the view keeps this object alive, and this the array
    return numpy.ndarray(shape, dtype, memory, -before, strides)


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
