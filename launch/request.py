"""A batch job as it is asked for, and what is wrong with that, before a batch system is asked.

Batch systems refuse some mistakes without a word about the limit that was passed, and accept others only to
delete the job silently, or to hold it for ever. So everything that can be known is said beforehand, all at
once, a sentence for each fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from launch.batch import Batch
from launch.machines import Machine, Queue
from launch.walltime import clock, seconds

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]*", re.ASCII)
# What no reader of a directive takes for anything else: a space ends it, a colon ends the name of a host for
# PBS, and a percent sign begins what Slurm fills in.
_PATH = re.compile(r"[A-Za-z0-9_.+=@/~-]+", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ARRAY = re.compile(r"(\d{1,9})-(\d{1,9})(?::(\d{1,9}))?(?:%(\d{1,9}))?", re.ASCII)

LONGEST_NAME = 230
"""PBS's limit for a job's name, in characters; with Slurm the name of the output would be too long, too."""


@dataclass(frozen=True, slots=True)
class Request:
    """What `sched submit` was asked for; every text as it was typed.

    Attributes:
        args: the job's arguments.
        queue: None for the machine's own; so for `filesystems`, `ranks` and `setup`.
        walltime: in one of the forms that `walltime.seconds` reads.
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
    queue: str | None = None
    nodes: int = 1
    walltime: str = "30:00"
    name: str = ""
    filesystems: str | None = None
    ranks: int | None = None
    run: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    setup: str | None = None
    after: str = ""
    array: str = ""
    output: str = ""
    spares: int = 0

    def on(self, machine: Machine) -> Request:
        """Return the same with the machine's own queue and so on, where none was asked for."""
        return replace(
            self,
            queue=machine.queue if self.queue is None else self.queue,
            filesystems=machine.filesystems if self.filesystems is None else self.filesystems,
            ranks=self.ranks or machine.tiles,
            setup=machine.setup if self.setup is None else self.setup,
        )

    @property
    def job_name(self) -> str:
        """The job's name: the one asked for, or the script's, in characters that batch systems take."""
        if self.name:
            return self.name
        stem = self.job.rpartition("/")[2].removesuffix(".py")
        return re.sub(r"[^A-Za-z0-9_+-]", "_", stem).lstrip("-+")[:LONGEST_NAME] or "sched"

    @property
    def dependency(self) -> str:
        """The dependency as PBS and Slurm both write it, as in "afterok:12"; of a request without faults."""
        kind, _, job = self.after.rpartition(":")
        return f"after{kind or 'ok'}:{job}"

    @property
    def predecessor(self) -> str:
        """The id of the job to come after; of a request without faults."""
        return self.after.rpartition(":")[2]

    @property
    def clock(self) -> str:
        """The walltime as PBS and Slurm both read it; of a request without faults."""
        return clock(seconds(self.walltime))


def faults(request: Request, machine: Machine, batch: Batch) -> list[str]:
    """Return what is wrong with a request, a sentence each: what can be told without asking the machine."""
    request = request.on(machine)
    return [
        *_of_the_text(request, machine, batch),
        *_of_the_size(request, machine, batch),
        *_of_the_array(request, machine),
    ]


def _of_the_text(request: Request, machine: Machine, batch: Batch) -> Iterator[str]:
    if not request.project and machine.needs_project:
        yield "no project is named, whose hours are spent: say --project, or set SCHED_PROJECT"
    elif request.project and not _WORD.fullmatch(request.project):
        yield f"--project {request.project!r} is no name of a project: letters, digits, '_', '-' and '.' only"
    if request.queue and not _WORD.fullmatch(request.queue):
        yield f"--queue {request.queue!r} is no name of a queue: {batch.QUEUES} lists them"
    if request.name and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", request.name, re.ASCII):
        yield (
            f"--name {request.name!r} is no name for {batch.NAME}: letters, digits, '_', '.', '+' and '-' "
            "only, no space, no '/', and a letter, digit or '_' first"
        )
    if len(request.name) > LONGEST_NAME:
        yield f"--name has {len(request.name)} characters: shorten it to {LONGEST_NAME}"
    if request.filesystems and not machine.filesystems:
        yield f"--filesystems: {machine.name} is not told what a job reads: leave it away"
    elif request.filesystems and not re.fullmatch(
        r"[A-Za-z0-9_-]+(:[A-Za-z0-9_-]+)*", request.filesystems, re.ASCII
    ):
        yield (
            f"--filesystems {request.filesystems!r} is no list of file systems: put colons between the "
            "names, as in home:flare"
        )
    for variable in request.env:
        name, equals, _ = variable.partition("=")
        if not equals or not _VARIABLE.fullmatch(name):
            yield f"--env {variable!r} sets no variable: write NAME=VALUE"
    if not (request.setup or "").strip():
        yield f"--setup has no command: leave it away for {machine.setup!r}, or say ':' for none"
    elif "\r" in (request.setup or ""):
        yield "--setup has carriage returns, which shells do not take: save it with Unix line ends (dos2unix)"
    if request.after and not re.fullmatch(f"(?:(?:ok|any|notok):)?{batch.JOB}", request.after, re.ASCII):
        yield (
            f"--after {request.after!r} is no job: give its id as {batch.SUBMIT} printed it, with 'any:' or "
            "'notok:' before it unless that job has to end well"
        )
    if request.output and not _PATH.fullmatch(request.output):
        yield (
            f"--output {request.output!r} has characters that {batch.NAME} reads in its own way in a path: "
            "use a directory without spaces, colons, commas, quotes and percent signs"
        )


def _of_the_size(request: Request, machine: Machine, batch: Batch) -> Iterator[str]:
    if request.ranks is None:
        yield (
            f"--ranks-per-node is needed: how many tiles a node of {machine.name} has is not in its file; "
            "say one rank for each tile"
        )
    elif machine.tiles and machine.tiles % request.ranks:
        fitting = ", ".join(str(n) for n in range(1, machine.tiles + 1) if machine.tiles % n == 0)
        yield (
            f"--ranks-per-node {request.ranks} cannot share a node's {machine.tiles} tiles evenly: "
            f"take one of {fitting}"
        )
    if request.spares and not machine.launcher:
        yield (
            f"--spares {request.spares}: how a node that has failed is told on {machine.name} is not known: "
            "submit without it"
        )
    time: int | None = None
    try:
        time = seconds(request.walltime)
    except ValueError as error:
        bare = request.walltime.strip().isdigit()
        yield f"--walltime {request.walltime.strip() if bare else repr(request.walltime)} {error}"
    name = request.queue or ""
    for routed, entrance in machine.routed:
        if name == routed:
            yield f"--queue {name} takes no jobs itself: say --queue {entrance}, which passes them on"
    if name in machine.gone:
        yield f"--queue {name} is not on {machine.name} any more: {batch.QUEUES} lists those that are"
    queue = machine.find(name)
    if queue is not None:
        yield from _of_the_queue(request, machine, queue, time)


def _of_the_queue(request: Request, machine: Machine, queue: Queue, time: int | None) -> Iterator[str]:
    nodes = request.nodes + request.spares
    if not queue.least <= nodes <= queue.most:
        with_spares = f" with {request.spares} to spare" if request.spares else ""
        yield (
            f"--queue {queue.name} takes {queue.least} to {queue.most} nodes, not {nodes}{with_spares}"
            f"{_elsewhere(machine, nodes)}"
        )
    if time is None:
        return
    if time < queue.shortest:
        yield (
            f"--walltime {request.walltime} is {clock(time)}, and --queue {queue.name} takes "
            f"{clock(queue.shortest)} or more; with hours it has two colons, as in 1:30:00"
        )
    elif time > queue.longest(nodes):
        yield (
            f"--walltime {request.walltime} is {clock(time)}, and --queue {queue.name} takes "
            f"{clock(queue.longest(nodes))} or less for {nodes} node{'s' if nodes > 1 else ''}"
        )


def _elsewhere(machine: Machine, nodes: int) -> str:
    """Say which queues take so many nodes."""
    fitting = [
        f"--queue {queue.name} (up to {queue.longest(nodes) // 3600} h)"
        for queue in machine.queues
        if queue.least <= nodes <= queue.most and not queue.by_request
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
    queue = machine.find(request.queue or "")
    limit = queue.at_a_time if queue else None
    if limit is not None and min(elements, int(match[4] or elements)) > limit:
        yield (
            f"--array {request.array} has {elements} elements, and in --queue {request.queue} none of them "
            f"starts while more than {limit} may: write {match[0].partition('%')[0]}%{limit}"
        )
