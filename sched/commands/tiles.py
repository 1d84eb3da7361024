"""`sched tiles`: who would have which tile, and on which cores.

The run begins as a job's does, and a task on each tile tells what it finds there; so the table is what a job
would get, and what keeps a job from beginning keeps this from it, with the same words and status.
"""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sched.commands.table import Row


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--device",
        default=os.environ.get("SCHED_DEVICE") or "auto",
        choices=("auto", "level_zero", "cpu", "host"),
        help="as for run",
    )
    parser.add_argument("--tiles", type=int, metavar="K", help="tiles for each rank: as for run")
    parser.add_argument("--driver-only", action="store_true", help="give rank 0 no tile")
    parser.add_argument("--oversubscribe", action="store_true", help="allow more ranks than tiles")
    parser.add_argument(
        "--mpi-buffers", default="auto", choices=("auto", "host", "device"), help="as for run"
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON, with every tile")


def main(options: argparse.Namespace) -> int:
    """Begin a run, and print its tiles on rank 0; return the exit status.

    Raises:
        SchedError: The run could not begin.
    """
    import json

    from sched.commands.table import as_dicts, show
    from sched.commands.trial import on_every_tile
    from sched.runtime.settings import Settings
    from sched.runtime.start import say

    settings = Settings(
        device=options.device,
        tiles=options.tiles,
        driver_only=options.driver_only,
        oversubscribe=options.oversubscribe,
        mpi_buffers=options.mpi_buffers,
    )

    def report(rows: "list[Row]") -> None:
        lines = ",\n".join(json.dumps(row) for row in as_dicts(rows))
        print(f"[\n{lines}\n]" if options.json else show(rows))

    return on_every_tile(settings, describe, report, say)


def describe() -> "Row":
    """Describe the tile of this task, and the rank that has it."""
    import platform

    from sched.commands.table import Row
    from sched.doctor import hardware
    from sched.runtime.current import current
    from sched.siblings import masks, ranks

    task = current()
    tile = next(tile for tile in task.tiles if tile.id == task.tile)
    cpus = frozenset(os.sched_getaffinity(0))
    nodes = hardware.numa()
    known: dict[str, Any] = {}
    if tile.filter.startswith("level_zero:"):
        physical = masks.physical(tile.filter, os.environ)
        cards = [card for card in hardware.cards() if card.discrete]
        number, stack = physical.card, physical.tile
        if not masks.is_composite(os.environ):  # there `masks` takes every two tiles for a card
            place = hardware.place(physical.name.rpartition(":")[2], cards)
            number, stack = place if place is not None else (number, stack)
        known = {"hardware": physical.name, "card": f"{number}.{stack}"}
        if number < len(cards):
            known |= {"pci": cards[number].address, "near": tuple(sorted(cards[number].cores))}
    return Row(
        tile=task.tile,
        rank=task.rank,
        host=platform.node(),
        local_rank=ranks.find(os.environ).local_rank,
        filter=tile.filter,
        device=tile.name,
        nbytes=tile.nbytes,
        numa=tuple(node for node, near in nodes.items() if near & cpus),
        cpus=tuple(sorted(cpus)),
        whole=cpus >= frozenset().union(*nodes.values()) if nodes else len(cpus) == os.cpu_count(),
        queue=_properties(task.queue),
        **known,
        **_mpi(),
    )


def _properties(queue: Any) -> str | None:
    if queue is None:
        return None
    words = ["in order" if queue.is_in_order else "out of order"]
    return ", ".join(words + (["profiling"] if queue.has_enable_profiling else []))


def _mpi() -> dict[str, Any]:
    """Describe MPI, if this rank has started it; a run in one process has not."""
    mpi: Any = sys.modules.get("sched.transport.mpi")
    if mpi is None:
        return {}
    levels = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")
    names = {getattr(mpi.MPI, f"THREAD_{level}"): level for level in levels}
    library = " ".join(mpi.library().split()).partition(",")[0]
    level = names.get(mpi.MPI.Query_thread())
    return {"mpi": library, "threads": level, "pointers": mpi.takes_device_memory()}
