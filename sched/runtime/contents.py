"""What is inside a value: plain containers, and objects that hold arrays."""

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any

PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})
"""Types of which pickle itself makes the right thing, without looking for anything in the script."""

_FEW = 16
"""Items of a container that is looked into to see whether it is small."""

_DEEP = 32
"""Levels of objects and containers that are searched for arrays."""


def changed(change: Callable[[Any], Any], value: Any) -> Any:
    """Apply `change` to what is in plain containers, at any depth, once to each thing.

    Returns:
        The value itself if nothing in it changed, or if it is nested too deeply.
    """
    seen: dict[int, tuple[Any, Any]] = {}

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
        seen.clear()  # `visit` refers to itself, so only the garbage collector would let go of it


def leaves(value: Any) -> Iterator[Any]:
    """Yield what is in a value: in containers, dataclasses and objects with attributes, each thing once.

    Modules, classes and functions are not looked into.
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
        parts = _parts(item, kind) if depth < _DEEP else None
        if parts is None:
            yield item
        else:
            waiting.extend((part, depth + 1) for part in reversed(parts))


def _parts(item: Any, kind: type) -> list[Any] | None:
    if kind is dict:
        return list(item.values())
    if isinstance(item, tuple | list | set | frozenset):
        return list(item)
    if isinstance(item, type | type(sys)) or hasattr(item, "dtype") or callable(item):
        return None
    if dataclasses.is_dataclass(item):
        return [getattr(item, field.name, None) for field in dataclasses.fields(item)]
    attributes = getattr(item, "__dict__", None)
    return list(attributes.values()) if type(attributes) is dict else None


def nbytes(value: Any) -> int:
    """Weigh a value: the arrays in it, and a little for everything else. It never fails."""
    if type(value) in PLAIN:
        return len(value) if type(value) in (str, bytes) else 8
    total = 0
    with contextlib.suppress(Exception):  # an object that does not like to be looked at
        for item in leaves(value):
            found = len(item) if type(item) in (str, bytes) else getattr(item, "nbytes", None)
            total += found if isinstance(found, int) else 8
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
