"""What a rank's environment gains before anything heavy is imported, and how mixed MPIs are noticed."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from launch.environment import clashes, defaults, mixed
from launch.ranks import World

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@pytest.mark.parametrize("device", ["level_zero", "cpu", "host", "cuda"])
def test_each_rank_gets_its_share_of_the_cores(device: str) -> None:
    added = defaults({}, device=device, cores=102, local_size=12)
    assert [added[name] for name in THREADS] == ["8", "8", "8"]


@pytest.mark.parametrize(("cores", "local_size", "threads"), [(2, 12, "1"), (0, 1, "1"), (8, 0, "8")])
def test_a_rank_has_at_least_one_thread(cores: int, local_size: int, threads: str) -> None:
    added = defaults({}, device="host", cores=cores, local_size=local_size)
    assert added == dict.fromkeys(THREADS, threads)


def test_the_cpu_device_is_bounded_and_keeps_its_kernels() -> None:
    added = defaults({}, device="cpu", cores=24, local_size=12)
    assert added["DPCPP_CPU_NUM_CUS"] == "2"
    assert added["SYCL_CACHE_PERSISTENT"] == "1"


def test_the_gpus_keep_no_kernels_on_disk() -> None:
    assert "SYCL_CACHE_PERSISTENT" not in defaults({}, device="level_zero", cores=8, local_size=1)


def test_tiles_become_devices_unless_a_mask_counts_on_something_else() -> None:
    def hierarchy(**env: str) -> str | None:
        added = defaults(env, device="level_zero", cores=8, local_size=1)
        return added.get("ZE_FLAT_DEVICE_HIERARCHY")

    assert hierarchy() == "FLAT"
    assert hierarchy(ZE_FLAT_DEVICE_HIERARCHY="COMPOSITE") is None
    assert hierarchy(ZE_AFFINITY_MASK="0.1") is None


@pytest.mark.parametrize(
    ("env", "device", "added"),
    [
        ({"I_MPI_OFFLOAD": "1"}, "level_zero", True),
        ({"I_MPI_OFFLOAD": "1"}, "auto", True),
        ({"I_MPI_OFFLOAD": "0"}, "level_zero", False),
        ({}, "level_zero", False),
        ({"I_MPI_OFFLOAD": "1"}, "host", False),
        ({"I_MPI_OFFLOAD": "1", "I_MPI_OFFLOAD_PIN": "1"}, "level_zero", False),
        ({"I_MPI_OFFLOAD": "1", "ZE_AFFINITY_MASK": "3"}, "level_zero", False),
    ],
)
def test_intel_mpi_does_not_deal_out_the_gpus_a_second_time(
    env: dict[str, str], device: str, added: bool
) -> None:
    wanted = "0" if added else None
    assert defaults(env, device=device, cores=8, local_size=1).get("I_MPI_OFFLOAD_PIN") == wanted


@given(
    st.dictionaries(st.sampled_from([*THREADS, "DPCPP_CPU_NUM_CUS", "ZE_AFFINITY_MASK"]), st.text("0123,x")),
    st.sampled_from(["level_zero", "cpu", "host"]),
    st.integers(0, 300),
    st.integers(0, 100),
)
def test_what_the_user_set_is_left_alone_and_no_mask_is_set(
    env: dict[str, str], device: str, cores: int, local_size: int
) -> None:
    added = defaults(env, device=device, cores=cores, local_size=local_size)
    assert not added.keys() & env.keys()
    assert "ZE_AFFINITY_MASK" not in added
    assert "ONEAPI_DEVICE_SELECTOR" not in added


@pytest.mark.parametrize(("value", "blas"), [("4", "4"), ("4,2", "4"), ("", "8"), ("many", "8"), ("0", "8")])
def test_the_libraries_follow_the_users_omp_num_threads(value: str, blas: str) -> None:
    added = defaults({"OMP_NUM_THREADS": value}, device="host", cores=96, local_size=12)
    assert added == {"MKL_NUM_THREADS": blas, "OPENBLAS_NUM_THREADS": blas}


PBS = {"PBS_JOBID": "1.vm", "NCPUS": "208", "OMP_NUM_THREADS": "208"}


def test_what_pbs_put_there_is_not_the_users_wish() -> None:
    added = defaults(PBS, device="host", cores=96, local_size=12)
    assert added == dict.fromkeys(THREADS, "8")


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(PBS | {"OMP_NUM_THREADS": "16"}, id="set in the script"),
        pytest.param(PBS | {"OMP_NUM_THREADS": "1", "NCPUS": "1"}, id="too small to do harm"),
        pytest.param({"NCPUS": "208", "OMP_NUM_THREADS": "208"}, id="no job"),
        pytest.param(PBS | {"OMP_NUM_THREADS": "all", "NCPUS": "all"}, id="no number"),
    ],
)
def test_other_values_in_a_pbs_job_stay(env: dict[str, str]) -> None:
    assert "OMP_NUM_THREADS" not in defaults(env, device="host", cores=96, local_size=12)


# --- two MPIs ---


@pytest.mark.parametrize(
    ("world", "started"),
    [
        (World("Open MPI", 0, 12, 0, 12), "Open MPI started 12 ranks"),
        (World("PALS", 0, None, 0, 12), "PALS started at least 12 ranks"),
        (World("PMIx", 3, None, None, None), "PMIx started at least 4 ranks"),
        (World("Flux", None, None, 2, None), "Flux started at least 3 ranks"),
    ],
)
def test_ranks_that_are_each_alone_in_mpi_are_told_why(world: World, started: str) -> None:
    sentence = clashes(world, 1)
    assert sentence is not None
    assert sentence.startswith(started)
    assert "mpi4py" in sentence


@pytest.mark.parametrize(
    ("world", "mpi_size"),
    [
        (World("Hydra", 0, 12, 0, 12), 12),
        (World("PALS", 0, None, 0, 12), 24),
        (World("Hydra", 0, 1, 0, 1), 1),
        (World("PMIx", 0, None, None, None), 1),  # cannot be told on this rank; the others can
        (World(None, None, None, None, None), 1),
        (World(None, None, None, None, None), 12),  # a launcher that is not in the table
    ],
)
def test_a_launcher_and_an_mpi_that_agree_are_left_in_peace(world: World, mpi_size: int) -> None:
    assert clashes(world, mpi_size) is None


@pytest.mark.parametrize(
    ("launcher", "library", "wrong"),
    [
        ("Open MPI", "Open MPI v5.0.11, package: Open MPI", False),
        ("Open MPI", "MPICH Version:      5.0.2", True),
        ("Hydra", "Open MPI v5.0.11, package: Open MPI", True),
        ("Hydra", "Intel(R) MPI Library 2021.18 for Linux* OS", False),
        ("PALS", "MPICH Version:      4.3.0rc3", False),
        ("Slurm", "Open MPI v5.0.11, package: Open MPI", False),
        (None, "MPICH Version:      5.0.2", False),
    ],
)
def test_a_launcher_and_a_library_of_two_mpis_are_noticed_before_mpi_starts(launcher, library, wrong):
    sentence = mixed(World(launcher, 0, 2, 0, 2), library)
    assert (sentence is not None) == wrong
    assert not wrong or library in sentence
