"""Every example gives the right result, in one process and in several, with NumPy and with dpnp.

The examples compare their results themselves and say so with their exit status.
"""

from pathlib import Path

import pytest

from .conftest import Run
from .launching import CHECKOUT, Mpi, Outcome

pytestmark = pytest.mark.mpi_program

SMALL = {
    "cholesky": ["--size", "330", "--block", "50"],  # the last block is smaller
    "heat": ["--size", "150", "--steps", "30", "--halo", "4"],  # the last exchange is for fewer steps
    "gemm": ["--size", "330", "--block", "50"],
    "sweep": ["--strikes", "5", "--paths", "2000"],
    "photograph": [],
}


def run_example(
    run: Run, name: str, *options: str, mpi: Mpi | None = None, ranks: int = 1, path: Path | None = None
) -> Outcome:
    """Run an example at its small size."""
    if name == "photograph":
        pytest.importorskip("skimage")
    return run(*options, path or CHECKOUT / "examples" / f"{name}.py", *SMALL[name], mpi=mpi, ranks=ranks)


def check(end: Outcome) -> None:
    assert end.status == 0, end
    assert "(right)" in end.out, end


@pytest.mark.parametrize("example", SMALL)
def test_host_tiles_in_one_process(run: Run, example: str) -> None:
    check(run_example(run, example, "--device", "host", "--tiles", "3"))


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("example", SMALL)
def test_host_tiles_in_ranks(run: Run, mpi: Mpi, example: str, ranks: int) -> None:
    check(run_example(run, example, "--device", "host", mpi=mpi, ranks=ranks))


@pytest.mark.sycl
@pytest.mark.parametrize("example", SMALL)
def test_dpnp(run: Run, example: str) -> None:
    check(run_example(run, example, "--device", "cpu"))


@pytest.mark.sycl
def test_cholesky_uses_all_twelve_tiles(run: Run, one_mpi: Mpi) -> None:
    end = run_example(run, "cholesky", "--device", "cpu", mpi=one_mpi, ranks=12)
    check(end)
    assert "12 of 12 tiles took part" in end.out, end


def test_a_wrong_result_is_noticed(run: Run, tmp_path: Path) -> None:
    source = (CHECKOUT / "examples" / "heat.py").read_text()
    right, wrong = "skip = 0 if above is None else steps", "skip = 0"
    assert right in source
    broken = tmp_path / "heat.py"
    broken.write_text(source.replace(right, wrong))
    end = run_example(run, "heat", "--device", "host", "--tiles", "3", path=broken)
    assert end.status == 1, end
    assert "WRONG" in end.out, end
