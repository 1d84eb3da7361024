"""`sched run`: run a job, a script like any other, with the tiles of all ranks at its call.

Exit status: the job's own (1 if it raised); 2 if it could not begin; 70 after an error of ours.
"""

import argparse
import os
import sys
import traceback
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from sched.commands.values import count, seconds, size

if TYPE_CHECKING:
    from sched.runtime.engine import Engine
    from sched.runtime.settings import Settings

CANNOT_BEGIN = 2
INTERRUPTED = 130


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add = parser.add_argument
    parser.usage = "%(prog)s [options] JOB [ARGS ...]"
    add(
        "--device",
        default=os.environ.get("SCHED_DEVICE", "auto"),
        choices=("auto", "level_zero", "cpu", "host"),
        help="what the tiles are; auto: Level Zero tiles if any, else the CPU device (SCHED_DEVICE)",
    )
    add(
        "--tiles",
        type=count,
        default=os.environ.get("SCHED_TILES") or None,
        help="tiles for each rank, emulated ones where they are not GPUs; without it the GPUs' tiles are "
        "shared out evenly among the ranks of a node, and on a CPU each rank has one (in one process, on the "
        "host, one for each core) (SCHED_TILES)",
    )
    add(
        "-n",
        "--ranks",
        type=count,
        metavar="N",
        help="start N ranks with the mpiexec that belongs to mpi4py, each a process with its own tiles: as "
        "`mpiexec -n N python -m sched run` would",
    )
    add("--depth", type=count, default=2, help="tasks given to a tile at a time (2)")
    add("--driver-only", action="store_true", help="give rank 0, which runs the job, no tile")
    add("--oversubscribe", action="store_true", help="allow more ranks than tiles")
    add(
        "--tile-memory",
        type=size,
        default=os.environ.get("SCHED_TILE_MEMORY") or None,
        metavar="SIZE",
        help="how much values may take up on a tile, as in '2 GiB' or 500M; without it 90%% of what the "
        "tile has (SCHED_TILE_MEMORY)",
    )
    add(
        "--mpi-buffers",
        default="auto",
        choices=("auto", "host", "device"),
        help="what MPI is given of values on tiles: copies in the host's memory, or device pointers; auto: "
        "pointers if MPI says that it takes them and a trial succeeds",
    )
    add(
        "--keep-cores",
        action="store_true",
        help="do not bind ranks to the cores beside their GPU tiles; it is done only where the launcher has "
        "bound nothing, and the node's cores and cards are known",
    )
    add("--check", action="store_true", help="look for mistakes in tasks; slower")
    add(
        "--stall",
        type=seconds,
        default=300.0,
        metavar="SECONDS",
        help="when a task has failed on one of its ranks, how long others may take to return before the run "
        "ends (300); 0: for ever",
    )
    add("--quiet", action="store_true", help="do not say which tiles are used")
    add("job", metavar="JOB", help="a Python script")
    add("args", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments")


def main(options: argparse.Namespace) -> int:
    """Run a job on every tile of the run; return the exit status."""
    from sched.runtime import session, start
    from sched.siblings import ranks

    settings = _settings(options)
    world = ranks.find(os.environ)
    if options.ranks is not None:
        _start_ranks(options, world.launcher)
    alone = world.launcher is None or world.size == 1
    source = _read(options.job) if alone else None
    if alone and source is None:
        return CANNOT_BEGIN
    engine = session.begin(settings, world, start.say)
    if engine is None:
        return CANNOT_BEGIN
    if engine.driver is None:
        sys.path.insert(0, os.path.dirname(os.path.realpath(options.job)))
        session.serve(engine)
        return 0
    if source is None:
        source = _read(options.job)
    if source is None:
        engine.finish(CANNOT_BEGIN)
        return CANNOT_BEGIN
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


def _start_ranks(options: argparse.Namespace, launcher: str | None) -> NoReturn:
    """Start the job once more, under mpiexec, in place of this process."""
    from sched.errors import LaunchError
    from sched.runtime.again import run_again
    from sched.siblings import mpiexec

    if launcher is not None:
        raise LaunchError(
            f"-n {options.ranks} would start ranks from a rank: {launcher} has started this process already. "
            "Leave out either that launcher or -n"
        )
    job = len(options.words) - 1 - len(options.args)
    run_again(options.ranks, [*mpiexec.without_count(options.words[:job]), *options.words[job:]])


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
        engine.wait(engine.idle, None, lambda task: True)
    except SystemExit as leave:
        if leave.code is None or leave.code == 0:
            engine.wait(engine.idle, None, lambda task: True)
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
    from sched.runtime.settings import Settings

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
        keep_cores=options.keep_cores,
        stall=options.stall,
    )
