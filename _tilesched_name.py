"""Let `import sched` find this project, although CPython has a module of that name.

The standard library comes before site-packages on `sys.path`, so an installed package cannot have the
name of a standard module by being there. `tilesched-name.pth` therefore calls `take_over` whenever an
interpreter starts, as setuptools does for distutils, and a finder in front answers for this one name.

Two rules. The finder stands in for CPython's file and for nothing else: a `sched` that comes before the
standard library on `sys.path`, be it a module beside someone's script or a checkout of this project,
wins, as it would over any other installed package. And since every start of Python pays for this file,
it imports only what is loaded by then, and raises nothing.
"""

import os
import sys

_HERE = os.path.dirname(__file__)
_STANDARD_LIBRARY = os.path.dirname(os.__file__)


class SchedFinder:
    """A `sys.meta_path` finder for the top-level name `sched`."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        """Search what precedes the standard library, then the directory of this file.

        Returns:
            A spec; or None, which leaves the name to the standard library, if this install is half gone.
        """
        if fullname != "sched":
            return None
        # importlib.machinery has the same class, but importing it costs more than the rest of `import sched`.
        from _frozen_importlib_external import PathFinder

        ahead = sys.path[: sys.path.index(_STANDARD_LIBRARY)] if _STANDARD_LIBRARY in sys.path else []
        spec = PathFinder.find_spec(fullname, [*ahead, _HERE])
        # A directory without __init__.py has no origin: what an uninstall left behind, or someone's data.
        return spec if spec is not None and spec.origin is not None else None


def take_over():
    """Install the finder, once, and forget CPython's module if something has imported that already."""
    if SchedFinder not in sys.meta_path:
        sys.meta_path.insert(0, SchedFinder)
    imported = getattr(sys.modules.get("sched"), "__file__", None) or ""
    if os.path.dirname(imported) == _STANDARD_LIBRARY:
        del sys.modules["sched"]
