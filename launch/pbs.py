"""PBS: its directives, its variables, its ids.

What it does with each was seen on OpenPBS 23.06; a site's own build and hooks may say more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from launch.advice import FINISHED, UNKNOWN, refused as refused
from launch.machines import Machine
from launch.request import Request

NAME = "PBS"
SUBMIT = "qsub"
QUEUES = "`qstat -Q`"
MINE = "`qstat -u $USER`"
JOB = r"\d{1,12}(?:\[\d*\])?(?:\.[A-Za-z0-9.-]+)?"
MARK = "#PBS"
DIRECTORY = "PBS_O_WORKDIR"
ARRAY = "PBS_ARRAY_INDEX"
# It may name a node once for each rank.
HOSTS = """awk '!seen[$1]++ { print $1 }' "$PBS_NODEFILE" """.rstrip()
ROOT = False
AGAIN = 'qsub -v "STALLS=$stalls" "$0"'
OVERRIDING: Mapping[str, str] = {}
ASK: tuple[str, ...] = ("qstat", "-f", "-w")


def directives(request: Request, machine: Machine) -> list[str]:
    """Return what qsub reads; see `Batch`."""
    lines = []
    if request.project:
        lines.append(f"-A {request.project}")
    if request.queue:
        lines.append(f"-q {request.queue}")
    lines += [f"-l select={request.nodes + request.spares}", f"-l walltime={request.clock}"]
    if request.filesystems:
        lines.append(f"-l filesystems={request.filesystems}")
    lines += [*machine.directives, f"-N {request.job_name}", "-j oe"]
    if request.output:
        lines.append(f"-o {request.output.rstrip('/')}/")
    if request.after:
        lines.append(f"-W depend={request.dependency}")
    if request.array:
        lines += [f"-J {request.array}", "-r y"]
    return lines


def job_id(printed: str) -> str | None:
    """Return the last word that was printed, if it is an id: a site may greet its users first."""
    last = (printed.split() or [""])[-1]
    return last if re.fullmatch(JOB, last, re.ASCII) else None


def unfit(request: Request, code: int, printed: str, message: str) -> str | None:
    """Return why no job should come after that one, which PBS itself accepts and then deletes silently."""
    if code == FINISHED:
        return "that job has already ended: submit without --after, if it ended as it should"
    if code == UNKNOWN:
        return (
            f"PBS knows no job {request.predecessor}, and would delete the new one without a word: "
            "`qstat` lists yours"
        )
    return f"qstat does not say whether there is such a job: {message or code}" if code else None
