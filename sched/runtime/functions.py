"""Functions by number: each is pickled once, and sent once to each rank that calls it."""

import types
import weakref
from collections import deque
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
    """

    def __init__(self, packer: Packer) -> None:
        self.forgotten: deque[tuple[int, set[RankId]]] = deque()
        self._packer = packer
        self._next = 0
        self._plain: weakref.WeakKeyDictionary[Any, tuple[tuple[Any, ...], Function]] = (
            weakref.WeakKeyDictionary()
        )
        # NumPy's own functions take no weak reference. They belong to modules, so they stay alive anyhow.
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
            view = _view(function)
            known = self._plain.get(function)
            if (
                known is None
                or len(known[0]) != len(view)
                or any(a is not b for a, b in zip(known[0], view, strict=True))
            ):
                known = self._plain[function] = (view, self._make(function))
            return known[1]
        if type(function).__module__ == "numpy" or type(function) is types.BuiltinFunctionType:
            try:
                return self._lasting[function]
            except KeyError:
                made = self._lasting[function] = self._make(function)
                return made
            except TypeError:
                pass
        return self._make(function)

    def _make(self, function: Any) -> Function:
        self._next += 1
        return Function(self._next, self._packer.pack(function), self.forgotten)


def _view(function: types.FunctionType) -> tuple[Any, ...]:
    """List what a function refers to directly, to see later whether it still does."""
    names = function.__globals__
    view = [names[name] for name in function.__code__.co_names if name in names]
    for cell in function.__closure__ or ():
        try:
            view.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            view.append(None)
    view.append(function.__defaults__)
    view.append(function.__code__)
    return tuple(view)
