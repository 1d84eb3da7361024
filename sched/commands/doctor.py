"""`sched doctor`: finds what would keep a job from running, or make it slow, and says how to mend it.

Every rank looks at its own process and node; rank 0 prints, and what many have found is said once. When
nothing is found that would stop a job, a run is begun as a job's is, and something is computed on every tile.
MPI is started after all else, and a second process watches: if MPI never comes up, or ends the process, that
one says so, with what has been found by then.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sched.doctor.checks import Shared
    from sched.doctor.facts import Finding
    from sched.siblings import ranks

FOUND = 2
"""The exit status if a job would not run."""

LIMIT = 150.0
"""Seconds for MPI to come up, and for the trial run; what this run tries itself has limits below it."""

SHOWN = 40
"""Findings for people. What differs from rank to rank may be a thousand."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--device",
        default=os.environ.get("SCHED_DEVICE") or "auto",
        choices=("auto", "level_zero", "cpu", "host"),
        help="what the tiles of the job would be: as for run",
    )
    parser.add_argument(
        "--oversubscribe", action="store_true", help="allow more ranks than tiles: as for run"
    )
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def main(options: argparse.Namespace) -> int:
    """Look, check, try and print; return the exit status, 0 if a job would run."""
    from sched.doctor import checks
    from sched.doctor.look import look
    from sched.errors import SchedError
    from sched.siblings import binding, ranks

    try:
        world = ranks.find(os.environ)
    except binding.BindingError as error:  # a launcher's variable is no number
        return _report(options, checks.merge([[_error("the rank is not known", str(error))]]))
    facts = look(options.device, world)
    found = checks.find(facts)
    # The status is rank 0's, too: a launcher ends all ranks if one fails, and the report would be lost.
    speaks = world.rank in (None, 0)
    if facts.launched and not checks.may_start_mpi(facts):
        if speaks:
            note = "MPI was not started, so only rank 0 has looked"
            return _report(options, checks.alone(found), note=note)
        return 0
    everyone = [found]
    with _watched(world, found):
        if facts.launched:
            try:
                everyone, speaks = _gather(world, found)
            except SchedError as error:
                shared = checks.merge([[_error("the ranks cannot meet", str(error)), *found]])
                return _report(options, shared) if speaks else 0
        shared = checks.merge(everyone) if facts.launched else checks.alone(found)
        begun = ""
        if not checks.stops(shared):
            begun, more = _try(options)
            shared = checks.ordered([*shared, *checks.alone(more)])
    if speaks:
        return _report(options, shared, begun, ranks=len(everyone))
    return 0


def _gather(world: "ranks.World", found: "list[Finding]") -> "tuple[list[list[Finding]], bool]":
    """Start MPI and bring together what all ranks have found. Collective.

    Returns:
        What each has found, by rank; and whether this is rank 0.

    Raises:
        LaunchError: MPI has no thread support, or each process takes itself for the only one.
    """
    from sched.errors import LaunchError
    from sched.siblings import environment
    from sched.transport.mpi import MpiTransport, library

    transport = MpiTransport()
    clash = environment.clashes(world, transport.size)
    if clash is not None:
        raise LaunchError(f"{clash} (mpi4py uses {library()})")
    everyone: list[list[Finding]] = transport.allgather(found)
    transport.close(10.0)
    return everyone, transport.rank == 0


def _try(options: argparse.Namespace) -> "tuple[str, list[Finding]]":
    """Begin a run, and compute something on every tile. Collective.

    Returns:
        What the run says of its tiles, "" on other ranks than 0 and if it did not begin; and what was wrong.
    """
    from sched.commands.trial import on_every_tile
    from sched.doctor.facts import Finding, Severity
    from sched.runtime.settings import Settings

    words: list[str] = []
    sums: list[int] = []
    try:
        settings = Settings(device=options.device, oversubscribe=options.oversubscribe)
        status = on_every_tile(settings, compute, sums.extend, words.append)
    except Exception as error:
        return "", [_error("a run cannot begin", str(error) or type(error).__name__)]
    wrong = [tile for tile, total in enumerate(sums) if total != SUM]
    if status:
        return "", [_error("a run cannot begin, or not end", " ".join(words) or "rank 0 says why.")]
    if wrong:
        return "", [
            _error(f"tiles {wrong[:12]} compute wrongly", f"The sum of 0 to 999 is {sums[wrong[0]]} there.")
        ]
    # The last words are about the tiles; what a run says before them is what has not gone as it might.
    before = [Finding(Severity.WARNING, "when the run began", said, "") for said in words[:-1]]
    return (words[-1] if words else ""), before


SUM = 499_500


def compute() -> int:
    """Add up the numbers to 999 on the tile of this task."""
    import sched

    return int(sched.xp.arange(1000, dtype="i4").sum())


def _error(seen: str, why: str) -> "Finding":
    from sched.doctor.facts import Finding, Severity

    return Finding(Severity.ERROR, seen, why, "")


def _report(
    options: argparse.Namespace,
    shared: "Sequence[Shared]",
    begun: str = "",
    *,
    ranks: int = 1,
    note: str = "",
) -> int:
    """Print what was found; return the exit status."""
    import json

    from sched.doctor import checks

    stops = checks.stops(shared)
    if options.json:
        findings = [each.as_dict() for each in shared]
        known = {"ok": not stops, "ranks": ranks, "run": begun, "note": note, "findings": findings}
        print(json.dumps(known, indent=2))
    else:
        for each in shared[:SHOWN]:
            print(checks.show(each, ranks), end="\n\n")
        if len(shared) > SHOWN:
            print(f"... and {len(shared) - SHOWN} more, which --json has\n")
        print(checks.summary(shared, begun) + (f" ({note})" if note else ""))
    sys.stdout.flush()
    return FOUND if stops else 0


# It outlives the process that has started it, and asks nothing of Python's but what is built in.
_WATCHER = """
import os, select, sys
limit, parent, words = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
ready, _, _ = select.select([0], [], [], limit)
if not ready:
    words += f"\\nsched doctor: it has not come to an end within {limit:.0f} s, and is killed\\n"
if not ready or os.read(0, 2) != b"ok":
    os.write(2, words.encode())
    if not ready:
        os.kill(parent, 9)
"""


@contextmanager
def _watched(world: "ranks.World", found: "Sequence[Finding]") -> Iterator[None]:
    """See that somebody says what was found if this process dies or hangs inside.

    Rank 0 is enough: when a rank dies the launcher ends the others, and where one hangs the others wait.
    """
    from subprocess import DEVNULL, PIPE, Popen

    from sched.doctor import checks

    if world.rank not in (None, 0):
        yield
        return
    ended, others = f"this process on {checks.here()}", ""
    if world.rank is not None:
        ended, others = f"rank 0 on {checks.here()}", ", by its own fault or because another rank has died"
    shown = "".join(f"{checks.show(each)}\n\n" for each in checks.alone(found))
    words = f"sched doctor: {ended} was killed in the trial run{others}, so a job would not run."
    words += f" Found before that:\n\n{shown}" if shown else "\n"
    child = None
    with suppress(OSError):
        child = Popen(
            [sys.executable, "-I", "-S", "-c", _WATCHER, str(LIMIT), str(os.getpid()), words],
            stdin=PIPE,
            stdout=DEVNULL,
            start_new_session=True,  # what ends this process's group must not end the watcher
        )
    try:
        yield
    finally:
        if child is not None and child.stdin is not None:
            with suppress(OSError):
                child.stdin.write(b"ok")
                child.stdin.close()
            child.wait(10)
