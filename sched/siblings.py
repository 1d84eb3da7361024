"""The package `launch` beside this one, whatever else is called so.

`python -m` and scripts put their directory first on the path, and `launch.py` is a likely name in it. So ours
is looked up beside this package, and its name is free again afterwards.
"""

import functools
import importlib
import sys
from pathlib import Path
from types import ModuleType

_here = str(Path(__file__).parents[1])
_others = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "launch"}
sys.path.insert(0, _here)
try:
    from launch import (
        binding as binding,
        cores as cores,
        environment as environment,
        masks as masks,
        mpiexec as mpiexec,
        ranks as ranks,
    )
finally:
    sys.path.remove(_here)
    for _name in [name for name in sys.modules if name.partition(".")[0] == "launch"]:
        del sys.modules[_name]
    sys.modules.update(_others)


@functools.cache
def load(name: str) -> ModuleType:
    """Return `launch.NAME`, which not every rank needs."""
    others = {key: sys.modules.pop(key) for key in list(sys.modules) if key.partition(".")[0] == "launch"}
    sys.path.insert(0, _here)
    try:
        return importlib.import_module(f"launch.{name}")
    finally:
        sys.path.remove(_here)
        for key in [key for key in sys.modules if key.partition(".")[0] == "launch"]:
            del sys.modules[key]
        sys.modules.update(others)
