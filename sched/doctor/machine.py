"""Checks of the node: cores, and places for temporary files."""

from sched.doctor.facts import Check, Directory, Facts, Finding, Severity, error_if
from sched.sizes import show_size

LONGEST = 107 - len("/pymp-12345678/listener-12345678")
"""What AF_UNIX leaves for TMPDIR, when multiprocessing or a launcher makes sockets below it."""

SEGMENT = 4 << 20
"""Bytes of /dev/shm for each rank: what MPICH has been seen to take is 2 to 4 MiB."""

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def threads(facts: Facts) -> Finding | None:
    """More threads than cores."""
    sharing = 1 if facts.bound else facts.ranks
    for name in _THREADS:
        first = facts.env.get(name, "").partition(",")[0].strip()
        if not first.isdecimal() or int(first) * sharing <= facts.cores:
            continue
        if name == "OMP_NUM_THREADS" and "PBS_JOBID" in facts.env and first == facts.env.get("NCPUS"):
            continue  # PBS's own, which `launch.environment` replaces
        many = f"{first} threads" if sharing == 1 else f"{first} threads in each of {sharing} ranks"
        return Finding(
            Severity.WARNING,
            facts.said(name),
            f"{many}, and {_cores(facts.cores)}: they push each other off. It is yours, so it is left alone.",
            f"unset {name}  # each rank's share is set then; or export "
            f"{name}={max(1, facts.cores // sharing)}",
        )
    return None


def crowded(facts: Facts) -> Finding | None:
    """More ranks than cores."""
    sharing = 1 if facts.bound else facts.ranks
    if sharing <= facts.cores:
        return None
    return Finding(
        Severity.WARNING,
        f"{sharing} ranks share {_cores(facts.cores)}",
        "Ranks that wait for messages keep those from their cores that compute.",
        f"start at most {facts.cores} ranks a node",
    )


def temporary(facts: Facts) -> Finding | None:
    """The directory for temporary files is missing, closed, or too deep for sockets."""
    tmp = facts.tmp
    seen = facts.said("TMPDIR") if facts.env.get("TMPDIR") else f"temporary files go to {tmp.path}"
    if not tmp.exists or not tmp.writable:
        fault = "You may not write there" if tmp.exists else "It does not exist on this node"
        pbs = " (PBS makes it on the first node only)" if "PBS_JOBID" in facts.env else ""
        why = f"{fault}{pbs}. MPI and oneAPI keep files there, and fail or go elsewhere."
    elif len(tmp.path.encode()) > LONGEST:
        why = (
            f"Its {len(tmp.path.encode())} characters leave no room for the names of sockets (AF_UNIX path "
            "too long), "
            f"which are there in MPI's launchers and in multiprocessing; at most {LONGEST} do."
        )
    else:
        return None
    return Finding(Severity.WARNING, seen, why, "export TMPDIR=/tmp")


def shared_memory(facts: Facts) -> Finding | None:
    """No room for what ranks of a node share."""
    shm: Directory = facts.shm
    needed = SEGMENT * facts.ranks
    if not shm.exists or not shm.writable:
        seen, why = "/dev/shm cannot be written", "MPI shares memory between the ranks of a node there."
        return Finding(error_if(facts.launched), seen, why, "sudo mount -t tmpfs tmpfs /dev/shm")
    if shm.free >= needed:
        return None
    return Finding(
        Severity.WARNING,
        f"/dev/shm has {show_size(shm.free)} free of {show_size(shm.total)}",
        f"MPI takes up to {show_size(SEGMENT)} there for each of {facts.ranks} ranks, and one that gets "
        "none ends by "
        "SIGBUS. Jobs that were killed leave files behind.",
        'find /dev/shm -user "$USER" -name "mpich_shm_*" -delete  # when none of your jobs runs; in a '
        "container, "
        "--shm-size 1g",
    )


CHECKS: tuple[Check, ...] = (temporary, shared_memory, crowded, threads)


def _cores(number: int) -> str:
    return "1 core" if number == 1 else f"{number} cores"
