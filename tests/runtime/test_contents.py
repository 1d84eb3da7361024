"""What is inside a value: it is found, counted, and brought along, in whatever it is."""

import dataclasses
from collections import OrderedDict, defaultdict, deque
from types import SimpleNamespace

import numpy as np
import pytest

from sched.backends.host import Host
from sched.model import DRIVER
from sched.runtime.contents import allocations, leaves, nbytes
from sched.runtime.messages import Value
from tests.runtime.values import LARGE, SIZE, assert_nothing_is_left, first, full, on_tiles, tile_of


class Bag:
    def __init__(self, **things):
        self.__dict__.update(things)


@dataclasses.dataclass
class Pair:
    left: object
    right: object
    label: str = ""


class Slots:
    __slots__ = ("empty", "x")

    def __init__(self, x):
        self.x = x


class MoreSlots(Slots):
    __slots__ = "other"

    def __init__(self, x, y):
        super().__init__(x)
        self.other = y


class Model:
    """An object that is called, as of a neural network's."""

    def __init__(self, x):
        self.x = x

    def __call__(self, factor):
        return self.x * factor


class Attributes(dict):
    """A dict whose items are attributes too: so it raises KeyError for what it has not."""

    __getattr__ = dict.__getitem__


class Shy(Bag):
    """An object that does not like to be looked at, and has what it has."""

    nbytes = property(lambda self: 1 / 0)
    shape = property(lambda self: 1 / 0)

    def __getattr__(self, name):
        raise AttributeError(name) if name.startswith("__") else RuntimeError(name)

    def __eq__(self, other):
        raise RuntimeError("compared")

    def __len__(self):
        raise RuntimeError("counted")

    def __iter__(self):
        raise RuntimeError("looked through")

    __hash__ = None


class Own(list):
    """A list that says that it has nothing."""

    def __len__(self):
        return 0


class OwnDict(dict):
    """A dict that says so too."""

    def values(self):
        return ()


def default(**things):
    made = defaultdict(list)
    made.update(things)
    return made


MADE = {
    "tuple": lambda x, y: (x, "s", y),
    "dict": lambda x, y: {"x": x, "deep": [{"y": y}]},
    "dataclass": lambda x, y: Pair(x, [y], "pair"),
    "object": lambda x, y: Bag(x=x, inner=Bag(y=y), name="bag"),
    "namespace": lambda x, y: SimpleNamespace(x=x, y=y),
    "OrderedDict": lambda x, y: OrderedDict(x=x, y=y),
    "defaultdict": lambda x, y: default(x=x, y=[y]),
    "deque": lambda x, y: deque([x, y], maxlen=2),
    "slots": lambda x, y: Slots([x, y]),
    "inherited slots": lambda x, y: MoreSlots(x, y),
    "called": lambda x, y: [Model(x), Model([y])],
    "attribute dict": lambda x, y: Attributes(x=x, y=y),
    "shy": lambda x, y: Shy(x=x, y=y),
    "own list": lambda x, y: Own([x, y]),
    "own dict": lambda x, y: OwnDict(x=x, y=y),
    "own list with attributes": lambda x, y: _with(Own([x]), y=y),
    "attribute of a tuple": lambda x, y: ((x,), {"y": {"y": (y,)}}),
    "twice": lambda x, y: [x, y, x, {"x": x}],
}


def _with(made, **attributes):
    made.__dict__.update(attributes)
    return made


def make(kind):
    return MADE[kind](full(1), full(2))


def weigh(value):
    """Add up the first numbers of all arrays in a value; and tell whose arrays they are."""
    arrays = {id(item): item for item in leaves(value) if hasattr(type(item), "dtype")}.values()
    return sum(map(first, arrays)), {type(x).__module__.split(".")[0] for x in arrays}


@pytest.mark.parametrize("kind", MADE)
def test_a_container_stays_on_its_tile_and_counts_and_comes_as_what_it_was(start, kind):
    with start(1, 1) as run:
        there = run.on(1).submit(make, kind)
        assert there.exception() is None
        assert not any(wire.said[Value] for wire in run.wires)  # only its description has travelled
        assert on_tiles(run) == [0, 2 * SIZE]
        library = run.engine.backend.xp.__name__
        assert run.on(1).submit(weigh, there).result() == (3, {library})
        assert run.on(0).submit(weigh, there).result() == (3, {library})
        assert on_tiles(run) == [2 * SIZE] * 2
        made = there.result()
        assert weigh(made) == (3, {library})
        assert kind != "twice" or made[0] is made[2]
        del there, made
        assert_nothing_is_left(run)


@pytest.mark.parametrize("kind", MADE)
def test_a_container_is_put_aside_and_comes_back(start, kind):
    with start(1, limit=3 * SIZE) as run:
        there = run.s.submit(make, kind)
        assert there.exception() is None
        run.s.options(memory=2 * SIZE).submit(abs, 1).result()
        assert on_tiles(run) == [0]
        assert run.s.submit(weigh, there).result()[0] == 3
        assert on_tiles(run) == [2 * SIZE]
        del there
        assert_nothing_is_left(run)


@pytest.mark.parametrize("kind", MADE)
def test_all_of_it_is_weighed(kind):
    x, y = np.zeros(LARGE), np.zeros(LARGE)
    value = MADE[kind](x, y)
    assert 2 * SIZE <= nbytes(value) < 2 * SIZE + 200
    assert sorted(allocations(value, Host(range(1), DRIVER)).values()) == [SIZE, SIZE]


def test_attributes_are_found_though_asking_for_them_raises():
    class Closed:
        def __init__(self, **things):
            object.__getattribute__(self, "__dict__").update(things)

        def __getattribute__(self, name):
            raise RuntimeError(name)

    closed = Closed(x=np.zeros(LARGE))
    assert nbytes([closed]) == SIZE
    assert list(allocations([closed], Host(range(1), DRIVER)).values()) == [SIZE]


def test_what_holds_itself_is_looked_through_once():
    knot = Bag(x=np.zeros(LARGE), deep=[])
    knot.deep.append({"knot": knot})
    assert SIZE <= nbytes(knot) < SIZE + 100


def test_classes_modules_and_functions_are_not_looked_into():
    def captures():
        return large

    large = np.zeros(LARGE)
    captures.x = Pair.x = large
    try:
        for value in (captures, Pair, np, captures.__get__(3), len):
            assert list(leaves(value)) == [value]
            assert nbytes(value) == 8
    finally:
        del Pair.x


def test_what_is_very_deep_does_no_harm():
    deep = np.zeros(LARGE)
    for _ in range(100_000):
        deep = [deep]
    assert nbytes(deep) == 8
    while type(deep) is list:  # or else it is let go of by recursion
        [deep] = deep


@pytest.mark.parametrize("size", ["large", -1.5, None, RuntimeError("do not ask")], ids=repr)
def test_an_array_of_somebody_elses_that_says_nonsense_of_its_size_does_no_harm(size):
    class Array:
        dtype = None

        @property
        def nbytes(self):
            if isinstance(size, Exception):
                raise size
            return size

    assert nbytes([Array(), bytes(100), "text"]) == 8 + 100 + 4


def test_the_smaller_of_two_inputs_moves(start):
    with start(1, 1, 1) as run:
        small, big = run.on(1).submit(full, 1, LARGE), run.on(2).submit(full, 1, 100 * LARGE)
        run.s.gather([run.s.submit(first, x) for x in (small, big)])
        before = run.sent()
        assert run.s.submit(tile_of, small, big).result() == 2
        if len(run.wires) > 1:
            assert [move for move in run.sent() if move not in before] == [(small.ref, 1, 2)]
