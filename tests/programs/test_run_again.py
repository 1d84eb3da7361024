"""`sched run -n N job.py`: ranks without a word about MPI."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Run, Start
from .launching import Mpi, wait_for

Job = Callable[..., Path]
pytestmark = pytest.mark.mpi_program

WHO = """
    import os, sys

    with sched.Scheduler() as s:
        ranks = [s.options(tile=i).submit(lambda: sched.current().rank).result() for i in range(s.tiles)]
        print(ranks, sys.argv[1:], sys.flags.optimize)
    sys.exit(3)
"""


def lone(mpi: Mpi) -> dict[str, str]:
    """Return what says which MPI mpi4py uses, and nothing that its mpiexec would need."""
    return {name: value for name, value in mpi.environment.items() if name == "MPI4PY_LIBMPI"}


def test_ranks_are_started_by_the_mpiexec_that_belongs_to_mpi4py(run: Run, job: Job, mpi: Mpi) -> None:
    end = run("-n", "3", "--device", "host", job(WHO), "-n", "5", "--", "a b", **lone(mpi))
    assert (end.status, end.out) == (3, "[0, 1, 2] ['-n', '5', '--', 'a b'] 0\n"), end
    assert end.err.count("3 tiles on the host (NumPy): asked for, in 3 ranks\n") == 1, end


def test_the_options_reach_the_ranks_and_so_do_pythons(start: Start, job: Job, one_mpi: Mpi) -> None:
    command = ["-O", "-m", "sched", "run", "--tiles", "2", "--ranks=2", "--quiet", "--device", "host"]
    end = start(*command, job(WHO), module=None).end()
    assert (end.status, end.out, end.err) == (3, "[0, 0, 1, 1] [] 1\n", ""), end


def test_ranks_are_not_started_from_a_rank(run: Run, job: Job, one_mpi: Mpi) -> None:
    end = run("-n", "2", "--device", "host", job("print('never')"), mpi=one_mpi, ranks=2)
    assert (end.status, end.out) == (2, ""), end
    assert end.err.count("-n 2 would start ranks from a rank: Hydra has started this process already") == 1, (
        end
    )


def stand_in(folder: Path, says: str) -> Path:
    folder.mkdir()
    mpiexec = folder / "mpiexec"
    mpiexec.write_text(f"#!/bin/sh\necho '{says}'\n")
    mpiexec.chmod(0o755)
    return mpiexec


def without_mpiexec(tmp_path: Path, path: str) -> list[str]:
    """Return how to run sched with a Python that has no mpiexec beside it, nor beside the library."""
    program = tmp_path / "alone.py"
    program.write_text(
        "import sys\n"
        "from sched.runtime import again\n"
        "from sched.cli import main\n"
        f"sys.prefix = {str(tmp_path)!r}\n"
        "again._read = lambda path: ''\n"
        "sys.exit(main())\n"
    )
    return [str(program)]


def test_an_mpiexec_of_another_mpi_is_named_with_the_library(
    start: Start, job: Job, one_mpi: Mpi, tmp_path: Path
) -> None:
    other = stand_in(tmp_path / "other", "mpiexec (Open MPI) 5.0.11")
    program = without_mpiexec(tmp_path, str(other.parent))
    end = start(*program, "run", "-n", "2", job(""), module=None, PATH=f"{other.parent}:/nowhere").end()
    assert (end.status, end.out) == (2, ""), end
    assert f"no mpiexec fits mpi4py, which uses MPICH Version: {' ' * 5}" in end.err, end
    assert f"{other} is Open MPI's" in end.err, end


def test_where_there_is_no_mpiexec_the_remedy_is_told(
    start: Start, job: Job, one_mpi: Mpi, tmp_path: Path
) -> None:
    program = without_mpiexec(tmp_path, "/nowhere")
    end = start(*program, "run", "-n", "2", job(""), module=None, PATH="/nowhere").end()
    assert (end.status, end.out) == (2, ""), end
    assert "there is no mpiexec, on PATH or beside MPICH" in end.err, end
    assert "pip install 'tilesched[mpich]'" in end.err, end


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_job(
    start: Start, job: Job, mpi: Mpi, sent: signal.Signals, tmp_path: Path
) -> None:
    path = job(
        """
        import time
        with open("started", "w") as file:
            print("started", file=file)
        time.sleep(600)
        """
    )
    program = start("run", "-n", "2", "--device", "host", path, **lone(mpi))
    wait_for(tmp_path / "started")
    os.kill(program.process.pid, sent)
    end = program.end(30)
    assert end.status != 0, end
