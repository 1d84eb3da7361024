"""Kinds of arrays and the hardware under them. `base` is the contract; each library has one module."""

from dataclasses import dataclass

from sched.backends.base import Backend as Backend
from sched.errors import DeviceError, RequestError
from sched.model import RankId

DEVICES = ("auto", "level_zero", "cpu", "host")


@dataclass(frozen=True, slots=True)
class Found:
    """What `--device` led to.

    Attributes:
        kind: "level_zero", "cpu" or "host".
        filters: the devices of that kind that this process sees.
        why: the reason, for people.
    """

    kind: str
    filters: tuple[str, ...]
    why: str


def find(device: str) -> Found:
    """Look for devices.

    Args:
        device: one of `DEVICES`. `auto` takes Level Zero tiles, else the CPU device, else NumPy.

    Raises:
        RequestError: There is no such kind.
        DeviceError: There is no device of that kind; the message says what to do.
    """
    if device not in DEVICES:
        raise RequestError(f"device {device!r} is none of {', '.join(DEVICES)}")
    if device == "host":
        return Found("host", ("host",), "asked for")
    from sched.backends import sycl

    if device != "level_zero":
        sycl.find_cpu_driver()
    if device != "auto":
        filters = sycl.visible(device)
        if not filters and device == "cpu":
            raise DeviceError(
                "there is no OpenCL CPU device: run `pip install 'tilesched[sycl]'`, or set "
                "OCL_ICD_FILENAMES to the absolute path of libintelocl.so; `--device host` needs neither"
            )
        return Found(device, tuple(filters), "asked for")
    try:
        for kind, why in (("level_zero", "there are Level Zero tiles"), ("cpu", "no Level Zero tile here")):
            filters = sycl.visible(kind)
            if filters:
                return Found(kind, tuple(filters), why)
    except DeviceError:
        return Found("host", ("host",), "dpctl and dpnp are not installed")
    return Found("host", ("host",), "neither a Level Zero tile nor an OpenCL CPU device here")


def start(found: Found, filters: list[str], ids: range, rank: RankId) -> Backend:
    """Open tiles: one for each filter string, with these numbers in the run."""
    if found.kind == "host":
        from sched.backends.host import Host

        return Host(ids, rank)
    from sched.backends.sycl import Sycl

    return Sycl(found.kind, filters, ids, rank)
