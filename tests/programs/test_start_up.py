"""What the start of a rank costs a file system that hundreds of nodes share: modules, and files read.

The numbers are limits, with some room above what was counted with Python 3.11 and NumPy 2: who passes one
should know what it is that every rank of a large run now loads.
"""

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Run, Start
from .launching import Mpi

Job = Callable[..., Path]
pytestmark = pytest.mark.mpi_program

MODULES_OF_OURS = 58
OTHER_MODULES = 170  # counted: 137
FILES_OPENED = 320  # counted: 197 to 256, by what else is installed

MODULES = """
    def modules():
        import sys
        return sorted(sys.modules)

    with sched.Scheduler() as s:
        print(s.options(tile=s.tiles - 1).submit(modules).result())
"""


@pytest.fixture
def of_a_rank(run: Run, job: Job, one_mpi: Mpi) -> list[str]:
    """The modules that a rank other than 0 has loaded when its first task runs."""
    end = run("--device", "host", job(MODULES), mpi=one_mpi, ranks=2)
    assert end.status == 0, end
    modules: list[str] = ast.literal_eval(end.out)
    return modules


def packages(modules: list[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def test_a_rank_loads_numpy_mpi4py_cloudpickle_and_what_comes_with_python(of_a_rank: list[str]) -> None:
    python = sys.stdlib_module_names | {"__main__", "org"}
    helpers = {name for name in packages(of_a_rank) if "cython" in name or name.startswith("_distutils")}
    found = packages(of_a_rank) - python - helpers
    assert found - {"_tilesched_name"} == {"cloudpickle", "mpi4py", "numpy"}


@pytest.mark.parametrize("name", ["client", "future", "ambient", "local", "bench", "doctor", "sim"])
def test_a_rank_loads_nothing_that_only_the_script_or_another_command_needs(
    of_a_rank: list[str], name: str
) -> None:
    assert [module for module in of_a_rank if module.startswith(f"sched.{name}")] == []
    commands = {module for module in of_a_rank if module.startswith("sched.commands.")}
    assert commands == {"sched.commands.run", "sched.commands.values"}


def test_a_rank_loads_few_modules(of_a_rank: list[str]) -> None:
    ours = [module for module in of_a_rank if module.startswith("sched")]
    others = [m for m in of_a_rank if m not in ours and not m.startswith("numpy")]
    assert len(ours) <= MODULES_OF_OURS, ours
    assert len(others) <= OTHER_MODULES, others


def test_the_job_is_read_once_by_rank_0(start: Start, job: Job, mpi: Mpi, tmp_path: Path) -> None:
    path = job("import sched.client\nwith sched.Scheduler() as s:\n    s.submit(abs, -1).result()")
    job("", "beside.py")
    program = Path(__file__).with_name("noting_opens.py")
    end = start(program, "run", "--device", "host", path, mpi=mpi, ranks=3, module=None).end()
    assert end.status == 0, end
    opened = [(tmp_path / f"opened-{rank}").read_text().splitlines() for rank in range(3)]
    assert [files.count(str(path)) for files in opened] == [1, 0, 0]
    assert not [name for files in opened for name in files if "beside" in name]
    assert all(0 < len(files) <= FILES_OPENED for files in opened[1:]), [len(files) for files in opened]
