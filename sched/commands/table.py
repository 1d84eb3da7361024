"""The tiles of a run as a table for people: what all have in common is said once, and what is odd is "
"marked."""

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

from sched.siblings import binding, cores
from sched.sizes import show_size

SHOWN = 48
"""Rows for people: four nodes of Aurora. Those with a mark are shown beyond that, as many again."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is known of a tile.

    Attributes:
        tile: its number in the run.
        rank: the rank that has it.
        host: the node.
        local_rank: what the launcher says, None if it does not.
        filter: its name in that rank, as dpctl takes it.
        device: the device's own name.
        nbytes: its memory; 0 where it is the host's.
        hardware: a name that no other tile of the node has; None where tiles share a device.
        card: "card.stack" on the node, None if not known.
        pci: the card's address, None if not known.
        near: the CPUs beside that card; none if not known.
        numa: the NUMA nodes of the CPUs that the rank may use.
        cpus: those CPUs.
        whole: whether these are all that the node has: the rank is not bound.
        queue: the properties of the tile's queue.
        mpi: what MPI calls itself, None without it.
        threads: its thread level.
        pointers: how it says that it takes device pointers, None if it does not.
    """

    tile: int
    rank: int
    host: str
    local_rank: int | None = None
    filter: str
    device: str
    nbytes: int = 0
    hardware: str | None = None
    card: str | None = None
    pci: str | None = None
    near: tuple[int, ...] = ()
    numa: tuple[int, ...] = ()
    cpus: tuple[int, ...] = ()
    whole: bool = False
    queue: str | None = None
    mpi: str | None = None
    threads: str | None = None
    pointers: str | None = None


def marks(rows: Sequence[Row]) -> list[list[str]]:
    """Say what is odd about each tile: it is taken twice, or the rank's cores are not beside it."""
    takers: dict[tuple[str, str], list[Row]] = defaultdict(list)
    near: dict[int, set[int]] = defaultdict(set)
    for row in rows:
        if row.hardware is not None:
            takers[binding.short_host(row.host), row.hardware].append(row)
        near[row.rank].update(row.near)
    found: list[list[str]] = []
    for row in rows:
        odd = []
        same = takers[binding.short_host(row.host), row.hardware] if row.hardware is not None else [row]
        if len(same) > 1:
            also = [other for other in same if other is not row]
            odd.append(f"also rank {also[0].rank}'s{f' and {len(also) - 1} more' if also[1:] else ''}")
        cpus = set(row.cpus)
        if row.near and not row.whole:
            if cpus.isdisjoint(near[row.rank]):
                odd.append(f"cores far: near are {cores.show(row.near)}")
            elif not cpus <= near[row.rank]:
                odd.append(f"some cores far: near are {cores.show(row.near)}")
        found.append(odd)
    return found


def as_dicts(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Return all that is known, for JSON."""
    return [{**dataclasses.asdict(row), "marks": odd} for row, odd in zip(rows, marks(rows), strict=True)]


def show(rows: Sequence[Row]) -> str:
    """Write the table, cut off where it is too long, and below it what all tiles have in common."""
    odd = marks(rows)
    shown = list(range(min(SHOWN, len(rows))))
    shown += [number for number in range(SHOWN, len(rows)) if odd[number]][:SHOWN]
    columns = {
        "tile": [str(row.tile) for row in rows],
        "rank": [str(row.rank) for row in rows],
        "host": [binding.short_host(row.host) for row in rows],
        "local": [_or_dash(row.local_rank) for row in rows],
        "filter": [row.filter for row in rows],
        "card.stack": [_or_dash(row.card) for row in rows],
        "PCI": [_or_dash(row.pci) for row in rows],
        "NUMA": [cores.show(row.numa) or "-" for row in rows],
        "cores": [cores.show(row.cpus) + (" (all)" if row.whole else "") for row in rows],
    }
    facts = {
        "device": [row.device for row in rows],
        "memory": [show_size(row.nbytes) if row.nbytes else "the host's" for row in rows],
        "queue": [_or_dash(row.queue) for row in rows],
        "MPI": [row.mpi or "none" for row in rows],
        "threads": [_or_dash(row.threads) for row in rows],
        "MPI says it takes GPU pointers": [row.pointers or "no" for row in rows],
    }
    common = {name: values[0] for name, values in facts.items() if len(set(values)) == 1}
    columns |= {name: values for name, values in facts.items() if name not in common}
    lines = _grid(columns, odd, shown)
    rest = [number for number in range(len(rows)) if number not in set(shown)]
    if rest:
        marked = sum(bool(odd[number]) for number in rest)
        lines.append(f"... and {len(rest)} more tiles, {marked or 'none'} of them marked; --json has all")
    lines += ["", *(f"{name}: {value}" for name, value in common.items() if value != "-")]
    return "\n".join(lines)


def _grid(columns: dict[str, list[str]], odd: list[list[str]], shown: list[int]) -> list[str]:
    widths = {name: max(len(name), *(len(values[n]) for n in shown)) for name, values in columns.items()}
    lines = ["  ".join(name.ljust(width) for name, width in widths.items()).rstrip()]
    for number in shown:
        line = "  ".join(values[number].ljust(widths[name]) for name, values in columns.items())
        if odd[number]:
            line += f"  <- {'; '.join(odd[number])}"
        lines.append(line.rstrip())
    return lines


def _or_dash(value: object) -> str:
    return "-" if value is None or value == "" else str(value)
