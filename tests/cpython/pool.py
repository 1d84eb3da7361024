"""What CPython's tests of executors are given to work with. Programs that they start import this as well.

CPython's tests come with some Pythons and not with others, and Debian has them in a package of their own.
Up to Python 3.11 they are one module, later a package: `find` makes the two look the same.
"""

import importlib.util
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import sched

HOME = "test.test_concurrent_futures"

MISSING = (
    "neither this Python nor Debian's comes with test.test_concurrent_futures: on Debian, "
    "`apt install libpython3.11-testsuite` (or whatever its version of Python is) brings it"
)


def pool(max_workers: int = 5) -> sched.Scheduler:
    """Make a scheduler as if it were a pool, with one tile for each worker."""
    return sched.local(tiles=max_workers, device="host")


def find(name: str) -> ModuleType | None:
    """Import a module of CPython's tests.

    Args:
        name: of a submodule of the package; where there is none, everything is in the one module.
    """
    home = _home()
    if home is None or not hasattr(home, "__path__"):
        return home
    return import_module(f"{HOME}.{name}")


def _home() -> ModuleType | None:
    try:
        return import_module(HOME)
    except ModuleNotFoundError:
        pass
    for version in sorted(Path("/usr/lib").glob("python3.*"), reverse=True):
        for place in ("test_concurrent_futures.py", "test_concurrent_futures/__init__.py"):
            path = version / "test" / place
            if path.exists() and (home := _load(path)):
                return home
    return None


def _load(path: Path) -> ModuleType | None:
    # Under its own name: what it defines is then pickled by name, as it is where it belongs to the Python.
    spec = importlib.util.spec_from_file_location(HOME, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[HOME] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError:  # it is for a Python whose own test.support is another
        del sys.modules[HOME]
        return None
    return module
