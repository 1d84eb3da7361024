"""Checks of MPI, before it is started: is there one, and is it the launcher's?"""

from sched.doctor.facts import Check, Facts, Finding, Severity, error_if
from sched.siblings import environment, mpiexec

_INSTALL = "pip install 'tilesched[mpich]'  # on a cluster, load the module that brings mpi4py"
_STARTERS = {
    "hydra_pmi_proxy": "MPICH's or Intel MPI's mpiexec",
    "pmi_proxy": "MPICH's mpiexec",
    "prterun": "Open MPI's mpiexec",
    "prted": "Open MPI's mpiexec",
    "orted": "Open MPI's mpiexec",
    "palsd": "PALS's mpiexec",
    "slurmstepd": "srun",
}


def library(facts: Facts) -> Finding | None:
    """Mpi4py is missing, or finds no MPI library."""
    said = facts.mpi
    if said.ended:
        return Finding(
            error_if(facts.launched),
            f"a process that was {said.stage} {said.ended}",
            "mpi4py was built for another MPI than the one that it finds.",
            "pip install --force-reinstall mpi4py  # or name the right library in MPI4PY_LIBMPI",
        )
    problem = said.text("problem")
    if not problem:
        return None
    chosen = f" with {facts.said('MPI4PY_LIBMPI')}" if facts.env.get("MPI4PY_LIBMPI") else ""
    return Finding(
        error_if(facts.launched),
        "mpi4py is not installed"
        if said.answers.get("missing")
        else f"mpi4py does not work{chosen}: {problem}",
        "A run under mpiexec needs it; one process with all its tiles does not.",
        "unset MPI4PY_LIBMPI  # or name a library that exists" if chosen else _INSTALL,
    )


def mixed(facts: Facts) -> Finding | None:
    """The launcher belongs to another MPI than the library that mpi4py uses."""
    ours = facts.mpi.text("library")
    if not ours:
        return None
    named = ours.partition(",")[0]  # Open MPI goes on with who has packaged it
    if facts.world.launcher is not None:
        if environment.mixed(facts.world, ours) is None:
            return None
        seen = f"{facts.world.launcher} has started this process, and mpi4py uses {named}"
    elif facts.mpiexec_says and not mpiexec.fits(facts.mpiexec_says, ours):
        owner = mpiexec.owner(facts.mpiexec_says)
        seen = (
            f"{facts.mpiexec} is {f'that of {owner}' if owner else 'of another MPI'}, and mpi4py uses {named}"
        )
    else:
        return None
    return Finding(
        error_if(facts.launched),
        seen,
        "They are of different MPIs, so that each process would take itself for rank 0 of 1.",
        "type -a mpiexec  # call the one that came with that library by its path, or name its own library "
        "to mpi4py: "
        "export MPI4PY_LIBMPI=/path/to/libmpi.so",
    )


def no_mpiexec(facts: Facts) -> Finding | None:
    """There is a library, and no mpiexec."""
    if facts.launched or facts.world.launcher or facts.mpiexec or not facts.mpi.text("library"):
        return None
    return Finding(
        Severity.WARNING,
        f"mpi4py uses {facts.mpi.text('library')}, and there is no mpiexec, on PATH or beside this Python",
        "Only runs in one process can be started.",
        "pip install mpich  # or put the bin directory of that MPI on PATH",
    )


def alone(facts: Facts) -> Finding | None:
    """A launcher has started this process, and its variables are gone."""
    starter = _STARTERS.get(facts.parent)
    slurm_shell = facts.parent == "slurmstepd" and facts.env.get("SLURM_PROCID", "0") == "0"
    if facts.world.launcher is not None or starter is None or slurm_shell:
        return None
    return Finding(
        Severity.ERROR,
        f"{starter} has started this process, and none of its variables (PALS_RANKID, PMI_RANK, ...) is set",
        "So each of its processes takes itself for the only one, and would run the whole job.",
        "mpiexec -n 2 env | grep -i 'rank'  # find the wrapper, or --envnone, that removes them",
    )


def pals(facts: Facts) -> Finding | None:
    """Under PBS, and not by its own launcher."""
    launcher = facts.world.launcher
    if "PBS_JOBID" not in facts.env or launcher in (None, "PALS") or facts.world.size == 1:
        return None
    if facts.world.local_rank is not None and "PALS" not in facts.env.get("LOADEDMODULES", "").upper():
        return None  # a PBS without PALS: any launcher that tells the local rank is right
    return Finding(
        Severity.WARNING,
        f"PBS_JOBID is set, and PALS_LOCAL_RANKID is not: {launcher} has started this process",
        "PALS's mpiexec is what starts ranks on all nodes of an Aurora job and binds them to cores; another "
        "one comes "
        "first on PATH.",
        "type -a mpiexec  # on Aurora /opt/cray/pals/default/bin/mpiexec; deactivate the environment with "
        "another one",
    )


CHECKS: tuple[Check, ...] = (alone, library, mixed, pals, no_mpiexec)
