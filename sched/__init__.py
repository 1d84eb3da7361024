"""One Python script on all the GPU tiles of a node, or of hundreds of nodes.

This module holds the public names and imports none of their homes: each is loaded at its first use, so
that `import sched` costs next to nothing, needs no MPI, no device and no array library, and binds nothing.
CPython has a module of this name too, which this one replaces once installed; its `scheduler` and `Event`
are here as well, so a program written for it does not notice.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers know the name; importing it from typing would cost more than this file
if TYPE_CHECKING:
    from types import ModuleType

    from sched.ambient import current as current, tile as tile, tiles as tiles
    from sched.client import Scheduler as Scheduler, local as local
    from sched.cpython import Event as Event, scheduler as scheduler
    from sched.errors import (
        DependencyError as DependencyError,
        DeviceError as DeviceError,
        LaunchError as LaunchError,
        ProtocolError as ProtocolError,
        RemoteError as RemoteError,
        RemoteTraceback as RemoteTraceback,
        RequestError as RequestError,
        SchedError as SchedError,
        UsageError as UsageError,
    )
    from sched.future import Future as Future

    xp: ModuleType

_HOME = {
    "Future": "future",
    "Scheduler": "client",
    "local": "client",
    "current": "ambient",
    "tile": "ambient",
    "tiles": "ambient",
    "DependencyError": "errors",
    "DeviceError": "errors",
    "LaunchError": "errors",
    "ProtocolError": "errors",
    "RemoteError": "errors",
    "RemoteTraceback": "errors",
    "RequestError": "errors",
    "SchedError": "errors",
    "UsageError": "errors",
    "Event": "cpython",
    "scheduler": "cpython",
}
"""Public name -> the submodule it lives in. The imports above tell type checkers the same."""

__all__ = list(_HOME)  # not xp: `from sched import *` would keep the answer of one moment


def _find(name: str) -> object:
    """Load a public name (PEP 562)."""
    if name == "xp":  # depends on where it is asked: never kept
        from sched.ambient import xp

        return xp()
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # or else type checkers would take any misspelt name for granted
    __getattr__ = _find


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, "xp"})
