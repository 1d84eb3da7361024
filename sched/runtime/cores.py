"""The cores of this machine and of this process. What is made of them is decided in `launch.cores`."""

import os
import re
from pathlib import Path

from sched.siblings import cores

_SYS = Path("/sys")
_CARD, _NUMA = re.compile(r"card[0-9]+"), re.compile(r"node([0-9]+)")
_INTEL = "0x8086"


def bound() -> bool:
    """Tell whether the launcher has bound this process to cores of its own, and not the whole container."""
    try:
        return os.sched_getaffinity(0) != os.sched_getaffinity(os.getppid())
    except OSError:  # the parent has gone, or is another user's
        return False


def count() -> int:
    """Count the cores that this process may use; a core's hardware threads count once."""
    return len(firsts(os.sched_getaffinity(0)))


def bind(cpus: tuple[int, ...]) -> None:
    """Bind this process to cores: those of its threads that libraries have started already, too."""
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), cpus)
        except OSError:  # it has ended
            continue


def firsts(cpus: set[int], root: Path = _SYS) -> list[int]:
    """Return the first hardware thread of each core to which any of these belongs, ascending."""
    if _read(root / "devices/system/cpu/smt/active") == "0":
        return sorted(cpus)
    found = set()
    for cpu in cpus:
        siblings = cores.parse(_read(root / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
        found.add(min(siblings, default=cpu))
    return sorted(found)


def read(root: Path = _SYS) -> cores.Node:
    """Read what this machine has, from Linux's /sys."""
    nodes = {}
    for path in _entries(root / "devices/system/node"):
        match = _NUMA.fullmatch(path.name)
        cpus = set(cores.parse(_read(path / "cpulist")))
        if match is not None and cpus:  # a node of HBM has none
            nodes[int(match[1])] = tuple(firsts(cpus, root))
    cards = {}
    for path in _entries(root / "class/drm"):
        device = path / "device"
        if _CARD.fullmatch(path.name) and _read(device / "vendor") == _INTEL:
            cards[device.resolve().name] = _card(path)
    return cores.Node(nodes, tuple(cards[address] for address in sorted(cards)))


def _card(path: Path) -> cores.Card:
    # The driver i915 has a "gt" for each tile, and xe a "tile".
    tiles = len(list(path.glob("gt/gt[0-9]*"))) or len(list(path.glob("device/tile[0-9]*")))
    numa = _read(path / "device/numa_node")
    return cores.Card(int(numa) if numa.isdecimal() else -1, tiles)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
