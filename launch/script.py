"""The batch script of a request: what differs between jobs is at its top, the rest is always the same.

`aurora.pbs` is the script of a request with defaults. Whatever a user gives comes through unchanged, because
it stands in the script as a quoted word; nothing is passed by `qsub -v`, which loses quotes and all after a
comma.
"""

from __future__ import annotations

import shlex

from launch import pbs
from launch.machines import Machine


def word(text: str) -> str:
    """Quote a text for bash, on one line of printable characters.

    PBS refuses a script with a carriage return anywhere, and reads a line that begins with #PBS. Bytes that
    are not UTF-8 (surrogates, as in `sys.argv`) are written as their numbers too.
    """
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(_escaped(character) for character in text) + "'"


def _escaped(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def words(texts: tuple[str, ...]) -> str:
    """Quote texts as the elements of an array of bash."""
    return f"({' '.join(word(text) for text in texts)})"


def variable(text: str) -> str:
    """Quote NAME=VALUE, keeping the name readable."""
    name, _, value = text.partition("=")
    return f"{name}={word(value)}"


def render(request: pbs.Request, machine: Machine) -> str:
    """Write the script of a request without faults.

    Returns:
        The script, with a line end at its end. What was no UTF-8 among the arguments of this process is
        written as escapes, so it can be encoded; only a `setup` may have surrogates.
    """
    job = request.job if not request.job.startswith("-") else f"./{request.job}"
    lines = [
        "#!/bin/bash -l",
        *(f"#PBS {directive}" for directive in _directives(request)),
        'cd "$PBS_O_WORKDIR" || exit 1',
        request.setup.rstrip("\n"),
        f"job={words((job, *request.args))}",
        f"options={words(('--device', 'level_zero', *request.run))}",
        f"env=({' '.join(variable(text) for text in request.env)})",
        f"SPARES={request.spares}",
        "RESUBMIT=0",
        "journal=",
    ]
    per_rank = machine.tiles // request.ranks
    groups = [machine.cores[first : first + per_rank] for first in range(0, machine.tiles, per_rank)]
    body = _BODY
    for name, value in (
        ("@RANKS@", str(request.ranks)),
        ("@THREADS@", str(sum(last - first + 1 for first, last in groups[0]))),
        ("@CORES@", ":".join(_core_list(group) for group in groups)),
    ):
        body = body.replace(name, value)
    return "\n".join(lines) + "\n" + body


def _directives(request: pbs.Request) -> list[str]:
    directives = [
        f"-A {request.project}",
        f"-q {request.queue}",
        f"-l select={request.nodes + request.spares}",
        f"-l walltime={pbs.clock(pbs.seconds(request.walltime))}",
        f"-l filesystems={request.filesystems}",
        "-l place=scatter",
        f"-N {pbs.job_name(request)}",
        "-k doe",
        "-j oe",
    ]
    if request.output:
        directives.append(f"-o {request.output.rstrip('/')}/")
    if request.after:
        directives.append(f"-W depend={':'.join(pbs.dependency(request))}")
    if request.array:
        directives += [f"-J {request.array}", "-r y"]
    return directives


def _core_list(ranges: tuple[tuple[int, int], ...]) -> str:
    """Write ranges of cores, neighbours joined: "1-16", "33-48,53-68"."""
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and joined[-1][1] + 1 == first:
            first = joined.pop()[0]
        joined.append((first, last))
    return ",".join(f"{first}-{last}" for first, last in joined)


_BODY = r"""
# A batch job on Aurora: every tile of every node works for the script `job`.
#
# Edit, above: the project (-A), the queue (-q), the nodes (select=), the walltime (HH:MM:SS), and the job
# with its arguments, as in job=("my job.py" --steps 100). Nothing else needs touching. Then, from the
# directory of the job, which must not be your home directory:
#
#     qsub aurora.pbs
#
# `sched submit job.py --nodes 2` writes such a script, checks what PBS would refuse or lose silently, and
# submits it.
#
# Also above, if you like:
#   module load   what brings Python; a virtual environment of your own is activated on a line after it
#   options       of `sched run`, as in (--device level_zero --tile-memory "40 GiB")
#   env           variables for the job, as in (STEPS=100 TITLE="a b")
#   SPARES        so many nodes of select= are kept back, and take the place of nodes that fail
#   RESUBMIT      1: a job that stops in time before its walltime, with more to do, goes to the queue again
#   journal       leave it empty: `sched run` keeps no journal yet, and without one nothing is resubmitted
#
# Queues: debug takes 1 or 2 nodes for up to 1 h, capacity 1 to 16 for up to 168 h, debug-scaling 2 to 256 for
# up to 1 h, prod 256 and more for up to 24 h. If the job reads another file system, name it in filesystems=.
#
# Comments stand here, below the first command, because PBS has stopped looking for directives by then:
# between or after the #PBS lines they are not safe. The -l of the first line brings `module`, whatever your
# login shell is.
#
# This script was written from ALCF's documentation and has been run with stand-ins for `module` and `mpiexec`
# only, never on Aurora itself.

# Not earlier: modules read variables that may be unset.
set -u

# At the end of the walltime, and after qdel, every process here gets SIGTERM. mpiexec is still waited for.
stopped=
trap 'stopped=yes' TERM

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# What `sched run` is told of the batch job: nothing, until it takes --walltime and --journal.
handed=()

# After the module, which sets some of these otherwise.
# PBS's own TMPDIR is on the first node only, and too long for a socket's name.
export TMPDIR=/tmp
# Each tile is a device of its own, numbered by its place on the PCI bus as the list of cores below is ...
export ZE_FLAT_DEVICE_HIERARCHY=FLAT ZE_ENABLE_PCI_ID_DEVICE_ORDER=1
# ... and is listed once, not a second time through OpenCL.
export ONEAPI_DEVICE_SELECTOR=level_zero:gpu
# The cores of a rank. PBS has set it to all the hardware threads of the node.
export OMP_NUM_THREADS=@THREADS@

# Ranks on each node, each with the cores beside its tiles: 1 to 51 are on the socket of tiles 0 to 5, 53 to
# 103 on that of tiles 6 to 11; cores 0 and 52 belong to the operating system. `--depth 8 --cpu-bind depth`
# would put one of twelve ranks on both sockets.
ranks=@RANKS@
cores=@CORES@

# The node file may name a node once for each rank.
awk '!seen[$1]++ { print $1 }' "$PBS_NODEFILE" >"$scratch/good"
nodes=$(($(wc -l <"$scratch/good") - SPARES))
if ((nodes < 1)); then
    echo "sched: SPARES=$SPARES leaves no node to run on: ask for more nodes in select=" >&2
    exit 2
fi

start() {
    trap 'stopped=yes' TERM # again, for the shell of a pipe
    head -n "$nodes" "$scratch/good" >"$scratch/hosts"
    env "${env[@]}" \
        mpiexec -n "$((nodes * ranks))" --ppn "$ranks" --hostfile "$scratch/hosts" --cpu-bind="list:$cores" \
        python -m sched run "${options[@]}" "${handed[@]}" "${job[@]}"
}

# The node that has failed, by what mpiexec says (docs.alcf.anl.gov): the last one in the first such line.
# "rank 7 died from signal 11" is no such line: that is a task's fault, or the echo of another node's end.
lost() {
    sed -nE '/ping failed on|ping RPC timeout from|No reply from|shepherd died from signal 9/ {
        s/.*\<(x[0-9]+c[0-9]+s[0-9]+b[0-9]+n[0-9]+).*/\1/p
    }' "$scratch/said" | head -n 1
}

state() { find "$journal" -printf '%p %s %T@\n' 2>/dev/null | sort | cksum; }
[[ -n $journal ]] && before=$(state)

if ((SPARES == 0)); then
    start
    status=$?
else
    # With a journal the run goes on where it was; without one it starts anew, which is worth it once.
    starts=1
    [[ -n $journal ]] && starts=$SPARES
    while true; do
        start 2>&1 | (trap '' TERM && exec tee "$scratch/said")
        status=${PIPESTATUS[0]}
        bad=$(lost)
        if ((status == 0 || starts == 0)) || [[ -n $stopped || -z $bad ]]; then break; fi
        if ! grep -q "^$bad\>" "$scratch/hosts"; then break; fi
        grep -v "^$bad\>" "$scratch/good" >"$scratch/rest"
        mv "$scratch/rest" "$scratch/good"
        starts=$((starts - 1))
        echo "sched: node $bad has failed (status $status); starting again without it" >&2
    done
fi

# 75: stopped in time, with more to do; not by qdel. Two attempts that add nothing to the journal are enough.
if ((status == 75 && RESUBMIT == 1)) && [[ -z $stopped ]]; then
    stalls=0
    [[ -n $journal && $(state) == "$before" ]] && stalls=$((${STALLS:-0} + 1))
    if [[ -z $journal || -n ${PBS_ARRAY_INDEX:-} ]]; then
        echo "sched: not resubmitted: that takes a journal, and a job that is no array" >&2
    elif ((stalls == 2)); then
        echo "sched: not resubmitted: the last two attempts added nothing to $journal" >&2
    else
        qsub -v "STALLS=$stalls" "$0"
    fi
fi
exit "$status" # so that PBS, and `qsub -W block=true`, see how the job ended
"""
