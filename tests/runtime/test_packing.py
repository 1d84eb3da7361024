"""What is packed comes out the same, on any tile; and faults and functions are kept as they should be."""

import enum
import gc
import pickle
import sys
import threading
import weakref
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from sched import backends
from sched.errors import DependencyError, DeviceError, RemoteError, RemoteTraceback, UsageError
from sched.model import DRIVER, Ref
from sched.runtime.contents import nbytes
from sched.runtime.faults import dependent, describe, revive
from sched.runtime.functions import Functions
from sched.runtime.messages import IN_BAND, Value, decode, encode
from sched.runtime.packing import Handle, Packer
from sched.transport.base import Lane
from sched.transport.loopback import loopback
from sched.transport.pieces import ordinary_room

LARGE = IN_BAND  # elements: more bytes than travel within a pickle
Pair = namedtuple("Pair", "first second")


class Place:
    """Two tiles of one kind, and the packer for them."""

    def __init__(self, kind, filters):
        self.backend = backends.start(backends.Found(kind, tuple(filters), ""), filters * 2, range(2), DRIVER)
        self.tile, self.other = self.backend.tiles
        self.packer = Packer(self.backend)
        self.xp = self.backend.xp

    def make(self, array):
        """Make an array of the first tile."""
        return self.backend.from_host(array, self.tile)

    def there(self, value, tile=None):
        """Pack a value, send it, and unpack it on the other tile."""
        packed = sent(Value(Ref(0), "", self.packer.pack(value)), self.backend.room).packed
        return self.packer.unpack(packed, tile or self.other)

    def called(self, *args, **kwargs):
        """Do so with the arguments of a call."""
        packed, refs = self.packer.pack_call(args, kwargs)
        assert refs == ()
        return self.packer.unpack_call(sent(packed), self.other, None)

    def same(self, array, expected):
        """Tell whether this is an array of the other tile, with the same value."""
        if self.backend.kind != "host":
            assert array.sycl_queue == self.other.queue
            array = self.xp.asnumpy(array)
        assert type(array) is np.ndarray
        assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
        return array.tobytes() == expected.tobytes()


def sent(item, room=ordinary_room):
    """Send it as a message that copies, as the wire does."""
    here, there = loopback(2)
    there.room = room
    data, buffers = encode([item])
    here.send(there.rank, Lane.VALUES, data, buffers)
    message = there.receive()
    [came] = decode(message.data, message.buffers)
    return came


@pytest.fixture(scope="module")
def host():
    return Place("host", ["host"])


@pytest.fixture(scope="module")
def cpu():
    pytest.importorskip("dpnp")
    try:
        found = backends.find("cpu")
    except DeviceError as error:
        pytest.skip(str(error))
    return Place("cpu", list(found.filters[:1]))


KINDS = ["host", pytest.param("cpu", marks=pytest.mark.sycl)]


@pytest.fixture(params=KINDS)
def place(request):
    return request.getfixturevalue(request.param)


# -- arrays --------------------------------------------------------------------------------------------

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "c8", "c16"]


def grid(dtype="f8", rows=6, columns=8):
    return np.arange(rows * columns).reshape(rows, columns).astype(dtype)


def wide():
    return grid(rows=100, columns=LARGE // 8)


def cube():
    return np.arange(24.0).reshape(2, 3, 4)


LAYOUTS = {
    "0-d": (lambda: np.array(3.5), lambda a: a),
    "empty": (lambda: np.empty(0), lambda a: a),
    "empty of three dimensions": (lambda: np.empty((3, 0, 2), "i4"), lambda a: a),
    "one element": (lambda: np.ones((1, 1)), lambda a: a),
    "small": (grid, lambda a: a),
    "large": (wide, lambda a: a),
    "three dimensions": (cube, lambda a: a),
    "slice": (grid, lambda a: a[1:4, 2:7]),
    "large slice": (wide, lambda a: a[10:90, 3:-3]),
    "large and contiguous slice": (wide, lambda a: a[10:90]),
    "steps": (grid, lambda a: a[::2, ::3]),
    "row": (grid, lambda a: a[3]),
    "column": (grid, lambda a: a[:, 3]),
    "0-d view": (grid, lambda a: a[2:3, 2].reshape(())),
    "backwards": (grid, lambda a: a[::-1]),
    "backwards in both": (grid, lambda a: a[::-1, ::-2]),
    "large and backwards": (wide, lambda a: a[::-1, ::-1]),
    "transposed": (grid, lambda a: a.T),
    "large and transposed": (wide, lambda a: a.T),
    "axes exchanged": (cube, lambda a: a.transpose(1, 2, 0)),
    "empty view": (grid, lambda a: a[3:3, ::-1]),
}
"""How to make an array, and the view of it that is to travel."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [5, LARGE])
def test_every_dtype_travels(place, dtype, length):
    array = (np.arange(length) % 120).astype(dtype)
    assert place.same(place.there(place.make(array)), array)


@pytest.mark.parametrize(("make", "view"), LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_travels(place, make, view):
    array = view(place.make(make()))
    expected = view(make())
    assert place.same(place.there(array), expected)
    assert place.same(place.called(array)[0][0], expected)


@pytest.mark.parametrize("rows", [3, LARGE])
def test_fortran_order_travels(place, rows):
    array = np.asfortranarray(grid(rows=rows))
    made = place.xp.asarray(place.make(array), order="F")
    assert made.flags.f_contiguous
    assert place.same(place.there(made), array)


def test_special_numbers_travel(place):
    array = np.array([np.nan, -0.0, np.inf, -np.inf, 5e-324])
    assert place.same(place.there(place.make(array)), array)


@pytest.mark.parametrize(
    "array",
    [
        np.array(["short", "longer"]),
        np.array([b"a", b"bc"]),
        np.array(["2026-01-01", "NaT"], "M8[D]"),
        np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")]),
        np.array([{"a": 1}, [2], None], object),
        np.arange(4, dtype=">i4"),
        np.broadcast_to(np.arange(3.0), (2, 3)),
        np.float16([1.5, 2.5]),
        np.longdouble([1, 2]) / 3,
    ],
    ids=["str", "bytes", "dates", "records", "objects", "big-endian", "broadcast", "half", "longdouble"],
)
def test_what_only_numpy_has_travels(host, array):
    came = host.there(array)
    assert came.dtype == array.dtype
    assert came.tolist() == array.tolist()


def test_a_masked_array_stays_one(host):
    came = host.there(np.ma.array([1, 2, 3], mask=[0, 1, 0]))
    assert came.sum() == 4


def test_numpy_arrays_stay_numpy_arrays(place):
    array = grid()
    assert type(place.there(array)) is np.ndarray
    assert type(place.called(array)[0][0]) is np.ndarray


def test_large_arrays_are_not_copied_into_the_pickle(place):
    array = place.make(np.zeros(1 << 20, "u1"))
    for packed in (place.packer.pack(array), place.packer.pack_call((array,), {})[0]):
        assert len(packed.header) < 1000
        data, buffers = encode([Value(Ref(0), "", packed)])
        assert len(data) < 1500
        assert [buffer.nbytes for buffer in buffers] == [1 << 20]


def test_a_value_is_not_copied_and_arguments_are(host):
    array = np.zeros(LARGE)
    value, arguments = host.packer.pack(array), host.packer.pack_call((array,), {})[0]
    function = host.packer.pack_function(lambda: array)
    array[0] = 7
    assert host.packer.unpack(value, host.tile)[0] == 7
    [copy], _ = host.packer.unpack_call(arguments, host.tile, None)
    captured = host.packer.unpack(function, host.tile)()
    for found in (copy, captured):
        assert found[0] == 0
        assert not found.flags.writeable


@pytest.mark.sycl
def test_arguments_on_a_tile_are_copied_too(cpu):
    array = cpu.xp.zeros(LARGE, sycl_queue=cpu.tile.queue)
    packed, _ = cpu.packer.pack_call((array,), {})
    array[0] = 7
    array.sycl_queue.wait()
    [copy], _ = cpu.packer.unpack_call(packed, cpu.other, None)
    assert copy[0] == 0


@pytest.mark.sycl
def test_what_a_call_makes_of_its_arguments_is_on_its_tile(cpu):
    packed, _ = cpu.packer.pack_call((Lazy(5),), {})
    for tile in (cpu.tile, cpu.other):
        [made], _ = cpu.packer.unpack_call(packed, tile, None)
        assert made.sycl_queue == tile.queue


class Lazy:
    """Becomes an array where it is unpacked."""

    def __init__(self, length):
        self.length = length

    def __reduce__(self):
        import dpnp

        return dpnp.ones, (self.length,)


@pytest.mark.sycl
def test_an_array_of_a_tile_is_read_only_inside_sched(cpu):
    packed = cpu.packer.pack(cpu.xp.zeros(3, sycl_queue=cpu.tile.queue))
    with pytest.raises(UsageError, match="can only be read inside sched"):
        pickle.loads(packed.header, buffers=packed.buffers)


@pytest.mark.sycl
def test_where_no_tile_is_given_arrays_come_to_the_host(cpu):
    array = cpu.packer.unpack(cpu.packer.pack(cpu.make(grid())), None)
    assert type(array) is np.ndarray
    assert (array == grid()).all()


# -- containers ----------------------------------------------------------------------------------------


@dataclass
class Field:
    values: object
    name: str = "field"


@dataclass(frozen=True)
class Frozen:
    values: object


class Thing:
    def __init__(self, values):
        self.values = values


class Slotted:
    __slots__ = ("values",)

    def __init__(self, values):
        self.values = values


CONTAINERS = {
    "list": (lambda a: [a, 1], lambda x: x[0]),
    "tuple": (lambda a: (1, a), lambda x: x[1]),
    "dict": (lambda a: {"a": a}, lambda x: x["a"]),
    "nested": (lambda a: {"a": [(1, {"b": a})]}, lambda x: x["a"][0][1]["b"]),
    "namedtuple": (lambda a: Pair(1, a), lambda x: x.second),
    "OrderedDict": (lambda a: OrderedDict(a=a), lambda x: x["a"]),
    "dataclass": (lambda a: Field(a), lambda x: x.values),
    "frozen dataclass": (lambda a: Frozen(a), lambda x: x.values),
    "object": (lambda a: Thing([a]), lambda x: x.values[0]),
    "slots": (lambda a: Slotted(a), lambda x: x.values),
    "namespace": (lambda a: SimpleNamespace(a=a), lambda x: x.a),
    "closure": (lambda a: lambda: a, lambda x: x()),
}
"""How to put an array into something, and how to find it there again."""


@pytest.mark.parametrize(("put", "find"), CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize("rows", [3, LARGE])
def test_arrays_travel_inside_anything(place, put, find, rows):
    array = grid(rows=rows)
    value = put(place.make(array))
    came = place.there(value)
    assert type(came) is type(value)
    assert place.same(find(came), array)
    assert place.same(find(place.called(value)[0][0]), array)
    assert place.same(find(place.called(x=value)[1]["x"]), array)


def test_an_array_that_is_there_twice_is_one(place):
    array = place.make(grid())
    came = place.there([array, {"again": array}])
    assert came[0] is came[1]["again"]


def test_what_contains_itself_travels(host):
    knot = Thing([])
    knot.values.append(knot)
    came = host.there(knot)
    assert came.values[0] is came


def test_plain_arguments_travel(host):
    plain = (None, True, 3, 2.5, 1j, "text", b"bytes")
    assert host.called(*plain) == (plain, {})
    assert host.called(*plain, x=1) == (plain, {"x": 1})
    assert host.called() == ((), {})


class Colour(enum.Enum):
    RED = 1


class Count(int):
    pass


def test_subclasses_of_plain_types_stay_what_they_are(host):
    [colour, count], _ = host.called(Colour.RED, Count(3))
    assert colour is Colour.RED
    assert type(count) is Count


def test_a_small_value_rides_along_and_nothing_else(host):
    pack = host.packer.pack_small
    plain = (None, False, 3, 2.5, 1j, "short", b"bytes")
    for value in (*plain, plain, [1, (2, {"a": 3})], {}, np.float64(1), np.True_):
        came = host.packer.unpack(pack(value), None)
        assert came == value
        assert type(came) is type(value)
    large = (
        "x" * (IN_BAND + 1),
        b"x" * (IN_BAND + 1),
        list(range(5000)),
        ["x" * 999 + str(i) for i in range(5)],
    )
    knot = []
    knot.append(knot)
    others = (np.zeros(IN_BAND), np.array([knot], object), Count(3), Colour.RED, [Colour.RED], Thing(1))
    for value in (*large, *others, knot, [[[[[1]]]]]):
        assert pack(value) is None


def test_what_a_tile_already_has_is_left_as_it_is(place):
    for value in ([1, {"a": (2, "x")}], Pair(1, [2]), Thing(3), "x", np.zeros(3)):
        assert place.packer.adopt(value, place.tile) is value
    array = place.make(grid())
    value = {"a": [array]}
    assert place.packer.adopt(value, place.tile) is value


@pytest.mark.sycl
@pytest.mark.parametrize("container", CONTAINERS)
def test_arrays_in_containers_come_to_another_tile_of_the_process(cpu, container):
    put, find = CONTAINERS[container]
    value = put(cpu.make(grid()))
    came = cpu.packer.adopt(value, cpu.other, moved=True)
    assert type(came) is type(value)
    assert cpu.same(find(came), grid())
    assert find(came).sycl_queue == cpu.other.queue
    assert find(value).sycl_queue == cpu.tile.queue, "the value itself must not change"


def test_to_numpy_copies(place):
    array = place.make(np.zeros(4))
    value = {"a": [array, "x"], "b": Pair(1, array)}
    copy = place.packer.to_numpy(value)
    assert type(copy["a"][0]) is type(copy["b"].second) is np.ndarray
    copy["a"][0][:] = 7
    assert float(array.sum()) == 0
    assert copy["a"][1] == "x"


def test_weights_are_those_of_the_arrays(place):
    array = place.make(np.zeros(10, "f4"))
    for value, expected in (
        (array, 40),
        ([array, array], 40),
        ({"a": (array, 1)}, 48),
        (Pair(array, None), 48),
        ("abc", 3),
        (b"abcd", 4),
        (None, 8),
        ([], 0),
    ):
        assert nbytes(value) == expected


class Touchy:
    def __getattr__(self, name):
        raise RuntimeError(name)


def test_weighing_never_fails():
    knot = []
    knot.append(knot)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for value in (Touchy(), [Touchy()], knot, deep, SimpleNamespace(nbytes="many")):
        assert nbytes(value) <= 8
    while deep:  # or else its end overflows the stack of an old Python
        deep = deep.pop()


# -- futures -------------------------------------------------------------------------------------------


class Named(Handle):
    def __init__(self, ref, packer):
        self.ref, self.packer = ref, packer


def test_handles_become_values_and_are_listed_once_in_order_of_use(place):
    packer = place.packer
    b, a = Named(8, packer), Named(5, packer)
    packed, refs = packer.pack_call(([b, {"x": a}], Thing(b)), {"y": (a, b)})
    assert refs == (8, 5)
    values = {8: object(), 5: object()}
    (first, second), kwargs = packer.unpack_call(sent(packed), place.tile, values.__getitem__)
    assert first[0] is second.values is kwargs["y"][1] is values[8]
    assert first[1]["x"] is kwargs["y"][0] is values[5]


def test_a_handle_is_only_for_arguments_and_only_for_its_own_run(host):
    handle = Named(3, host.packer)
    for pack in (host.packer.pack, host.packer.pack_function, pickle.dumps):
        with pytest.raises(UsageError, match="only as an argument"):
            pack([handle])
    with pytest.raises(UsageError, match="pass its result"):
        Packer(host.backend).pack_call((handle,), {})


def test_what_cannot_be_pickled_says_so(host):
    for value in (threading.Lock(), sys._getframe(), (x for x in ())):
        with pytest.raises(TypeError):
            host.packer.pack(value)
        with pytest.raises(TypeError):
            host.packer.pack_call((value,), {})


# -- faults --------------------------------------------------------------------------------------------


class Plain(Exception):
    pass


class Rich(Exception):
    def __init__(self, message, code):
        super().__init__(message, code)
        self.code = code


class Odd(Exception):
    def __init__(self, left, right):
        super().__init__(f"{left}{right}")


class Changeling(Exception):
    def __reduce__(self):
        return Plain, ("another",)


class Evil(Exception):
    """Fails in any way that an exception can."""

    def __init__(self, kind):
        super().__init__(kind)
        self.kind = kind

    def __str__(self):
        raise self.kind

    __repr__ = __str__

    def __reduce__(self):
        raise self.kind


def raised(error):
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize(
    "error",
    [
        Plain("a", 1),
        Rich("message", 7),
        OSError(2, "no such thing", "file"),
        KeyError("k"),
        SystemExit(3),
        UnicodeDecodeError("utf8", b"x", 0, 1, "bad"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_comes_back_as_it_was(error):
    fault = describe(raised(error), "work", "work on tile 3")
    came = revive(sent(fault))
    assert type(came) is type(error)
    assert (str(came), came.args, vars(came)) == (str(error), error.args, vars(error))
    assert isinstance(came.__cause__, RemoteTraceback)
    assert fault.task_name == "work"
    assert fault.story.startswith("### work on tile 3\nTraceback (most recent call last):")
    assert "raise error" in fault.story
    assert str(came.__cause__) == f"\n{fault.story}"


def test_an_exception_of_a_class_that_has_no_name_comes_back():
    class Local(Exception):
        pass

    assert type(revive(sent(describe(raised(Local(1)), "t", "here")))) is Local


@pytest.mark.parametrize(
    "error", [Odd("l", "r"), Changeling("itself"), Evil(RuntimeError)], ids=lambda e: type(e).__name__
)
def test_an_exception_comes_back_whatever_it_takes_to_make_one(error):
    came = revive(sent(describe(raised(error), "work", "here")))
    assert type(came) is type(error)
    assert came.args == error.args
    assert came.__dict__.keys() >= error.__dict__.keys()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Plain(threading.Lock()), None),
        (Plain(x for x in ()), None),
        (Evil(KeyboardInterrupt), "<its str() raised KeyboardInterrupt>"),
        (Evil(SystemExit), "<its str() raised SystemExit>"),
    ],
    ids=["lock", "generator", "interrupts", "exits"],
)
def test_an_exception_that_cannot_come_back_is_told_in_words(error, message):
    fault = describe(raised(error), "work", "here")
    assert fault.exception is None
    came = revive(sent(fault))
    assert type(came) is RemoteError
    assert came.type_name == f"{__name__}.{type(error).__name__}"
    assert came.message == (str(error) if message is None else message)
    assert isinstance(came.__cause__, RemoteTraceback)


def test_a_remote_error_can_be_pickled_again():
    error = revive(describe(raised(Plain(threading.Lock())), "work", "here"))
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.type_name, again.message) == (RemoteError, error.type_name, error.message)


def test_an_exception_that_cannot_be_made_here_is_told_in_words():
    fault = describe(raised(Plain("far away")), "work", "there")
    for torn in (b"", b"\x80\x05torn", pickle.dumps("no exception")):
        came = revive(fault._replace(exception=torn))
        assert type(came) is RemoteError
        assert came.message == "far away"


def test_causes_are_in_the_story():
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as error:
        fault = describe(error, "work", "here")
    assert fault.story.index("KeyError: 'inner'") < fault.story.index("ValueError: outer")


def test_a_dependant_names_what_failed_first():
    fault = describe(raised(Plain("no luck")), "first", "here")
    error = dependent("last", fault, "first")
    assert type(error) is DependencyError
    assert str(error) == (
        f"last was not run: it takes the value of first, which failed with {__name__}.Plain: no luck"
    )
    assert type(error.__cause__) is Plain
    error = dependent("last", None, "first")
    assert str(error) == "last was not run: it takes the value of first, which was cancelled"


# -- functions -----------------------------------------------------------------------------------------


@pytest.fixture
def functions(host):
    return Functions(host.packer)


def load(host, function):
    return host.packer.unpack(sent(function.code), host.tile)


def test_a_function_is_pickled_once(host, functions):
    script = {"K": 1, "__name__": "script"}
    exec("def f(): return K\ndef g(): return f()", script)
    for name in "fg":
        first = functions.get(script[name])
        assert functions.get(script[name]) is first
        assert load(host, first)() == 1


@pytest.mark.parametrize(
    "change",
    [
        "K = 2",
        "def helper(): return 2",
        "f.__code__ = (lambda: 2).__code__",
        "f.attribute = 2",
        "f.__defaults__ = (2,)",
        "f.__kwdefaults__ = {'y': 2}",
        "f.__kwdefaults__['y'] = 2",
        "del K",
    ],
)
def test_it_is_pickled_again_when_it_refers_to_something_else(functions, change):
    script = {"K": 1, "__name__": "script"}
    exec("def helper(): return 1\ndef f(x=1, *, y=1): return [K for _ in range(9)], helper()", script)
    first = functions.get(script["f"])
    exec(change, script)
    second = functions.get(script["f"])
    assert second is not first
    assert second.number != first.number
    assert functions.get(script["f"]) is second


def test_a_global_that_comes_later_is_noticed(host, functions):
    script = {"__name__": "script"}
    exec("def f(): return late", script)
    early = functions.get(script["f"])
    script["late"] = 5
    assert load(host, functions.get(script["f"]))() == 5
    with pytest.raises(NameError):
        load(host, early)()


def test_an_equal_object_is_still_another(functions):
    """It may be changed in a way of its own later."""
    script = {"TABLE": [1], "__name__": "script"}
    exec("def f(): return TABLE", script)
    first = functions.get(script["f"])
    script["TABLE"] = [1]
    assert functions.get(script["f"]) is not first


def test_a_function_is_forgotten_when_it_is_dropped(functions):
    def make():
        def mine():
            return mine, table

        table = {}
        return mine

    mine = make()
    made = functions.get(mine)
    made.known.update({0, 2})
    number, gone = made.number, weakref.ref(mine)
    del mine, made
    gc.collect()
    assert gone() is None
    assert list(functions.forgotten) == [(number, {0, 2})]


def test_what_is_still_needed_is_not_forgotten_when_the_function_changes(functions):
    factor = 1

    def mine():
        return factor

    old = functions.get(mine)
    factor = 2
    assert functions.get(mine) is not old
    assert not functions.forgotten
    del old
    assert len(functions.forgotten) == 1


def test_objects_are_pickled_each_time_and_functions_of_modules_once(functions):
    table = {}
    for changing in (table.get, Thing([]).__eq__, SimpleNamespace, np.vectorize(abs), np.zeros(3).sum):
        assert functions.get(changing) is not functions.get(changing)
    for lasting in (len, pow, np.add, np.mean, np.zeros):
        assert functions.get(lasting) is functions.get(lasting)


def test_numbers_are_never_given_twice(functions):
    made, start = [], threading.Barrier(4)

    def ask():
        start.wait()
        made.extend([functions.get(eval(f"lambda: {i}")) for i in range(50)])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({function.number for function in made}) == 200


def test_what_cannot_be_called_is_no_function(functions):
    for thing in (3, None, "f"):
        with pytest.raises(TypeError, match="cannot be called"):
            functions.get(thing)
