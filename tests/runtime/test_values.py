"""Values: where they lie, how they come together, what room they take, and whose they are.

With NumPy in several ranks of one process, and with dpnp on as many tiles of the CPU device in one rank, for
several threads of a process must not use dpnp. `tests/programs/test_values.py` has both in real ranks.
"""

import dataclasses
import gc
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import sched
from sched.backends.host import Host
from sched.errors import LaunchError, RequestError, UsageError
from sched.runtime.messages import Value
from tests.gates import PATIENCE
from tests.runtime.ranks import Run

KIB = 1 << 10
LARGE = 2_000  # float64: more than rides along in a message's own bytes
MANY = [(1,), (3,), (1, 1, 1), (2, 1, 2)]


@pytest.fixture(params=["host", pytest.param("cpu", marks=pytest.mark.sycl)])
def start(request):
    """Start a run with so many tiles on each rank."""
    if request.param == "host":
        return Run
    from sched import backends

    found = backends.find("cpu")

    def several(ids, rank):
        return backends.start(found, found.filters[:1] * len(ids), ids, rank)

    return lambda *tiles, **settings: Run(sum(tiles), backend=several, **settings)


def full(value, n=LARGE):
    return sched.xp.full(n, value, dtype="float64")


def on_host(value):
    return np.full(LARGE, float(value))


def first(x):
    return float(x[0])


def fail(value):
    raise ValueError(value)


def tile_of(*_):
    return sched.current().tile


class Bag:
    def __init__(self, **things):
        self.__dict__.update(things)


@dataclasses.dataclass
class Pair:
    left: object
    right: object
    label: str = ""


def spread_out(run, values=6):
    """Submit arrays that are full of 0., 1., ..., one on each tile in turn."""
    return [run.on(i % len(run.ranks)).submit(full, i) for i in range(values)]


# -- gather -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tiles", MANY)
def test_gather_keeps_the_order_whatever_lies_where(start, tiles):
    with start(*tiles) as run:
        parts = spread_out(run)
        assert [first(part) for part in run.s.gather(parts)] == [0, 1, 2, 3, 4, 5]
        stacked = run.s.gather(parts, stack=True)
        assert stacked.shape == (6, LARGE)
        assert isinstance(stacked, run.engine.backend.xp.ndarray)
        on_the_host = run.s.gather(parts, to="host", stack=True)
        assert type(on_the_host) is np.ndarray
        assert on_the_host[:, 7].tolist() == [0, 1, 2, 3, 4, 5]


def test_gather_mixes_futures_with_arrays_of_the_host_and_of_the_tile(start):
    with start(1, 1) as run:
        xp = run.engine.backend.xp
        parts = [
            run.on(1).submit(full, 1),
            np.full(LARGE, 2.0),
            run.on(1).submit(on_host, 3),
            xp.full(LARGE, 4.0),
        ]
        stacked = run.s.gather(parts, stack=True)
        assert isinstance(stacked, xp.ndarray)
        assert [float(x) for x in stacked[:, 0]] == [1, 2, 3, 4]
        assert run.s.gather(parts, to="host", stack=True)[:, 0].tolist() == [1, 2, 3, 4]


def test_what_lies_on_one_rank_comes_in_one_message():
    with Run(1, 1, 1) as run:
        parts = spread_out(run, 12)
        run.engine.wait(run.engine.idle, PATIENCE)
        before = [wire.messages[Value] for wire in run.wires]
        run.s.gather(parts)
        assert [wire.messages[Value] - old for wire, old in zip(run.wires, before, strict=True)] == [0, 1, 1]
        assert [wire.said[Value] for wire in run.wires[1:]] == [4, 4]


@pytest.mark.parametrize("tiles", MANY)
def test_gather_to_a_tile_is_a_future_of_what_lies_there(start, tiles):
    with start(*tiles) as run:
        parts = spread_out(run)
        last = len(run.ranks) - 1
        stacked = run.s.gather(parts, to=last, stack=True)
        assert run.on(last).submit(lambda x: float(x.sum()), stacked).result() == 15 * LARGE
        assert run.s.options(near=stacked).submit(tile_of, stacked).result() == last
        assert [first(x) for x in run.s.gather(parts, to=last).result()] == [0, 1, 2, 3, 4, 5]


def test_gather_says_which_have_failed(start):
    with start(1, 1) as run:
        parts = [run.s.submit(f, i) for i, f in enumerate([full, fail, full, fail])]
        for _ in range(2):  # and says it once
            with pytest.raises(ValueError, match="1") as caught:
                run.s.gather(parts)
            assert caught.value.__notes__ == ["gather: 2 of 4 values have failed: number 1, 3"]


@pytest.mark.parametrize("wrong", [[1], ["x"], [None], [[1, 2]]])
def test_gather_refuses_what_is_neither_a_future_nor_an_array(wrong):
    with Run(1) as run, pytest.raises(TypeError, match="is not a future of this scheduler"):
        run.s.gather(wrong)


@pytest.mark.parametrize("to", ["gpu", None, 1.5, True])
def test_gather_refuses_a_place_that_is_none(to):
    with Run(1) as run, pytest.raises(RequestError, match="neither 'tile' nor 'host' nor a tile"):
        run.s.gather([], to=to)


# -- put --------------------------------------------------------------------------------------------------


def test_put_copies_a_value_that_many_tasks_take(start):
    with start(1, 1) as run:
        mine = np.arange(float(LARGE))
        there = run.on(1).put(mine)
        mine[:] = -1
        assert run.s.options(near=there).submit(tile_of, there).result() == 1
        assert run.on(0).submit(lambda x: float(x[5]), there).result() == 5


def test_put_takes_arrays_of_a_tile_and_containers(start):
    with start(1, 1) as run:
        xp = run.engine.backend.xp
        there = run.on(1).put({"a": xp.full(LARGE, 3.0), "b": [1, "two"]})
        found = there.result()
        assert (first(found["a"]), found["b"]) == (3.0, [1, "two"])


def test_a_broadcast_reaches_every_rank_and_no_rank_sends_more_than_two_copies():
    with Run(*[1] * 8) as run:
        there = run.on(0).put(np.ones(LARGE), broadcast=True)
        there.result()
        run.settle()
        senders = [source for ref, source, _ in run.sent() if ref == there.ref]
        assert sorted(target for ref, _, target in run.sent() if ref == there.ref) == list(range(1, 8))
        assert max(map(senders.count, senders)) == 2


# -- containers -------------------------------------------------------------------------------------------


def made_of(kind):
    x, y = full(1), full(2)
    return {
        "tuple": lambda: (x, "s", y),
        "dict": lambda: {"x": x, "deep": [{"y": y}]},
        "dataclass": lambda: Pair(x, [y], "pair"),
        "object": lambda: Bag(x=x, inner=Bag(y=y), name="bag"),
        "namespace": lambda: SimpleNamespace(x=x, y=y),
        "twice": lambda: [x, x],
    }[kind]()


def weigh(value):
    from sched.runtime.contents import leaves

    arrays = [item for item in leaves(value) if hasattr(item, "dtype")]
    return sum(first(x) for x in arrays), {type(x).__module__.split(".")[0] for x in arrays}


@pytest.mark.parametrize("kind", ["tuple", "dict", "dataclass", "object", "namespace", "twice"])
def test_a_container_stays_on_its_tile_and_comes_as_what_it_was(start, kind):
    with start(1, 1) as run:
        there = run.on(1).submit(made_of, kind)
        there.exception()
        assert not any(wire.said[Value] for wire in run.wires)  # only its description has travelled
        library = run.engine.backend.xp.__name__
        total = 1 if kind == "twice" else 3
        assert run.on(1).submit(weigh, there).result() == (total, {library})
        assert run.on(0).submit(weigh, there).result() == (total, {library})
        assert weigh(there.result()) == (total, {library})
        made = there.result()
        assert kind != "twice" or made[0] is made[1]


def test_the_smaller_of_two_inputs_moves(start):
    with start(1, 1, 1) as run:
        small, big = run.on(1).submit(full, 1, LARGE), run.on(2).submit(full, 1, 100 * LARGE)
        run.s.gather([run.s.submit(first, x) for x in (small, big)])
        before = run.sent()
        assert run.s.submit(lambda a, b: sched.current().tile, small, big).result() == 2
        if len(run.wires) > 1:
            assert [move for move in run.sent() if move not in before] == [(small.ref, 1, 2)]


# -- room -------------------------------------------------------------------------------------------------


def held(run):
    """What lies on all tiles, when everything that was let go of is gone."""
    gc.collect()
    run.remembered()
    return sum(tile.now for tile in run.s.stats().tiles)


@pytest.mark.parametrize("tiles", MANY)
def test_every_byte_is_counted_in_and_out(start, tiles):
    with start(*tiles) as run:
        parts = spread_out(run)
        totals = [
            run.s.submit(lambda a, b: a + b, *pair) for pair in zip(parts, reversed(parts), strict=True)
        ]
        run.s.gather(totals)
        stats = run.s.stats()
        assert [tile.tile for tile in stats.tiles] == list(range(len(run.ranks)))
        assert sum(tile.now for tile in stats.tiles) >= 12 * 8 * LARGE
        assert all(tile.peak >= tile.now for tile in stats.tiles)
        del parts, totals
        assert held(run) == 0


def test_a_value_is_counted_out_after_an_exception_too(start):
    def spoil(x):
        y = x + full(1)
        raise ValueError(float(y[0]))

    with start(1, 1) as run:
        part = run.on(1).submit(full, 1)
        spoilt = run.on(1).submit(spoil, part)
        assert isinstance(spoilt.exception(), ValueError)
        del part, spoilt
        assert held(run) == 0


LIMIT = 100 * KIB


@pytest.mark.parametrize("tiles", [(1,), (2,), (1, 1)])
def test_a_tile_that_is_full_puts_values_aside_and_takes_them_back(start, tiles):
    with start(*tiles, limit=LIMIT) as run:
        parts = [run.on(len(run.ranks) - 1).submit(full, i) for i in range(20)]  # 16 KB each
        totals = [run.s.submit(first, part) for part in parts]
        assert [total.result() for total in totals] == list(range(20))
        assert run.s.submit(lambda *xs: [first(x) for x in xs], *parts[:5]).result() == [0, 1, 2, 3, 4]
        assert [first(part.result()) for part in parts] == list(range(20))
        stats = run.s.stats()
        assert max(tile.peak for tile in stats.tiles) <= LIMIT
        assert sum(tile.spilled for tile in stats.tiles) > 0
        assert stats.moves["spilled to the host"].times > 0
        assert stats.moves["back from the host"].times > 0
        del parts, totals
        assert held(run) == 0
        assert sum(tile.spilled for tile in run.s.stats().tiles) == 0


def test_memory_that_a_task_states_is_free_when_it_runs(start):
    def free(run):
        [tile] = run.s.stats().tiles
        return tile.limit - tile.now

    with start(1, limit=LIMIT) as run:
        parts = [run.s.submit(full, i) for i in range(5)]
        run.s.gather([run.s.submit(first, part) for part in parts])
        assert free(run) < 40 * KIB
        run.s.options(memory="90 KiB").submit(abs, 1).result()
        assert free(run) >= 90 * KIB
        assert [first(part.result()) for part in parts] == list(range(5))


def test_a_task_that_needs_more_than_there_is_is_refused_with_the_numbers(start):
    with start(1, limit=LIMIT) as run:
        with pytest.raises(RequestError, match=rf"memory=102401 bytes cannot be had: a tile has {LIMIT}"):
            run.s.options(memory=LIMIT + 1)
        part = run.s.submit(full, 1)
        error = run.s.options(memory="90 KiB").submit(first, part).exception()
        assert isinstance(error, RequestError)
        assert "takes values of 16000 bytes" in str(error)
        assert run.s.submit(first, part).result() == 1


@pytest.mark.parametrize("wrong", [-1, "much", 1.5, True, None])
def test_an_amount_that_is_none_is_refused(wrong):
    with Run(1) as run, pytest.raises(RequestError, match="no amount of memory"):
        run.s.options(memory=wrong)


def test_what_cannot_be_copied_stays_where_it_is(start):
    with start(1, limit=LIMIT) as run:
        kept = run.s.submit(lambda: (full(7), threading.Lock()))
        parts = [run.s.submit(full, i) for i in range(20)]
        assert [total.result() for total in [run.s.submit(first, part) for part in parts]] == list(range(20))
        assert run.s.submit(lambda pair: first(pair[0]), kept).result() == 7


# -- whose a value is ---------------------------------------------------------------------------------------


def test_a_task_that_returns_its_argument_does_not_copy_it_and_does_not_lose_it(start):
    with start(1, 1) as run:
        part = run.on(1).submit(full, 3)
        same, view = run.on(1).submit(lambda x: x, part), run.on(1).submit(lambda x: x[10:], part)
        run.s.gather([same, view])
        held_by_all = run.s.stats().tiles[1].now
        del part
        gc.collect()
        run.settle()
        assert run.s.stats().tiles[1].now == held_by_all == 8 * LARGE
        assert (first(same.result()), first(view.result()), len(view.result())) == (3, 3, LARGE - 10)
        del same, view
        assert held(run) == 0


def scribble(x):
    """Write into an argument in spite of everything."""
    if isinstance(x, np.ndarray):
        x.flags.writeable = True
    else:
        x.flags.writable = True
    x[0] = 99.0
    return 1


def test_a_run_with_checks_names_who_writes_into_an_argument(start):
    with start(1, 1, check=True) as run:
        part = run.on(1, name="maker").submit(full, 3)
        assert run.on(1).submit(first, part).result() == 3
        error = run.on(1, name="vandal").submit(scribble, part).exception()
        assert isinstance(error, UsageError)
        assert "vandal has written into its argument, the value of maker" in str(error)


def test_a_run_with_checks_names_a_value_that_its_maker_has_changed_since(start):
    kept = []

    def make():
        kept.append(full(3))
        return kept[-1]

    def change():
        kept[-1][0] = 99.0

    with start(1, check=True) as run:

        def both(what):
            return (make, change)[what]()

        part = run.s.options(name="maker").submit(both, 0)
        part.exception()
        run.s.submit(both, 1).result()
        error = run.s.options(name="reader").submit(first, part).exception()
        assert isinstance(error, UsageError)
        assert "the value of maker" in str(error)
        assert "changed since it was made, and before reader took it" in str(error)


# -- several tiles for one task ---------------------------------------------------------------------------


def several(*_):
    task = sched.current()
    with_each = []
    for tile in task.tiles:
        with sched.tile([t.id for t in sched.tiles()].index(tile.id)):
            with_each.append(sched.xp.ones(3))
    return [tile.id for tile in task.tiles], task.comm, [float(x.sum()) for x in with_each]


def test_a_task_may_have_several_tiles_of_one_rank(start):
    with start(3) as run:
        tiles, comm, sums = run.s.options(tiles=2).submit(several).result()
        assert (len(set(tiles)), comm, sums) == (2, None, [3.0, 3.0])
        assert run.s.options(tiles=3).submit(several).result()[0] == [0, 1, 2]


def test_a_task_on_several_ranks_needs_mpi():
    with Run(1, 1) as run:
        error = run.s.options(tiles=2).submit(several).exception()
        assert isinstance(error, LaunchError)
        assert run.s.submit(abs, -1).result() == 1


@pytest.mark.parametrize("tiles", [0, -1, 4])
def test_more_tiles_than_there_are_are_refused(tiles):
    with Run(1, 2) as run, pytest.raises(RequestError, match=f"tiles={tiles} cannot be had: this run has 3"):
        run.s.options(tiles=tiles)


# -- several tiles in one thread --------------------------------------------------------------------------


class Slow:
    """A mark that is not done before it is told so."""

    def __init__(self):
        self.now = threading.Event()

    def done(self):
        return self.now.is_set()


def test_while_one_tile_computes_the_others_are_given_work():
    class Queues(Host):
        background = False

        def __init__(self, ids, rank):
            super().__init__(ids, rank)
            self.marks = {tile.id: [] for tile in self.tiles}

        def mark(self, tile):
            self.marks[tile.id].append(Slow())
            return self.marks[tile.id][-1]

    with Run(1, 2, backend=Queues) as run:
        backend = run.engines[1].backend
        slow, *quick = [run.on(tile).submit(abs, -tile) for tile in (1, 2, 2, 2)]
        for number, future in enumerate(quick):
            assert run.engine.wait(lambda n=number: len(backend.marks[2]) > n, PATIENCE)
            backend.marks[2][number].now.set()
            assert future.result() == 2
        assert not slow.done()
        backend.marks[1][0].now.set()
        assert slow.result() == 1
