"""The mpiexec for `sched run -n`: what each says of itself, and what it is told."""

from __future__ import annotations

import pytest

from launch.mpiexec import environment, fits, owner, without_count

# Printed by `mpiexec --version` of MPICH 5.0.2, Open MPI 5.0.11 and Intel MPI 2021.18.
HYDRA = "HYDRA build details:\n    Version:                                 5.0.2\n"
OPEN_MPI = "mpiexec (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n"
INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20260130\nCopyright 2003-2026\n"
PALS = "mpiexec version 1.8.0 revision abc\n"  # of this form; not seen

MPICH_LIBRARY = "MPICH Version:      5.0.2"
OPEN_MPI_LIBRARY = "Open MPI v5.0.11, package: Open MPI root@x Distribution"
INTEL_LIBRARY = "Intel(R) MPI Library 2021.18 for Linux* OS"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (HYDRA, "MPICH"),
        (OPEN_MPI, "Open MPI"),
        (INTEL, "Intel MPI"),
        (PALS, None),
        ("", None),
        (MPICH_LIBRARY, "MPICH"),
        (OPEN_MPI_LIBRARY, "Open MPI"),
        (INTEL_LIBRARY, "Intel MPI"),
    ],
)
def test_whose_it_is_shows_in_what_it_says(text: str, name: str | None) -> None:
    assert owner(text) == name


@pytest.mark.parametrize(
    ("version", "library", "fit"),
    [
        (HYDRA, MPICH_LIBRARY, True),
        (HYDRA, INTEL_LIBRARY, True),
        (INTEL, MPICH_LIBRARY, True),
        (PALS, MPICH_LIBRARY, True),
        (OPEN_MPI, OPEN_MPI_LIBRARY, True),
        (OPEN_MPI, MPICH_LIBRARY, False),
        (HYDRA, OPEN_MPI_LIBRARY, False),
        (PALS, OPEN_MPI_LIBRARY, False),
    ],
)
def test_open_mpi_fits_itself_and_the_others_each_other(version: str, library: str, fit: bool) -> None:
    assert fits(version, library) == fit


def test_open_mpi_is_told_that_ranks_may_outnumber_cores_and_share_them() -> None:
    added = environment({}, OPEN_MPI, ranks=2, cores=8, root=False)
    assert added["PRTE_MCA_rmaps_default_mapping_policy"] == ":oversubscribe"
    assert added["PRTE_MCA_hwloc_default_binding_policy"] == "none"
    assert not any("ROOT" in name or "yield" in name for name in added)


def test_open_mpi_yields_where_ranks_outnumber_cores_and_runs_as_root_for_root() -> None:
    added = environment({}, OPEN_MPI, ranks=12, cores=2, root=True)
    assert added["OMPI_MCA_mpi_yield_when_idle"] == "1"
    assert added["OMPI_ALLOW_RUN_AS_ROOT"] == added["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"


def test_what_the_user_told_open_mpi_is_left_alone() -> None:
    env = dict.fromkeys(environment({}, OPEN_MPI, ranks=12, cores=2, root=True), "mine")
    assert environment(env, OPEN_MPI, ranks=12, cores=2, root=True) == {}


@pytest.mark.parametrize("version", [HYDRA, INTEL, PALS, ""])
def test_the_others_need_not_be_told_anything(version: str) -> None:
    assert environment({}, version, ranks=12, cores=2, root=True) == {}


@pytest.mark.parametrize(
    "count",
    [["-n", "12"], ["-n12"], ["-n=12"], ["--ranks", "12"], ["--ranks=12"], ["--ra", "12"], ["--r=12"]],
)
def test_the_number_of_ranks_is_taken_out_in_every_form(count: list[str]) -> None:
    for words in (["run", *count, "--tiles", "2"], ["run", "--tiles", "2", *count]):
        assert without_count(words) == ["run", "--tiles", "2"]


def test_nothing_else_is_taken_out() -> None:
    words = ["run", "--quiet", "--tiles", "2", "--tile-memory=2 GiB", "--device", "cpu", "--"]
    assert without_count(words) == words
