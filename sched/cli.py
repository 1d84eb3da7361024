"""The command line: `sched` and `python -m sched`. Each command is a module of `sched.commands`.

Only the module of the command that is asked for is loaded: on thousands of ranks every import counts.
"""

import argparse
import importlib
import os
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from sched import __version__

CANNOT_BEGIN = 2

HEARD = 0.5
"""Seconds that a rank with nothing to say stays: when one ends, launchers may drop what others have said."""

COMMANDS = {
    "run": "run a job; under mpiexec on the tiles of all ranks",
    "tiles": "show which rank would have which tile, on which cores",
    "doctor": "find what would keep a job from running, and say how to mend it",
    "submit": "submit a job to PBS or Slurm",
    "bench": "measure this machine",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    own, rest = words, []
    if words[:1] == ["submit"] and "--" in words:
        # argparse cannot: it takes positionals in one go, and so `JOB --nodes 2 -- ARGS` has one too many.
        cut = words.index("--")
        own, rest = words[:cut], words[cut + 1 :]
    options, unknown = _parser(words[0] if words else "").parse_known_args(own)
    if unknown:
        options.parser.refuse(unknown)
    options.words = words
    if rest or words[:1] == ["submit"]:
        options.args = rest
    from sched.errors import SchedError
    from sched.siblings import binding

    try:
        status: int = options.command(options)
    except (SchedError, binding.BindingError) as error:
        if _speaks_for_all():
            print(f"sched: {error}", file=sys.stderr, flush=True)
        else:
            time.sleep(HEARD)
        return CANNOT_BEGIN
    return status


def _speaks_for_all() -> bool:
    """Whether this is the rank whose word is enough, where all ranks have the same to say."""
    from sched.siblings import binding, ranks

    try:
        world = ranks.find(os.environ)
        return world.rank in (None, 0) or world.local_rank == 0
    except binding.BindingError:  # its message is what is to be said
        return True


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong once, not from every rank."""
        if _speaks_for_all():
            super().error(message)
        raise SystemExit(CANNOT_BEGIN)

    def refuse(self, unknown: list[str]) -> NoReturn:
        """Say that there is no such option, and which one looks like it."""
        import difflib

        known = list(self._option_string_actions)
        near = difflib.get_close_matches(unknown[0].partition("=")[0], known, n=1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")


def _parser(chosen: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="sched", description="Run a Python script's array tasks on every GPU tile of a node, or of many."
    )
    parser.add_argument("--version", action="version", version=f"tilesched {__version__}")
    # With `prog` it need not be worked out, by a formatter that loads modules to look at the terminal.
    commands = parser.add_subparsers(title="commands", prog="sched", required=True, metavar="COMMAND")
    for name, what in COMMANDS.items():
        command = commands.add_parser(name, help=what)
        if name == chosen:
            module = importlib.import_module(f"sched.commands.{name}")
            command.set_defaults(command=module.main, parser=command)
            module.arguments(command)
    return parser
