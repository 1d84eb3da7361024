"""Which SYCL devices there are, and how one is opened by its filter string. dpctl is handed in.

Facts that shape it (dpctl 0.21 and 0.22):

* The device list is read at the first query and never again, so the CPU driver is named before that.
* Sub-devices have no filter string of their own, and making them twice makes devices that are not equal. So
  they are made once in a process, and "opencl:cpu:0.1" is our name for number 1 of "opencl:cpu:0".
* In COMPOSITE mode a GPU's root device is a card, and its sub-devices are the tiles; in FLAT and COMBINED
  mode each tile is a root device. Either way a tile is what is listed.
* Arrays move between the sub-devices of one device without the host only in a context that they share.
"""

import os
from types import ModuleType
from typing import Any

from sched.errors import DeviceError

_DRIVER_VARIABLES = ("OCL_ICD_FILENAMES", "OCL_ICD_VENDORS")


def find_cpu_driver() -> None:
    """Name the OpenCL CPU driver that pip installed, unless the user has named one.

    The driver's own `.icd` file in the wheel holds a path that does not exist on the user's machine,
    so without this there is no CPU device. It has no effect after the first device query.
    """
    if any(name in os.environ for name in _DRIVER_VARIABLES):
        return
    import importlib.metadata  # and with it 30 modules, which other ranks than those of a CPU do without

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


def usable(dpctl: ModuleType, kind: str) -> list[str]:
    """List the usable tiles, by name: of Level Zero GPUs, or OpenCL CPUs.

    OpenCL shows every GPU tile a second time, and a CPU driver without USM (pocl) ends the process
    at the first array: neither is ever listed.
    """
    backend, device_type = ("level_zero", "gpu") if kind == "level_zero" else ("opencl", "cpu")
    roots = [
        device
        for device in dpctl.get_devices(backend=backend, device_type=device_type)
        if device.backend.name == backend
        and device.device_type.name == device_type
        and device.has_aspect_usm_device_allocations
    ]
    if kind != "level_zero":
        return [device.filter_string for device in roots]
    if _hierarchy() == "COMBINED":
        _note_cards(dpctl, roots)
    return tiles_of(dpctl, roots)


def tiles_of(dpctl: ModuleType, roots: list[Any]) -> list[str]:
    """List the tiles of root devices, by name: their sub-devices where they are cards (COMPOSITE mode).

    Nothing is opened, and a card that has been narrowed to one tile is that tile. Implicit scaling, which
    makes one device of a card's tiles, is never used.
    """
    names = [device.filter_string for device in roots]
    if _hierarchy() != "COMPOSITE":  # a tile is not divided further, whatever its driver would offer
        return names
    tiles = []
    for name, device in zip(names, roots, strict=True):
        parts = _parts_of(dpctl, name, device)
        tiles += [f"{name}.{number}" for number in range(len(parts))] if len(parts) > 1 else [name]
    return tiles


def first_of_card(name: str) -> str:
    """Return the first tile of a tile's card where the devices tell (COMBINED mode), else the tile."""
    return _first_of_card.get(name, name)


_first_of_card: dict[str, str] = {}


def _note_cards(dpctl: ModuleType, roots: list[Any]) -> None:
    # A card is told only where all of its tiles are seen. A masked tile stands alone.
    for card in dpctl.get_composite_devices():
        components = card.component_devices()
        names = [device.filter_string for device in roots if device in components]
        _first_of_card.update(dict.fromkeys(names, names[0]) if names else {})


def _hierarchy() -> str | None:
    return os.environ.get("ZE_FLAT_DEVICE_HIERARCHY")


# By the name of the root device.
_parts: dict[str, list[Any]] = {}
_contexts: dict[str, Any] = {}


def open_device(dpctl: ModuleType, name: str, *, again: bool) -> tuple[Any, Any]:
    """Open a device, or a sub-device.

    The sub-devices of a CPU device are its compute units, those of a GPU its tiles (COMPOSITE mode).

    Args:
        name: a filter string; ".1" at its end means sub-device 1.
        again: a queue on it has been made before, and another is wanted.

    Returns:
        The `dpctl.SyclDevice`, and a `dpctl.SyclQueue`.

    Raises:
        DeviceError: There is none, or it cannot be opened.
    """
    root, dot, number = name.partition(".")
    try:
        device = dpctl.SyclDevice(root)
        if not dot:
            queue = dpctl.SyclQueue(device) if again else dpctl.get_device_cached_queue(device)
            return device, queue
        parts = _parts_of(dpctl, root, device)
        if not number.isdecimal() or int(number) >= len(parts):
            which = f"it has {len(parts)}, numbered from 0" if parts else "it cannot be divided"
            raise DeviceError(f"the device {root!r} has no sub-device {number!r}: {which}")
        if root not in _contexts:
            _contexts[root] = dpctl.SyclContext(parts)
        part = parts[int(number)]
        return part, dpctl.SyclQueue(_contexts[root], part)
    except (
        dpctl.SyclDeviceCreationError,
        dpctl.SyclContextCreationError,
        dpctl.SyclQueueCreationError,
    ) as error:
        raise DeviceError(f"the device {name!r} cannot be opened: {error}") from error


def _parts_of(dpctl: ModuleType, name: str, device: Any) -> list[Any]:
    """Divide a root device; once, because sub-devices made twice are not equal."""
    if name not in _parts:
        _parts[name] = _divide(dpctl, device)
    return _parts[name]


def reaches(device: Any, other: Any) -> bool:
    """Tell whether kernels of one device may read the memory of another that is in the same context."""
    if device.parent_device is not None and device.parent_device == other.parent_device:
        return True
    return bool(device.can_access_peer(other))


def lacking(dtype: Any, device: Any) -> str | None:
    """Name the aspect that a device would need for arrays of a dtype, if it has not got it."""
    if dtype.char in "dD" and not device.has_aspect_fp64:
        return "fp64"
    if dtype.char == "e" and not device.has_aspect_fp16:
        return "fp16"
    return None


def _divide(dpctl: ModuleType, device: Any) -> list[Any]:
    for partition in (1,) if device.is_cpu else ("next_partitionable", "numa"):
        try:
            return list(device.create_sub_devices(partition=partition))
        except dpctl.SyclSubDeviceCreationError:
            continue
    return []
