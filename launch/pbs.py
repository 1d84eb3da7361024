"""A batch job as it is asked for, and what is wrong with that, before PBS is asked.

PBS refuses some mistakes without a word about the limit that was passed, and accepts others only to delete
the job silently, or to hold it for ever. So everything that can be known is said beforehand, all at once, a
sentence for each fault. What PBS does with each was seen on OpenPBS 23.06; Aurora's own build and hooks may
say more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from launch.machines import Machine, Queue

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]*", re.ASCII)
# What no reader of a directive takes for anything else: a space ends it, a colon ends the name of a host.
_PATH = re.compile(r"[A-Za-z0-9_.+=@%/~-]+", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_UNITS = re.compile(r"(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,7})s)?", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,5}):)?(\d{1,6}):(\d{2})", re.ASCII)
_ARRAY = re.compile(r"(\d{1,9})-(\d{1,9})(?::(\d{1,9}))?(?:%(\d{1,9}))?", re.ASCII)
_AFTER = re.compile(r"(?:(ok|any|notok):)?(\d{1,12}(?:\[\d*\])?(?:\.[A-Za-z0-9.-]+)?)", re.ASCII)

LONGEST_NAME = 230
"""PBS's limit for a job's name, in characters."""


@dataclass(frozen=True, slots=True)
class Request:
    """What `sched submit` was asked for; every text as it was typed.

    Attributes:
        args: the job's arguments.
        walltime: in one of the forms that `seconds` reads.
        ranks: ranks on each node.
        run: options of `sched run`, a word each.
        env: NAME=VALUE, a text each.
        setup: shell commands that bring Python.
        after: [ok:|any:|notok:]JOBID, or empty.
        array: FIRST-LAST[:STEP][%AT_A_TIME], or empty.
        output: a directory for the output, or empty: the one of the submission.
        spares: nodes more than `nodes`, for those that fail.
    """

    job: str
    args: tuple[str, ...] = ()
    project: str = ""
    queue: str = "debug"
    nodes: int = 1
    walltime: str = "30:00"
    name: str = ""
    filesystems: str = "home:flare"
    ranks: int = 12
    run: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    setup: str = "module load frameworks"
    after: str = ""
    array: str = ""
    output: str = ""
    spares: int = 0


def seconds(text: str) -> int:
    """Read a walltime: "30:00" is thirty minutes, as for PBS; "1:30:00", "90m", "2h", "1h30m", "600s".

    Returns:
        The time in seconds.

    Raises:
        ValueError: It is none of these, or a bare number; the message says what to write.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        number = int(text)
        raise ValueError(
            f"--walltime {text} may mean minutes or seconds: write {number}m or {number}:00 for minutes, "
            f"{number}s for seconds"
        )
    if clock_form := _CLOCK.fullmatch(text):
        hours, minutes, rest = (int(part or 0) for part in clock_form.groups())
        if rest < 60 and (clock_form[1] is None or minutes < 60):
            return hours * 3600 + minutes * 60 + rest
    elif text and (units := _UNITS.fullmatch(text)):
        hours, minutes, rest = (int(part or 0) for part in units.groups())
        return hours * 3600 + minutes * 60 + rest
    raise ValueError(
        f"--walltime {text!r} is no time: write minutes and seconds (30:00), hours, minutes and seconds "
        "(1:30:00), or 90m, 2h, 1h30m"
    )


def clock(time: int) -> str:
    """Return seconds as PBS and people read them without doubt: "00:30:00"."""
    return f"{time // 3600:02}:{time // 60 % 60:02}:{time % 60:02}"


def job_name(request: Request) -> str:
    """Return the job's name: the one asked for, or the script's, in characters that PBS takes."""
    if request.name:
        return request.name
    stem = request.job.rpartition("/")[2].removesuffix(".py")
    return re.sub(r"[^A-Za-z0-9_+-]", "_", stem).lstrip("-+")[:LONGEST_NAME] or "sched"


def dependency(request: Request) -> tuple[str, str]:
    """Return the kind of the dependency ("afterok") and the job's id; of a request that has no fault."""
    match = _AFTER.fullmatch(request.after)
    assert match, "a request with a fault"
    return f"after{match[1] or 'ok'}", match[2]


def faults(request: Request, machine: Machine) -> list[str]:
    """Return what is wrong with a request, a sentence each: what can be told without asking the machine."""
    return [
        *_of_the_text(request, machine),
        *_of_the_size(request, machine),
        *_of_the_array(request, machine),
    ]


def _of_the_text(request: Request, machine: Machine) -> Iterator[str]:
    if not request.project:
        yield "no project is named, whose hours are spent: say --project, or set SCHED_PROJECT"
    elif not _WORD.fullmatch(request.project):
        yield f"--project {request.project!r} is no name of a project: letters, digits, '_', '-' and '.' only"
    if not _WORD.fullmatch(request.queue):
        yield f"--queue {request.queue!r} is no name of a queue: `qstat -Q` lists them"
    if request.name and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", request.name, re.ASCII):
        yield (
            f"--name {request.name!r} is no name for PBS: letters, digits, '_', '.', '+' and '-' only, "
            "no space, no '/', and a letter, digit or '_' first"
        )
    if len(request.name) > LONGEST_NAME:
        yield f"--name has {len(request.name)} characters, and PBS takes {LONGEST_NAME}: shorten it"
    if not re.fullmatch(r"[A-Za-z0-9_-]+(:[A-Za-z0-9_-]+)*", request.filesystems, re.ASCII):
        yield (
            f"--filesystems {request.filesystems!r} is no list of file systems: put colons between the "
            "names, as in home:flare"
        )
    if machine.tiles % request.ranks:
        fitting = ", ".join(str(n) for n in range(1, machine.tiles + 1) if machine.tiles % n == 0)
        yield (
            f"--ranks-per-node {request.ranks} cannot share a node's {machine.tiles} tiles evenly: "
            f"take one of {fitting}"
        )
    for variable in request.env:
        name, equals, _ = variable.partition("=")
        if not equals or not _VARIABLE.fullmatch(name):
            yield f"--env {variable!r} sets no variable: write NAME=VALUE"
    if not request.setup.strip():
        yield "--setup has no command: leave it away for 'module load frameworks', or say ':' for none"
    elif "\r" in request.setup:
        yield "--setup has carriage returns, which PBS refuses: save it with Unix line ends (dos2unix)"
    if request.after and not _AFTER.fullmatch(request.after):
        yield (
            f"--after {request.after!r} is no job: give its id as qsub printed it, with 'any:' or 'notok:' "
            "before it unless that job has to end well"
        )
    if request.output and not _PATH.fullmatch(request.output):
        yield (
            f"--output {request.output!r} has characters that PBS reads in its own way in a path: use a "
            "directory without spaces, colons, commas and quotes"
        )


def _of_the_size(request: Request, machine: Machine) -> Iterator[str]:
    time: int | None = None
    try:
        time = seconds(request.walltime)
    except ValueError as error:
        yield str(error)
    name = request.queue
    for routed, entrance in machine.routed:
        if name == routed:
            yield f"--queue {name} takes no jobs itself: say --queue {entrance}, which passes them on"
    if name in machine.gone:
        yield f"--queue {name} is not on {machine.name} any more: `qstat -Q` lists those that are"
    queue = machine.queue(name)
    if queue is None:
        return
    nodes = request.nodes + request.spares
    if not queue.least <= nodes <= queue.most:
        with_spares = f" with {request.spares} to spare" if request.spares else ""
        yield (
            f"--queue {name} takes {queue.least} to {queue.most} nodes, not {nodes}{with_spares}"
            f"{_elsewhere(machine, nodes)}"
        )
    if time is None:
        return
    if time < queue.shortest:
        yield (
            f"--walltime {request.walltime} is {clock(time)}, and --queue {name} takes "
            f"{clock(queue.shortest)} or more; with hours it has two colons, as in 1:30:00"
        )
    elif time > queue.longest(nodes):
        yield (
            f"--walltime {request.walltime} is {clock(time)}, and --queue {name} takes "
            f"{clock(queue.longest(nodes))} or less for {nodes} node{'s' if nodes > 1 else ''}"
        )


def _elsewhere(machine: Machine, nodes: int) -> str:
    """Say which queues take so many nodes."""

    def described(queue: Queue) -> str:
        return f"--queue {queue.name} (up to {queue.longest(nodes) // 3600} h)"

    fitting = [
        described(queue)
        for queue in machine.queues
        if queue.least <= nodes <= queue.most and queue.name != "visualization"  # that one is by request only
    ]
    return f": take {' or '.join(fitting)}" if fitting else ", and no other queue takes so many"


def _of_the_array(request: Request, machine: Machine) -> Iterator[str]:
    if not request.array:
        return
    match = _ARRAY.fullmatch(request.array)
    if match is None or int(match[1]) >= int(match[2]) or match[3] == "0" or match[4] == "0":
        yield f"--array {request.array!r} is no range: write FIRST-LAST, or FIRST-LAST%AT_A_TIME, as in 0-9%2"
        return
    elements = (int(match[2]) - int(match[1])) // int(match[3] or 1) + 1
    queue, limit = machine.array_limit
    if request.queue == queue and min(elements, int(match[4] or elements)) > limit:
        yield (
            f"--array {request.array} has {elements} elements, and in --queue {queue} none of them starts "
            f"while more than {limit} may: write {match[0].partition('%')[0]}%{limit}"
        )
