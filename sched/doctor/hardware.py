"""What Linux says of the node's GPUs and cores, in /sys. It needs no driver of oneAPI."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sched.siblings import cores as lists

_INTEL, _DISPLAY, _ASIDE = (
    "0x8086",
    "0x03",
    "0x0380",
)  # a display controller that is no screen's: a compute card


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU of Intel's.

    Attributes:
        address: its PCI address, with the domain: on Aurora two cards differ in that only.
        discrete: whether it is a compute card, and not a screen's.
        cores: those near it; empty if Linux does not know.
        tiles: how many it has; 0 if the driver does not tell.
    """

    address: str
    discrete: bool
    cores: frozenset[int]
    tiles: int = 0


def cards(sys: Path = Path("/sys")) -> list[Card]:
    """List Intel's GPUs in the order of their PCI addresses, which is Level Zero's for discrete cards."""
    found = []
    for device in sorted((sys / "bus/pci/devices").glob("*")):
        kind = _read(device / "class")
        if _read(device / "vendor") == _INTEL and kind.startswith(_DISPLAY):
            near = _read(device / "local_cpulist") if _read(device / "numa_node") not in ("", "-1") else ""
            # The driver i915 has a "gt" for each tile, and xe a "tile".
            tiles = len(list(device.glob("drm/card*/gt/gt[0-9]*"))) or len(list(device.glob("tile[0-9]*")))
            found.append(Card(device.name, kind.startswith(_ASIDE), frozenset(lists.parse(near)), tiles))
    return found


def place(number: str, cards: Sequence[Card]) -> tuple[int, int] | None:
    """Tell which tile of which card a Level Zero device is.

    Args:
        number: of the device in a process without masks: "7", or "3.1" for a sub-device.
        cards: of the node, in their order.

    Returns:
        The card's and the tile's place, from 0; None if the driver does not tell how many tiles cards have.
    """
    root, dot, part = number.partition(".")
    if not root.isdecimal() or not (part or "0").isdecimal():
        return None
    if dot:
        return int(root), int(part)
    left = int(root)
    for card, known in enumerate(cards):
        if not known.tiles or left < known.tiles:
            return (card, left) if known.tiles else None
        left -= known.tiles
    return None


def numa(sys: Path = Path("/sys")) -> dict[int, frozenset[int]]:
    """Return the cores of each NUMA node that has any."""
    nodes = {
        int(node.name.removeprefix("node")): frozenset(lists.parse(_read(node / "cpulist")))
        for node in (sys / "devices/system/node").glob("node[0-9]*")
    }
    return {node: cores for node, cores in sorted(nodes.items()) if cores}


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
