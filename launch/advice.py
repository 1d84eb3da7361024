"""What PBS answers, in words: to qsub, and of a job that it has.

The texts and numbers are those of OpenPBS 23.06, as seen on a server, and of ALCF's pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# (in qsub's message, what to do), the first that fits. With each the message itself is shown too.
_QSUB: tuple[tuple[str, str], ...] = (
    ("Unknown queue", "no such queue: `qstat -Q` lists them"),
    ("Queue is not enabled", "the queue takes no jobs at the moment: `qstat -Q` shows which do"),
    ("Access to queue", "that queue is fed by another one: on Aurora submit to prod, which passes jobs on"),
    ("Unknown resource Resource_List", "file systems are separated by colons: --filesystems home:flare"),
    ("Unknown resource", "this PBS has no such resource: nodes are asked for whole, with --nodes alone"),
    (
        'Resource invalid in "select"',
        "walltime, place and filesystems stand in lines of their own, not in select=",
    ),
    (
        "Job violates queue and/or server resource limits",
        "the nodes or the walltime are outside of what the queue takes, and PBS does not say which: "
        "`qstat -Qf QUEUE` shows the limits",
    ),
    (
        "Job rejected by all possible destinations",
        "the nodes or the walltime are outside of what any queue behind this one takes",
    ),
    ("Illegal attribute or resource value", "PBS cannot read the value that it names"),
    ("Cannot be used with select or place", "nodes= is an older form of select=: keep only one"),
    (
        "would exceed queue",
        "you have as many jobs in this queue as it allows (debug: one): wait, or `qdel` one",
    ),
    ("Account_Name is required", "name the project whose hours are spent: --project"),
    ("filesystems is required", "name the file systems that the job reads: --filesystems home:flare"),
    (
        "No active allocation",
        "the project has no hours left, or has ended: `sbank` lists yours; take another",
    ),
    ("script contains cr, lf", "save the script with Unix line ends (dos2unix)"),
    ("Job name is too long", "shorten --name to 230 characters"),
    (
        "illegal -N value",
        "a job's name has no space and no '/'; older versions of PBS want no '.' either: change --name",
    ),
    ("illegal -J value", "write --array FIRST-LAST, or FIRST-LAST%AT_A_TIME"),
    ("illegal -k value", "on Aurora only -k doe is taken"),
    ("Array job exceeds", "the array has more elements than PBS takes here: make it smaller"),
    ("cannot send environment", "a variable named to -v is not set: the script can set it itself"),
    ("(errno=15010)", "PBS's server does not answer: try again in some minutes; nothing was submitted"),
    ("(errno=15008)", "PBS's server has no such name here: is PBS_SERVER set wrongly? Nothing was submitted"),
    ("Bad UID", "PBS runs no jobs of root, nor of users whom it does not know: submit as yourself"),
    ("Unauthorized Request", "PBS does not let you: ask ALCF whether you may use this queue and project"),
    ("(15002)", "PBS knows no such -W attribute"),
)

# The same by exit code, where the text is another one: PBS's error number modulo 256.
_QSUB_CODES: Mapping[int, str] = {
    32: "a rule of this site's own refused the job",
    38: "you have as many jobs in this queue as it allows",
    160: "PBS's server has no such name here; nothing was submitted",
    162: "PBS's server does not answer: try again in some minutes; nothing was submitted",
    170: "no such queue: `qstat -Q` lists them",
    174: "this queue takes no jobs from you directly",
    175: "PBS runs no jobs of root",
    187: "this PBS has no such resource",
    188: "the nodes or the walltime are outside of what the queue takes",
}

UNKNOWN, FINISHED = 153, 35
"""Exit codes of qstat: no such job (any more); it has ended, and `-x` shows it."""

_NODE_LOST = re.compile(
    r"ping failed on|ping RPC timeout from|No reply from|shepherd died from signal 9", re.ASCII
)
_HOST = re.compile(r"\bx\d+c\d+s\d+b\d+n\d+\b", re.ASCII)

_SIGNALS = {1: "SIGHUP", 2: "SIGINT", 6: "SIGABRT", 9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 15: "SIGTERM"}


def refused(message: str, code: int) -> str | None:
    """Return what to do about a refusal of qsub's; None if nothing is known.

    Args:
        message: its stderr.
        code: its exit code.
    """
    for sign, remedy in _QSUB:
        if sign in message:
            return remedy
    return _QSUB_CODES.get(code)


def jobs(text: str) -> dict[str, dict[str, str]]:
    """Read what `qstat -f` prints, a job each, by its id: attributes as text.

    Lines that PBS has folded begin with a tab and are joined again.
    """
    found: dict[str, dict[str, str]] = {}
    facts: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("Job Id: "):
            facts = found.setdefault(line.removeprefix("Job Id: ").strip(), {})
        elif line.startswith("\t"):
            if name in facts:
                facts[name] += line[1:]
        else:
            name, equals, value = line.strip().partition(" = ")
            if equals:
                facts[name] = value
    return found


def state(facts: Mapping[str, str]) -> str:
    """Say in a few words what a job that has not ended is doing, and why it does not run if PBS tells."""
    comment = facts.get("comment", "")
    reason = f": {comment}" if comment else ""
    match facts.get("job_state", ""):
        case "Q" if "Can Never Run" in comment:
            return f"waits{reason}. Unless that is a file system that is down, delete it and ask for less"
        case "Q" if int(facts.get("run_count", "0")) > 0:
            return f"is in the queue again, after its node or PBS itself went down{reason}"
        case "Q":
            return "waits in the queue"
        case "H" if "too many failed attempts" in comment:
            return (
                f"is held{reason}. A node is bad, or the output cannot be written where it should be: "
                "`qrls` lets PBS try again"
            )
        case "H" if "depend" in facts:
            return f"waits for another job ({facts['depend']})"
        case "H":
            return f"is held{reason}; `qrls` releases it"
        case "R" | "B":
            where = facts.get("exec_host", "")
            return f"runs on {_hosts(where)}" if where else "runs"
        case "E":
            return "ends"
        case "W":
            return f"waits for a time, or for files{reason}"
        case "S" | "U":
            return f"is suspended{reason}"
        case "T" | "M":
            return "is being moved to another queue or server"
        case other:
            return f"is in state {other or 'unknown'}{reason}"


def ended(facts: Mapping[str, str]) -> tuple[int, str]:
    """Return the exit status to pass on, and say in words how the job ended.

    Args:
        facts: of a job in state F.

    Returns:
        The job's own status where it has one, 128 and the signal after a signal, else 1; and the words.
    """
    comment = facts.get("comment", "")
    reason = f": {comment}" if comment else ""
    text = facts.get("Exit_status", "")
    try:
        code = int(text)
    except ValueError:
        return 1, (
            "was deleted before it ran: by qdel; or by PBS, since the job it was to come after is unknown "
            f"or has ended otherwise{reason}"
        )
    if code == -29:
        return 1, "was ended by PBS at the end of its walltime (Exit_status -29)"
    if code < 0:
        return 1, f"could not be run by PBS (Exit_status {code}){reason}"
    signal = code - 256 if code > 256 else code - 128 if code - 128 in _SIGNALS else 0
    if signal:
        by = {15: "deleted by qdel, or ended by SIGTERM", 9: "deleted by `qdel -W force`, or killed"}
        how = by.get(signal) or f"ended by {_SIGNALS.get(signal, f'signal {signal}')}"
        return min(128 + signal, 255), f"was {how} (Exit_status {code})"
    known = {
        0: "ended well",
        2: "could not begin, or ended with status 2: see its output",
        70: "ended after an error of sched's own (status 70): see its output",
        75: "stopped in time, with more to do (status 75)",
        127: "found no such command (status 127): see its output for which",
    }
    return min(code, 255), known.get(code, f"ended with status {code}")


def lost_node(output: str) -> str | None:
    """Return the node that has failed, by what mpiexec said: in the first such line the last one named."""
    for line in output.splitlines():
        if _NODE_LOST.search(line) and (hosts := _HOST.findall(line)):
            return str(hosts[-1])
    return None


def _hosts(exec_host: str) -> str:
    """Shorten "x1/0*208+x2/0*208" to the first name and a number."""
    names = list(dict.fromkeys(part.partition("/")[0] for part in exec_host.split("+")))
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
