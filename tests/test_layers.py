"""What is loaded when: seen from a fresh interpreter, where no linter can look away."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]


def loaded_after(statement: str, *modules: str) -> set[str]:
    """Run a statement in a fresh interpreter; return which of the modules it has loaded."""
    code = f"import sys\n{statement}\nprint(*(m for m in {modules!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_numpy_waits_until_its_threads_are_bounded() -> None:
    # OpenBLAS and MKL read their variables when they are loaded; `start` sets them before it opens a backend.
    assert loaded_after("import sched.client, sched.cli, sched.runtime.start", "numpy") == set()


@pytest.mark.parametrize(
    ("device", "unwanted"), [("host", {"dpctl", "dpnp", "mpi4py"}), ("cpu", {"mpi4py", "cupy"})]
)
def test_a_device_loads_only_its_own_library(device: str, unwanted: set[str]) -> None:
    if device == "cpu":
        pytest.importorskip("dpnp")
    statement = f"import sched\nwith sched.local(device={device!r}) as s: s.submit(abs, 1).result()"
    assert loaded_after(statement, *unwanted) == set()


def test_the_command_line_is_light() -> None:
    heavy = ("numpy", "mpi4py", "dpctl", "dpnp", "cloudpickle", "concurrent.futures", "asyncio")
    assert loaded_after("import sched.cli", *heavy) == set()


def test_a_file_is_one_idea() -> None:
    """Above 400 lines it is probably two; what is a little above has its reason in the change that let it."""
    for package in ("sched", "launch"):
        for path in (CHECKOUT / package).rglob("*.py"):
            lines = len(path.read_text().splitlines())
            assert lines <= 420, f"{path.relative_to(CHECKOUT)} has {lines} lines"
