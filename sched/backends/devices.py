"""Which SYCL devices there are, and how one is opened by its filter string. dpctl is handed in.

Facts that shape it (dpctl 0.21 and 0.22):

* The device list is read at the first query and never again, so the CPU driver is named before that.
* Sub-devices have no filter string of their own, and making them twice makes devices that are not equal. So
  they are made once in a process, and "opencl:cpu:0.1" is our name for number 1 of "opencl:cpu:0".
* Arrays move between the sub-devices of one device without the host only in a context that they share.
"""

import importlib.metadata
import os
from types import ModuleType
from typing import Any, NamedTuple

from sched.errors import DeviceError

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


def usable(dpctl: ModuleType, kind: str) -> list[str]:
    """List the filter strings of the usable root devices: Level Zero GPUs, or OpenCL CPUs.

    OpenCL shows every GPU tile a second time, and a CPU driver without USM (pocl) ends the process
    at the first array: neither is ever listed.
    """
    backend, device_type = ("level_zero", "gpu") if kind == "level_zero" else ("opencl", "cpu")
    found = dpctl.get_devices(backend=backend, device_type=device_type)
    return [
        device.filter_string
        for device in found
        if device.backend.name == backend
        and device.device_type.name == device_type
        and device.has_aspect_usm_device_allocations
    ]


class _Parts(NamedTuple):
    devices: list[Any]
    context: Any


_parts: dict[str, _Parts] = {}


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
        parts = _parts.get(root)
        if parts is None:
            devices = _divide(dpctl, device)
            parts = _parts[root] = _Parts(devices, devices and dpctl.SyclContext(devices))
        count = len(parts.devices)
        if not number.isdecimal() or int(number) >= count:
            which = f"it has {count}, numbered from 0" if count else "it cannot be divided"
            raise DeviceError(f"the device {root!r} has no sub-device {number!r}: {which}")
        part = parts.devices[int(number)]
        return part, dpctl.SyclQueue(parts.context, part)
    except (
        dpctl.SyclDeviceCreationError,
        dpctl.SyclContextCreationError,
        dpctl.SyclQueueCreationError,
    ) as error:
        raise DeviceError(f"the device {name!r} cannot be opened: {error}") from error


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
