"""The package `launch` beside this one, whatever else is called so.

`python -m` and scripts put their directory first on the path, and `launch.py` is a likely name in it. So ours
is looked up beside this package, and its name is free again afterwards. Each module of ours is loaded once:
a class or an error that two of them know is the same one.
"""

import functools
import importlib
import sys
from pathlib import Path
from types import ModuleType

_here = str(Path(__file__).parents[1])


def _take() -> dict[str, ModuleType]:
    """Take all that is loaded under this name, which is free then."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "launch"}


_others = _take()
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
    _ours = _take()
    sys.modules.update(_others)


@functools.cache
def load(name: str) -> ModuleType:
    """Return `launch.NAME`, which not every rank needs."""
    others = _take()
    sys.modules.update(_ours)
    sys.path.insert(0, _here)
    try:
        return importlib.import_module(f"launch.{name}")
    finally:
        sys.path.remove(_here)
        _ours.update(_take())
        sys.modules.update(others)
