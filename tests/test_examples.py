"""Every example gives the right result, in one process and in several, with NumPy and with dpnp.

The examples compare their results themselves and say so with their exit status.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
MPIEXEC = shutil.which("mpiexec", path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}")

SMALL = {
    "cholesky": ["--size", "330", "--block", "50"],  # the last block is smaller
    "heat": ["--size", "150", "--steps", "30", "--halo", "4"],  # the last exchange is for fewer steps
    "sweep": ["--strikes", "5", "--paths", "2000"],
    "photograph": [],
}

needs_mpiexec = pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec")
needs_dpnp = pytest.mark.skipif(importlib.util.find_spec("dpnp") is None, reason="dpnp is not installed")


@pytest.mark.parametrize("example", SMALL)
def test_host_tiles_in_one_process(example: str) -> None:
    run_example(example, device="host", tiles=3)


@pytest.mark.mpi_program
@needs_mpiexec
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("example", SMALL)
def test_host_tiles_in_ranks(example: str, ranks: int) -> None:
    run_example(example, device="host", ranks=ranks)


@pytest.mark.sycl
@needs_dpnp
@pytest.mark.parametrize("example", SMALL)
def test_dpnp(example: str) -> None:
    run_example(example, device="cpu")


@pytest.mark.mpi_program
@pytest.mark.sycl
@needs_mpiexec
@needs_dpnp
def test_cholesky_uses_all_twelve_tiles() -> None:
    assert "12 of 12 tiles took part" in run_example("cholesky", device="cpu", ranks=12)


def test_a_wrong_result_is_noticed(tmp_path: Path) -> None:
    source = (ROOT / "examples" / "heat.py").read_text()
    right, wrong = "skip = 0 if above is None else steps", "skip = 0"
    assert right in source
    broken = tmp_path / "heat.py"
    broken.write_text(source.replace(right, wrong))
    done = run_job([broken, *SMALL["heat"]], device="host", tiles=3)
    assert done.returncode == 1
    assert "WRONG" in done.stdout


def run_example(name: str, *, device: str, ranks: int | None = None, tiles: int | None = None) -> str:
    """Run an example at its small size, which has to succeed, and return what it printed."""
    if name == "photograph":
        pytest.importorskip("skimage")
    done = run_job([f"examples/{name}.py", *SMALL[name]], device=device, ranks=ranks, tiles=tiles)
    assert done.returncode == 0, f"{name} ended with {done.returncode}:\n{done.stdout}"
    assert "(right)" in done.stdout
    return done.stdout


def run_job(
    args: list[str | Path],
    *,
    device: str,
    ranks: int | None = None,
    tiles: int | None = None,
    limit: float = 90,
) -> "subprocess.CompletedProcess[str]":
    """Run a job under `sched run`, on ranks if given, and end it and all its processes after `limit` s.

    Returns:
        Its status, and its output and errors together.
    """
    launcher = [] if ranks is None else [MPIEXEC, "-n", str(ranks)]
    where = ["--device", device] + ([] if tiles is None else ["--tiles", str(tiles)])
    command = [*launcher, sys.executable, "-m", "sched", "run", *where, *args]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}  # not installed, `sched` would be CPython's
    # To a file: a process that outlives the others could keep a pipe open, and this waiting.
    with tempfile.TemporaryFile("w+") as output:
        job = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = job.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if job.returncode is None:
                os.killpg(job.pid, signal.SIGTERM)  # mpiexec then ends its ranks, which are not of this group
                try:
                    job.wait(5)
                except subprocess.TimeoutExpired:
                    os.killpg(job.pid, signal.SIGKILL)
                    job.wait()
        output.seek(0)
        text = output.read()
    if status is None:
        pytest.fail(f"{command} had not ended after {limit:.0f} s. Its output:\n{text}")
    return subprocess.CompletedProcess(command, status, text)
