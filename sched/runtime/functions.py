"""Functions by number: each is pickled once, and sent once to each rank that calls it."""

import itertools
import types
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

from sched.model import RankId
from sched.runtime.messages import Packed
from sched.runtime.packing import Packer


class Function:
    """A function as it was when it was pickled. When nothing refers to it any more, ranks forget it."""

    __slots__ = ("__weakref__", "_forgotten", "code", "known", "number")

    def __init__(self, number: int, code: Packed, forgotten: "deque[tuple[int, set[RankId]]]") -> None:
        self.number = number
        self.code = code
        self.known: set[RankId] = set()
        self._forgotten = forgotten

    def __del__(self) -> None:
        # May run in any thread at any moment, so it only leaves word; the engine does the rest.
        self._forgotten.append((self.number, self.known))


class Functions:
    """The functions that the script has submitted.

    A Python function is pickled again only if something that it refers to directly (a global name, a
    variable of its closure, a default) is now another object. Partial functions, methods and callable
    objects are pickled for each call, because what they hold may have changed.

    Several threads of the script may ask at once: the worst of it is a function that is pickled twice.
    """

    def __init__(self, packer: Packer) -> None:
        self.forgotten: deque[tuple[int, set[RankId]]] = deque()
        self._packer = packer
        self._numbers = itertools.count(1)
        self._plain: weakref.WeakKeyDictionary[Any, tuple[_View, Function]] = weakref.WeakKeyDictionary()
        # What belongs to a module stays alive anyhow, and NumPy's own functions take no weak reference.
        self._lasting: dict[Any, Function] = {}

    def get(self, function: Any) -> Function:
        """Return the function's number and code.

        Raises:
            TypeError: It is not callable.
            Exception: Whatever pickling it raises.
        """
        if not callable(function):
            raise TypeError(f"a task is a call, and {function!r} cannot be called")
        if type(function) is types.FunctionType:
            known = self._plain.get(function)
            if known is None or not known[0].is_of(function):
                # Looked at first: if it changes in between, it is pickled once more, rather than too seldom.
                known = self._plain[function] = (_View(function), self._make(function))
            return known[1]
        if _lasts(function):
            made = self._lasting.get(function)
            if made is None:
                made = self._lasting[function] = self._make(function)
            return made
        return self._make(function)

    def _make(self, function: Any) -> Function:
        return Function(next(self._numbers), self._packer.pack_function(function), self.forgotten)


class _View:
    """What a function refers to directly, to see later whether it still does.

    It is held weakly, where it can be: a function whose closure leads back to it would live for ever.
    """

    __slots__ = ("_code", "_names", "_seen")

    def __init__(self, function: types.FunctionType) -> None:
        self._code = function.__code__
        self._names = tuple(dict.fromkeys(_names(self._code)))
        self._seen = [_weakly(thing) for thing in self._look(function)]

    def is_of(self, function: types.FunctionType) -> bool:
        if function.__code__ is not self._code:
            return False
        now = self._look(function)
        return len(now) == len(self._seen) and all(
            (type(old) is weakref.ref and new is not None and old() is new) or old is new
            for old, new in zip(self._seen, now, strict=True)
        )

    def _look(self, function: types.FunctionType) -> list[Any]:
        known = function.__globals__
        found = [known[name] for name in self._names if name in known]
        for cell in function.__closure__ or ():
            try:
                found.append(cell.cell_contents)
            except ValueError:  # not assigned yet
                found.append(None)
        found += function.__defaults__ or ()
        found += (function.__kwdefaults__ or {}).values()
        found += function.__dict__.values()
        return found


def _names(code: types.CodeType) -> Iterator[str]:
    """List the names in a function's code, and in that of functions and comprehensions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield from _names(constant)


def _weakly(thing: Any) -> Any:
    try:
        return weakref.ref(thing)
    except TypeError:
        return thing


def _lasts(function: Any) -> bool:
    """Tell whether this is a function of a module that is written in C: it never changes."""
    kind = type(function)
    if kind is types.BuiltinFunctionType:
        return isinstance(function.__self__, types.ModuleType)  # or else it is a method of any object
    return kind.__module__ == "numpy" and not kind.__weakrefoffset__
