"""Fixtures that start commands as a user does, under each MPI."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs.conftest import Start, mpi as mpi, one_mpi as one_mpi, start as start
from tests.programs.launching import Mpi, Outcome, openmpi

COMMAND = Path(__file__).with_name("command.py")
Command = Callable[..., Outcome]

LOUD = (
    *("ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY", "OCL_ICD_FILENAMES"),
    *("OCL_ICD_VENDORS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TMPDIR"),
    *("MPI4PY_LIBMPI", "SCHED_DEVICE", "PBS_JOBID"),
)
"""Variables that a person who runs the tests may have set."""


@pytest.fixture
def command(start: Start, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Start `sched NAME ...`, with no variable set but what is given, and wait for it to end."""
    for name in LOUD:
        monkeypatch.delenv(name, raising=False)
    # The mpiexec that a person has first on PATH is judged too.
    path = f"{Path(sys.prefix, 'bin')}:/usr/bin:/bin"

    def run(*arguments: object, mpi: Mpi | None = None, ranks: int = 1, **environment: str) -> Outcome:
        env = {"PATH": path, **environment}
        return start(COMMAND, *arguments, mpi=mpi, ranks=ranks, module=None, **env).end()

    return run


@pytest.fixture
def other_mpi() -> Mpi:
    """Open MPI, beside MPICH as `one_mpi`."""
    found = openmpi()
    if found is None:
        pytest.skip("openmpi is not installed (tools/test.sh installs it)")
    return found
