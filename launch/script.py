"""The batch script of a request: what differs between jobs is at its top, the rest is the machine's.

`aurora.pbs` is the script of a request with defaults. Whatever a user gives comes through unchanged, because
it stands in the script as a quoted word; nothing is passed by `qsub -v`, which loses quotes and all after a
comma.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping

from launch import pbs, shell, slurm
from launch.batch import Batch
from launch.cores import show
from launch.machines import Machine, fields
from launch.request import Request

SYSTEMS: Mapping[str, Batch] = {"pbs": pbs, "slurm": slurm}
"""The batch systems, by what machines call them."""

_WIDTH = 110


def word(text: str) -> str:
    """Quote a text for bash, on one line of printable characters.

    PBS refuses a script with a carriage return anywhere, and reads a line that begins with #PBS. Bytes that
    are not UTF-8 (surrogates, as in `sys.argv`) are written as their numbers too.
    """
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(_escaped(character) for character in text) + "'"


def _escaped(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def words(texts: tuple[str, ...]) -> str:
    """Quote texts as the elements of an array of bash."""
    return f"({' '.join(word(text) for text in texts)})"


def variable(text: str) -> str:
    """Quote NAME=VALUE, keeping the name readable."""
    name, _, value = text.partition("=")
    return f"{name}={word(value)}"


def filled(text: str, places: Mapping[str, str]) -> str:
    """Quote a word of a machine's command, with the script's variables for its places.

    The name of an option stays as it is, for readers: --cpu-bind="list:$cores".

    Args:
        places: what stands for each of `machines.PLACES`, as it may between double quotes.
    """
    cut = fields(places, text)
    if len(cut) == 1:
        return word(text)
    option = re.match(r"--?[a-z-]+=", text)
    inside = "".join(re.sub(r'(["\\$`])', r"\\\1", before) + filler for before, filler in cut)
    name = option[0] if option else ""
    return f'{name}"{inside.removeprefix(name)}"'


def render(request: Request, machine: Machine) -> str:
    """Write the script of a request without faults, for a machine with a batch system.

    Returns:
        The script, with a line end at its end. What was no UTF-8 among the arguments of this process is
        written as escapes, so it can be encoded; only a `setup` may have surrogates.
    """
    batch = SYSTEMS[machine.batch]
    request = request.on(machine)
    parts = [
        *_top(request, machine, batch),
        "",
        *_guide(machine, batch),
        "",
        *_prepared(request, machine, batch),
        "",
        *_started(request, machine, batch),
    ]
    return "\n".join(parts) + "\n"


def _top(request: Request, machine: Machine, batch: Batch) -> Iterator[str]:
    """Yield what a person may edit."""
    yield "#!/bin/bash -l"
    for directive in batch.directives(request, machine):
        yield f"{batch.MARK} {directive}"
    yield f'cd "${batch.DIRECTORY}" || exit 1'
    yield (request.setup or "").rstrip("\n")
    job = request.job if not request.job.startswith("-") else f"./{request.job}"
    yield f"job={words((job, *request.args))}"
    yield f"options={words(('--device', machine.device, *request.run))}"
    yield f"env=({' '.join(variable(text) for text in request.env)})"
    if machine.launcher:
        yield f"SPARES={request.spares}"
    if batch.AGAIN:
        yield "RESUBMIT=0"
    if machine.launcher or batch.AGAIN:
        yield "journal="


def _guide(machine: Machine, batch: Batch) -> Iterator[str]:
    """Yield what a person should know."""
    yield from _comment(
        f"A batch job on {machine.name}: every tile of every node works for the script `job`."
    )
    yield "#"
    home = "" if machine.from_home else ", which must not be your home directory"
    yield from _comment(
        "Edit, above: the project, the queue, the number of nodes and the walltime (HH:MM:SS) in the lines "
        f"with {batch.MARK}, and the job with its arguments, "
        'as in job=("my job.py" --steps 100). Nothing else needs touching. '
        f"Then hand the script to {batch.SUBMIT}, from the directory of the job{home}. "
        f"`sched submit` writes such a script, checks what {batch.NAME} would refuse or lose silently, and "
        "submits it."
    )
    yield "#"
    yield "# Also above, if you like:"
    for name, what in _knobs(machine, batch):
        yield f"#   {name:<12}  {what}"
    if machine.queues:
        yield "#"
        yield from _comment(_queues(machine))
    yield "#"
    yield from _comment(
        f"Comments stand here, below the first command, because {batch.NAME} has stopped looking for "
        f"directives by then: between or after the {batch.MARK} lines they are not safe. The -l of the first "
        "line brings `module`, whatever your login shell is."
    )
    if machine.about:
        yield "#"
        yield from _comment(machine.about)


def _knobs(machine: Machine, batch: Batch) -> Iterator[tuple[str, str]]:
    yield "before job=", "what brings Python; a virtual environment of your own is activated on a line there"
    yield "options", f'of `sched run`, as in (--device {machine.device} --tile-memory "40 GiB")'
    yield "env", 'variables for the job, as in (STEPS=100 TITLE="a b")'
    if machine.launcher:
        yield "SPARES", "so many of the nodes are kept back, and take the place of nodes that fail"
    if batch.AGAIN:
        yield "RESUBMIT", "1: a job that stops in time before its walltime, with more to do, is queued again"
    if machine.launcher or batch.AGAIN:
        yield "journal", "leave it empty: `sched run` keeps no journal yet, and without one nothing goes on"


def _queues(machine: Machine) -> str:
    known = (
        f"{queue.name} takes {queue.least} to {queue.most} nodes for up to {queue.limits[-1][1] // 3600} h"
        for queue in machine.queues
        if not queue.by_request
    )
    files = " If the job reads another file system, name it in filesystems=." if machine.filesystems else ""
    return f"Queues: {', '.join(known)}.{files}"


def _prepared(request: Request, machine: Machine, batch: Batch) -> Iterator[str]:
    """Yield what comes before the ranks are started."""
    yield "# Not earlier: modules read variables that may be unset."
    yield "set -u"
    yield ""
    yield from _comment(
        "At the end of the walltime, and when the job is deleted, the processes here get SIGTERM. "
        "The ranks are still waited for."
    )
    if machine.launcher or batch.AGAIN:
        yield "stopped="
        yield "trap 'stopped=yes' TERM"
    else:
        yield "trap : TERM"
    yield ""
    yield "scratch=$(mktemp -d) || exit 1"
    yield "trap 'rm -rf \"$scratch\"' EXIT"
    yield ""
    yield "# What `sched run` is told of the batch job: nothing, until it takes --walltime and --journal."
    yield "handed=()"
    yield ""
    notes = dict(machine.notes)
    cores, threads = _cores(request, machine)
    if machine.environment:
        yield "# After what brings Python, which may set some of these otherwise."
    for name, value in machine.environment:
        yield from _comment(notes.get(name, ""))
        yield f"export {name}={word(value.replace('{threads}', str(threads)))}"
    yield ""
    beside = f", each with the cores beside its tiles: {notes.get('cores', '')}" if machine.cores else ""
    yield from _comment(f"Ranks on each node{beside}".rstrip(": .") + ".")
    yield f"ranks={request.ranks}"
    if machine.needs("cores"):
        yield f"cores={cores}"


def _started(request: Request, machine: Machine, batch: Batch) -> Iterator[str]:
    """Yield what starts the ranks, and what follows."""
    _, threads = _cores(request, machine)
    places = {
        "nodes": "$nodes",
        "ranks": "$ranks",
        "total": "$((nodes * ranks))",
        "hosts": "$scratch/hosts",
        "cores": "$cores",
        "threads": str(threads),
    }
    yield "# Each node once."
    yield f'{batch.HOSTS} >"$scratch/good"'
    yield shell.NODES_BUT_SPARES if machine.launcher else shell.NODES
    yield ""
    yield "start() {"
    if machine.launcher:
        yield "    trap 'stopped=yes' TERM # again, for the shell of a pipe"
    if machine.needs("hosts"):
        yield '    head -n "$nodes" "$scratch/good" >"$scratch/hosts"'
    yield '    env "${env[@]}" \\'
    yield f"        {' '.join(filled(text, places) for text in machine.launch)} \\"
    yield '        python -m sched run "${options[@]}" "${handed[@]}" "${job[@]}"'
    yield "}"
    yield ""
    if machine.launcher:
        yield shell.LOST
        yield ""
    if batch.AGAIN:
        yield shell.STATE
        yield ""
    yield shell.WITH_SPARES if machine.launcher else shell.ONCE
    yield ""
    if batch.AGAIN:
        yield shell.AGAIN.replace("@AGAIN@", batch.AGAIN).replace("@ARRAY@", batch.ARRAY)
    yield f'exit "$status" # so that {batch.NAME}, and whoever waits for it, see how the job ended'


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _cores(request: Request, machine: Machine) -> tuple[str, int]:
    """Return the cores of a node's ranks, "1-8:9-16", and how many the first has; "" and 0 if unknown."""
    if not machine.cores or not request.ranks:
        return "", 0
    each = len(machine.cores) // request.ranks
    ranks = [
        [
            core
            for tile in machine.cores[start : start + each]
            for first, last in tile
            for core in range(first, last + 1)
        ]
        for start in range(0, len(machine.cores), each)
    ]
    return ":".join(map(show, ranks)), len(ranks[0])
