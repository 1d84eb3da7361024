"""`sched submit`: write a batch script for a job, say what PBS would refuse or lose, and hand it to qsub.

The script goes to qsub's standard input, with every option in it: what is shown is what runs. Standard output
has the id alone (or, with --dry-run, the script), so that `id=$(sched submit job.py)` works; all else goes to
standard error.

qsub leaves a process of its own behind, for a minute or more, which the next one talks to; that is its custom
and not a submission that hangs. Exit status: 0; 2 if something was wrong beforehand; qsub's own if it
refused; with --wait the job's own. **It has been tried with stand-ins for qsub, qstat and mpiexec only, that
answer as OpenPBS 23.06 did; never on Aurora.**
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
    from launch import pbs

REFUSED = 2
INTERRUPTED = 130
PAUSE = 5.0
"""Seconds between two looks at a job that is waited for."""

_ID = re.compile(r"\d+(\[\])?(\.\S+)?", re.ASCII)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `sched submit`; the job's own arguments are what `split` has cut off."""
    add = parser.add_argument
    parser.usage = "%(prog)s JOB [options] [-- ARGS ...]"
    add("job", metavar="JOB", help="a Python script; after all options, and --, its arguments")
    add(
        "--project",
        default=os.environ.get("SCHED_PROJECT", ""),
        help="whose hours are spent (SCHED_PROJECT)",
    )
    add("--queue", default="debug", help="debug (the default), capacity, debug-scaling, prod, ...")
    add("--nodes", type=_count, default=1, metavar="N", help="how many nodes (1)")
    add("--walltime", default="30:00", metavar="TIME", help="30:00 (minutes), 1:30:00, 90m, 2h (30:00)")
    add("--name", default="", help="the job's name in PBS; without it the script's")
    add("--filesystems", default="home:flare", metavar="FS:FS", help="what the job reads (%(default)s)")
    add("--ranks-per-node", type=_count, default=12, metavar="N", help="ranks that share a node's tiles (12)")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for the job; repeatable")
    add(
        "--setup",
        default="module load frameworks",
        metavar="COMMANDS",
        help="shell commands that bring Python, or a file of them, instead of '%(default)s'",
    )
    add(
        "--run",
        default="",
        metavar="OPTIONS",
        help="options of `sched run`, as in --run='--driver-only --tile-memory \"40 GiB\"'",
    )
    add("--after", default="", metavar="[any:|notok:]ID", help="wait until that job has ended (well)")
    add("--array", default="", metavar="0-9[%K]", help="a job for each number (PBS_ARRAY_INDEX), K at a time")
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
    add("--wait", action="store_true", help="follow the job and its output; exit with its status")
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

    machine = load("machines").AURORA
    request, faults = _request(options)
    faults += load("pbs").faults(request, machine)
    faults += _of_the_job(options)
    if not options.dry_run:
        faults += _of_the_place(options)
    script = b""
    if not faults:
        script = load("script").render(request, machine).encode("utf-8", "surrogateescape")
        faults += _of_the_shell(script)
    for fault in faults:
        _say(fault)
    if faults:
        return REFUSED
    if machine.queue(options.queue) is None:
        _say(f"--queue {options.queue} is not known here, so its limits are not checked")
    if options.dry_run:
        sys.stdout.buffer.write(script)
        sys.stdout.buffer.flush()
        return 0
    sys.stderr.flush()
    sys.stderr.buffer.write(script)
    sys.stderr.buffer.flush()
    return _submit(options, script, load("pbs").job_name(request))


def _request(options: argparse.Namespace) -> tuple["pbs.Request", list[str]]:
    """Return what is asked for, and what could not be read of it."""
    from sched.siblings import load

    faults: list[str] = []
    setup = options.setup
    try:
        if os.path.isfile(setup):
            setup = Path(setup).read_bytes().decode("utf-8", "surrogateescape")
        elif re.fullmatch(r"\S*/\S*|\S+\.sh", setup):
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
    request = load("pbs").Request(
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
    said = _of_the_run([*run, options.job])
    return request, [*faults, *said]


def _of_the_run(words: list[str]) -> list[str]:
    """Let `sched run` say what it will not take, now and not after hours in the queue."""
    from sched.commands import run

    parser = argparse.ArgumentParser(prog="sched run")
    run.arguments(parser)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            options, unknown = parser.parse_known_args(words)
    except SystemExit:
        message = said.getvalue().strip().rpartition("error: ")[2] or "it has --help, or the like"
        return [f"--run: `sched run` would not begin: {message}"]
    if options.ranks is not None:
        return ["--run: -n is for a machine of one's own: --nodes and --ranks-per-node say how many ranks"]
    if unknown or options.job != words[-1]:
        strange = unknown[0] if unknown else options.job
        return [f"--run: `sched run` has no option {strange}: `sched run --help` lists them"]
    return []


def _of_the_job(options: argparse.Namespace) -> Iterator[str]:
    job = options.job
    if not os.path.exists(job):
        yield f"the job {job!r} does not exist: name a Python script, as seen from this directory"
    elif not os.path.isfile(job) or not os.access(job, os.R_OK):
        yield f"the job {job!r} is no file that you can read: name a Python script"
    if options.journal:
        yield "--journal is for later: `sched run` keeps no journal yet; submit without it"


def _of_the_place(options: argparse.Namespace) -> Iterator[str]:
    """Yield what is wrong with where, and as whom, this is done."""
    if shutil.which("qsub") is None:
        yield (
            "this machine has no qsub: submit on a login node of Aurora, or look at the script with --dry-run"
        )
    if os.geteuid() == 0:
        yield "PBS runs no jobs of root (Bad UID for job execution): submit as yourself"
    try:
        here = Path.cwd()
    except FileNotFoundError:
        yield "this directory has been deleted: change to the one of the job"
        return
    with contextlib.suppress(OSError, RuntimeError):
        if here.samefile(Path.home()):
            yield "this is your home directory, where jobs must not run: submit from one of the project's"
    output = options.output
    if output and not os.path.isdir(output):
        yield (
            f"--output {output!r} is no directory, and PBS would run the job and never deliver its output: "
            "make it first"
        )
    elif not os.access(output or here, os.W_OK | os.X_OK):
        which = f"--output {output!r}" if output else f"this directory, {here},"
        yield f"{which} is not yours to write, and PBS would hold the job for ever: take another one"
    if options.after and shutil.which("qstat"):
        yield from _of_the_other_job(options.after)


def _of_the_other_job(after: str) -> Iterator[str]:
    """Yield why a job cannot come after that one, which PBS itself accepts and then deletes silently."""
    from sched.commands import follow

    _, _, job = after.rpartition(":")
    answer = follow.ask("qstat", "-f", "-w", job)
    if answer.code == follow.advice.FINISHED:
        yield f"--after {after}: that job has already ended: submit without --after, if it ended as it should"
    elif answer.code == follow.advice.UNKNOWN:
        yield (
            f"--after {after}: PBS knows no job {job}, and would delete the new one without a word: "
            "`qstat` lists yours"
        )
    elif answer.code != 0:
        yield f"--after {after}: qstat does not say whether there is such a job: {answer.err or answer.code}"


def _of_the_shell(script: bytes) -> list[str]:
    """Let bash read the script without running it: a --setup may be unfinished."""
    if shutil.which("bash") is None:
        return []
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, check=False)
    if done.returncode == 0:
        return []
    return [f"--setup is no shell command as it stands: {done.stderr.decode(errors='replace').strip()}"]


def _submit(options: argparse.Namespace, script: bytes, name: str) -> int:
    """Hand the script to qsub; return the exit status."""
    from sched.commands import follow

    try:
        done = subprocess.run(["qsub"], input=script, capture_output=True, check=False)
    except KeyboardInterrupt:
        _say("interrupted while qsub was at work: `qstat -u $USER` shows whether it had submitted the job")
        return INTERRUPTED
    message = done.stderr.decode(errors="replace")
    sys.stderr.write(message)
    sys.stderr.flush()
    sys.stdout.write(done.stdout.decode(errors="replace"))
    sys.stdout.flush()
    if done.returncode != 0:
        remedy = follow.advice.refused(message, done.returncode)
        _say(f"qsub refused the job (status {done.returncode}){f': {remedy}' if remedy else ''}")
        return done.returncode if done.returncode > 0 else 128 - done.returncode
    if not options.wait:
        return 0
    last = (done.stdout.decode(errors="replace").split() or [""])[-1]
    if not _ID.fullmatch(last):
        _say("qsub has not said the job's id, so it cannot be waited for: `qstat -u $USER` shows it")
        return 0
    where = (
        Path(options.output, f"{last}.OU") if options.output else Path(f"{name}.o{last.partition('.')[0]}")
    )
    try:
        return follow.follow(
            last, follow.to_stdout(where.absolute()), pause=lambda: time.sleep(PAUSE), say=_say
        )
    except KeyboardInterrupt:
        _say(
            f"job {last} goes on without being waited for: `qstat {last}` shows it, `qdel {last}` deletes it"
        )
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
