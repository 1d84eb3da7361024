"""Which cores a rank uses: those beside its tiles, where nobody has said otherwise.

The rules:

* the cores of a NUMA node are dealt out in equal blocks to the tiles of the cards beside it, and a rank has
  the blocks of its tiles. The first core of each node is the system's: Aurora has set cores 0 and 52 aside.
  So the twelve tiles of an Aurora node have 1-8, 9-16, ... 93-100, which is ALCF's own list for twelve ranks,
  and six ranks with a card each have its list for six;
* of a core's hardware threads the first stands for the core;
* who may not use all of these cores has been bound, or was given a part of the node: nothing is changed then,
  nor where the user has said where threads go.

What a node has comes in as data; **no node of Aurora has been read yet**.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

# What a user sets to say where threads go.
_PLACED = ("OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_HW_SUBSET")

_RANGES = re.compile(r"[0-9]{1,6}(-[0-9]{1,6})?(,[0-9]{1,6}(-[0-9]{1,6})?)*")


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU card.

    Attributes:
        numa: the NUMA node that it is connected to, -1 if it is not known.
        tiles: how many it has, 0 if it is not known.
    """

    numa: int
    tiles: int


@dataclass(frozen=True, slots=True)
class Node:
    """The cores and cards of a machine.

    Attributes:
        cores: the cores of each NUMA node that has any, ascending, each by its first hardware thread.
        cards: in the order of their PCI addresses, in which Level Zero numbers them.
    """

    cores: Mapping[int, tuple[int, ...]]
    cards: tuple[Card, ...]


def parse(text: str) -> list[int]:
    """Read a list of CPUs as Linux writes it: "0-3,8" is 0, 1, 2, 3, 8; of what is no such list, nothing."""
    if not _RANGES.fullmatch(text.strip()):
        return []
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def show(cpus: Iterable[int]) -> str:
    """Write a list of CPUs as Linux and launchers do."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def deal(node: Node) -> list[list[tuple[int, ...]]]:
    """Deal out the cores to the tiles.

    Returns:
        By card and tile the cores of each; nothing where it is not known what is beside what, or where there
        are fewer cores than tiles.
    """
    tiles: dict[int, int] = defaultdict(int)
    for card in node.cards:
        tiles[card.numa] += card.tiles
    dealt: dict[int, int] = defaultdict(int)
    blocks = []
    for card in node.cards:
        free = node.cores.get(card.numa, ())[1:]
        size = len(free) // tiles[card.numa] if tiles[card.numa] else 0
        if not size or not card.tiles:
            return []
        starts = range(dealt[card.numa], dealt[card.numa] + card.tiles * size, size)
        dealt[card.numa] += card.tiles * size
        blocks.append([free[start : start + size] for start in starts])
    return blocks


def to_deal(node: Node, allowed: Collection[int], env: Mapping[str, str]) -> list[list[tuple[int, ...]]]:
    """Deal out the cores, if this process may use them all and nobody has said where threads go.

    Args:
        node: the machine.
        allowed: the CPUs that this process may use.
        env: its environment.

    Returns:
        As `deal`.
    """
    blocks = deal(node)
    whole = all(cpu in allowed for card in blocks for block in card for cpu in block)
    return blocks if whole and not any(env.get(name) for name in _PLACED) else []


def beside(
    devices: Iterable[str], blocks: list[list[tuple[int, ...]]], *, composite: bool
) -> tuple[int, ...]:
    """Return the cores of a rank, ascending.

    Args:
        devices: its tiles, by the names that `masks.physical` gives.
        blocks: what has been dealt out.
        composite: root devices are cards.

    Returns:
        The cores; none if some tile is not known.
    """
    by_tile = [block for card in blocks for block in card]
    cores: set[int] = set()
    for device in devices:
        number = device.rpartition(":")[2]
        root, _, tile = number.partition(".")
        if not (root.isdecimal() and (tile or "0").isdecimal()):
            return ()
        try:
            cores.update(blocks[int(root)][int(tile or 0)] if composite else by_tile[int(root)])
        except IndexError:
            return ()
    return tuple(sorted(cores))
