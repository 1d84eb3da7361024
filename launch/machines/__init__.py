"""Machines as data: what a batch system takes, what brings Python, which cores lie beside which tiles.

Each machine is a TOML file, beside this one or a user's own; `aurora.toml` says what each key means. Nothing
of a machine stands anywhere else, so adding one touches no code. The rules:

* facts only, each with its source and date in the file. What is not known is left out, and not checked:
  queues come and go, and a name that is not here is no fault;
* a file that is wrong is refused as a whole, with one sentence that names the file and the key.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from launch.machines.table import MachineError as MachineError, Table
from launch.walltime import seconds

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_HERE = Path(__file__).parent

BATCH = ("pbs", "slurm", "none")
LAUNCHERS = ("pals",)
PLACES = ("nodes", "ranks", "total", "hosts", "cores", "threads")
"""What may stand in braces in `launch`: numbers of nodes, of ranks on each and in all; a file with a host a
line; and for each rank of a node its cores, and how many they are."""

_RANGES = re.compile(r"\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]*", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FILESYSTEMS = re.compile(r"[A-Za-z0-9_-]+(:[A-Za-z0-9_-]+)*", re.ASCII)
_PLACE = re.compile(r"\{(\w*)\}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Queue:
    """What one queue takes.

    Attributes:
        least: the fewest nodes.
        limits: (nodes, seconds) in rising order: up to so many nodes, a job may last so long.
        shortest: the shortest walltime, in seconds.
        by_request: it is not for everybody, so it is not proposed to anybody.
        at_a_time: with more elements of an array than these waiting, none of them ever starts; None: no
            such limit is known.
    """

    name: str
    least: int
    limits: tuple[tuple[int, int], ...]
    shortest: int = 0
    by_request: bool = False
    at_a_time: int | None = None

    @property
    def most(self) -> int:
        """The most nodes."""
        return self.limits[-1][0]

    def longest(self, nodes: int) -> int:
        """Return the longest walltime for `nodes` nodes, in seconds; above `most` that of the largest job."""
        return next((seconds for most, seconds in self.limits if nodes <= most), self.limits[-1][1])


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine, as its file describes it; `aurora.toml` says more of each.

    Attributes:
        batch: the batch system: "pbs", "slurm" or "none".
        about: what a reader of the script should know of how far all this has been tried.
        device: the tiles, for `sched run --device`.
        tiles: tiles of a node, None if not known.
        cores: for each tile of a node, in order, the ranges (first, last) of cores beside it; may be empty.
        setup: shell commands that bring Python.
        launch: the words of the command that starts the ranks, with `PLACES` in braces.
        launcher: "pals" if that is HPE's, so that its words for a node that has failed are known; or empty.
        queue: where jobs go if nobody says; empty: where the batch system sends them.
        filesystems: what a job reads if nobody says; empty: this batch system is not told.
        directives: more of them, as they are.
        environment: variables for the job, set after `setup`.
        notes: why: by the name of a variable, or "cores".
        needs_project: no job without a project.
        from_home: jobs may be submitted from the home directory.
        queues: the queues that take jobs, as far as known.
        routed: queues that are fed by another one and take no job themselves, with the name of that one.
        gone: names of queues that old scripts still have.
    """

    name: str
    batch: str
    about: str = ""
    device: str = ""
    tiles: int | None = None
    cores: tuple[tuple[tuple[int, int], ...], ...] = ()
    setup: str = ""
    launch: tuple[str, ...] = ()
    launcher: str = ""
    queue: str = ""
    filesystems: str = ""
    directives: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    needs_project: bool = False
    from_home: bool = True
    queues: tuple[Queue, ...] = ()
    routed: tuple[tuple[str, str], ...] = ()
    gone: tuple[str, ...] = ()

    def find(self, queue: str) -> Queue | None:
        """Return the queue of that name, None if it is not known."""
        return next((known for known in self.queues if known.name == queue), None)

    def needs(self, place: str) -> bool:
        """Tell whether its commands or variables name one of `PLACES`."""
        return any(f"{{{place}}}" in text for text in (*self.launch, *dict(self.environment).values()))


def names() -> list[str]:
    """Return the names of the machines that have a file here."""
    return sorted(path.stem for path in _HERE.glob("*.toml"))


def load(choice: str) -> Machine:
    """Return a machine by its name here, or from a file: with a '/' in it, or '.toml' at its end.

    Raises:
        MachineError: There is none of that name, or its file cannot be read, or is wrong; the message says
            which file, which key and why.
    """
    if "/" in choice or choice.endswith(".toml"):
        path = Path(choice)
    elif choice in names():
        path = _HERE / f"{choice}.toml"
    else:
        raise MachineError(
            f"there is no machine {choice!r}: take one of {', '.join(names())}, or name a file of your own, "
            f"as in ./mine.toml (a copy of one in {_HERE})"
        )
    try:
        text = path.read_bytes().decode()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no UTF-8"
        raise MachineError(f"the machine file {choice!r} cannot be read ({why}): name another one") from None
    return read(text, str(path))


def read(text: str, path: str) -> Machine:
    """Read a machine's file.

    Args:
        text: what it holds.
        path: where it is, for messages.

    Raises:
        MachineError: It is no TOML, or has a key that is missing, unknown, or not what it should be.
    """
    try:
        facts = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MachineError(f"{path} is no TOML: {error}") from None
    table = Table(facts, path, Machine.__dataclass_fields__)
    name = table.line("name")
    batch = table.choice("batch", BATCH)
    if batch == "none":
        table.only(("name", "batch", "about"), "a machine without a batch system")
        return Machine(name, batch, table.text("about", ""))
    cores = tuple(_cores(table, n, each) for n, each in enumerate(table.texts("cores", ())))
    machine = Machine(
        name=name,
        batch=batch,
        about=table.text("about", ""),
        device=table.word("device", _WORD),
        tiles=table.number("tiles", None) or len(cores) or None,
        cores=cores,
        setup=table.text("setup"),
        launch=table.texts("launch"),
        launcher=table.choice("launcher", LAUNCHERS, ""),
        queue=table.word("queue", _WORD, ""),
        filesystems=table.word("filesystems", _FILESYSTEMS, ""),
        directives=table.texts("directives", ()),
        environment=table.pairs("environment"),
        notes=table.pairs("notes"),
        needs_project=table.flag("needs_project", False),
        from_home=table.flag("from_home", True),
        queues=tuple(_queue(each) for each in table.tables("queues", Queue.__dataclass_fields__)),
        routed=table.pairs("routed"),
        gone=table.texts("gone", ()),
    )
    _check(machine, table)
    return machine


def _check(machine: Machine, table: Table) -> None:
    """Refuse what fits no other key of the same file."""
    if machine.cores and machine.tiles != len(machine.cores):
        table.refuse(
            "tiles", f"is {machine.tiles}, but cores has {len(machine.cores)} entries: a tile has one each"
        )
    if not machine.setup.strip() or "\r" in machine.setup:
        table.refuse("setup", "has no command, or carriage returns: write shell commands, or ':' for none")
    if not machine.launch:
        table.refuse("launch", 'has no words: begin with the command, as in ["mpiexec", "-n", "{total}"]')
    if machine.launcher and not machine.needs("hosts"):
        table.refuse("launcher", "is 'pals', which is told the nodes: put {hosts} into launch")
    variables = dict(machine.environment)
    for name in variables:
        if not _VARIABLE.fullmatch(name):
            table.refuse(f"environment.{name}", "is no name of a variable: letters, digits and '_' only")
    for name in dict(machine.notes):
        if name not in (*variables, "cores"):
            table.refuse(f"notes.{name}", "is about nothing here: name a variable of environment, or cores")
    for key, texts in (("launch", machine.launch), ("environment", variables.values())):
        known = PLACES if key == "launch" else ("threads",)
        for place in _PLACE.findall(" ".join(texts)):
            if place not in known:
                braces = ", ".join(f"{{{each}}}" for each in known)
                table.refuse(key, f"has {{{place}}}, which nobody fills in: take of {braces}")
            if place in ("cores", "threads") and not machine.cores:
                table.refuse(
                    key, f"has {{{place}}}, but there is no key cores: say which lie beside each tile"
                )


def _cores(table: Table, number: int, text: str) -> tuple[tuple[int, int], ...]:
    """Read "1-8" or "1-8,105-112"."""
    ranges: list[tuple[int, int]] = []
    for part in text.split(",") if _RANGES.fullmatch(text) else ():
        first, _, last = part.partition("-")
        ranges.append((int(first), int(last or first)))
    if not ranges or any(last < first for first, last in ranges):
        table.refuse(
            f"cores[{number}]", f"is {text!r}, which is no list of cores: write them as 1-8 or 1-8,105-112"
        )
    return tuple(ranges)


def _queue(table: Table) -> Queue:
    limits = []
    for nodes, time in table.limits("limits"):
        try:
            limits.append((nodes, seconds(time)))
        except ValueError as error:
            table.refuse("limits", f"has {time!r}, which {error}")
    if not limits or limits != sorted(limits):
        table.refuse("limits", 'does not rise: write [nodes, time] pairs, as in [[2, "1h"], [9, "6h"]]')
    shortest = 0
    try:
        shortest = seconds(table.text("shortest", "0s"))
    except ValueError as error:
        table.refuse("shortest", str(error))
    least = table.number("least", 1)
    return Queue(
        name=table.word("name", _WORD),
        least=least or 1,
        limits=tuple(limits),
        shortest=shortest,
        by_request=table.flag("by_request", False),
        at_a_time=table.number("at_a_time", None),
    )


def fields(words: Mapping[str, str], text: str) -> list[tuple[str, str]]:
    """Cut a text at its braces: pairs of what stands before a place and what fills it in, the last one "".

    Args:
        words: what fills in each place.
        text: with places of `PLACES` only.
    """
    cut = _PLACE.split(text)
    return list(zip(cut[::2], [*(words[name] for name in cut[1::2]), ""], strict=True))
