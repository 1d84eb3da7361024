"""Fixtures that start jobs: `job` writes one, `mpi` is each MPI in turn, `run` starts it."""

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .launching import CHECKOUT, Mpi, Outcome, Program, mpich, openmpi

_MPIS = {"mpich": mpich, "openmpi": openmpi}


@pytest.fixture(params=sorted(_MPIS))
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Each MPI that is installed."""
    found = _MPIS[request.param]()
    if found is None:
        pytest.skip(f"{request.param} is not installed (tools/test.sh installs it)")
    return found


@pytest.fixture
def one_mpi() -> Mpi:
    """MPICH, for what does not depend on which."""
    found = mpich()
    if found is None:
        pytest.skip("mpich is not installed (tools/test.sh installs it)")
    return found


@pytest.fixture
def job(tmp_path: Path) -> Callable[[str], Path]:
    """Write a job."""

    def write(text: str, name: str = "job.py") -> Path:
        path = tmp_path / name
        path.write_text("import sched\n" + textwrap.dedent(text))
        return path

    return write


Start = Callable[..., Program]
Run = Callable[..., Outcome]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `python -m sched ...`, under an MPI or alone, from a directory that is not the checkout."""
    started: list[Program] = []

    def start(
        *arguments: object,
        mpi: Mpi | None = None,
        ranks: int = 1,
        module: str | None = "sched",
        **environment: str,
    ) -> Program:
        program = [sys.executable, *(["-m", module] if module else []), *map(str, arguments)]
        command = mpi.command(ranks, *program) if mpi else program
        path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
        env = {"PYTHONPATH": path, "SYCL_CACHE_PERSISTENT": "1", **(mpi.environment if mpi else {})}
        started.append(Program(command, tmp_path, {**env, **environment}))
        return started[-1]

    yield start
    for program in started:
        program.kill()


@pytest.fixture
def run(start: Start) -> Run:
    """Start it and wait for it to end."""

    def run(*arguments: object, mpi: Mpi | None = None, ranks: int = 1, **environment: str) -> Outcome:
        return start("run", *arguments, mpi=mpi, ranks=ranks, **environment).end()

    return run
