"""The transport's contract, with each MPI."""

import sys
from pathlib import Path

import pytest

from tests.transport.contract import CONTRACT

from .launching import CHECKOUT, Mpi, Program

pytestmark = pytest.mark.mpi_program


@pytest.mark.parametrize("ranks", [2, 4])
def test_mpi_keeps_the_contract(mpi: Mpi, tmp_path: Path, ranks: int) -> None:
    suite = CHECKOUT / "tests" / "transport" / "under_mpi.py"
    pytest_command = [sys.executable, "-m", "mpi4py", "-m", "pytest", "-x", "-q", "--with-mpi"]
    command = mpi.command(
        ranks, *pytest_command, "-p", "no:cacheprovider", "--rootdir", str(CHECKOUT), str(suite)
    )
    end = Program(command, tmp_path, {**mpi.environment, "PYTHONPATH": str(CHECKOUT)}).end()
    assert end.status == 0, end
    assert end.out.count(f"{len(CONTRACT) + 6} passed") == ranks, end
