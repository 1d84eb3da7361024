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
    options, unknown = _parser().parse_known_args(argv)
    if unknown:
        options.parser.refuse(unknown)
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


def bench(options: argparse.Namespace) -> int:
    """Run a benchmark that comes with `sched`: a job like any other, on one tile of each rank."""
    from sched.bench import data
    from sched.runtime.start import say
    from sched.siblings import ranks

    if (ranks.find(os.environ).size or 1) < 2:
        say("bench data needs two ranks, between which to send: mpiexec -n 2 python -m sched bench data")
        return CANNOT_BEGIN
    words = ["run", "--tiles", "1", "--device", options.device, "--mpi-buffers", options.mpi_buffers]
    words += [data.__file__, ",".join(map(str, options.sizes)), str(options.repeat), options.json]
    return run(_parser().parse_args(words))


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
        tile_memory=options.tile_memory,
        check=options.check,
        mpi_buffers=options.mpi_buffers,
    )


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


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="sched", description="Run a Python script's array tasks on every GPU tile of a node, or of many."
    )
    parser.add_argument("--version", action="version", version=f"tilesched {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    command = commands.add_parser(
        "run",
        help="run a job; under mpiexec on the tiles of all ranks",
        usage="%(prog)s [options] JOB [ARGS ...]",
    )
    command.set_defaults(command=run, parser=command)
    command.add_argument(
        "--device",
        default=os.environ.get("SCHED_DEVICE", "auto"),
        choices=("auto", "level_zero", "cpu", "host"),
        help="what the tiles are; auto: Level Zero tiles if any, else the CPU device (SCHED_DEVICE)",
    )
    command.add_argument(
        "--tiles",
        type=_count,
        help="tiles for each rank, emulated ones where they are not GPUs; without it the GPUs' tiles are "
        "shared out evenly among the ranks of a node, and on a CPU each rank has one",
    )
    command.add_argument("--depth", type=_count, default=2, help="tasks given to a tile at a time (2)")
    command.add_argument(
        "--driver-only", action="store_true", help="give rank 0, which runs the job, no tile"
    )
    command.add_argument("--oversubscribe", action="store_true", help="allow more ranks than tiles")
    command.add_argument(
        "--tile-memory",
        type=_size,
        default=os.environ.get("SCHED_TILE_MEMORY") or None,
        metavar="SIZE",
        help="how much values may take up on a tile, as in '2 GiB' or 500M; without it 90%% of what the "
        "tile has (SCHED_TILE_MEMORY)",
    )
    command.add_argument(
        "--mpi-buffers",
        default="auto",
        choices=("auto", "host", "device"),
        help="what MPI is given of values on tiles: copies in the host's memory, or device pointers; auto: "
        "pointers if MPI says that it takes them and a trial succeeds",
    )
    command.add_argument("--check", action="store_true", help="look for mistakes in tasks; slower")
    command.add_argument("--quiet", action="store_true", help="do not say which tiles are used")
    command.add_argument("job", metavar="JOB", help="a Python script")
    command.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments")
    _add_benchmarks(commands.add_parser("bench", help="measure this machine"))
    return parser


def _add_benchmarks(bench_parser: argparse.ArgumentParser) -> None:
    commands = bench_parser.add_subparsers(title="benchmarks", required=True, metavar="BENCHMARK")
    command = commands.add_parser(
        "data", help="how fast a task's argument comes to another rank, beside plain MPI; under mpiexec -n 2"
    )
    command.set_defaults(command=bench, parser=command)
    command.add_argument(
        "--device",
        default=os.environ.get("SCHED_DEVICE", "auto"),
        choices=("auto", "level_zero", "cpu", "host"),
        help="as for run",
    )
    command.add_argument(
        "--mpi-buffers", default="auto", choices=("auto", "host", "device"), help="as for run"
    )
    command.add_argument(
        "--sizes",
        type=_sizes,
        default="8,64,512,4KiB,32KiB,256KiB,1MiB,8MiB,64MiB,256MiB",
        metavar="SIZE,...",
        help="how large the values are (%(default)s)",
    )
    command.add_argument(
        "--repeat", type=_count, default=5, metavar="N", help="how often each is measured (5)"
    )
    command.add_argument("--json", default="", metavar="FILE", help="write the figures there, too")


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def _size(text: str) -> int:
    from sched.errors import RequestError
    from sched.sizes import parse_size

    try:
        return parse_size(text)
    except RequestError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _sizes(text: str) -> list[int]:
    sizes = [_size(part) for part in text.split(",")]
    if min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} has a size of no bytes")
    return sizes
