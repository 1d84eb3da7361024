"""The command line: `sched` and `python -m sched`.

Exit status of `run`: the job's own (1 if it raised); 2 if it could not begin; 70 after an error of ours.
"""

import argparse
import dataclasses
import os
import signal
import sys
import traceback
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from sched import __version__

if TYPE_CHECKING:
    from sched.runtime.engine import Engine
    from sched.runtime.start import Settings

CANNOT_BEGIN = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    options = _parser().parse_args(argv)
    from sched.errors import SchedError
    from sched.runtime.start import say
    from sched.siblings import binding

    try:
        status: int = options.command(options)
    except (SchedError, binding.BindingError) as error:
        if _speaks_for_all():
            say(str(error))
        return CANNOT_BEGIN
    return status


def run(options: argparse.Namespace) -> int:
    """Run a job on every tile of the run."""
    from sched.errors import RequestError
    from sched.runtime import session, start
    from sched.siblings import ranks

    settings = _settings(options)
    world = ranks.find(os.environ)
    if world.launcher is None or world.size == 1:
        source = _read(options.job)
        if source is None:
            return CANNOT_BEGIN
        if world.launcher is not None and settings.tiles is None and settings.device == "host":
            settings = dataclasses.replace(settings, tiles=1)  # `mpiexec -n 1` is one tile, as `-n 2` is two
        engine = start.local(settings, announce=None if options.quiet else start.say)
    else:
        if settings.tiles is not None:
            raise RequestError("--tiles is for a run in one process; under mpiexec every rank has one tile")
        started = start.parallel(settings, world, start.say)
        if started is None:
            return CANNOT_BEGIN
        engine = started
        if engine.driver is None:
            session.use(engine)
            sys.path.insert(0, os.path.dirname(os.path.realpath(options.job)))
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all ranks, and rank 0 decides
            engine.serve()
            engine.close(0, grace=60.0)
            return 0
        source = _read(options.job)
        if source is None:
            engine.finish(CANNOT_BEGIN)
            return CANNOT_BEGIN
    session.use(engine)
    pid = os.getpid()
    status = _run_job(options.job, source, options.args, engine)
    if os.getpid() != pid:  # a child that the job forked; the run is its parent's
        os._exit(status)
    try:
        engine.finish(status)
    except KeyboardInterrupt:  # the second: at once
        engine.abort(INTERRUPTED)
    except BaseException:
        traceback.print_exc()
        engine.abort()
    return status


def _run_job(path: str, source: bytes, args: Sequence[str], engine: "Engine") -> int:
    """Run the script as `__main__`, as `python` itself would; return its exit status."""
    sys.argv = [path, *args]
    path = os.path.abspath(path)
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    module = types.ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    try:
        code = compile(source, path, "exec")
    except (SyntaxError, ValueError) as error:
        traceback.print_exception(error.with_traceback(None))
        return 1
    try:
        exec(code, module.__dict__)
        engine.wait(engine.idle)
    except SystemExit as leave:
        if leave.code is None or leave.code == 0:
            engine.wait(engine.idle)
            return 0
        if isinstance(leave.code, int):
            return leave.code
        print(leave.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("sched: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BaseException as error:
        shown = error.__traceback__.tb_next if error.__traceback__ is not None else None
        traceback.print_exception(error.with_traceback(shown))
        return 1
    return 0


def _speaks_for_all() -> bool:
    """Whether this is the rank whose word is enough, where all ranks have the same to say."""
    from sched.siblings import binding, ranks

    try:
        world = ranks.find(os.environ)
        return world.rank in (None, 0) or world.local_rank == 0
    except binding.BindingError:  # its message is what is to be said
        return True


def _read(path: str) -> bytes | None:
    """Read the job, or say why it cannot be read."""
    from sched.runtime.start import say

    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        say(f"the job {path!r} cannot be read: {error.strerror}")
        return None


def _settings(options: argparse.Namespace) -> "Settings":
    from sched.runtime.start import Settings

    return Settings(
        device=options.device,
        tiles=options.tiles,
        depth=options.depth,
        driver_only=options.driver_only,
        oversubscribe=options.oversubscribe,
        quiet=options.quiet,
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong once, not from every rank."""
        if _speaks_for_all():
            super().error(message)
        raise SystemExit(CANNOT_BEGIN)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="sched", description="Run a Python script's array tasks on every GPU tile of a node, or of many."
    )
    parser.add_argument("--version", action="version", version=f"tilesched {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    command = commands.add_parser(
        "run",
        help="run a job; under mpiexec with one tile for each rank",
        usage="%(prog)s [options] JOB [ARGS ...]",
    )
    command.set_defaults(command=run)
    command.add_argument(
        "--device",
        default=os.environ.get("SCHED_DEVICE", "auto"),
        choices=("auto", "level_zero", "cpu", "host"),
        help="what the tiles are; auto: Level Zero tiles if any, else the CPU device (SCHED_DEVICE)",
    )
    command.add_argument(
        "--tiles", type=_count, help="without mpiexec: number of tiles, emulated ones where they are not GPUs"
    )
    command.add_argument("--depth", type=_count, default=2, help="tasks given to a tile at a time (2)")
    command.add_argument(
        "--driver-only", action="store_true", help="give rank 0, which runs the job, no tile"
    )
    command.add_argument("--oversubscribe", action="store_true", help="allow more ranks than tiles")
    command.add_argument("--quiet", action="store_true", help="do not say which tiles are used")
    command.add_argument("job", metavar="JOB", help="a Python script")
    command.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number
