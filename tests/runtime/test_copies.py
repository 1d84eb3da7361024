"""What may be written to: copies, and nothing else; and what room reading takes."""

from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass

import pytest

import sched
from tests.runtime.values import KIB, SIZE, first, full


@dataclass
class Pair:
    left: object
    right: object = None


class Words(list):
    pass


def array():
    return sched.xp.zeros(3)


def made(kind):
    x = array()
    return {
        "dataclass": lambda: Pair(x),
        "ordered": lambda: OrderedDict(left=x),
        "default": lambda: defaultdict(list, left=x),
        "deque": lambda: deque([x]),
        "derived list": lambda: Words([x]),
        "deep": lambda: [{"left": OrderedDict(left=Pair(x))}],
    }[kind]()


def inner(value):
    while not hasattr(value, "dtype"):
        if isinstance(value, Pair):
            value = value.left
        else:
            value = value["left"] if isinstance(value, dict) else value[0]
    return value


def write(value):
    inner(value)[0] = 5


KINDS = ["dataclass", "ordered", "default", "deque", "derived list", "deep"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_cannot_write_into_what_it_takes(start, kind):
    with start(2) as run:
        value = run.on(0).submit(made, kind)
        for tile in (0, 1):
            assert isinstance(run.on(tile).submit(write, value).exception(), ValueError)
        assert float(inner(value.result())[0]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_is_a_copy_that_is_the_scripts_own(start, kind):
    with start(1) as run:
        value = run.s.submit(made, kind)
        copies = [value.numpy(), *run.s.gather([value], to="host")]
        for copy in copies:
            assert type(copy) is type(value.result())
            assert type(inner(copy)).__module__ == "numpy"
            write(copy)
        assert float(inner(value.result())[0]) == 0


@pytest.mark.parametrize("more", [-1, 0, 1, KIB])
def test_values_that_just_fit_or_just_do_not_take_turns_on_the_tile(start, more):
    with start(1, limit=SIZE + more) as run:
        parts = [run.s.submit(full, i) for i in range(12)]
        assert [first(part.result()) for part in parts] == list(range(12))
        assert [float(part.numpy()[0]) for part in parts] == list(range(12))
        assert run.s.stats().tiles[0].peak <= 2 * SIZE  # one that came in before the last could leave
