"""`sched submit`: write a batch script for a job, say what would be refused or lost, and submit it.

The machine is a file, of `launch/machines` or of the user's own, with PBS or Slurm. The script goes to the
standard input of qsub or sbatch, with every option in it: what is shown is what runs. Standard output has
the id alone (or, with --dry-run, the script), so that `id=$(sched submit job.py)` works; all else goes to
standard error.

qsub leaves a process of its own behind, for a minute or more, which the next one talks to; that is its custom
and not a submission that hangs. Exit status: 0; 2 if something was wrong beforehand; that of qsub or sbatch
if it refused; with --wait, which follows jobs of PBS, the job's own. **It has been tried with stand-ins
for qsub, qstat and mpiexec, which answer as OpenPBS 23.06 did, and with Slurm 22.05.8 on one host; never on
any of these machines.**
"""

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launch.batch import Batch
    from launch.machines import Machine
    from launch.request import Request

REFUSED = 2
INTERRUPTED = 130
PAUSE = 5.0
"""Seconds between two looks at a job that is waited for."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `sched submit`; the job's own arguments are what `split` has cut off."""
    add = parser.add_argument
    parser.usage = "%(prog)s JOB [options] [-- ARGS ...]"
    add("job", metavar="JOB", help="a Python script; after all options, and --, its arguments")
    add(
        "--machine",
        default=os.environ.get("SCHED_MACHINE") or "aurora",
        metavar="NAME|FILE",
        help="where: a machine that is known here, or a file like theirs, as in ./mine.toml (%(default)s; "
        "SCHED_MACHINE)",
    )
    add(
        "--project",
        default=os.environ.get("SCHED_PROJECT", ""),
        help="whose hours are spent (SCHED_PROJECT)",
    )
    add("--queue", help="instead of the machine's own; for Slurm the partition")
    add("--nodes", type=_count, default=1, metavar="N", help="how many nodes (1)")
    add("--walltime", default="30:00", metavar="TIME", help="30:00 (minutes), 1:30:00, 90m, 2h (30:00)")
    add("--name", default="", help="the job's name; without it the script's")
    add("--filesystems", metavar="FS:FS", help="what the job reads, instead of the machine's own")
    add("--ranks-per-node", type=_count, metavar="N", help="ranks that share a node's tiles (one for each)")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for the job; repeatable")
    add(
        "--setup",
        metavar="COMMANDS",
        help="shell commands that bring Python, or a file of them, instead of the machine's own",
    )
    add(
        "--run",
        default="",
        metavar="OPTIONS",
        help="options of `sched run`, as in --run='--driver-only --tile-memory \"40 GiB\"'",
    )
    add("--after", default="", metavar="[any:|notok:]ID", help="wait until that job has ended (well)")
    add(
        "--array",
        default="",
        metavar="0-9[%K]",
        help="a job for each number (PBS_ARRAY_INDEX, SLURM_ARRAY_TASK_ID), K at a time",
    )
    add("--output", default="", metavar="DIR", help="where the output goes, instead of this directory")
    add(
        "--spares",
        type=_whole,
        default=0,
        metavar="N",
        help="more nodes, which take the place of those that fail",
    )
    add("--journal", default="", metavar="DIR", help="not yet: `sched run` keeps no journal")
    add("--dry-run", action="store_true", help="show the script and submit nothing")
    add("--wait", action="store_true", help="follow a job of PBS and its output; exit with its status")
    parser.set_defaults(args=[])


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Cut a command line at its first `--`: what is submit's own, and the job's arguments.

    argparse cannot: it takes positionals in one go, and so `JOB --nodes 2 -- ARGS` has one too many.
    """
    words = list(words)
    if "--" not in words:
        return words, []
    cut = words.index("--")
    return words[:cut], words[cut + 1 :]


def main(options: argparse.Namespace) -> int:
    """Check, show and submit; return the exit status.

    Args:
        options: what `arguments` gives, with the job's own in `args`.
    """
    from sched.siblings import load

    try:
        machine: Machine = load("machines").load(options.machine)
    except load("machines").MachineError as error:
        _say(f"--machine: {error}")
        return REFUSED
    if machine.batch == "none":
        _say(
            f"--machine {options.machine}: {machine.name} has no batch system: run the job at once, with "
            f"`sched run -n N {shlex.quote(options.job)}` for N ranks"
        )
        return REFUSED
    batch: Batch = load("script").SYSTEMS[machine.batch]
    request, faults = _request(options)
    faults += _of_the_run(["--device", machine.device, options.job], f"--machine {options.machine}") or (
        _of_the_run([*request.run, options.job], "--run")
    )
    faults += load("request").faults(request, machine, batch)
    faults += _of_the_job(options)
    if options.wait and machine.batch != "pbs":
        faults.append(
            f"--wait follows jobs of PBS only, so far: submit without it, and look with {batch.MINE}"
        )
    if not options.dry_run:
        faults += _of_the_place(options, machine, batch)
        faults += () if faults else _of_the_other_job(request, batch)
    script = b""
    if not faults:
        script = load("script").render(request, machine).encode("utf-8", "surrogateescape")
        faults += _of_the_shell(
            script, f"--machine {options.machine}" if options.setup is None else "--setup"
        )
    for fault in faults:
        _say(fault)
    if faults:
        return REFUSED
    queue = request.on(machine).queue
    if queue and machine.find(queue) is None:
        _say(f"--queue {queue} is not known here, so its limits are not checked")
    if options.dry_run:
        sys.stdout.buffer.write(script)
        sys.stdout.buffer.flush()
        return 0
    sys.stderr.flush()
    sys.stderr.buffer.write(script)
    sys.stderr.buffer.flush()
    return _submit(options, script, request.job_name, batch)


def _request(options: argparse.Namespace) -> tuple["Request", list[str]]:
    """Return what is asked for, and what could not be read of it."""
    from sched.siblings import load

    faults: list[str] = []
    setup = options.setup
    try:
        if setup is not None and os.path.isfile(setup):
            setup = Path(setup).read_bytes().decode("utf-8", "surrogateescape")
        elif setup is not None and re.fullmatch(r"\S*/\S*|\S+\.sh", setup):
            faults.append(f"--setup {setup!r} is no file: name one that there is, or say the commands")
    except (OSError, ValueError) as error:
        faults.append(
            f"--setup {options.setup!r} cannot be read: {getattr(error, 'strerror', None) or error}"
        )
    run: tuple[str, ...] = ()
    try:
        run = tuple(shlex.split(options.run))
    except ValueError as error:
        faults.append(f"--run {options.run!r} is no list of options ({error}): close the quotes")
    request: Request = load("request").Request(
        job=options.job,
        args=tuple(options.args),
        project=options.project,
        queue=options.queue,
        nodes=options.nodes,
        walltime=options.walltime,
        name=options.name,
        filesystems=options.filesystems,
        ranks=options.ranks_per_node,
        run=run,
        env=tuple(options.env),
        setup=setup,
        after=options.after,
        array=options.array,
        output=options.output,
        spares=options.spares,
    )
    return request, faults


def _of_the_run(words: list[str], source: str) -> list[str]:
    """Let `sched run` say what it will not take, now and not after hours in the queue.

    Args:
        words: its options and the job.
        source: where the options are from.
    """
    from sched.commands import run

    parser = argparse.ArgumentParser(prog="sched run")
    run.arguments(parser)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            options, unknown = parser.parse_known_args(words)
    except SystemExit:
        message = said.getvalue().strip().rpartition("error: ")[2] or "it has --help, or the like"
        return [f"{source}: `sched run` would not begin: {message}"]
    if options.ranks is not None:
        return [
            f"{source}: -n is for a machine of one's own: --nodes and --ranks-per-node say how many ranks"
        ]
    if unknown or options.job != words[-1]:
        strange = unknown[0] if unknown else options.job
        return [f"{source}: `sched run` has no option {strange}: `sched run --help` lists them"]
    return []


def _of_the_job(options: argparse.Namespace) -> Iterator[str]:
    job = options.job
    if not os.path.exists(job):
        yield f"the job {job!r} does not exist: name a Python script, as seen from this directory"
    elif not os.path.isfile(job) or not os.access(job, os.R_OK):
        yield f"the job {job!r} is no file that you can read: name a Python script"
    if options.journal:
        yield "--journal is for later: `sched run` keeps no journal yet; submit without it"


def _of_the_place(options: argparse.Namespace, machine: "Machine", batch: "Batch") -> Iterator[str]:
    """Yield what is wrong with where, and as whom, this is done."""
    if shutil.which(batch.SUBMIT) is None:
        yield (
            f"this machine has no {batch.SUBMIT}: submit on a login node of {machine.name}, or look at the "
            "script with --dry-run"
        )
    if os.geteuid() == 0 and not batch.ROOT:
        yield f"{batch.NAME} runs no jobs of root (Bad UID for job execution): submit as yourself"
    try:
        here = Path.cwd()
    except FileNotFoundError:
        yield "this directory has been deleted: change to the one of the job"
        return
    with contextlib.suppress(OSError, RuntimeError):
        if not machine.from_home and here.samefile(Path.home()):
            yield "this is your home directory, where jobs must not run: submit from one of the project's"
    output = options.output
    if output and not os.path.isdir(output):
        yield (
            f"--output {output!r} is no directory, and {batch.NAME} would take the job and never deliver its "
            "output: make it first"
        )
    elif not os.access(output or here, os.W_OK | os.X_OK):
        which = f"--output {output!r}" if output else f"this directory, {here},"
        yield f"{which} is not yours to write, and the job's output would have no place: take another one"


def _of_the_other_job(request: "Request", batch: "Batch") -> Iterator[str]:
    """Yield why a job cannot come after the other one, which batch systems themselves accept."""
    from sched.commands import follow

    if not request.after or shutil.which(batch.ASK[0]) is None:
        return
    answer = follow.ask(*batch.ASK, request.predecessor)
    why = batch.unfit(request, answer.code, answer.out, answer.err)
    if why is not None:
        yield f"--after {request.after}: {why}"


def _of_the_shell(script: bytes, source: str) -> list[str]:
    """Let bash read the script without running it: the commands that bring Python may be unfinished."""
    if shutil.which("bash") is None:
        return []
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, check=False)
    if done.returncode == 0:
        return []
    why = done.stderr.decode(errors="replace").strip()
    return [f"{source}: the commands that bring Python are no shell commands as they stand: {why}"]


def _submit(options: argparse.Namespace, script: bytes, name: str, batch: "Batch") -> int:
    """Hand the script to the batch system; return the exit status."""
    command = batch.SUBMIT
    said = {
        name for option, name in batch.OVERRIDING.items() if f"\n{batch.MARK} {option}=".encode() in script
    }
    env = {name: value for name, value in os.environ.items() if name not in said}
    try:
        done = subprocess.run([command], input=script, capture_output=True, env=env, check=False)
    except KeyboardInterrupt:
        _say(f"interrupted while {command} was at work: {batch.MINE} shows whether it had submitted the job")
        return INTERRUPTED
    message = done.stderr.decode(errors="replace")
    printed = done.stdout.decode(errors="replace")
    job = batch.job_id(printed) if done.returncode == 0 else None
    if job is not None and printed.strip() != job:
        message += printed
    sys.stderr.write(message)
    sys.stderr.flush()
    sys.stdout.write(printed if job is None else f"{job}\n")
    sys.stdout.flush()
    if done.returncode != 0:
        remedy = batch.refused(message, done.returncode)
        _say(f"{command} refused the job (status {done.returncode}){f': {remedy}' if remedy else ''}")
        return done.returncode if done.returncode > 0 else 128 - done.returncode
    if not options.wait:
        return 0
    if job is None:
        _say(f"{command} has not said the job's id, so it cannot be waited for: {batch.MINE} shows it")
        return 0
    output = Path(options.output, f"{job}.OU") if options.output else Path(f"{name}.o{job.partition('.')[0]}")
    return _wait(job, output)


def _wait(job: str, output: Path) -> int:
    """Follow a job of PBS; return its exit status."""
    from sched.commands import follow

    try:
        return follow.follow(
            job, follow.to_stdout(output.absolute()), pause=lambda: time.sleep(PAUSE), say=_say
        )
    except KeyboardInterrupt:
        _say(f"job {job} goes on without being waited for: `qstat {job}` shows it, `qdel {job}` deletes it")
        return INTERRUPTED


def _say(text: str) -> None:
    print(f"sched: {text}", file=sys.stderr, flush=True)


def _count(text: str) -> int:
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)
