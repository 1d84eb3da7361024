"""What room values take, who has to make room, and that every promise is given back."""

import concurrent.futures as cf
import gc
import re
import sys
import threading
import time

import pytest

from sched.backends.base import Rung
from sched.backends.host import Host
from sched.errors import RequestError
from tests.gates import PATIENCE, Gate
from tests.runtime.ranks import Run
from tests.runtime.values import (
    KIB,
    LARGE,
    LIMIT,
    MANY,
    SIZE,
    assert_nothing_is_left,
    fail,
    first,
    full,
    moved,
    on_tiles,
    spread_out,
    stores,
)

SPILLED, BACK = Rung.SPILL.value, Rung.RELOAD.value


def reserved(run):
    """List what is promised on each tile."""
    return [nbytes for store in stores(run) for nbytes in store.ledger.reserved.values()]


# -- counting ---------------------------------------------------------------------------------------------


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
        assert sum(tile.now for tile in stats.tiles) >= 12 * SIZE
        assert all(tile.peak >= tile.now for tile in stats.tiles)
        del parts, totals
        assert_nothing_is_left(run)


def test_a_value_is_counted_out_after_an_exception_too(start):
    def spoil(x):
        y = x + full(1)
        raise ValueError(float(y[0]))

    with start(1, 1) as run:
        part = run.on(1).submit(full, 1)
        spoilt = run.on(1).submit(spoil, part)
        assert isinstance(spoilt.exception(), ValueError)
        del part, spoilt
        assert_nothing_is_left(run)


def test_a_move_through_the_hosts_memory_is_noted_where_it_ends():
    with Run(1, 1, 1) as run:
        part = run.on(1).submit(full, 1)
        run.on(2).submit(first, part).result()
        part.result()
        run.settle()
        times, nbytes, seconds = run.s.stats().moves[Rung.HOST.value]
        assert (times, nbytes) == (2, 2 * SIZE)
        assert seconds >= 0
        assert [set(store._packer.moves.sums()) for store in stores(run)] == [
            {Rung.HOST.value},
            set(),
            {Rung.HOST.value},
        ]
        assert run.engines[1]._worker.slot(part.ref).packed is None, "what has gone is kept in one form"


# -- the limit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tiles", [(1,), (2,), (1, 1)])
def test_a_tile_that_is_full_puts_values_aside_and_takes_them_back(start, tiles):
    with start(*tiles, limit=LIMIT) as run:
        parts = [run.on(len(run.ranks) - 1).submit(full, i) for i in range(20)]
        totals = [run.s.submit(first, part) for part in parts]
        assert [total.result() for total in totals] == list(range(20))
        assert run.s.submit(lambda *xs: [first(x) for x in xs], *parts[:5]).result() == [0, 1, 2, 3, 4]
        assert [first(part.result()) for part in parts] == list(range(20))
        stats = run.s.stats()
        assert max(tile.peak for tile in stats.tiles) <= LIMIT
        assert sum(tile.spilled for tile in stats.tiles) > 0
        assert stats.moves[SPILLED].times > 0
        assert stats.moves[BACK].times > 0
        del parts, totals
        assert_nothing_is_left(run)


def test_what_is_put_aside_is_what_has_been_unused_for_longest(start):
    with start(1, limit=4 * SIZE) as run:
        a, b, c, d = [run.s.submit(full, i) for i in range(4)]
        run.s.submit(first, a).result()
        e = run.s.submit(full, 4)
        assert e.exception() is None
        assert [bool(run.engine._worker.slot(x.ref).values) for x in (a, b, c, d, e)] == [1, 0, 1, 1, 1]


def test_what_putting_aside_has_cost_is_part_of_the_time_that_has_passed(start):
    begun = time.perf_counter()
    with start(1, limit=LIMIT) as run:
        parts = [run.s.submit(full, i) for i in range(20)]
        assert [part.exception() for part in parts] == [None] * 20
        assert [run.s.submit(first, part).result() for part in parts] == list(range(20))
        moves = run.s.stats().moves
        for rung in (SPILLED, BACK):
            times, nbytes, seconds = moves[rung]
            assert nbytes == times * SIZE
            assert 0 < seconds < time.perf_counter() - begun


def test_what_a_call_takes_is_not_put_aside_for_what_else_it_takes(start):
    """Though it has been unused for longest: else each of its inputs would push the others out."""
    with start(1, limit=4 * SIZE + KIB) as run:
        a, b, c, d, e = parts = [run.s.submit(full, i) for i in range(5)]
        assert run.s.submit(lambda *xs: [first(x) for x in xs], b, c, d, e).result() == [1, 2, 3, 4]
        assert (moved(run, SPILLED), moved(run, BACK)) == (1, 0)  # a had to go
        assert run.s.submit(lambda b, a: first(b) + first(a), b, a).result() == 1
        # One for a, and one for what the function may return: for all that is known, as much as it takes.
        assert (moved(run, SPILLED), moved(run, BACK)) == (3, 1)
        assert [bool(run.engine._worker.slot(x.ref).values) for x in parts] == [1, 1, 0, 0, 1]


def test_a_call_that_has_ended_holds_nothing_any_more(start):
    with start(1, limit=4 * SIZE) as run:
        a = run.s.submit(full, 0)
        assert run.s.submit(first, a).result() == 0
        assert isinstance(run.s.submit(lambda x: fail(), a).exception(), ValueError)
        assert run.engine._worker.slot(a.ref).pins == 0
        run.s.options(memory=4 * SIZE).submit(abs, 1).result()
        assert on_tiles(run) == [0]


def test_room_is_made_after_a_value_that_was_larger_than_anybody_knew(start):
    with start(1, limit=LIMIT) as run:
        parts = [run.s.submit(full, i) for i in range(5)]
        large = run.s.submit(lambda: full(9, 2 * LARGE))
        assert large.exception() is None
        [tile] = run.s.stats().tiles
        assert tile.peak > LIMIT
        assert tile.now <= LIMIT
        assert [first(part.result()) for part in parts] == list(range(5))


def test_what_a_function_has_returned_once_has_room_the_next_time(start):
    with start(1, limit=LIMIT) as run:
        parts = [run.s.submit(full, i) for i in range(20)]
        run.s.gather([run.s.submit(first, part) for part in parts])
        [tile] = run.s.stats().tiles
        assert tile.peak <= LIMIT


def test_of_two_things_that_are_put_there_the_first_stays_if_both_fit(start):
    import numpy as np

    with start(1, limit=2 * SIZE + KIB) as run:
        xp = run.engine.backend.xp
        first_one = run.s.put(xp.ones(LARGE))
        assert run.s.submit(first, first_one).result() == 1  # from now on it is known what `first` returns
        second = run.s.put(xp.ones(LARGE))
        for there in (first_one, second):
            assert run.s.submit(first, there).result() == 1
        assert moved(run, SPILLED) == 0
        assert on_tiles(run) == [2 * SIZE]
        del first_one, second, there
        assert run.s.submit(first, run.s.put(np.ones(LARGE))).result() == 1
        assert_nothing_is_left(run)


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
    said = rf"memory=102401 bytes cannot be had: a tile has {LIMIT}"
    with start(1, limit=LIMIT) as run, pytest.raises(RequestError, match=said):
        run.s.options(memory=LIMIT + 1)


def test_a_task_that_needs_more_beside_what_it_takes_is_refused_too(start):
    with start(1, 1, limit=LIMIT) as run:
        part = run.on(1).submit(full, 1)
        for tile in (0, 1):  # also where its input is not yet
            error = run.on(tile, memory="90 KiB").submit(first, part).exception()
            assert isinstance(error, RequestError)
            assert re.search(r"memory=92160 bytes and takes values of 16\d\d\d bytes", str(error))
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
        error = run.s.options(memory="95 KiB").submit(abs, 1).exception()
        assert f"{SIZE} are values that cannot be copied" in str(error)
        del kept, parts, error
        assert_nothing_is_left(run)


class Held:
    """An array that is let through a gate wherever it is unpacked."""

    def __init__(self, gate, array):
        self.gate, self.array = gate, array

    def __reduce__(self):
        return self.gate.hold, (self.array,)


def test_two_tiles_may_fetch_a_value_at_the_same_time():
    with Run(1, 2) as run, Gate() as gate:
        there = run.on(0).submit(lambda: Held(gate, full(3)))
        assert there.exception() is None
        both = [run.on(tile).submit(first, there) for tile in (1, 2)]
        gate.wait_for(2)
        gate.open()
        assert [future.result() for future in both] == [3, 3]
        assert on_tiles(run) == [SIZE] * 3
        del there, both
        assert_nothing_is_left(run)


# -- promises ---------------------------------------------------------------------------------------------


def test_room_is_promised_while_a_call_runs_and_given_back_with_its_value():
    with Run(1) as run, Gate() as gate:
        held = run.s.options(memory=64).submit(gate.hold)
        gate.wait_for()
        assert reserved(run) == [64]
        gate.open()
        assert held.result() is None
        assert reserved(run) == [0]


class NotHere:
    """Can be pickled, but not be read again."""

    def __reduce__(self):
        return fail, ("it cannot be made here",)


BAD_CALLS = {
    "it raises": lambda s, x: s.options(memory=64).submit(fail),
    "it raises, and has returned before": lambda s, x: s.submit(full, "no number"),
    "it exits": lambda s, x: s.options(memory=64).submit(sys.exit),
    "it states too much": lambda s, x: s.options(memory="99 KiB").submit(first, x),
    "its arguments cannot be read": lambda s, x: s.options(memory=64).submit(len, [NotHere(), bytes(9000)]),
    "what it takes cannot be read": lambda s, x: s.options(memory=64).submit(len, s.submit(NotHere)),
    "it cannot be read itself": lambda s, x: s.options(memory=64).submit(
        NotHere().__reduce__()[0].__get__(0)
    ),
    "it fails twice": lambda s, x: s.options(memory=64, retries=1).submit(fail),
    "it was given much": lambda s, x: s.submit(fail, bytes(50_000)),
}


@pytest.mark.parametrize("bad", BAD_CALLS.values(), ids=BAD_CALLS)
def test_a_promise_is_given_back_after_a_failure(start, bad):
    with start(1, 1, limit=LIMIT) as run:
        x = run.s.submit(full, 1)
        assert x.exception() is None
        future = bad(run.s, x)
        assert future.exception() is not None
        run.settle()
        assert reserved(run) == [0] * len(run.ranks)
        del x, future
        assert_nothing_is_left(run)


class Breaks(Host):
    """A device that reports errors of work that was submitted to it when it is next waited for."""

    good = 1 << 62

    def finish(self, tile):
        self.good -= 1
        if self.good < 0:
            self.good = 1 << 62
            raise RuntimeError("the device is lost")


@pytest.mark.parametrize("good", [0, 1])
def test_a_call_whose_tile_fails_afterwards_has_no_value_and_takes_no_room(good):
    """Before its value is taken in (0), or after that, while room is made for it (1)."""
    with Run(1, limit=LIMIT, backend=Breaks) as run:
        older = run.s.submit(full, 1, 4 * LARGE)
        assert older.exception() is None
        run.engine.backend.good = good
        failed = run.s.options(memory=64).submit(lambda: full(2, 5 * LARGE))
        assert str(failed.exception()) == "the device is lost"
        assert on_tiles(run) == [4 * SIZE * (not good)]
        assert reserved(run) == [0]
        assert first(older.result()) == 1
        del older, failed
        assert_nothing_is_left(run)


# -- producers do not outrun consumers ----------------------------------------------------------------------


@pytest.mark.parametrize("tiles", [(3,), (1, 2)])
def test_tiles_make_no_more_than_their_share_while_what_they_have_made_is_not_taken(tiles, monkeypatch):
    monkeypatch.setattr("sched.core.policy.MOST", 1)  # no turns: how many are in one is a matter of time
    limit, count = 20 * SIZE, 60

    def link(total, x):
        return total + first(x)

    def is_quiet(run, futures):
        with run.engine._lock:
            return not any(map(run.is_placed, futures))

    with Run(*tiles, depth=1, limit=limit) as run, Gate() as gate, Gate() as start:
        begin = run.on(0).submit(lambda x: gate.hold(first(x)), run.on(0).submit(full, 0))
        busy = [run.on(tile).submit(start.hold) for tile in (1, 2)]
        gate.wait_for()
        start.wait_for(2)
        parts = run.s.submit_many(full, range(1, count))
        total = begin
        for part in parts:
            total = run.s.submit(link, total, part)
        start.open()
        cf.wait(busy)
        assert run.engine.wait(lambda parts=tuple(parts): is_quiet(run, parts), PATIENCE)
        assert [tile.peak for tile in run.s.stats().tiles] == [SIZE, limit / 2, limit / 2]
        del part, parts, begin, busy
        gate.open()
        assert total.result() == sum(range(count))
        assert moved(run, SPILLED) == 0
        del total
        assert_nothing_is_left(run)


# -- whose a value is ---------------------------------------------------------------------------------------


def test_a_task_that_returns_its_argument_does_not_copy_it_and_does_not_lose_it(start):
    with start(1, 1) as run:
        part = run.on(1).submit(full, 3)
        same, view = run.on(1).submit(lambda x: x, part), run.on(1).submit(lambda x: x[10:], part)
        run.s.gather([same, view])
        held_by_all = on_tiles(run)[1]
        del part
        gc.collect()
        run.settle()
        assert on_tiles(run)[1] == held_by_all == SIZE
        assert (first(same.result()), first(view.result()), len(view.result())) == (3, 3, LARGE - 10)
        del same, view
        assert_nothing_is_left(run)


def test_a_full_tile_has_room_for_what_a_function_returns_that_nobody_knows_yet(start):
    """It is taken to return as much as the largest of its inputs."""
    with start(1, limit=4 * SIZE) as run:
        parts = [run.s.submit(full, i) for i in range(4)]
        assert first(run.s.submit(lambda a, b: a + b, *parts[:2]).result()) == 1
        assert run.s.stats().tiles[0].peak == 4 * SIZE
