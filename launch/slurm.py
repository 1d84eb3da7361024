"""Slurm: its directives, its variables, its ids, and what sbatch says.

Written from Slurm's manual pages and source (`src/common/slurm_errno.c`), and tried on Slurm 22.05.8 with two
nodes that were one host, without accounting and GPUs; never on a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from launch.machines import Machine
from launch.request import Request

NAME = "Slurm"
SUBMIT = "sbatch"
QUEUES = "`sinfo`"
MINE = "`squeue --me`"
JOB = r"\d{1,12}(?:_\d{1,9})?"
MARK = "#SBATCH"
DIRECTORY = "SLURM_SUBMIT_DIR"
ARRAY = "SLURM_ARRAY_TASK_ID"
HOSTS = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
ROOT = True
AGAIN = ""  # whether the script of a job that scancel ends gets to its end is not known: it might come back

# Else what is shown would not be what runs.
OVERRIDING: Mapping[str, str] = {
    "--account": "SBATCH_ACCOUNT",
    "--partition": "SBATCH_PARTITION",
    "--time": "SBATCH_TIMELIMIT",
    "--job-name": "SBATCH_JOB_NAME",
    "--output": "SBATCH_OUTPUT",
    "--array": "SBATCH_ARRAY_INX",
}
ASK: tuple[str, ...] = ("squeue", "--noheader", "--states=all", "--format=%T", "--jobs")

_BADLY = {
    *("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"),
}

# (in sbatch's message, what to do), the first that fits.
_REFUSALS: tuple[tuple[str, str], ...] = (
    ("Invalid partition name", f"no such partition: {QUEUES} lists them; say --queue"),
    (
        "No partition specified or system default partition",
        f"this cluster wants a partition: {QUEUES} lists them; say --queue",
    ),
    (
        "Invalid account or account/partition combination",
        "that project may not use this partition, or there is none of that name: "
        "`sacctmgr show assoc user=$USER` lists yours; say --project",
    ),
    ("User's group not permitted to use this partition", f"take a partition that is yours: {QUEUES}"),
    ("Requested time limit is invalid", f"the walltime is longer than the partition takes: {QUEUES}"),
    ("Node count specification invalid", "the partition does not take so many, or so few, nodes"),
    (
        "Requested node configuration is not available",
        "no node of the partition has what is asked for: look at --ranks-per-node, and the directives of the "
        "machine's file",
    ),
    ("More processors requested than permitted", "ask for fewer nodes, or fewer --ranks-per-node"),
    (
        "Invalid generic resource (gres) specification",
        "this cluster calls its GPUs otherwise: `sinfo -o %G` lists them; see the directives of the "
        "machine's file",
    ),
    (
        "Job violates accounting/QOS policy",
        "the nodes, the walltime, or the number of your jobs are above your project's limit",
    ),
    ("Invalid qos specification", "that quality of service is not yours: see the directives"),
    ("Job dependency problem", "there is no such job to come after, or it has ended otherwise"),
    ("Invalid job array specification", "write --array FIRST-LAST, or make it smaller"),
    ("contains DOS line breaks", "save the script with Unix line ends (dos2unix)"),
    (
        "Unable to contact slurm controller",
        "Slurm does not answer: try again in some minutes; nothing was submitted",
    ),
)


def directives(request: Request, machine: Machine) -> list[str]:
    """Return what sbatch reads; see `Batch`."""
    folder = request.output.rstrip("/") + "/" if request.output else ""
    lines = []
    if request.project:
        lines.append(f"--account={request.project}")
    if request.queue:
        lines.append(f"--partition={request.queue}")
    lines += [
        f"--nodes={request.nodes}",
        f"--ntasks-per-node={request.ranks}",
        f"--time={request.clock}",
        f"--job-name={request.job_name}",
        # As PBS has it: NAME.oID, both streams in one, in the directory of the submission.
        f"--output={folder}%x.o{'%A.%a' if request.array else '%j'}",
        *machine.directives,
    ]
    if request.after:
        lines.append(f"--dependency={request.dependency}")
    if request.array:
        lines.append(f"--array={request.array}")
    return lines


def refused(message: str, code: int) -> str | None:
    """Return what to do about a refusal of sbatch's, which has one exit code for all; None if unknown."""
    return next((remedy for sign, remedy in _REFUSALS if sign in message), None)


def job_id(printed: str) -> str | None:
    """Return N of "Submitted batch job N"."""
    found = re.search(r"^Submitted batch job (\d+)\b", printed, re.ASCII | re.MULTILINE)
    return found[1] if found else None


def unfit(request: Request, code: int, printed: str, message: str) -> str | None:
    """Return why no job should come after that one: Slurm starts it at once, or never, without a word.

    With afterok, a job that Slurm has forgotten counts as one that has ended well, whatever it did; after one
    that has failed, the new one waits for ever (DependencyNeverSatisfied).
    """
    job = request.predecessor
    states = set(printed.split())
    if "Invalid job id" in message or not (code or states):
        return (
            f"Slurm knows no job {job} (any more), and would start the new one at once: {MINE} lists yours; "
            "submit without --after, if that one has ended as it should"
        )
    if code:
        return f"squeue does not say whether there is such a job: {message or code}"
    bad = sorted(states & _BADLY)
    if bad and request.dependency.startswith("afterok:"):
        return (
            f"that job has ended ({bad[0]}), and Slurm would let the new one wait for ever: submit without "
            "--after"
        )
    if states == {"COMPLETED"} and request.dependency.startswith("afternotok:"):
        return (
            "that job has ended well, and Slurm would let the new one wait for ever: submit without --after"
        )
    return None
