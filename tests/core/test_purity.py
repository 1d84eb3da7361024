"""The core is pure: it knows no clock, no chance, no arrays, no threads and no MPI."""

import ast
import subprocess
import sys
from pathlib import Path

import sched.core

CORE = Path(sched.core.__file__).parent
MODULES = {f"sched.core.{path.stem}": path for path in sorted(CORE.glob("*.py")) if path.stem != "__init__"}
BELOW = {"sched.errors", "sched.model"}

IMPORT_ALL = """
import sys
bare = set(sys.modules)
sys.path.insert(0, {root!r})
import importlib
for name in {modules!r}:
    importlib.import_module(name)
print(*sorted(set(sys.modules) - bare))
"""


def test_importing_it_imports_nothing_that_could_make_it_impure():
    program = IMPORT_ALL.format(root=str(CORE.parents[1]), modules=list(MODULES))
    command = [sys.executable, "-I", "-S", "-c", program]
    imported = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert {name for name in imported if name.startswith("sched.")} == {"sched.core", *MODULES, *BELOW}
    impure = {
        "numpy",
        "mpi4py",
        "dpctl",
        "dpnp",
        "cupy",
        "time",
        "datetime",
        "random",
        "secrets",
        "threading",
    }
    assert not impure.intersection(imported)


def test_it_asks_for_nothing_of_the_kind():
    """Every Python has a clock in `sys.modules` from its start, where the test above cannot see it."""
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                asked = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                asked = [node.module]
            else:
                continue
            for name in asked:
                known = name in MODULES or name in BELOW
                assert known or name.partition(".")[0] in {
                    "collections",
                    "enum",
                    "heapq",
                    "itertools",
                    "typing",
                }, path
