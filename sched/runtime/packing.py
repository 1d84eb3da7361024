"""Objects to bytes and back: arguments, functions, values and exceptions.

cloudpickle carries functions and classes of the script itself, lambdas and closures. To it are added:

* an array on a tile is carried as a NumPy array, and becomes an array of the tile on which it is unpacked;
* a future (a `Handle`) among the arguments is carried as a ref, and becomes the value of its task.

Both work at any depth, also inside objects of the user's own classes. Arguments, and what a function
captures, are copied when they are packed, so the script may change them after `submit`; values are not.
"""

import contextlib
import pickle
import sys
import traceback
import types
from collections.abc import Callable
from contextvars import ContextVar
from io import BytesIO
from typing import Any, NamedTuple

import cloudpickle

from sched.backends.base import Backend, Tile, on
from sched.errors import DependencyError, RemoteError, RemoteTraceback, UsageError
from sched.model import Ref
from sched.runtime.messages import IN_BAND, Fault, Packed

_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})
"""Types of which pickle itself makes the right thing, without looking for anything in the script."""

_FEW = 16
"""Items of a container that is looked into to see whether it is small."""


class Handle:
    """What stands for a value among arguments. `Future` is one.

    Attributes:
        ref: the value.
        packer: that of the run in which the ref names this value; in another it would name a stranger's.
    """

    ref: Ref
    packer: "Packer"

    def __reduce__(self) -> Any:
        raise UsageError(
            "a future stands for a value only as an argument of submit or map (also inside lists, dicts "
            "and objects); it cannot be captured by a function, returned by a task, or pickled by itself"
        )


class _Unpacking(NamedTuple):
    backend: Backend
    tile: Tile | None
    resolve: Callable[[Ref], Any] | None


_unpacking: ContextVar[_Unpacking] = ContextVar("sched_unpacking")


def _value_of(ref: Ref) -> Any:
    resolve = _unpacking.get().resolve
    assert resolve is not None
    return resolve(ref)


def _array_from(host: Any) -> Any:
    try:
        backend, tile, _ = _unpacking.get()
    except LookupError:
        raise UsageError("this pickle holds arrays of a tile, and can only be read inside sched") from None
    return host if tile is None else backend.from_host(host, tile)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(
        self, file: BytesIO, packer: "Packer", handles: dict[Ref, None] | None, aside: Any, *, computed: bool
    ) -> None:
        super().__init__(file, protocol=5, buffer_callback=aside)
        self._backend = packer.backend
        self._packer = packer
        self._handles = handles
        self._computed = computed

    def reducer_override(self, obj: Any) -> Any:
        if self._backend.is_array(obj):
            return _array_from, (self._backend.to_host(obj, computed=self._computed),)
        if type(obj) is types.CodeType:
            # cloudpickle leaves out the file's name, and with it the source lines from every traceback.
            make, parts = self.dispatch_table[types.CodeType](obj)
            return make, tuple([obj.co_filename if part == "<dynamic-code>" else part for part in parts])
        if self._handles is not None and isinstance(obj, Handle):
            if obj.packer is not self._packer:
                raise UsageError(
                    "a future stands for a value only on the tiles where that is, and this one is of other "
                    "tiles than the call (of another sched.local?): pass its result() instead"
                )
            self._handles[obj.ref] = None
            return _value_of, (obj.ref,)
        return super().reducer_override(obj)


class Packer:
    """Pack and unpack for one backend.

    A value of a task that is packed is computed: see `base.Backend.to_host`.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def pack_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Packed, tuple[Ref, ...]]:
        """Pack a copy of the arguments.

        Returns:
            The copy, and the refs whose values belong in it, each once.

        Raises:
            Exception: Whatever pickling an argument raises.
        """
        if not kwargs and all(type(arg) in _PLAIN for arg in args):
            return Packed(pickle.dumps((args, kwargs), 5)), ()
        handles: dict[Ref, None] = {}
        packed = self._pack((args, kwargs), handles, copy=True)
        return packed, tuple(handles)

    def unpack_call(
        self, packed: Packed, tile: Tile, resolve: Callable[[Ref], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Make arguments on a tile. NumPy arrays among them that are large are read-only."""
        buffers = [memoryview(buffer).toreadonly() for buffer in packed.buffers]
        return self._loads(packed.header, buffers, tile, resolve)  # type: ignore[no-any-return]

    def pack_function(self, function: object) -> Packed:
        """Pack a copy of a function, and of what it captures. Raises whatever pickling it raises."""
        return self._pack(function, None, copy=True)

    def pack(self, value: object) -> Packed:
        """Pack a value without copying its large buffers: it must not change until it is sent."""
        if type(value) in _PLAIN:
            return Packed(pickle.dumps(value, 5))
        return self._pack(value, None, copy=False)

    def pack_small(self, value: object) -> Packed | None:
        """Pack a value if it is plain and small enough to ride along with a report."""
        if not _is_small(value):
            return None
        try:
            header = pickle.dumps(value, 5)
        except Exception:  # a class of the script's, say; it stays where it is
            return None
        return Packed(header) if len(header) <= IN_BAND else None

    def unpack(self, packed: Packed, tile: Tile | None) -> Any:
        """Make a value on a tile, or with its arrays in the host's memory where `tile` is None."""
        return self._loads(packed.header, packed.buffers, tile, None)

    def adopt(self, value: Any, tile: Tile, *, moved: bool = False) -> Any:
        """Return the value such that its arrays mix with others of the tile.

        Looks into tuples, lists and dicts, and makes new ones only where an array has to change. Other
        objects may hold arrays where nobody can see them, so if the value comes from another tile of this
        process (`moved`) they are copied to this one, as they would be to another rank.
        """
        if tile.queue is None or type(value) in _PLAIN:
            return value

        def change(item: Any) -> Any:
            if self.backend.is_array(item):
                return self.backend.rebind(item, tile)
            if moved and type(item) not in _PLAIN and not isinstance(item, _numpy("ndarray", "generic")):
                try:
                    return self.unpack(self.pack(item), tile)
                except Exception:  # it cannot be copied, so the task gets it as it is
                    return item
            return item

        return _walk(change, value)

    def freeze(self, value: Any) -> Any:
        """Return the value with its arrays read-only: many tasks may take it, and see what one does to it."""
        if type(value) in _PLAIN:
            return value
        return _walk(self._freeze_array, value)

    def to_numpy(self, value: Any) -> Any:
        """Return a copy of the value with NumPy arrays in the place of a tile's."""

        def change(item: Any) -> Any:
            if self.backend.is_array(item):
                return self.backend.to_host(item).copy()
            return item.copy() if isinstance(item, _numpy("ndarray")) else item

        return _walk(change, value)

    def _freeze_array(self, item: Any) -> Any:
        # A view: the array itself may be one that the task keeps, and writes to.
        if self.backend.is_array(item):
            item = item[...]
            item.flags.writable = False
        elif type(item) in _numpy("ndarray"):
            item = item.view()
            item.flags.writeable = False
        return item

    def _pack(self, value: object, handles: dict[Ref, None] | None, *, copy: bool) -> Packed:
        buffers: list[pickle.PickleBuffer] = []

        def aside(buffer: pickle.PickleBuffer) -> bool:
            view = buffer.raw()
            if view.nbytes < IN_BAND:
                return True
            # Wrapped again: bytes by themselves would be pickled into the message that carries them.
            buffers.append(pickle.PickleBuffer(bytes(view)) if copy else buffer)
            return False

        with BytesIO() as file:
            _Pickler(file, self, handles, aside, computed=not copy).dump(value)
            return Packed(file.getvalue(), tuple(buffers))

    def _loads(self, header: bytes, buffers: Any, tile: Tile | None, resolve: Any) -> Any:
        token = _unpacking.set(_Unpacking(self.backend, tile, resolve))
        try:
            if tile is None:
                return pickle.loads(header, buffers=buffers)
            with on(tile):
                return pickle.loads(header, buffers=buffers)
        finally:
            _unpacking.reset(token)


def _walk(change: Callable[[Any], Any], value: Any) -> Any:
    """Apply `change` to what is in plain containers, at any depth.

    Returns:
        The value itself if nothing in it changed, or if it is nested too deeply.
    """
    seen: dict[int, tuple[Any, Any]] = {}

    def visit(item: Any) -> Any:
        kind = type(item)
        if kind is not list and kind is not dict and not isinstance(item, tuple):
            return change(item)
        if id(item) in seen:
            return seen[id(item)][1]
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


def _is_small(value: Any, depth: int = 3) -> bool:
    """Tell, quickly, whether it pays to look how small the pickle of a value is."""
    kind = type(value)
    if kind in _PLAIN:
        return (kind is not str and kind is not bytes) or len(value) <= IN_BAND
    if kind is dict:
        value = (*value, *value.values())
    elif kind is not tuple and kind is not list:
        return isinstance(value, _numpy("generic"))
    return depth > 0 and len(value) <= _FEW and all(_is_small(item, depth - 1) for item in value)


def _numpy(*names: str) -> tuple[Any, ...]:
    """Return NumPy's types of these names if NumPy is loaded: too early, and its threads are not bounded."""
    numpy = sys.modules.get("numpy")
    return () if numpy is None else tuple([getattr(numpy, name) for name in names])


def nbytes(value: Any) -> int:
    """Weigh a value: the arrays in it, and a little for everything else. It never fails."""
    total = 0

    def weigh(item: Any) -> Any:
        nonlocal total
        found = len(item) if type(item) in (str, bytes) else getattr(item, "nbytes", None)
        total += found if isinstance(found, int) else 8
        return item

    with contextlib.suppress(Exception):  # an object that does not like to be looked at
        _walk(weigh, value)
    return total


def describe(error: BaseException, task_name: str, where: str) -> Fault:
    """Make a fault of an exception. It never fails, whatever the exception does when it is looked at."""
    kind = type(error)
    type_name = (
        kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    )
    try:
        message = str(error)
    except BaseException as broken:
        message = f"<its str() raised {type(broken).__name__}>"
    try:
        text = "".join(traceback.format_exception(kind, error, error.__traceback__))
    except BaseException:
        text = f"{type_name}: {message}\n"
    return Fault(task_name, type_name, message, f"### {where}\n{text.rstrip()}", _pickled(error))


def _pickled(error: BaseException) -> bytes | None:
    """Pickle an exception so that the same type is made again, or not at all.

    By itself an exception is made again by calling its type with `args`, which fails for types whose
    `__init__` takes something else. So there is a second way, by parts, which does not call `__init__`.
    """
    kind = type(error)
    try:
        for whole in (error, (kind, error.args, error.__dict__)):
            with contextlib.suppress(Exception):
                pickled: bytes = cloudpickle.dumps(whole, protocol=5)
                if type(_unpickled(pickled)) is kind:
                    return pickled
    except BaseException:  # the user's own code runs here, and this one does not want to travel
        pass
    return None


def _unpickled(pickled: bytes) -> Any:
    made = pickle.loads(pickled)
    if type(made) is not tuple:
        return made
    kind, args, attributes = made
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


def revive(fault: Fault) -> BaseException:
    """Make an exception of a fault: the original type if it can be, with the remote story as its cause."""
    error: BaseException | None = None
    if fault.exception is not None:
        try:
            error = _unpickled(fault.exception)
        except Exception:
            error = None
    if not isinstance(error, BaseException):
        error = RemoteError(fault.type_name, fault.message)
    error.__cause__ = RemoteTraceback(fault.story)
    return error


def dependent(task_name: str, fault: Fault | None, cause_name: str) -> DependencyError:
    """Make the exception of a task that was not run because `cause_name` has no value."""
    if fault is None:
        return DependencyError(
            f"{task_name} was not run: it takes the value of {cause_name}, which was cancelled"
        )
    error = DependencyError(
        f"{task_name} was not run: it takes the value of {cause_name}, which failed with "
        f"{fault.type_name}: {fault.message}"
    )
    error.__cause__ = revive(fault)
    return error
