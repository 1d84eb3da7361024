"""`sched bench`: measure this machine with benchmarks that come with the package."""

import argparse
import os

from sched.commands import run
from sched.commands.values import count, sizes


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the benchmarks and their options."""
    commands = parser.add_subparsers(title="benchmarks", required=True, metavar="BENCHMARK")
    command = commands.add_parser(
        "data", help="how fast a task's argument comes to another rank, beside plain MPI; under mpiexec -n 2"
    )
    command.set_defaults(parser=command)
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
        type=sizes,
        default="8,64,512,4KiB,32KiB,256KiB,1MiB,8MiB,64MiB,256MiB",
        metavar="SIZE,...",
        help="how large the values are (%(default)s)",
    )
    command.add_argument(
        "--repeat", type=count, default=5, metavar="N", help="how often each is measured (5)"
    )
    command.add_argument("--json", default="", metavar="FILE", help="write the figures there, too")


def main(options: argparse.Namespace) -> int:
    """Run a benchmark that comes with `sched`: a job like any other, on one tile of each rank."""
    from sched.bench import data
    from sched.runtime.start import say
    from sched.siblings import ranks

    if (ranks.find(os.environ).size or 1) < 2:
        say("bench data needs two ranks, between which to send: mpiexec -n 2 python -m sched bench data")
        return run.CANNOT_BEGIN
    words = ["run", "--tiles", "1", "--device", options.device, "--mpi-buffers", options.mpi_buffers]
    words += [data.__file__, ",".join(map(str, options.sizes)), str(options.repeat), options.json]
    parser = argparse.ArgumentParser()
    run.arguments(parser)
    return run.main(parser.parse_args(words[1:]))
