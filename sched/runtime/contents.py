"""What is inside a value: plain containers, and objects that hold arrays."""

import contextlib
import dataclasses
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from sched.backends.base import Backend

PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})
"""Types of which pickle itself makes the right thing, without looking for anything in the script."""

_CLOSED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
"""Types of what is not looked into."""

_FEW = 16
"""Items of a container that is looked into to see whether it is small."""

_DEEP = 32
"""Levels of objects and containers that are searched for arrays."""


Seen = dict[int, tuple[Any, Any]]
"""What has been changed already, by id: the thing itself, which is kept alive so, and what became of it."""


def changed(change: Callable[[Any], Any], value: Any, seen: Seen | None = None) -> Any:
    """Apply `change` to what is in plain containers, at any depth, once to each thing.

    Returns:
        The value itself if nothing in it changed, or if it is nested too deeply.
    """
    own = seen is None
    seen = {} if seen is None else seen

    def visit(item: Any) -> Any:
        kind = type(item)
        if kind in PLAIN:
            return item
        if id(item) in seen:
            return seen[id(item)][1]
        if kind is not list and kind is not dict and not isinstance(item, tuple):
            made = change(item)
            seen[id(item)] = (item, made)
            return made
        seen[id(item)] = (item, item)  # it may contain itself
        old = list(item.values()) if kind is dict else item
        new = [visit(part) for part in old]
        made = item
        if any(a is not b for a, b in zip(old, new, strict=True)):
            if kind is dict:
                made = dict(zip(item, new, strict=True))
            elif kind is list or kind is tuple:
                made = kind(new)
            elif hasattr(item, "_make"):
                made = item._make(new)
        seen[id(item)] = (item, made)
        return made

    try:
        return visit(value)
    except RecursionError:  # too deep to look into
        return value
    finally:
        if own:
            seen.clear()  # `visit` refers to itself, so only the garbage collector would let go of it


def change_inside(change: Callable[[Any], Any], value: Any, seen: Seen) -> None:
    """Apply `change` to what `changed` does not make anew, in place.

    That is what is in deques and in derived lists and dicts; and the attributes of dataclasses, and of
    objects of the script's own classes. Objects of others may rely on it that they can change themselves.
    """
    for item in list(leaves(value, inner=True)):
        kind = type(item)
        if issubclass(kind, dict) and kind is not dict:
            for key, part in list(dict.items(item)):
                dict.__setitem__(item, key, changed(change, part, seen))
        elif issubclass(kind, list) and kind is not list:
            parts = [changed(change, part, seen) for part in list.__iter__(item)]
            list.__setitem__(item, slice(None), parts)
        elif issubclass(kind, deque):
            for index, part in enumerate(list(item)):
                item[index] = changed(change, part, seen)
        if kind.__module__ != "__main__" and not dataclasses.is_dataclass(kind):
            continue
        if issubclass(kind, (tuple, *_CLOSED)):  # a named tuple is made anew, by `changed`
            continue
        with contextlib.suppress(AttributeError):
            attributes = object.__getattribute__(item, "__dict__")
            for name, part in list(attributes.items()):
                attributes[name] = changed(change, part, seen)
        for slot in _slots(kind):
            with contextlib.suppress(AttributeError):  # it has no value
                slot.__set__(item, changed(change, slot.__get__(item), seen))


def leaves(value: Any, *, inner: bool = False) -> Iterator[Any]:
    """Yield what is in a value: in containers, and in objects' attributes and slots, each thing once.

    If `inner`, also the containers and objects themselves. Modules, classes, functions and arrays are not
    looked into. It never fails, and calls little that a class of the script's may have redefined.
    """
    seen: set[int] = set()
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        kind = type(item)
        if kind in PLAIN:
            yield item
            continue
        if id(item) in seen:
            continue
        seen.add(id(item))
        parts = None
        if depth < _DEEP and not hasattr(kind, "dtype") and not issubclass(kind, _CLOSED):
            with contextlib.suppress(Exception):  # an object that does not like to be looked at
                parts = _parts(item, kind)
        if parts is None or inner:
            yield item
        if parts is not None:
            waiting.extend((part, depth + 1) for part in reversed(parts))


def _parts(item: Any, kind: type) -> list[Any] | None:
    """List what an object holds; None if that cannot be seen."""
    parts: list[Any] | None = None
    if issubclass(kind, dict):
        parts = list(dict.values(item))
    elif issubclass(kind, tuple | list | set | frozenset | deque):
        parts = list(item)
    for slot in _slots(kind):
        with contextlib.suppress(AttributeError):  # it has no value
            parts = [*(parts or ()), slot.__get__(item)]
    with contextlib.suppress(AttributeError):
        attributes = object.__getattribute__(item, "__dict__")
        parts = [*(parts or ()), *attributes.values()]
    return parts


def _slots(kind: type) -> Iterator[MemberDescriptorType]:
    for base in kind.__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            slot = base.__dict__.get(name)
            if isinstance(slot, MemberDescriptorType):
                yield slot


def nbytes(value: Any) -> int:
    """Weigh a value: the arrays in it, and a little for everything else. It never fails."""
    if type(value) in PLAIN:
        return len(value) if type(value) in (str, bytes) else 8
    total = 0
    for item in leaves(value):
        kind = type(item)
        found = None
        if kind in (str, bytes):
            found = len(item)
        elif hasattr(kind, "nbytes"):
            with contextlib.suppress(Exception):
                found = item.nbytes
        total += found if isinstance(found, int) else 8
    return total


def allocations(value: Any, backend: Backend) -> dict[int, int]:
    """Find the allocations that a value keeps alive on a tile: their addresses, and their sizes in bytes."""
    if type(value) in PLAIN:
        return {}
    arrays = numpy("ndarray") if backend.kind == "host" else ()
    return dict(
        backend.allocation(item)
        for item in leaves(value)
        if backend.is_array(item) or isinstance(item, arrays)
    )


def checksum(value: Any, backend: Backend) -> int:
    """Return a checksum of all arrays in a value."""
    import numpy

    total = 0
    for item in leaves(value):
        if backend.is_array(item):
            item = backend.to_host(item)
        if isinstance(item, numpy.ndarray) and not item.dtype.hasobject:
            total = zlib.crc32(numpy.ascontiguousarray(item).reshape(-1).view(numpy.uint8).data, total)
    return total


def is_small(value: Any, limit: int, depth: int = 3) -> bool:
    """Tell, quickly, whether it pays to look how small the pickle of a value is."""
    kind = type(value)
    if kind in PLAIN:
        return (kind is not str and kind is not bytes) or len(value) <= limit
    if kind is dict:
        value = (*value, *value.values())
    elif kind is not tuple and kind is not list:
        if isinstance(value, numpy("generic")):
            return True
        return kind in numpy("ndarray") and value.nbytes <= limit and not value.dtype.hasobject
    return depth > 0 and len(value) <= _FEW and all(is_small(item, limit, depth - 1) for item in value)


def numpy(*names: str) -> tuple[Any, ...]:
    """Return NumPy's types of these names if NumPy is loaded: too early, and its threads are not bounded."""
    module = sys.modules.get("numpy")
    return () if module is None else tuple([getattr(module, name) for name in names])
