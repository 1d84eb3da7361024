"""The key of a task: a digest of what it computes, which says the same in every run of the same script.

A pickle of the call is digested as it is made, with the function in it. It is like the one that is sent, with
these differences, because that one is another in every run:

* a future is the key of its task;
* code is without its file and lines, a class of the script's without its number (`settled`);
* equal strings are one, whether they are one object or two; a set is sorted.

A function or a class of another module is only a name in a pickle: its code comes in by `sources`. The rest
is what pickles are anyhow: two calls with one digest unpickle to the same.

A call that is made a second time in a run has another key: a task may draw a random number.
"""

import dis
import hashlib
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sched.journal.records import VERSION
from sched.journal.sources import Sources, Unclear, above

Key = bytes

_Pickler: Any = pickle._Pickler
_whichmodule: Callable[[Any, str], str] = pickle.whichmodule  # type: ignore[attr-defined]

Reduce = Callable[[Any], Any]
"""Says how an object is to be pickled, as `pickle.Pickler.reducer_override` does."""


class Keys:
    """Make the keys of a run's tasks.

    Args:
        kind: of the backend: what is an array on one may be none on another.
        begun: when the run began, in seconds since 1970.
    """

    def __init__(self, kind: str, begun: float) -> None:
        self._sources = Sources(begun)
        self._times: dict[bytes, int] = {}
        python = (sys.implementation.name, *sys.version_info[:2])
        self._salt = repr((VERSION, kind, python, sys.byteorder)).encode()

    def digest(
        self,
        thing: Any,
        reduce: Reduce,
        table: Mapping[Any, Reduce],
        key_of: Callable[[Any], Key | None],
    ) -> bytes:
        """Digest a function, or the arguments of a call.

        Args:
            thing: what is to be digested.
            reduce: as a pickler's `reducer_override`: what it returns is pickled in the place of an object.
            table: as a pickler's `dispatch_table`.
            key_of: returns the key of a future's task, and None for all that is no future.

        Raises:
            Unclear: It cannot be told what this is; also from `key_of`, for a task that has no key.
            Exception: Whatever pickling it raises.
        """
        try:
            found = _Digest(reduce, table, key_of)
            content = found.of(thing)
        except RecursionError:
            found = _Digest(reduce, table, key_of)
            content = _deeply(found, thing)
        return content + self._sources.state(found.modules)

    def key(self, function: bytes, arguments: bytes, name: str, version: str = "") -> Key:
        """Return the key of a task.

        Args:
            function: its digest.
            arguments: their digest; or, where they are of pickle's own types and hold no strings twice, their
                pickle, which says the same more quickly.
            name: of the task.
            version: what the user calls this version of the work.

        Returns:
            32 bytes; others for each call that is otherwise the same.
        """
        digest = hashlib.blake2b(digest_size=32)
        for part in (
            self._salt,
            function,
            arguments,
            name.encode("utf-8", "surrogatepass"),
            version.encode(),
        ):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        first = digest.digest()
        times = self._times[first] = self._times.get(first, 0) + 1
        if times == 1:
            return first
        digest.update(times.to_bytes(8, "little"))
        return digest.digest()


def settled(thing: Any, reduced: Any) -> Any:
    """Return how an object is pickled without what is another in each run.

    Args:
        thing: a function, a class, or anything else.
        reduced: how cloudpickle would do it.
    """
    if not isinstance(reduced, tuple) or len(reduced) < 3:
        return reduced
    make, arguments, state, *rest = reduced
    if isinstance(thing, type) and getattr(make, "__name__", "").startswith("_make_skeleton"):
        *known, _, extra = arguments  # the last but one is the number of the class in this process
        attributes, slots = state
        attributes = {
            k: v for k, v in attributes.items() if k not in ("__firstlineno__", "__static_attributes__")
        }
        return make, (*known, extra), (attributes, slots), *rest
    if type(thing) is types.FunctionType and len(arguments) > 1 and isinstance(arguments[1], dict):
        # If the function looks at its __file__, that is among the globals in its state.
        code, known, *more = arguments
        known = {name: value for name, value in known.items() if name != "__file__"}
        return make, (code, known, *more), state, *rest
    return reduced


def _code(*parts: Any) -> None:
    """Stand for code in a digest."""


def _input(key: Key) -> None:
    """Stand for a future."""


def _set(kind: str, digests: list[bytes]) -> None:
    """Stand for a set."""


class _Digest(_Pickler):  # type: ignore[misc]
    """Pickles into a digest. Python's own pickler, because only that one asks about strings and sets.

    Attributes:
        modules: whose code the pickle takes for granted.
    """

    def __init__(
        self, reduce: Reduce, table: Mapping[Any, Reduce], key_of: Callable[[Any], Key | None]
    ) -> None:
        self._digest = hashlib.blake2b(digest_size=32)
        super().__init__(_Sink(self._digest.update), protocol=5)
        self._reduce = reduce
        self._key_of = key_of
        self.dispatch_table = table
        self.modules: set[str] = set()

    def of(self, thing: Any) -> bytes:
        self.dump(thing)
        return self._digest.digest()

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind in _SIMPLE:
            return NotImplemented
        key = self._key_of(obj)
        if key is not None:
            return _input, (key,)
        if kind is set or kind is frozenset:
            return _set, (kind.__name__, sorted(map(self._apart, obj)))
        if kind is types.CodeType:
            return _code, _parts(obj)
        if isinstance(obj, types.ModuleType):
            self.modules.add(obj.__name__)
        reduced = self._reduce(obj)
        if kind is types.FunctionType and reduced is not NotImplemented:
            self.modules.update(_imports(obj.__code__, obj.__globals__.get("__package__") or ""))
        return settled(obj, reduced)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if getattr(obj, "__module__", None) != __name__:
            self.modules.add(_whichmodule(obj, name or getattr(obj, "__qualname__", obj.__name__)))
        super().save_global(obj, name)

    def memoize(self, obj: Any) -> None:
        # Whether two equal strings are one object depends on how the script was compiled.
        if type(obj) is not str and type(obj) is not bytes:
            super().memoize(obj)

    def save_buffer(self, obj: pickle.PickleBuffer) -> None:
        with obj.raw() as view:  # not copied: it may be most of the memory
            self._write_large_bytes(pickle.NEXT_BUFFER + view.nbytes.to_bytes(8, "little"), view)

    dispatch = {  # noqa: RUF012
        **_Pickler.dispatch,
        pickle.PickleBuffer: save_buffer,
        types.FunctionType: save_global,  # or else it is called as it was, not as it is here
    }

    def _apart(self, item: Any) -> bytes:
        inner = _Digest(self._reduce, self.dispatch_table, self._key_of)
        found = inner.of(item)
        self.modules |= inner.modules
        return found


def _deeply(digest: _Digest, thing: Any) -> bytes:
    """Digest what the pickler that packs can do, with fewer calls inside each other than Python's own."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(4 * limit)
    try:
        return digest.of(thing)
    except RecursionError:
        raise Unclear("a function or an argument is nested too deeply") from None
    finally:
        sys.setrecursionlimit(limit)


_SIMPLE = frozenset(
    {type(None), bool, int, float, complex, str, bytes, list, tuple, dict, pickle.PickleBuffer}
)


class _Sink:
    """A file of which only the digest is kept."""

    def __init__(self, write: Callable[[Any], None]) -> None:
        self.write = write


def _parts(code: types.CodeType) -> tuple[Any, ...]:
    """Return what code does, without where it stands."""
    return (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_code,
        code.co_consts,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_name,
        getattr(code, "co_exceptiontable", b""),
    )


def _imports(code: types.CodeType, package: str) -> Iterator[str]:
    """Yield the names of what code imports when it runs; some may be no modules."""
    base = ""
    steps = list(dis.get_instructions(code))
    for place, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            level = steps[place - 2].argval  # then comes what is wanted from it, then this
            base = above(package, level, step.argval) if isinstance(level, int) else step.argval
            yield base
        elif step.opname == "IMPORT_FROM":
            yield f"{base}.{step.argval}"
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield from _imports(constant, package)
