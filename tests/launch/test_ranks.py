"""The environments of launchers, as they were seen, and what is made of them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from launch.binding import BindingError
from launch.ranks import LAUNCHERS, World, find

NOT_LAUNCHED = World(None, None, None, None, None)

# Printed by ranks of MPICH 5.0.2 and Open MPI 5.0.11, less what says nothing about the layout.
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "3", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "3", "PMI_FD": "11"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_COMM_WORLD_NODE_RANK": "1",
    "PMIX_RANK": "1",
    "PMIX_NAMESPACE": "prterun-vm-3583@1",
    "PMIX_VERSION": "5.0.11rc1",
    "PRTE_LAUNCHED": "1",
}

# Put together from the names that HPE's pals.h, ALCF's pages and the launchers' own sources give.
PALS = {
    "PALS_RANKID": "17",
    "PALS_LOCAL_RANKID": "5",
    "PALS_LOCAL_SIZE": "12",
    "PALS_NODEID": "1",
    "PALS_DEPTH": "1",
    "PMIX_RANK": "17",
    "PMIX_NAMESPACE": "b2c3",
}
CRAY_PMI = {"PMI_RANK": "5", "PMI_SIZE": "8", "PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "4"}
MVAPICH = {
    "MV2_COMM_WORLD_RANK": "5",
    "MV2_COMM_WORLD_SIZE": "8",
    "MV2_COMM_WORLD_LOCAL_RANK": "1",
    "MV2_COMM_WORLD_LOCAL_SIZE": "4",
}
FLUX = {
    "FLUX_TASK_RANK": "5",
    "FLUX_TASK_LOCAL_ID": "1",
    "FLUX_JOB_SIZE": "8",
    "FLUX_JOB_NNODES": "2",
    "PMI_RANK": "5",
    "PMI_SIZE": "8",
}

# sbatch --nodes=3 --ntasks=28: the script itself has the numbers of a rank, and no step.
SLURM_BATCH_SCRIPT = {
    "SLURM_JOB_ID": "200505",
    "SLURM_JOB_NUM_NODES": "3",
    "SLURM_NTASKS": "28",
    "SLURM_TASKS_PER_NODE": "12(x2),4",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
}
SRUN = SLURM_BATCH_SCRIPT | {
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "28",
    "SLURM_STEP_TASKS_PER_NODE": "12(x2),4",
    "SLURM_PROCID": "25",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "2",
}
# salloc where the shell is a step of its own (use_interactive_step): 4294967290 is 0xfffffffa.
SALLOC_SHELL = {
    "SLURM_JOB_ID": "1731344",
    "SLURM_STEP_ID": "4294967290",
    "SLURM_STEP_NUM_TASKS": "1",
    "SLURM_STEP_TASKS_PER_NODE": "1",
    "SLURM_TASKS_PER_NODE": "8",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_MPI_TYPE": "pmix",
    "SLURM_PTY_PORT": "39933",
    "PMIX_RANK": "0",
}
# srun --mpi=cray_shasta: the plugin speaks PALS, without the sizes.
CRAY_SRUN = SRUN | {
    "PALS_RANKID": "25",
    "PALS_LOCAL_RANKID": "1",
    "PMI_RANK": "25",
    "PMI_SIZE": "28",
    "PMI_LOCAL_RANK": "1",
    "PMI_LOCAL_SIZE": "4",
}
PBS_BATCH_SCRIPT = {
    "PBS_JOBID": "1.vm",
    "PBS_ENVIRONMENT": "PBS_BATCH",
    "PBS_NODENUM": "0",
    "PBS_TASKNUM": "1",
    "PBS_NODEFILE": "/var/spool/pbs/aux/1.vm",
    "NCPUS": "208",
    "OMP_NUM_THREADS": "208",
}


@pytest.mark.parametrize(
    ("env", "world"),
    [
        pytest.param(PALS, World("PALS", 17, None, 5, 12), id="pals"),
        pytest.param(PALS | {"PALS_SIZE": "24"}, World("PALS", 17, 24, 5, 12), id="pals with a size"),
        pytest.param(PALS | {"PMI_SIZE": "24"}, World("PALS", 17, 24, 5, 12), id="pals, size by pmi"),
        pytest.param(CRAY_SRUN, World("PALS", 25, 28, 1, 4), id="srun on a cray"),
        pytest.param({"PMIX_RANK": "3", "PMIX_LOCAL_RANK": "1"}, World("PMIx", 3, None, 1, None), id="pmix"),
        pytest.param(CRAY_PMI, World("Cray PMI", 5, 8, 1, 4), id="cray pmi"),
        pytest.param(MPICH, World("Hydra", 1, 3, 1, 3), id="mpich"),
        pytest.param(OPEN_MPI, World("Open MPI", 1, 2, 1, 2), id="open mpi, which also sets PMIX_RANK"),
        pytest.param(MVAPICH, World("MVAPICH", 5, 8, 1, 4), id="mvapich"),
        pytest.param(FLUX, World("Flux", 5, 8, 1, None), id="flux"),
        pytest.param(SRUN, World("Slurm", 25, 28, 1, 4), id="srun"),
        pytest.param(SRUN | {"PMIX_RANK": "25"}, World("Slurm", 25, 28, 1, 4), id="srun --mpi=pmix"),
        pytest.param({"PMIX_RANK": "3"}, World("PMIx", 3, None, None, None), id="bare pmix"),
        pytest.param({"PMI_RANK": "3", "PMI_SIZE": "4"}, World("PMI", 3, 4, None, None), id="bare pmi"),
    ],
)
def test_each_launcher_tells_its_numbers(env: dict[str, str], world: World) -> None:
    assert world == find(env)


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"PATH": "/usr/bin", "RANK": "3", "LOCAL_RANK": "3"}, id="somebody else's variables"),
        pytest.param(PBS_BATCH_SCRIPT, id="pbs script"),
        pytest.param(SLURM_BATCH_SCRIPT, id="sbatch script"),
        pytest.param(SLURM_BATCH_SCRIPT | {"SLURM_STEP_ID": "4294967291"}, id="sbatch script as a step"),
        pytest.param(SALLOC_SHELL, id="salloc shell"),
        pytest.param(SALLOC_SHELL | {"PALS_LOCAL_RANKID": "0", "PALS_RANKID": "0"}, id="salloc on a cray"),
        pytest.param({"SLURM_STEP_ID": "extern", "SLURM_PROCID": "0"}, id="a shell by pam_slurm"),
        pytest.param(dict.fromkeys(PALS, ""), id="disowned"),
    ],
)
def test_an_ordinary_process_in_a_job_is_no_rank(env: dict[str, str]) -> None:
    assert find(env) == NOT_LAUNCHED


@pytest.mark.parametrize("outer", [PBS_BATCH_SCRIPT, SLURM_BATCH_SCRIPT, SALLOC_SHELL, SRUN])
@pytest.mark.parametrize("inner", [MPICH, OPEN_MPI, MVAPICH])
def test_an_mpiexec_inside_an_allocation_is_believed_before_the_allocation(
    outer: dict[str, str], inner: dict[str, str]
) -> None:
    # Its daemons may have come by srun, so the ranks inherit a step and a SLURM_PROCID that is not theirs.
    assert find(outer | inner) == find(inner)


@pytest.mark.parametrize(("node", "tasks"), [("0", 12), ("1", 12), ("2", 4), ("3", None)])
def test_slurm_lists_the_tasks_node_by_node(node: str, tasks: int | None) -> None:
    assert tasks == find(SRUN | {"SLURM_NODEID": node}).local_size


def test_an_srun_of_a_part_of_the_allocation_counts_its_own_tasks() -> None:
    env = SRUN | {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_NODEID": "0"}
    assert find(env).size == 2
    assert find(env).local_size == 2


def test_without_a_node_number_slurm_gives_no_local_size() -> None:
    assert find({"SLURM_STEP_ID": "0", "SLURM_TASKS_PER_NODE": "4"}).local_size is None
    assert find({"SLURM_STEP_ID": "0", "SLURM_NODEID": "0"}).local_size is None


@pytest.mark.parametrize(
    ("env", "variable"),
    [
        (PALS, "PALS_LOCAL_RANKID"),
        (PALS, "PALS_LOCAL_SIZE"),
        (MPICH, "PMI_RANK"),
        (OPEN_MPI, "OMPI_COMM_WORLD_SIZE"),
        (FLUX, "FLUX_TASK_LOCAL_ID"),
        (SRUN, "SLURM_STEP_TASKS_PER_NODE"),
    ],
)
@pytest.mark.parametrize("value", ["-1", "1.5", "one", "0x1", "1 2", "²", "9" * 5000])
def test_a_value_that_is_no_number_is_named(env: dict[str, str], variable: str, value: str) -> None:
    with pytest.raises(BindingError) as error:
        find(env | {variable: value})
    assert f"{variable}={value!r}" in str(error.value)


SIGNS = sorted({launcher.sign for launcher in LAUNCHERS})


@given(st.dictionaries(st.sampled_from(SIGNS), st.integers(0, 11).map(str)))
def test_the_first_launcher_of_the_table_wins(env: dict[str, str]) -> None:
    names = [launcher.name for launcher in LAUNCHERS if launcher.sign in env]
    assert find(env).launcher == (names[0] if names else None)
