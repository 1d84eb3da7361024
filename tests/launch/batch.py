"""Executes a batch script as PBS or Slurm would, with stand-ins for the commands of a cluster.

They are `module`, `conda`, `mpiexec`, `srun`, `scontrol` and `qsub`. Those of Slurm do what its manual pages
say.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# The real one leaves a selector that lists every tile twice; base modules set COMPOSITE. Reading a variable
# that is unset is what modules do, and what `set -u` must not see.
MODULE = """() { echo "$*" >>"$RECORD/module"
  export ONEAPI_DEVICE_SELECTOR='opencl:gpu;level_zero:gpu' ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE
  : "$NEVER_SET_ANYWHERE"
}"""

# Each start has a folder of its own, and may have something to do.
MPIEXEC = """#!/bin/bash
here=$RECORD/start.0
while [[ -e $here ]]; do here=$RECORD/start.$((${here##*.} + 1)); done
mkdir "$here"
printf '%s\\0' "$@" >"$here/arguments"
env -0 >"$here/environment"
pwd >"$here/directory"
for word; do [[ $last == --hostfile ]] && cp "$word" "$here/hosts"; last=$word; done
. "$RECORD/do.${here##*.}"
"""

QSUB = """#!/bin/bash
printf '%s\\0' "$@" >"$RECORD/qsub"
"""


# `scontrol show hostnames LIST`; LIST is known only as what Slurm has set, and each name comes once.
SCONTROL = """#!/bin/bash
[[ "$*" == "show hostnames a list" ]] && uniq "$RECORD/../48[2].vm"
"""

COMMANDS = {"mpiexec": MPIEXEC, "srun": MPIEXEC, "qsub": QSUB, "scontrol": SCONTROL}


@dataclass(frozen=True)
class Start:
    """One start of mpiexec or srun."""

    arguments: list[str]
    env: dict[str, str]
    directory: str
    hosts: list[str]

    @property
    def command(self) -> list[str]:
        """What it starts on each rank."""
        return self.arguments[self.arguments.index("python") :]


@dataclass(frozen=True)
class Ran:
    """What a script has done."""

    status: int
    starts: list[Start]
    modules: str
    resubmitted: list[str] | None
    said: str
    path: Path

    @property
    def only(self) -> Start:
        """The one start that there was."""
        [start] = self.starts
        return start


def execute(
    root: Path,
    script: bytes,
    hosts: Sequence[str] = ("x1",),
    *,
    does: Sequence[str] = ("exit 0",),
    env: dict[str, str] | None = None,
) -> Ran:
    """Run a script in the home directory, with a node file, and knowing where qsub was called.

    Args:
        root: an empty folder.
        script: as it would be handed to qsub.
        hosts: the lines of the node file.
        does: what mpiexec does at each start, in bash.
        env: more variables.
    """
    home, submitted, record, commands, temporary = (
        root / name for name in ("home", "my project", "record", "bin", "pbs.48[2].vm")
    )
    for folder in (home, submitted, record, commands, temporary):
        folder.mkdir(parents=True)
    for name, text in COMMANDS.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    for number, what in enumerate(does):
        (record / f"do.{number}").write_text(what)
    copy = root / "1.vm.SC"
    copy.write_bytes(script)
    nodefile = root / "48[2].vm"  # of an array job: brackets, which a shell takes for a pattern
    nodefile.write_text("".join(f"{host}\n" for host in hosts))
    done = subprocess.run(
        ["bash", str(copy)],
        cwd=home,
        env={
            "PATH": f"{commands}:/usr/bin:/bin",
            "HOME": str(home),
            "BASH_FUNC_module%%": MODULE,
            "BASH_FUNC_conda%%": "() { :; }",
            "RECORD": str(record),
            "PBS_O_WORKDIR": str(submitted),
            "PBS_NODEFILE": str(nodefile),
            "PBS_JOBID": "48[2].vm",
            "SLURM_SUBMIT_DIR": str(submitted),
            "SLURM_JOB_NODELIST": "a list",
            "TMPDIR": str(temporary),
            "OMP_NUM_THREADS": "208",
            **(env or {}),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        timeout=30,
        check=False,
    )
    assert not list(temporary.iterdir()), "something was left behind"
    modules, qsub = record / "module", record / "qsub"
    return Ran(
        status=done.returncode,
        starts=[_start(record / f"start.{n}") for n in range(len(list(record.glob("start.*"))))],
        modules=modules.read_text().strip() if modules.exists() else "",
        resubmitted=_zeros(qsub) if qsub.exists() else None,
        said=done.stdout.decode(),
        path=copy,
    )


def _start(folder: Path) -> Start:
    hosts = folder / "hosts"
    return Start(
        arguments=_zeros(folder / "arguments"),
        env=dict(entry.split("=", 1) for entry in _zeros(folder / "environment")),
        directory=(folder / "directory").read_text().strip(),
        hosts=hosts.read_text().split() if hosts.exists() else [],
    )


def _zeros(path: Path) -> list[str]:
    return os.fsdecode(path.read_bytes()).split("\0")[:-1]
