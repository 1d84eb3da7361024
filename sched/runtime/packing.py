"""Objects to bytes and back: arguments, functions and values.

cloudpickle carries functions and classes of the script itself, lambdas and closures. To it are added:

* an array on a tile is carried as its bytes, and becomes an array of the tile on which it is unpacked;
* a future (a `Handle`) among the arguments is carried as a ref, and becomes the value of its task.

Both work at any depth, also inside objects of the user's own classes. Arguments, and what a function
captures, are copied when they are packed, so the script may change them after `submit`; values are not.
"""

import copy
import pickle
import types
from collections.abc import Callable
from contextvars import ContextVar
from io import BytesIO
from typing import Any, Literal, NamedTuple

import cloudpickle

from sched.backends.base import Backend, Exported, Tile, ambient, on
from sched.errors import UsageError
from sched.model import Ref
from sched.runtime import contents
from sched.runtime.contents import PLAIN
from sched.runtime.ledger import Moves
from sched.runtime.messages import IN_BAND, Packed


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
    memories: tuple[Any, ...]


_unpacking: ContextVar[_Unpacking] = ContextVar("sched_unpacking")


def _value_of(ref: Ref) -> Any:
    resolve = _unpacking.get().resolve
    assert resolve is not None
    return resolve(ref)


def _array_from(host: Any) -> Any:
    here = _here()
    return host if here.tile is None else here.backend.from_host(host, here.tile)


def _array_at(index: int, dtype: str, shape: tuple[int, ...], order: Literal["C", "F"]) -> Any:
    here = _here()
    return here.backend.restore(Exported(here.memories[index], dtype, shape, order), here.tile)


def _here() -> _Unpacking:
    try:
        return _unpacking.get()
    except LookupError:
        raise UsageError("this pickle holds arrays of a tile, and can only be read inside sched") from None


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(
        self,
        file: BytesIO,
        packer: "Packer",
        handles: dict[Ref, None] | None,
        aside: Any,
        memories: list[Any] | None,
        *,
        computed: bool,
    ) -> None:
        super().__init__(file, protocol=5, buffer_callback=aside)
        self._backend = packer.backend
        self._packer = packer
        self._handles = handles
        self._memories = memories
        self._computed = computed

    def reducer_override(self, obj: Any) -> Any:
        if self._backend.is_array(obj):
            if self._memories is None or obj.nbytes < IN_BAND:
                return _array_from, (self._backend.to_host(obj, computed=self._computed),)
            memory, dtype, shape, order = self._backend.export(obj, computed=self._computed)
            self._memories.append(memory)
            return _array_at, (len(self._memories) - 1, dtype, shape, order)
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
        reduced = super().reducer_override(obj)
        if isinstance(obj, type) and obj.__dict__.get("__slots__") and isinstance(reduced, tuple):
            # cloudpickle makes it again without slots, and then its objects do not fit the original's.
            make, (*parts, names, tracked, extra), *state = reduced
            if make.__name__ == "_make_skeleton_class":
                names = {**names, "__slots__": obj.__dict__["__slots__"]}
                return make, (*parts, names, tracked, extra), *state
        return reduced


class Packer:
    """Pack and unpack for one backend.

    A value of a task that is packed is computed: see `base.Backend`.

    Attributes:
        moves: where it enters what it copies between tiles.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.moves = Moves()

    def pack_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Packed, tuple[Ref, ...]]:
        """Pack a copy of the arguments.

        Returns:
            The copy, and the refs whose values belong in it, each once.

        Raises:
            Exception: Whatever pickling an argument raises.
        """
        if not kwargs and all(type(arg) in PLAIN for arg in args):
            return Packed(pickle.dumps((args, kwargs), 5)), ()
        handles: dict[Ref, None] = {}
        packed = self._pack((args, kwargs), handles, copy=True)
        return packed, tuple(handles)

    def unpack_call(
        self, packed: Packed, tile: Tile, resolve: Callable[[Ref], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Make arguments on a tile. NumPy arrays among them that are large are read-only."""
        buffers = [memoryview(buffer).toreadonly() for buffer in packed.buffers]
        return self._loads(packed.header, buffers, (), tile, resolve)  # type: ignore[no-any-return]

    def pack_function(self, function: object) -> Packed:
        """Pack a copy of a function, and of what it captures. Raises whatever pickling it raises."""
        return self._pack(function, None, copy=True)

    def pack(self, value: object) -> Packed:
        """Pack a value without copying its large arrays: it must not change until it is sent."""
        if type(value) in PLAIN:
            return Packed(pickle.dumps(value, 5))
        return self._pack(value, None, copy=False, computed=True)

    def pack_aside(self, value: object) -> Packed:
        """Pack a value into the host's memory, from where `unpack` brings it back."""
        return self._pack(value, None, copy=True, computed=True)

    def pack_small(self, value: object) -> Packed | None:
        """Pack a value if it is plain and small enough to ride along with a report."""
        if not contents.is_small(value, IN_BAND):
            return None
        try:
            header = pickle.dumps(value, 5)
        except Exception:  # a class of the script's, say; it stays where it is
            return None
        return Packed(header) if len(header) <= IN_BAND else None

    def unpack(self, packed: Packed, tile: Tile | None) -> Any:
        """Make a value on a tile, or with its arrays in the host's memory where `tile` is None."""
        return self._loads(packed.header, packed.buffers, packed.memories, tile, None)

    def adopt(self, value: Any, tile: Tile, *, moved: bool = False, computed: bool = True) -> Any:
        """Return the value such that its arrays mix with others of the tile.

        Looks into tuples, lists and dicts, and makes new ones only where an array has to change. Other
        objects may hold arrays where nobody can see them, so if the value comes from another tile of this
        process (`moved`) they are copied to this one, as they would be to another rank.
        """
        if tile.queue is None or type(value) in PLAIN:
            return value

        known = contents.numpy("ndarray", "generic")

        def change(item: Any) -> Any:
            if self.backend.is_array(item):
                with self.moves.timed(item.nbytes) as move:
                    item, move.rung = self.backend.rebind(item, tile, computed=computed)
                return item
            if moved and type(item) not in PLAIN and not isinstance(item, known):
                try:
                    return self.unpack(self.pack_aside(item), tile)
                except Exception:  # it cannot be copied, so the task gets it as it is
                    return item
            return item

        return contents.changed(change, value)

    def freeze(self, value: Any) -> Any:
        """Return the value with its arrays read-only: many tasks may take it, and see what one does to it."""
        if type(value) in PLAIN:
            return value
        if self.backend.is_array(value) or type(value) in contents.numpy("ndarray"):
            return self._freeze_array(value)
        seen: contents.Seen = {}
        try:
            contents.change_inside(self._freeze_array, value, seen)
            return contents.changed(self._freeze_array, value, seen)
        finally:
            seen.clear()

    def to_numpy(self, value: Any, *, computed: bool = False) -> Any:
        """Return a copy of the value with NumPy arrays in the place of a tile's.

        Args:
            computed: it is a task's value. Then its queue need not be waited for, which only one thread may.
        """

        def holds(leaf: Any) -> bool:
            return self.backend.is_array(leaf) or isinstance(leaf, contents.numpy("ndarray"))

        def change(item: Any) -> Any:
            if self.backend.is_array(item):
                return self.backend.to_host(item, computed=computed).copy()
            if isinstance(item, contents.numpy("ndarray")):
                return item.copy()
            if type(item) in PLAIN or not any(map(holds, contents.leaves(item))):
                return item
            if any(map(self.backend.is_array, contents.leaves(item))):  # as on a rank that has no tile
                packed = self._pack(item, None, copy=True, computed=computed)
                item = self._loads(packed.header, packed.buffers, (), None, None)
            return copy.deepcopy(item)  # of which the arrays can be written to

        return contents.changed(change, value)

    def at_home(self, value: Any, tile: Tile) -> Any:
        """Return the value; if it is an array, then on the tile."""
        if self.backend.is_array(value):
            return self.backend.rebind(value, tile)[0]
        if isinstance(value, contents.numpy("ndarray")):
            return self.backend.from_host(value, tile)
        return value

    def _freeze_array(self, item: Any) -> Any:
        # A view: the array itself may be one that the task keeps, and writes to.
        if self.backend.is_array(item):
            item = item[...]
            item.flags.writable = False
        elif type(item) in contents.numpy("ndarray"):
            item = item.view()
            item.flags.writeable = False
        return item

    def _pack(
        self, value: object, handles: dict[Ref, None] | None, *, copy: bool, computed: bool = False
    ) -> Packed:
        buffers: list[pickle.PickleBuffer] = []
        memories: list[Any] = []

        def aside(buffer: pickle.PickleBuffer) -> bool:
            view = buffer.raw()
            if view.nbytes < IN_BAND:
                return True
            # Wrapped again: bytes by themselves would be pickled into the message that carries them.
            buffers.append(pickle.PickleBuffer(bytes(view)) if copy else buffer)
            return False

        with BytesIO() as file:
            _Pickler(file, self, handles, aside, None if copy else memories, computed=computed).dump(value)
            return Packed(file.getvalue(), tuple(buffers), tuple(memories))

    def _loads(
        self, header: bytes, buffers: Any, memories: tuple[Any, ...], tile: Tile | None, resolve: Any
    ) -> Any:
        token = _unpacking.set(_Unpacking(self.backend, tile, resolve, memories))
        try:
            if tile is None or ambient() is tile:
                return pickle.loads(header, buffers=buffers)
            with on(tile):
                return pickle.loads(header, buffers=buffers)
        finally:
            _unpacking.reset(token)
