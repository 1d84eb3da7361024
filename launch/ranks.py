"""Who is this process among the ranks? The launcher says so in the environment, before MPI is up.

A tile must be chosen before the first device query and before `MPI_Init`, so MPI cannot be asked. Every
launcher exports its own names; one table holds them all. The rules:

* the first launcher in the table whose sign is there is believed, and all four numbers come from its row;
* a sign is a variable that only a launched rank has. A PBS batch script has none of them. A Slurm batch
  script or `salloc` shell does carry `SLURM_PROCID=0` and `SLURM_LOCALID=0`, so these two are no sign of
  anything;
* a number that the launcher does not give is None, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from launch.binding import BindingError


@dataclass(frozen=True, slots=True)
class World:
    """The layout of the ranks as far as the launcher tells it; None stands for "it did not say"."""

    launcher: str | None  # None: no launcher, an ordinary process
    rank: int | None
    size: int | None
    local_rank: int | None  # among the ranks of this node, from 0
    local_size: int | None


@dataclass(frozen=True, slots=True)
class Launcher:
    """The names one launcher uses; where several are given, the first that is set counts."""

    name: str
    sign: str
    rank: tuple[str, ...]
    size: tuple[str, ...]
    local_rank: tuple[str, ...]
    local_size: tuple[str, ...]
    from_slurm: bool = False  # Slurm's own plugins export these as well, also into an interactive shell


LAUNCHERS = (
    # PALS first: on Aurora its names are the ones that are always there. It may omit PALS_SIZE, and srun on
    # a Cray sets PALS_LOCAL_RANKID without PALS_LOCAL_SIZE; the PMI names then come from the same launcher.
    Launcher(
        name="PALS",
        sign="PALS_LOCAL_RANKID",
        rank=("PALS_RANKID", "PMIX_RANK", "PMI_RANK"),
        size=("PALS_SIZE", "PMI_SIZE"),
        local_rank=("PALS_LOCAL_RANKID",),
        local_size=("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"),
        from_slurm=True,
    ),
    # The sign is the local rank, not PMIX_RANK: Open MPI and srun set PMIX_RANK too, and know the local rank.
    Launcher(
        name="PMIx",
        sign="PMIX_LOCAL_RANK",
        rank=("PMIX_RANK",),
        size=(),
        local_rank=("PMIX_LOCAL_RANK",),
        local_size=(),
        from_slurm=True,
    ),
    Launcher(
        name="Cray PMI",
        sign="PMI_LOCAL_RANK",
        rank=("PMI_RANK",),
        size=("PMI_SIZE",),
        local_rank=("PMI_LOCAL_RANK",),
        local_size=("PMI_LOCAL_SIZE",),
        from_slurm=True,
    ),
    # MPICH's and Intel MPI's mpiexec.
    Launcher(
        name="Hydra",
        sign="MPI_LOCALRANKID",
        rank=("PMI_RANK",),
        size=("PMI_SIZE",),
        local_rank=("MPI_LOCALRANKID",),
        local_size=("MPI_LOCALNRANKS",),
    ),
    # Hydra, Open MPI and MVAPICH stand before Slurm: inside an allocation they start their daemons with srun,
    # and the ranks inherit the daemon's SLURM_PROCID.
    Launcher(
        name="Open MPI",
        sign="OMPI_COMM_WORLD_LOCAL_RANK",
        rank=("OMPI_COMM_WORLD_RANK",),
        size=("OMPI_COMM_WORLD_SIZE",),
        local_rank=("OMPI_COMM_WORLD_LOCAL_RANK",),
        local_size=("OMPI_COMM_WORLD_LOCAL_SIZE",),
    ),
    Launcher(
        name="MVAPICH",
        sign="MV2_COMM_WORLD_LOCAL_RANK",
        rank=("MV2_COMM_WORLD_RANK",),
        size=("MV2_COMM_WORLD_SIZE",),
        local_rank=("MV2_COMM_WORLD_LOCAL_RANK",),
        local_size=("MV2_COMM_WORLD_LOCAL_SIZE",),
    ),
    # Flux unsets these for the script of a batch job, so they mark a task.
    Launcher(
        name="Flux",
        sign="FLUX_TASK_LOCAL_ID",
        rank=("FLUX_TASK_RANK",),
        size=("FLUX_JOB_SIZE",),
        local_rank=("FLUX_TASK_LOCAL_ID",),
        local_size=(),
    ),
    # SLURM_NTASKS may still be the allocation's; the STEP names are about this srun. The local size is a list
    # over the nodes, read by `_tasks_here`. The local rank is SLURM_LOCALID: there is no SLURM_LOCAL_ID.
    Launcher(
        name="Slurm",
        sign="SLURM_STEP_ID",
        rank=("SLURM_PROCID",),
        size=("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        local_rank=("SLURM_LOCALID",),
        local_size=(),
        from_slurm=True,
    ),
    # Last, launchers that tell a rank but no local rank: MPI is asked for that then. Not to name them would
    # be to take twelve such ranks for twelve ordinary processes.
    Launcher(
        name="PMIx",
        sign="PMIX_RANK",
        rank=("PMIX_RANK",),
        size=(),
        local_rank=(),
        local_size=(),
        from_slurm=True,
    ),
    Launcher(
        name="PMI",
        sign="PMI_RANK",
        rank=("PMI_RANK",),
        size=("PMI_SIZE",),
        local_rank=(),
        local_size=(),
        from_slurm=True,
    ),
)

# Steps from this number on are Slurm's own: 0xfffffffa is the shell of `salloc`, 0xfffffffb the batch script
# (SLURM_INTERACTIVE_STEP and SLURM_BATCH_SCRIPT in slurm.h).
_FIRST_SPECIAL_STEP = 0xFFFFFFF0

_NUMBER = re.compile(r"[0-9]{1,9}")
_TASKS = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")


def find(env: Mapping[str, str]) -> World:
    """Read this process's place among the ranks from its environment.

    Args:
        env: the environment, usually `os.environ`. A variable that is set but empty counts as absent, which
            is how a shell disowns one (`PMI_RANK= python job.py`).

    Returns:
        The launcher and its numbers; `World(None, None, None, None, None)` for a process that no launcher
        started.

    Raises:
        BindingError: a launcher's variable is no number. Find out what else has set it, or unset it.
    """
    in_slurm_shell = _in_slurm_shell(env)
    for launcher in LAUNCHERS:
        if not env.get(launcher.sign) or (launcher.from_slurm and in_slurm_shell):
            continue
        local_size = _number(env, launcher.local_size)
        if local_size is None and launcher.sign == "SLURM_STEP_ID":
            local_size = _tasks_here(env)
        return World(
            launcher=launcher.name,
            rank=_number(env, launcher.rank),
            size=_number(env, launcher.size),
            local_rank=_number(env, launcher.local_rank),
            local_size=local_size,
        )
    return World(None, None, None, None, None)


def _in_slurm_shell(env: Mapping[str, str]) -> bool:
    """Say whether this is a shell that Slurm opened rather than a task of an srun.

    An `salloc` shell may itself be a step, with the variables of a rank and even of PMIx or PALS. A rank that
    an mpiexec starts from that shell inherits them, but has its own launcher's sign as well.
    """
    step = env.get("SLURM_STEP_ID", "")
    if not step:
        return False
    return not (step.isascii() and step.isdigit() and len(step) <= 10 and int(step) < _FIRST_SPECIAL_STEP)


def _number(env: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = env.get(name)
        if value:
            if not _NUMBER.fullmatch(value):
                raise _malformed(name, value, "a whole number from 0")
            return int(value)
    return None


def _tasks_here(env: Mapping[str, str]) -> int | None:
    """Read this node's entry from Slurm's list of tasks per node, such as `12(x2),4`."""
    node = _number(env, ("SLURM_NODEID",))
    if node is None:
        return None
    for name in ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"):
        value = env.get(name)
        if not value:
            continue
        nodes_before = 0
        for entry in value.split(","):
            match = _TASKS.fullmatch(entry)
            if match is None:
                raise _malformed(name, value, "a list such as 12(x2),4")
            nodes_before += int(match[2] or 1)
            if node < nodes_before:
                return int(match[1])
    return None


def _malformed(name: str, value: str, expected: str) -> BindingError:
    return BindingError(
        f"{name}={value!r} should be {expected}: only a launcher sets it, so look for the script that "
        f"changed it, or unset it if this process is no rank."
    )
