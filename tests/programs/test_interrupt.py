"""Ctrl-C ends a run, wherever it comes, and nothing of it is left."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Start
from .launching import Mpi, wait_for

Job = Callable[..., Path]
pytestmark = pytest.mark.mpi_program

STAY = """
    import os, pathlib, time

    def stay():
        pathlib.Path("began").write_text("yes\\n")
        time.sleep({seconds})

    with sched.Scheduler() as s:
        waiting = [s.submit(stay) for _ in range(200)]
        for future in waiting:
            future.result()
    pathlib.Path("went-on").touch()
"""


@pytest.mark.parametrize("device", ["host", pytest.param("cpu", marks=pytest.mark.sycl)])
@pytest.mark.parametrize("seconds", [0.002, 600])
def test_in_one_process(start: Start, job: Job, tmp_path: Path, device: str, seconds: float) -> None:
    program = start("run", "--device", device, job(STAY.format(seconds=seconds)))
    wait_for(tmp_path / "began")
    os.kill(program.process.pid, signal.SIGINT)
    end = program.end(30)
    if seconds > 1:
        assert end.status == 130, end
        assert not (tmp_path / "went-on").exists()
    assert "a bug in sched" not in end.err, end


def test_a_script_that_was_started_by_python_alone_ends_too(start: Start, job: Job, tmp_path: Path) -> None:
    program = start(job(STAY.format(seconds=600)), module=None, SCHED_DEVICE="host")
    wait_for(tmp_path / "began")
    os.kill(program.process.pid, signal.SIGINT)
    end = program.end(30)
    assert end.status != 0, end
    assert "KeyboardInterrupt" in end.err, end


def test_under_mpiexec(start: Start, job: Job, mpi: Mpi, tmp_path: Path) -> None:
    program = start("run", "--device", "host", job(STAY.format(seconds=600)), mpi=mpi, ranks=3)
    wait_for(tmp_path / "began")
    os.killpg(program.process.pid, signal.SIGINT)
    end = program.end(30)
    assert end.status != 0, end
    assert "a bug in sched" not in end.err, end
    assert not (tmp_path / "went-on").exists()
