"""The tile that is meant where none is named: `sched.tile`, `sched.tiles`, `sched.xp`.

One rule: the ambient tile says where arrays are *made*. What is computed from arrays stays where they are.
It is kept in a context variable, so it is right in threads and coroutines.
"""

from contextlib import AbstractContextManager
from types import ModuleType

from sched.backends.base import Tile, on
from sched.errors import RequestError
from sched.runtime import session
from sched.runtime.current import current, running

__all__ = ["current", "tile", "tiles", "xp"]


def tiles() -> tuple[Tile, ...]:
    """List this rank's tiles: one under `mpiexec -n 12`, all of them in a single process."""
    task = running.get()
    return (task._backend if task is not None else session.engine().backend).tiles


def tile(index: int) -> AbstractContextManager[Tile]:
    """Make arrays on one of this rank's tiles, while the `with` lasts.

    It takes the place of `with cupy.cuda.Device(i), streams[i]:`.

    Args:
        index: position in `tiles()`.

    Raises:
        RequestError: This rank has no such tile.
    """
    own = tiles()
    if not 0 <= index < len(own):
        raise RequestError(f"tile({index}) does not exist: this rank has {len(own)} (see sched.tiles())")
    return on(own[index])


def xp() -> ModuleType:
    """Return the array module of the tiles: dpnp, or NumPy on `host`."""
    task = running.get()
    return (task._backend if task is not None else session.engine().backend).xp
