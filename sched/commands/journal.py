"""`sched journal`: what a journal holds, whether it is whole, and what can go.

Without `--prune` and `--release` it only looks, also while a run has the journal.
"""

import argparse
import fnmatch
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sched.journal.upkeep import Held

DAY = 86400.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="what a run had as its --journal")
    parser.add_argument("--name", metavar="GLOB", help="only tasks of such a name")
    parser.add_argument("--older", type=_days, metavar="DAYS", help="only what was recorded before that")
    parser.add_argument("--json", action="store_true", help="print JSON")
    do = parser.add_mutually_exclusive_group()
    do.add_argument("--verify", action="store_true", help="check every byte; status 1 if one is wrong")
    do.add_argument(
        "--prune",
        action="store_true",
        help="remove what --name and --older say; with neither, only what is of no use any more",
    )
    do.add_argument("--release", action="store_true", help="say that the run which has it is dead")


def main(options: argparse.Namespace) -> int:
    """Look after a journal; return the exit status.

    Raises:
        SchedError: There is none, it cannot be read, or a run has it and would be disturbed.
    """
    import json

    from sched.errors import LaunchError
    from sched.journal import directory as places, owner, upkeep
    from sched.journal.segments import Tally

    directory = options.directory.absolute()
    upkeep.check(directory)
    said: dict[str, Any] = {"directory": str(directory)}
    lines: list[str] = []
    tally = Tally()
    status = 0
    try:
        if options.release:
            said["released"] = owner.release(directory)
            lines.append(said["released"])
        elif options.prune:
            pruned = upkeep.prune(directory, lambda held: not _is_meant(held, options))
            said["pruned"] = pruned._asdict()
            lines.append(f"{pruned.records} records and {pruned.nbytes:,} bytes have gone")
        elif options.verify:
            said["problems"] = problems = list(upkeep.verify(directory, tally))
            status = int(bool(problems or tally.damaged or tally.gone or tally.unreadable))
            lines = problems[:] if status else ["every record is what was written"]
        else:
            held = [item for item in upkeep.contents(directory, tally).values() if _is_meant(item, options)]
            said["tasks"] = rows = summary(held)
            lines = show(rows)
    except OSError as error:
        raise LaunchError(f"journal {directory}: it cannot be written to ({error.strerror})") from None
    warnings = list(places.sentences(directory, tally))
    found = owner.read(directory)
    if found is not None:
        said["owner"] = found[1]._asdict() if found[1] else {}
        lines.append(f"in use by {found[1] or 'a run that left no word of itself'}")
    if options.json:
        print(json.dumps({**said, "warnings": warnings}, indent=1))
        return status
    print(*lines, sep="\n")
    for sentence in warnings:
        print(f"sched: {sentence}", file=sys.stderr, flush=True)
    return status


def summary(held: "Iterable[Held]") -> list[dict[str, Any]]:
    """Return, for each name, how many tasks there are, their bytes, and when the first and last ended."""
    rows: dict[str, dict[str, Any]] = {}
    for item in held:
        row = rows.setdefault(
            item.name, {"name": item.name, "count": 0, "nbytes": 0, "oldest": item.time, "newest": item.time}
        )
        row["count"] += 1
        row["nbytes"] += item.nbytes
        row["oldest"] = min(row["oldest"], item.time)
        row["newest"] = max(row["newest"], item.time)
    return [rows[name] for name in sorted(rows)]


def show(rows: list[dict[str, Any]]) -> list[str]:
    """Return the summary as lines of a table, with a last one for all of it."""
    from sched.sizes import show_size

    table = [("name", "tasks", "size", "oldest", "newest")]
    total: dict[str, Any] = {
        "name": "(all)",
        "count": sum(row["count"] for row in rows),
        "nbytes": sum(row["nbytes"] for row in rows),
        "oldest": min((row["oldest"] for row in rows), default=None),
        "newest": max((row["newest"] for row in rows), default=None),
    }
    for row in [*rows, total]:
        # A name may hold anything, also what would move the cursor.
        name = "".join(c if c.isprintable() else repr(c)[1:-1] for c in row["name"])
        dates = _date(row["oldest"]), _date(row["newest"])
        table.append((name, str(row["count"]), show_size(row["nbytes"]), *dates))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in table]


def _is_meant(held: "Held", options: argparse.Namespace) -> bool:
    """Tell whether the options mean this task. To be removed, they mean none if they say nothing."""
    if options.prune and options.name is None and options.older is None:
        return False
    named = options.name is None or fnmatch.fnmatchcase(held.name, options.name)
    return named and (options.older is None or held.time < time.time() - options.older * DAY)


def _date(moment: float | None) -> str:
    return "-" if moment is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def _days(text: str) -> float:
    days = float(text)
    if not days >= 0:
        raise ValueError(text)
    return days
