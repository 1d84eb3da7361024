"""What the script sees, with three tiles in this process."""

import asyncio
import builtins
import concurrent.futures as cf
import decimal
import functools
import gc
import itertools
import threading
import time
import weakref
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

import sched
from sched.core.pace import MOST
from sched.runtime import session
from tests.gates import PATIENCE, Gate, Notes

TILES = 3
AT_ONCE = 2 * TILES
"""How many tasks have a tile at a time: one that runs and one that is next, on each."""

FACTOR = 1
ELSEWHERE = None
Pair = namedtuple("Pair", "first second")


@pytest.fixture
def s():
    with sched.local(tiles=TILES, device="host") as scheduler:
        yield scheduler


@pytest.fixture
def gate(s):
    with Gate() as gate:
        yield gate


@pytest.fixture
def busy(s, gate):
    """Futures that keep every tile busy until the gate is opened, such that no other task gets a tile."""
    futures = [s.submit(gate.hold, i) for i in range(AT_ONCE)]
    gate.wait_for(TILES)
    return futures


@pytest.fixture
def run(monkeypatch):
    """The process's own run, which starts at first use and would end with the process."""
    monkeypatch.setenv("SCHED_DEVICE", "host")
    monkeypatch.setenv("SCHED_TILES", str(TILES))
    session.use(None)
    yield
    if session._engine is not None:
        session._engine.close(0)
    session.use(None)


def left(s, expected=None):
    """List what the driver and the worker still have in their tables: how many of what.

    A thread may be busy with the end of a task that the script has heard of, so this looks more than once.
    """
    engine = s._engine
    driver, worker = engine.driver, engine._worker
    end = time.monotonic() + PATIENCE / 3
    while True:
        gc.collect()
        engine.poke()
        counts = {
            "tasks": len(driver._core),
            "records": len(driver._records),
            "failed": len(driver._failed),
            "values": len(worker.store.slots),
            "functions": len(worker.runner._functions),
            "loaded functions": len(worker.runner._loaded),
            "calls": sum(map(len, worker._calls.values())),
        }
        found = {name: count for name, count in counts.items() if count}
        if found == (expected or {}) or time.monotonic() > end:
            return found


def is_gone(reference, s):
    """Tell whether an object is let go, be it a moment later: see `left`."""
    end = time.monotonic() + PATIENCE / 3
    while reference() is not None and time.monotonic() < end:
        s.submit(abs, 1).result()
    return reference() is None


def boxed(x):
    return [x]


def unbox(box):
    return box[0]


def fail(what="no luck"):
    raise ValueError(what)


def where(*_):
    return sched.current().tile


def raising(kind):
    raise kind()


# -- calls ---------------------------------------------------------------------------------------------


def test_a_call_returns_its_value(s):
    assert s.submit(pow, 2, 10).result() == 1024


def test_keywords_may_have_any_name(s):
    future = s.submit(lambda *a, **k: (a, k), 1, fn=2, self=3, tile=4)
    assert future.result() == ((1,), {"fn": 2, "self": 3, "tile": 4})


def test_the_function_comes_first(s):
    with pytest.raises(TypeError):
        s.submit(fn=pow, x=1)
    with pytest.raises(TypeError, match="3 cannot be called"):
        s.submit(3)


class Counter:
    def __init__(self, start=0):
        self.count = start

    def up(self, by):
        return self.count + by

    def __call__(self, by):
        return self.count + 2 * by

    def __eq__(self, other):
        return self.count == other.count

    __hash__ = None

    @classmethod
    def made(cls, start):
        return cls(start)

    @staticmethod
    def double(x):
        return 2 * x


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def make_closure(offset):
    def add(x):
        return x + offset

    return add


def make_recursive():
    def down(n):
        return 0 if n == 0 else down(n - 1) + 1

    return down


@functools.lru_cache(maxsize=4)
def cached(x):
    return x + 6


def chatty(x):
    yield from range(x)


@pytest.mark.parametrize(
    ("function", "argument", "value"),
    [
        pytest.param(lambda x: x + 1, 1, 2, id="lambda"),
        pytest.param(make_closure(5), 1, 6, id="closure"),
        pytest.param(factorial, 5, 120, id="recursive"),
        pytest.param(make_recursive(), 3, 3, id="recursive closure"),
        pytest.param(functools.partial(pow, 2), 5, 32, id="partial"),
        pytest.param(Counter(3).up, 4, 7, id="bound method"),
        pytest.param(Counter.made, 4, Counter(4), id="class method"),
        pytest.param(Counter.double, 4, 8, id="static method"),
        pytest.param(Counter, 3, Counter(3), id="class"),
        pytest.param(Counter(1), 3, 7, id="callable object"),
        pytest.param(abs, -3, 3, id="builtin"),
        pytest.param({1: "one"}.get, 1, "one", id="builtin method"),
        pytest.param(np.square, 3.0, 9.0, id="ufunc"),
        pytest.param(np.mean, [1, 3], 2.0, id="NumPy function"),
        pytest.param(np.add.reduce, [1, 3], 4, id="ufunc method"),
        pytest.param(np.vectorize(lambda x: x + 1), 3, 4, id="vectorize"),
        pytest.param(int, "12", 12, id="type"),
        pytest.param(cached, 1, 7, id="lru_cache"),
    ],
)
def test_a_function_is_anything_that_can_be_called(s, function, argument, value):
    assert s.submit(function, argument).result() == value


def test_a_function_may_be_defined_and_redefined_in_the_script(s):
    results = []
    for source in ("def f(x): return x + 1", "def f(x): return x + 2"):
        script = {"__name__": "__main__"}
        exec(source, script)
        results.append(s.submit(script["f"], 1).result())
    assert results == [2, 3]


def test_a_function_sees_a_global_as_it_is_at_submit(s):
    script = {"__name__": "__main__", "K": 1}
    exec("def f(): return K\ndef g(): return [K for _ in range(2)], (lambda: K)()", script)
    before = s.submit(script["f"]), s.submit(script["g"])
    script["K"] = 2
    after = s.submit(script["f"]), s.submit(script["g"])
    assert [future.result() for future in before] == [1, ([1, 1], 1)]
    assert [future.result() for future in after] == [2, ([2, 2], 2)]


def test_a_function_sees_what_it_captures_as_it_is_at_submit(s):
    count = 0

    def get(step=1, *, scale=1):
        return (count + step) * scale

    found = [s.submit(get)]
    count = 10
    found.append(s.submit(get))
    get.__defaults__ = (2,)
    found.append(s.submit(get))
    get.__kwdefaults__ = {"scale": 100}
    found.append(s.submit(get))
    assert [future.result() for future in found] == [1, 11, 12, 1200]


def test_a_method_sees_its_object_as_it_is_at_submit(s):
    counter, table = Counter(1), {}
    before = s.submit(counter.up, 1), s.submit(counter, 1), s.submit(table.get, "x")
    counter.count, table["x"] = 10, "found"
    after = s.submit(counter.up, 1), s.submit(counter, 1), s.submit(table.get, "x")
    assert [future.result() for future in before] == [2, 3, None]
    assert [future.result() for future in after] == [11, 12, "found"]


def test_an_array_that_a_function_captures_is_copied_and_read_only(s, gate):
    captured = np.zeros(10_000)

    def read():
        gate.hold()
        try:
            captured[0] = 1
        except ValueError:
            return captured.sum()

    future = s.submit(read)
    captured += 1
    gate.open()
    assert future.result() == 0


def test_a_scheduler_and_a_future_cannot_be_captured(s):
    future = s.submit(abs, 1)
    with pytest.raises(sched.UsageError, match="a future stands for a value only as an argument"):
        s.submit(lambda: future.result())
    with pytest.raises(sched.UsageError, match="a Scheduler stays in the script"):
        s.submit(lambda: s.submit(abs, 1))


def test_what_cannot_be_pickled_fails_at_submit_and_leaves_nothing(s):
    lock = threading.Lock()
    with pytest.raises(TypeError, match="lock"):
        s.submit(abs, lock)
    with pytest.raises(TypeError, match="lock"):
        s.submit(lambda: lock)
    with pytest.raises(TypeError, match="lock"):
        s.submit_many(boxed, [1, 2, lock])
    assert left(s) == {}


# -- arguments -----------------------------------------------------------------------------------------


@dataclass
class Job:
    name: str
    parts: list = field(default_factory=list)


class Tree:
    def __init__(self, leaf):
        self.leaf, self.parent = leaf, self


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


NESTS = {
    "list": (lambda f: [1, [f]], lambda x: x[1][0]),
    "tuple": (lambda f: (f,), lambda x: x[0]),
    "namedtuple": (lambda f: Pair(1, f), lambda x: x.second),
    "dict": (lambda f: {"a": {"b": f}}, lambda x: x["a"]["b"]),
    "OrderedDict": (lambda f: OrderedDict(a=f), lambda x: x["a"]),
    "key": (lambda f: {f: 1}, lambda x: next(iter(x))),
    "set": (lambda f: {f}, lambda x: next(iter(x))),
    "dataclass": (lambda f: Job("j", [f]), lambda x: x.parts[0]),
    "object": (lambda f: Tree(f), lambda x: x.parent.parent.leaf),
    "slots": (lambda f: Slotted(f), lambda x: x.x),
    "namespace": (lambda f: SimpleNamespace(a=f), lambda x: x.a),
    "partial": (lambda f: functools.partial(abs, f), lambda x: x()),
    "lambda": (lambda f: lambda: f, lambda x: x()),
}
"""How to put a future into something, and how to find its value in what comes of that."""


@pytest.mark.parametrize(("nest", "find"), NESTS.values(), ids=NESTS)
def test_a_future_at_any_depth_stands_for_its_value(s, nest, find):
    value = s.submit(abs, -7)
    assert s.submit(find, nest(value)).result() == 7
    assert s.submit(lambda *, x: find(x), x=nest(value)).result() == 7


def test_a_future_that_is_given_twice_is_one_object(s):
    box = s.submit(boxed, 1)
    assert s.submit(lambda x, y, *, z: x is y is z[0], box, box, z=[box]).result()


def test_values_flow_through_many_tasks(s):
    layer = [s.submit(boxed, i) for i in range(8)]
    while len(layer) > 1:
        layer = [
            s.submit(lambda a, b: [a[0] + b[0]], *pair) for pair in zip(layer[::2], layer[1::2], strict=True)
        ]
    assert layer[0].result() == [28]


def test_arguments_are_copied_at_submit(s, busy, gate):
    numbers, table, small, large = [1], {"a": [1]}, np.ones(3), np.ones(10_000)
    future = s.submit(lambda *x: (x[0], x[1], x[2].sum(), x[3].sum()), numbers, table, small, large)
    numbers.append(2)
    table["a"].append(2)
    small += 1
    large += 1
    gate.open()
    assert future.result() == ([1], {"a": [1]}, 3.0, 10_000.0)


def test_large_arrays_among_the_arguments_are_read_only(s):
    def write(array):
        array[0] = 7

    with pytest.raises(ValueError, match="read-only"):
        s.submit(write, np.zeros(10_000)).result()


@pytest.mark.parametrize("ended", [True, False])
def test_a_future_may_be_dropped_as_soon_as_it_is_an_argument(s, gate, ended):
    if ended:
        gate.open()

    def numbers():
        for i in range(20):
            future = s.submit(gate.hold, [i])
            if ended:
                future.result()
            yield future
            del future

    one = s.submit(unbox, next(numbers()))
    many = s.submit_many(unbox, numbers())
    results = s.map(unbox, numbers())
    gate.open()
    assert one.result() == 0
    assert [future.result() for future in many] == list(results) == list(range(20))


def test_a_future_of_other_tiles_is_refused(s):
    with sched.local(tiles=1, device="host") as other:
        stranger = other.submit(boxed, 1)
        with pytest.raises(sched.UsageError, match=r"pass its result\(\) instead"):
            s.submit(unbox, [stranger])
        with pytest.raises(TypeError, match="not a future of this scheduler"):
            s.gather([stranger])
        with pytest.raises(TypeError, match="not a future of this scheduler"):
            s.options(near=stranger)
        assert s.submit(unbox, stranger.result()).result() == 1


# -- values --------------------------------------------------------------------------------------------


def test_what_cannot_be_pickled_may_stay_where_it_is(s):
    lock = s.submit(threading.Lock)
    numbers = s.submit(chatty, 3)
    assert s.submit(lambda x: x.locked(), lock).result() is False
    assert lock.result().locked() is False
    assert list(numbers.result()) == [0, 1, 2]


class Shy:
    @property
    def nbytes(self):
        raise RuntimeError("do not look at me")


def test_a_value_that_cannot_be_weighed_is_a_value(s):
    assert type(s.submit(Shy).result()) is Shy

    def knot():
        one = []
        one.append(SimpleNamespace(back=one))
        return one

    assert len(s.submit(knot).result()) == 1


def test_numpy_is_a_copy(s):
    value = s.submit(lambda: {"a": np.zeros(3), "b": (np.ones(2), 5)})
    copy = value.numpy()
    copy["a"] += 1
    copy["b"][0][:] = 7
    assert copy["b"][1] == 5
    assert value.result()["a"].sum() == 0
    assert value.result()["b"][0].sum() == 2
    assert s.submit(abs, -1).numpy() == 1


def test_result_waits_no_longer_than_it_is_told(s, busy):
    for wait in (busy[0].result, busy[0].exception, busy[0].numpy):
        with pytest.raises(cf.TimeoutError):
            wait(timeout=0.01)
        with pytest.raises(cf.TimeoutError):
            wait(timeout=0)
    assert not busy[0].done()


def test_gather_keeps_the_order(s):
    futures = [s.submit(np.full, 3, i) for i in range(5)]
    assert [array[0] for array in s.gather(futures)] == [0, 1, 2, 3, 4]
    assert [array[0] for array in s.gather(reversed(futures), to="host")] == [4, 3, 2, 1, 0]
    assert s.gather([]) == []


def test_gather_stacks(s):
    futures = s.submit_many(np.full, [3] * 4, range(4))
    for to in ("tile", "host"):
        stacked = s.gather(futures, to=to, stack=True)
        assert stacked.shape == (4, 3)
        assert stacked[:, 1].tolist() == [0, 1, 2, 3]


def test_gather_to_host_copies(s):
    future = s.submit(np.zeros, 3)
    s.gather([future], to="host")[0][:] = 5
    assert future.result().sum() == 0


def test_gather_takes_small_values_too(s):
    assert s.gather([s.submit(abs, -1), s.submit(boxed, 2), s.submit(str, 3)]) == [1, [2], "3"]


def test_gather_raises_what_the_first_that_failed_raised(s, gate):
    late = s.submit(lambda: fail(gate.hold("first")))
    soon = s.submit(fail, "second")
    soon.exception()
    gate.open()
    with pytest.raises(ValueError, match="first"):
        s.gather([s.submit(abs, 1), late, soon])


def test_gather_refuses_what_it_cannot_do(s):
    with pytest.raises(sched.RequestError, match="to='moon' is neither 'tile' nor 'host'"):
        s.gather([], to="moon")
    for stranger in (cf.Future(), 3):
        with pytest.raises(TypeError, match="not a future of this scheduler"):
            s.gather([stranger])


# -- submit_many and map -------------------------------------------------------------------------------


def test_submit_many_takes_arguments_as_map_does(s):
    assert [f.result() for f in s.submit_many(pow, [2, 3], (3, 2))] == [8, 9]
    assert s.submit_many(pow, [], []) == []


def test_submit_many_wants_iterables_of_one_length_or_submits_nothing(s):
    with pytest.raises(ValueError, match="zip"):
        s.submit_many(pow, [1, 2, 3], [1, 2])
    assert left(s) == {}


def test_map_keeps_the_order_and_ends_with_the_shortest(s):
    assert list(s.map(pow, [1, 2, 3], itertools.count(1))) == [1, 4, 27]
    assert list(s.map(abs, [])) == []


def test_map_submits_everything_at_once(s):
    notes = Notes()
    results = s.map(notes.add, range(20))
    s.shutdown()
    assert sorted(notes.all) == list(range(20))
    assert list(results) == [None] * 20


def test_map_reads_an_endless_iterable_only_as_far_as_it_must(s):
    taken = []

    def endless():
        for i in itertools.count():
            taken.append(i)
            yield i

    results = s.map(abs, endless(), buffersize=4)
    assert taken == [0, 1, 2, 3]
    for i in range(10):
        assert next(results) == i
        assert len(taken) == i + 5
    results.close()


def test_map_with_a_buffer_ends_when_the_iterable_does(s):
    for buffersize in (1, 3, 4, 50):
        assert list(s.map(abs, iter(range(4)), buffersize=buffersize)) == [0, 1, 2, 3]
    assert list(s.map(abs, [], buffersize=2)) == []
    assert list(s.map(pow, itertools.count(), [1, 2], buffersize=1)) == [0, 1]


def test_map_lets_a_result_go_when_it_is_yielded(s):
    for buffersize in (None, 2):
        for value in s.map(Counter, range(5), buffersize=buffersize):
            reference = weakref.ref(value)
            del value
            assert is_gone(reference, s)


def test_map_raises_what_the_call_raised_and_cancels_the_rest(s, gate):
    notes = Notes()

    def work(i):
        if i == 1:
            raise ZeroDivisionError
        if i > 1:
            gate.hold()
        notes.add(i)

    results = s.map(work, range(1000))
    assert next(results) is None
    with pytest.raises(ZeroDivisionError):
        next(results)
    with pytest.raises(StopIteration):
        next(results)
    gate.open()
    s.shutdown()
    assert len(notes.all) <= 1 + AT_ONCE * MOST  # the first was short, so several may have a tile together


def test_map_that_is_late_cancels_the_rest(s, busy, gate):
    notes = Notes()
    results = s.map(notes.add, range(10), timeout=0.01)
    with pytest.raises(cf.TimeoutError):
        next(results)
    gate.open()
    s.shutdown()
    assert notes.all == []


def test_map_refuses_what_makes_no_sense(s):
    with pytest.raises(ValueError, match="chunksize must be >= 1"):
        s.map(abs, [1], chunksize=0)
    for none in (0, -1):
        with pytest.raises(ValueError, match="buffersize must be None or > 0"):
            s.map(abs, [1], buffersize=none)
    with pytest.raises(TypeError, match="buffersize must be an integer or None"):
        s.map(abs, [1], buffersize=2.0)


# -- options -------------------------------------------------------------------------------------------


def test_a_task_runs_on_the_tile_that_it_is_pinned_to(s):
    assert s.tiles == TILES
    for tile in range(TILES):
        view = s.options(tile=tile)
        assert view.submit(where).result() == tile
        assert [f.result() for f in view.submit_many(where, range(5))] == [tile] * 5
        assert list(view.map(where, range(5), buffersize=2)) == [tile] * 5


def test_near_is_where_the_value_is(s):
    for tile in range(TILES):
        value = s.options(tile=tile).submit(boxed, 1)
        assert s.options(near=value).submit(where).result() == tile


def test_the_higher_priority_goes_first(s, busy, gate):
    notes = Notes()
    view = s.options(tile=0)
    futures = [s.options(tile=0, priority=p).submit(notes.add, p) for p in (0, 5, -5, 5)]
    last = view.submit(notes.add, 0)
    gate.open()
    cf.wait([*futures, last])
    assert notes.all == [5, 5, 0, 0, -5]


def test_a_call_that_raised_is_tried_again_elsewhere(s):
    notes = Notes()

    def flaky(succeed_at):
        me = sched.current()
        notes.add((me.attempt, me.tile))
        if me.attempt < succeed_at:
            raise ValueError(me.attempt)
        return me.attempt

    assert s.options(retries=2).submit(flaky, 2).result() == 2
    assert [attempt for attempt, _ in notes.all] == [0, 1, 2]
    assert notes.all[0][1] != notes.all[1][1] != notes.all[2][1]
    with pytest.raises(ValueError, match="1") as info:
        s.options(retries=1).submit(flaky, 9).result()
    assert "attempt 1" in str(info.value.__cause__)


def test_a_task_that_takes_the_value_of_one_that_is_retried_waits(s):
    def second_time():
        return [sched.current().attempt] if sched.current().attempt else fail()

    first = s.options(retries=1).submit(second_time)
    assert s.submit(unbox, first).result() == 1


def test_errors_call_a_task_by_its_name(s):
    names = {
        "gemm": s.options(name="gemm").submit(fail),
        "fail": s.submit(fail),
        "builtin_method": s.submit("abc".index, "x"),
        "Counter.up": s.submit(Counter(1).up, "x"),
        "fail ": s.submit(functools.partial(fail)),
    }
    for name, future in names.items():
        if name == "builtin_method":
            name = "str.index"
        assert str(future.exception().__cause__).strip().startswith(f"### {name.strip()} (task ")


def test_options_that_can_never_be_had_are_refused_with_the_numbers(s):
    for tile in (-1, TILES):
        with pytest.raises(
            sched.RequestError, match=f"tile={tile} does not exist: this run has 3 tiles, 0 to 2"
        ):
            s.options(tile=tile)
    with pytest.raises(sched.RequestError, match="retries=-1 is not a number of tries"):
        s.options(retries=-1)
    assert issubclass(sched.RequestError, ValueError)


@pytest.mark.parametrize(
    "options",
    [
        {"tile": "0"},
        {"tile": 1.0},
        {"tile": True},
        {"near": 3},
        {"priority": "high"},
        {"retries": 1.5},
        {"name": 3},
    ],
    ids=str,
)
def test_options_of_a_wrong_type_are_refused(s, options):
    with pytest.raises(TypeError):
        s.options(**options)


# -- failures ------------------------------------------------------------------------------------------


def test_a_task_raises_and_its_future_does_the_same(s):
    future = s.options(tile=1, name="unlucky").submit(fail, "no luck")
    with pytest.raises(ValueError, match="no luck") as info:
        future.result()
    assert type(info.value) is ValueError
    cause = info.value.__cause__
    assert isinstance(cause, sched.RemoteTraceback)
    for part in ("unlucky (task ", "on tile 1, rank 0, ", "ValueError: no luck", "raise ValueError(what)"):
        assert part in str(cause)
    assert "worker.py" not in str(cause)


def test_everything_else_goes_on(s):
    futures = s.submit_many(lambda i: 1 // i, range(-3, 4))
    errors = [type(future.exception()) for future in futures]
    assert errors == [type(None)] * 3 + [ZeroDivisionError] + [type(None)] * 3


class Odd(Exception):
    def __init__(self, left, right):
        super().__init__(f"{left} and {right}")


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("I say nothing")


class Brutal(Exception):
    def __str__(self):
        raise KeyboardInterrupt

    __repr__ = __str__

    def __reduce__(self):
        raise SystemExit(3)


class Locked(Exception):
    def __init__(self):
        super().__init__("it is locked")
        self.lock = threading.Lock()


def test_an_exception_travels_whatever_its_constructor_takes(s):
    def odd():
        raise Odd(1, 2)

    error = s.submit(odd).exception()
    assert type(error) is Odd
    assert str(error) == "1 and 2"


def test_an_exception_that_cannot_travel_is_told_in_words(s):
    for function, name, message in (
        (functools.partial(raising, Locked), "tests.test_client.Locked", "it is locked"),
        (
            functools.partial(raising, Brutal),
            "tests.test_client.Brutal",
            "<its str() raised KeyboardInterrupt>",
        ),
    ):
        error = s.submit(function).exception()
        assert type(error) is sched.RemoteError
        assert (error.type_name, error.message) == (name, message)
        assert str(error) == f"{name}: {message}"
        assert isinstance(error.__cause__, sched.RemoteTraceback)


def test_an_exception_whose_str_raises_is_still_itself(s):
    error = s.submit(raising, Mute).exception()
    assert type(error) is Mute
    consumer = s.submit(boxed, s.submit(raising, Mute))
    assert "<its str() raised RuntimeError>" in str(consumer.exception())


def test_an_exception_class_of_the_script_can_be_caught(s):
    class Mine(Exception):
        pass

    with pytest.raises(Mine):
        s.submit(raising, Mine).result()


@pytest.mark.parametrize(
    "kind", [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, MemoryError, asyncio.CancelledError]
)
def test_an_exception_that_usually_ends_something_ends_only_the_task(s, kind):
    future = s.submit(raising, kind)
    assert type(future.exception()) is kind
    with pytest.raises(kind):
        future.result()
    assert s.submit(abs, -1).result() == 1


def test_endless_recursion_ends_only_the_task(s):
    def deeper(n):
        return deeper(n + 1) + 1

    assert type(s.submit(deeper, 0).exception()) is RecursionError
    assert s.submit(abs, -1).result() == 1


@pytest.mark.skipif(not hasattr(builtins, "ExceptionGroup"), reason="notes came with Python 3.11")
def test_the_notes_of_an_exception_are_kept(s):
    def noted():
        error = ValueError("no luck")
        error.add_note("it was a Monday")
        raise error

    assert s.submit(noted).exception().__notes__ == ["it was a Monday"]


def test_a_task_fails_with_the_first_cause_of_all(s, gate):
    first = s.options(name="first").submit(lambda: fail(gate.hold("no luck")))
    second = s.options(name="second").submit(boxed, first)
    third = s.options(name="third").submit(lambda *x: x, 1, {"a": [second]})
    gate.open()
    for name, future in (("second", second), ("third", third)):
        error = future.exception()
        assert type(error) is sched.DependencyError
        assert str(error) == (
            f"{name} was not run: it takes the value of first, which failed with ValueError: no luck"
        )
        assert type(error.__cause__) is ValueError
        assert "### first (task " in str(error.__cause__.__cause__)


def test_a_task_that_takes_the_value_of_one_that_has_failed_fails_too(s):
    first = s.options(name="first").submit(fail)
    first.exception()
    second = s.submit(boxed, first)
    second.exception()
    third = s.options(name="third").submit(boxed, second)
    del first, second
    assert str(third.exception()).startswith("third was not run: it takes the value of first, which failed")


def test_a_task_that_takes_the_value_of_a_cancelled_one_fails(s, busy, gate):
    first = s.options(name="first").submit(abs, 1)
    second = s.options(name="second").submit(abs, first)
    assert first.cancel()
    third = s.options(name="third").submit(abs, second)
    for name, future in (("second", second), ("third", third)):
        error = future.exception()
        assert type(error) is sched.DependencyError
        assert str(error) == f"{name} was not run: it takes the value of first, which was cancelled"
        assert error.__cause__ is None


def test_a_task_cannot_submit_tasks(s):
    def make():
        sched.Scheduler()

    def make_local():
        sched.local(tiles=1, device="host")

    before = threading.active_count()
    for function in (make, make_local):
        with pytest.raises(sched.UsageError, match="a task cannot submit tasks"):
            s.submit(function).result()
    assert threading.active_count() == before


def submit_elsewhere(how):
    return getattr(ELSEWHERE, how)(abs, [1])


@pytest.mark.parametrize("how", ["submit", "submit_many", "map"])
def test_a_task_cannot_submit_tasks_by_a_scheduler_that_it_finds(s, monkeypatch, how):
    monkeypatch.setattr("tests.test_client.ELSEWHERE", s)
    with pytest.raises(sched.UsageError, match="a task cannot submit tasks"):
        s.submit(submit_elsewhere, how).result()


def wait_elsewhere(how):
    return getattr(ELSEWHERE, how)()


def test_a_task_cannot_wait_for_a_future_that_it_finds(s, gate, monkeypatch):
    held = s.options(tile=0).submit(gate.hold, 5)
    monkeypatch.setattr("tests.test_client.ELSEWHERE", held)
    for how in ("result", "exception", "numpy"):
        with pytest.raises(sched.UsageError, match="give it the future as an argument"):
            s.options(tile=1).submit(wait_elsewhere, how).result()
    gate.open()
    assert held.result() == 5
    assert s.submit(wait_elsewhere, "result").result() == 5


# -- cancelling, callbacks, waiting --------------------------------------------------------------------


def test_a_task_that_has_no_tile_yet_can_be_cancelled(s, busy):
    future = s.submit(abs, 1)
    told = []
    future.add_done_callback(told.append)
    assert future.cancel()
    assert future.cancelled()
    assert future.done()
    assert future.cancel()
    assert told == [future]
    for wait in (future.result, future.exception, future.numpy):
        with pytest.raises(cf.CancelledError):
            wait()


def test_a_task_that_runs_or_has_run_cannot_be_cancelled(s, busy, gate):
    assert busy[0].running()
    assert not busy[0].cancel()
    gate.open()
    assert busy[0].result() == 0
    assert not busy[0].cancel()
    assert not busy[0].cancelled()


@pytest.mark.parametrize("how", ["cancel", "shutdown"])
def test_a_task_that_waits_to_be_tried_again_can_be_cancelled(how):
    with Gate() as first, Gate() as second, sched.local(tiles=1, device="host", depth=1) as s:
        flaky = s.options(retries=1).submit(lambda: fail(first.hold()))
        told = []
        flaky.add_done_callback(told.append)
        first.wait_for()
        urgent = s.options(priority=1).submit(second.hold)
        first.open()
        second.wait_for()  # so that there is no tile for another try
        if how == "cancel":
            assert flaky.cancel()
        else:
            s.shutdown(wait=False, cancel_futures=True)
        assert flaky.cancelled()
        assert told == [flaky]
        with pytest.raises(cf.CancelledError):
            flaky.result()
        second.open()
        assert urgent.result() is None


def test_callbacks_are_called_once_whatever_happens(s, gate):
    told = []
    good = s.submit(gate.hold, 1)
    bad = s.submit(lambda: fail(gate.hold()))
    for future in (good, bad):
        future.add_done_callback(lambda f: told.append((f, f.exception())))
    gate.open()
    s.shutdown()
    assert {future for future, _ in told} == {good, bad}
    assert len(told) == 2
    good.add_done_callback(lambda f: told.append("at once"))
    assert told[-1] == "at once"


def test_a_callback_may_submit(s):
    more = cf.Future()
    s.submit(abs, -1).add_done_callback(lambda f: more.set_result(s.submit(abs, -2)))
    assert more.result(PATIENCE).result() == 2


@pytest.mark.filterwarnings("ignore")
def test_a_callback_that_raises_harms_nobody(s, caplog):
    future = s.submit(abs, -1)
    future.add_done_callback(lambda f: 1 / 0)
    assert s.submit(abs, future).result() == 1


def test_wait_and_as_completed(s, busy, gate):
    done, waiting = cf.wait(busy, timeout=0.01)
    assert not done
    assert waiting == set(busy)
    quick = sched.local(tiles=1, device="host")
    with quick:
        first = quick.submit(abs, 1)
        assert cf.wait([*busy, first], return_when=cf.FIRST_COMPLETED).done == {first}
    gate.open()
    assert {future.result() for future in cf.as_completed(busy)} == set(range(AT_ONCE))
    assert cf.wait(busy).not_done == set()


@pytest.mark.parametrize(
    "kinds", [("ours", "pool"), ("ours", "other"), ("ours", "other", "pool")], ids="-".join
)
def test_waiting_for_futures_of_several_kinds(s, kinds):
    """Whichever ends first is noticed at once, though each kind wakes the waiting thread in its own way."""
    with sched.local(tiles=1, device="host") as other, cf.ThreadPoolExecutor(1) as pool:
        executors = {"ours": s, "other": other, "pool": pool}
        for order in itertools.permutations(kinds):
            gates = {kind: Gate() for kind in kinds}
            futures = {kind: executors[kind].submit(gates[kind].hold) for kind in kinds}
            waiting = cf.as_completed(futures.values(), timeout=PATIENCE)
            for kind in order:
                threading.Timer(0.01, gates[kind].open).start()
                assert next(waiting) is futures[kind]


def test_many_futures_that_end_while_they_are_waited_for(s, gate):
    futures = [s.submit(gate.hold, i) for i in range(100)]
    threading.Timer(0.01, gate.open).start()
    assert cf.wait(futures, timeout=PATIENCE).not_done == set()


# -- shutdown ------------------------------------------------------------------------------------------


def test_after_shutdown_nothing_can_be_submitted(s):
    s.shutdown()
    view = s.options()
    for submit in (s.submit, view.submit, s.submit_many, s.map):
        with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
            submit(abs, [1])


def test_shutdown_waits_for_what_was_submitted(s):
    with Gate() as gate:
        futures = s.submit_many(gate.hold, range(20))
        threading.Timer(0.01, gate.open).start()
        s.shutdown()
    assert all(future.done() for future in futures)
    assert [future.result() for future in futures] == list(range(20))


def test_shutdown_without_waiting(s, busy, gate):
    more = s.submit(boxed, 1)
    s.shutdown(wait=False)
    assert not more.done()
    with pytest.raises(RuntimeError, match="after shutdown"):
        s.submit(abs, 1)
    gate.open()
    assert more.result() == [1]
    s.shutdown()


def test_shutdown_cancels_what_has_no_tile(s, busy, gate):
    waiting = s.submit_many(abs, range(20))
    s.shutdown(wait=False, cancel_futures=True)
    assert all(future.cancelled() for future in waiting)
    gate.open()
    s.shutdown()
    assert [future.result() for future in busy] == list(range(AT_ONCE))


def test_shutdown_may_be_said_twice_and_values_stay(s):
    value, error = s.submit(boxed, 1), s.submit(fail)
    s.shutdown()
    s.shutdown()
    assert value.result() == [1]
    assert value.numpy() == [1]
    assert type(error.exception()) is ValueError
    assert not value.cancel()


def test_with_shuts_down_also_when_it_fails():
    with pytest.raises(KeyError), sched.local(tiles=1, device="host") as s:  # noqa: PT012
        future = s.submit(boxed, 1)
        raise KeyError
    assert future.done()
    with pytest.raises(RuntimeError):
        s.submit(abs, 1)


def test_the_threads_of_the_tiles_end_with_the_scheduler():
    before = threading.active_count()
    with sched.local(tiles=4, device="host") as s:
        list(s.map(abs, range(20)))
        assert threading.active_count() == before + 4
    assert threading.active_count() == before


# -- what is freed -------------------------------------------------------------------------------------


def test_a_value_is_freed_with_its_future(s):
    future = s.submit(Counter, 1)
    reference = weakref.ref(future.result())
    assert reference() is not None
    del future
    assert is_gone(reference, s)


def test_a_value_is_freed_with_the_last_task_that_takes_it(s, busy, gate):
    value = s.submit(Counter, 1)
    consumer = s.submit(lambda x: x.count, value)
    del value
    gate.open()
    assert consumer.result() == 1
    cf.wait(busy)
    busy.clear()
    del consumer
    assert left(s) == {}


def test_nothing_is_left_when_everything_is_dropped(s, gate):
    def mixed(x):
        return boxed(x) if x % 3 else fail()

    def unpack(box):
        return box[0]

    futures = s.submit_many(mixed, range(12))
    futures += [s.submit(unpack, future) for future in futures]
    futures += [s.options(retries=1).submit(mixed, x) for x in range(4)]
    futures += [s.submit(gate.hold) for _ in range(AT_ONCE)]
    futures += [
        s.submit(make_recursive(), 3),
        s.submit(functools.partial(abs, 1)),
        s.submit(Counter(1).up, 1),
    ]
    cancelled = s.submit(mixed, 1)
    cancelled.cancel()
    gate.open()
    cf.wait(futures)
    del futures, cancelled, mixed, unpack
    assert left(s) == {}
    assert len(s._engine.driver.functions._plain) == 0


def test_a_function_of_a_module_is_kept_and_one_of_the_script_is_not(s):
    view = s.options(tile=0)
    for _ in range(3):
        view.submit(abs, 1).result()
        view.submit(lambda: 1).result()
    kept = {"functions": 1, "loaded functions": 1}
    assert left(s, kept) == kept


def test_a_function_whose_closure_leads_back_to_it_is_freed(s):
    def make():
        def even(n):
            return n == 0 or odd(n - 1)

        def odd(n):
            return n > 0 and even(n - 1)

        return even

    even = make()
    gone = weakref.ref(even)
    assert s.submit(even, 10).result()
    del even
    assert left(s) == {}
    assert gone() is None


def test_arguments_are_let_go_when_the_call_has_ended(s):
    class Argument:
        def __reduce__(self):
            return Argument, ()

    notes = Notes()

    def keep(argument):
        notes.add(weakref.ref(argument))

    s.submit(keep, Argument()).result()
    assert is_gone(notes.all[0], s)


# -- several at once -----------------------------------------------------------------------------------


def test_two_schedulers_know_nothing_of_each_other(s, busy, gate):
    with sched.local(tiles=2, device="host") as other:
        assert list(other.map(where, range(4)))
        future = other.submit(boxed, "other")
    assert future.result() == ["other"]
    assert not busy[0].done()
    gate.open()
    assert [future.result() for future in busy] == list(range(AT_ONCE))


def test_threads_of_the_script_may_submit_at_the_same_time(s):
    def script(number, found):
        def mine(x):
            return [number, x]

        for i in range(40):
            future = s.submit(mine, s.submit(abs, -i))
            found.append(future.result() == [number, i])

    results = [[] for _ in range(6)]
    threads = [threading.Thread(target=script, args=pair) for pair in enumerate(results)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert results == [[True] * 40] * 6


# -- where a task is -----------------------------------------------------------------------------------


def test_a_task_knows_where_it_is(s):
    def look():
        me = sched.current()
        return me.tile, me.rank, me.name, me.attempt, me.queue, me.device, me.asarray([1, 2]).sum()

    assert s.options(tile=2, name="scout").submit(look).result() == (2, 0, "scout", 0, None, None, 3)


def test_outside_a_task_there_is_no_current_one(s):
    with pytest.raises(sched.UsageError, match="inside a task"):
        sched.current()

    def in_a_thread():
        with cf.ThreadPoolExecutor(1) as pool:
            return pool.submit(sched.current).exception()

    assert type(s.submit(in_a_thread).result()) is sched.UsageError


def test_a_task_finds_the_array_module_of_its_tile(s):
    assert s.submit(lambda: sched.xp.__name__).result() == "numpy"


def test_impossible_tiles_are_refused():
    for tiles in (0, -1):
        with pytest.raises(sched.RequestError, match=f"tiles={tiles} is too few"):
            sched.local(tiles=tiles, device="host")
    with pytest.raises(sched.RequestError, match="device 'toaster' is none of"):
        sched.local(device="toaster")


# -- the process's own run -----------------------------------------------------------------------------


def test_the_run_starts_at_first_use_and_says_so_once(run, capfd):
    with sched.Scheduler() as s:
        assert s.tiles == TILES
        assert s.submit(abs, -1).result() == 1
    assert sched.Scheduler().submit(abs, -2).result() == 2
    assert capfd.readouterr().err == "sched: 3 tiles on the host (NumPy): asked for, in one process\n"


def test_schedulers_of_a_run_share_its_tiles_and_end_by_themselves(run):
    first, second = sched.Scheduler(), sched.Scheduler()
    with Gate() as gate:
        held = first.submit(gate.hold, 1)
        with second:
            assert second.submit(abs, -1).result() == 1
        assert not held.done()
        with pytest.raises(RuntimeError):
            second.submit(abs, 1)
        gate.open()
        assert first.submit(abs, held).result() == 1


def test_cancelling_at_shutdown_spares_the_tasks_of_others(run):
    first, second = sched.Scheduler(), sched.Scheduler()
    with Gate() as gate:
        busy = first.submit_many(gate.hold, range(AT_ONCE))
        mine, other = first.submit(abs, 1), second.submit(abs, 2)
        second.shutdown(wait=False, cancel_futures=True)
        assert other.cancelled()
        assert not mine.cancelled()
        gate.open()
        assert mine.result() == 1
    cf.wait(busy)


def test_tiles_and_the_ambient_one(run):
    assert [tile.id for tile in sched.tiles()] == list(range(TILES))
    assert sched.xp is np
    with sched.tile(1) as tile:
        assert tile is sched.tiles()[1]
        assert sched.xp.zeros(2).tolist() == [0, 0]
    for index in (-1, TILES):
        with pytest.raises(sched.RequestError, match=f"tile\\({index}\\) does not exist: this rank has 3"):
            sched.tile(index)


def test_a_number_of_tiles_that_is_none_is_refused(run, monkeypatch):
    monkeypatch.setenv("SCHED_TILES", "many")
    with pytest.raises(sched.RequestError, match="SCHED_TILES='many' is not a number of tiles"):
        sched.Scheduler()


def test_a_value_that_nobody_names_goes_at_once(s):
    """Not only when the script next says something to the scheduler."""
    future = s.submit(Tree, 1)
    gone = weakref.ref(future.result())
    del future
    gc.collect()
    assert gone() is None


def test_a_finaliser_may_submit(s):
    """It runs when a value is let go of, wherever that is; the scheduler's own lock must not be held then."""
    future, done = s.submit(Tree, 1), []
    weakref.finalize(future.result(), lambda: done.append(s.submit(abs, -1)))
    del future
    gc.collect()
    s.submit(abs, -2).result()
    assert done[0].result() == 1


def test_tiles_in_a_task_are_those_it_runs_on():
    with sched.local(tiles=3, device="host") as three:
        assert three.submit(lambda: len(sched.tiles())).result() == 3


def test_values_are_read_only_wherever_they_are_seen(s):
    def write(array):
        array += 1

    value = s.submit(np.zeros, 3)
    for tile in range(3):
        assert type(s.options(tile=tile).submit(write, value).exception()) is ValueError
    with pytest.raises(ValueError, match="read-only"):
        write(value.result())
    assert not value.numpy().any()
    write(value.numpy())  # a copy is the script's own


def test_an_array_that_a_task_keeps_stays_its_own(s):
    def keep(store=np.zeros(3)):  # noqa: B008 - a state of the function's
        store += 1
        return store

    first, second = s.options(tile=0).submit(keep), s.options(tile=0).submit(keep)
    assert first.exception() is None
    assert second.exception() is None


def test_a_callback_may_wait_for_what_takes_its_own_future(s):
    seen, done = [], threading.Event()

    def follow(future):
        seen.append(s.submit(abs, future).result(PATIENCE))
        done.set()

    s.submit(abs, -1).add_done_callback(follow)
    assert done.wait(PATIENCE)
    assert seen == [1]


def test_a_callback_may_wait_for_what_ended_with_it_and_shut_down(s, gate):
    seen, done = [], threading.Event()
    bad = s.submit(lambda: fail(gate.hold()))
    dependent = s.submit(boxed, bad)

    def follow(_):
        seen.append(type(dependent.exception(PATIENCE)))
        s.shutdown()
        done.set()

    bad.add_done_callback(follow)
    gate.open()
    assert done.wait(PATIENCE)
    assert seen == [sched.DependencyError]


def test_a_task_leaves_no_trace_in_its_thread(s):
    def set_precision():
        decimal.getcontext().prec = 3

    before = s.options(tile=0).submit(lambda: decimal.getcontext().prec).result()
    s.options(tile=0).submit(set_precision).result()
    assert s.options(tile=0).submit(lambda: decimal.getcontext().prec).result() == before


def test_a_global_that_has_died_is_noticed(s):
    space = {"thing": SimpleNamespace(), "__name__": "__main__"}
    exec("def f():\n    return thing is not None", space)
    assert s.submit(space["f"]).result() is True
    space["thing"] = None
    gc.collect()
    assert s.submit(space["f"]).result() is False


def test_a_value_with_shared_parts_is_looked_at_once(s):
    def shared():
        value = [1]
        for _ in range(60):
            value = [value, value]
        return value

    assert len(s.submit(shared).result()) == 2
