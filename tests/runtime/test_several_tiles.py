"""Threads that have several tiles: they start a call on each, and go round."""

import gc
from types import SimpleNamespace

import pytest

import sched
from sched.backends.host import Host
from sched.errors import RequestError, UsageError
from tests.gates import PATIENCE, Notes
from tests.runtime.ranks import Run
from tests.runtime.values import assert_nothing_is_left, fail, first, full, stores


class Slow:
    """A mark that is not done before it is told so, or the tile is lost."""

    def __init__(self):
        self.now = False

    def done(self):
        if isinstance(self.now, Exception):
            raise self.now
        return self.now


class Queues(Host):
    """Tiles that compute on when a call has returned; all share the thread that is there."""

    background = False

    def __init__(self, ids, rank):
        super().__init__(ids, rank)
        self.marks = {tile.id: [] for tile in self.tiles}

    def mark(self, tile):
        self.marks[tile.id].append(Slow())
        return self.marks[tile.id][-1]


class Polled(Queues):
    """Each mark is done when it has been looked at so many times."""

    looks = 3

    def mark(self, tile):
        return Countdown(self.looks)


class Countdown:
    def __init__(self, looks):
        self.looks = looks

    def done(self):
        self.looks -= 1
        return self.looks <= 0


def promised(run):
    return [list(store.ledger.reserved.values()) for store in stores(run)]


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


@pytest.mark.parametrize("tiles", [0, -1, 4])
def test_more_tiles_than_there_are_are_refused(tiles):
    with Run(1, 2) as run, pytest.raises(RequestError, match=f"tiles={tiles} cannot be had: this run has 3"):
        run.s.options(tiles=tiles)


# -- several tiles in one thread --------------------------------------------------------------------------


def test_while_one_tile_computes_the_others_are_given_work():
    with Run(1, 2, backend=Queues) as run:
        marks = run.engines[1].backend.marks
        slow, *quick = [run.on(tile).submit(abs, -tile) for tile in (1, 2, 2, 2)]
        for number, future in enumerate(quick):
            assert run.engine.wait(lambda n=number: len(marks[2]) > n, PATIENCE)
            marks[2][number].now = True
            assert future.result() == 2
        assert not slow.done()
        marks[1][0].now = True
        assert slow.result() == 1


def test_a_call_takes_until_it_is_computed(monkeypatch):
    """Else tasks that compute for long would be given to a tile many at a time, as short ones."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("sched.runtime.runner.time", SimpleNamespace(perf_counter=lambda: clock.now))
    with Run(1, 2, backend=Queues) as run:
        marks, pace = run.engines[1].backend.marks, run.engine.driver._core._policy.pace
        made = run.on(1).submit(abs, -1)
        assert run.engine.wait(lambda: marks[1], PATIENCE)
        kind = run.engine.driver._core._tasks[made.ref].kind
        clock.now += 5.0
        marks[1][0].now = True
        assert made.result() == 1
        assert pace.of(kind) == 5.0
        run.engines[1].backend.mark = lambda tile: None


def test_what_is_promised_to_a_call_is_its_until_it_is_computed():
    with Run(1, 2, backend=Queues) as run:
        marks = run.engines[1].backend.marks
        x = run.on(1).submit(full, 1)
        futures = [run.on(tile, memory=64 * tile).submit(abs, -tile) for tile in (1, 2)]
        assert run.engine.wait(lambda: marks[1] and marks[2], PATIENCE)
        marks[1][0].now = True
        assert run.engine.wait(lambda: len(marks[1]) > 1, PATIENCE)
        assert promised(run) == [[0], [64, 128]]
        marks[1][1].now = marks[2][0].now = True
        assert [future.result() for future in futures] == [1, 2]
        assert promised(run) == [[0], [0, 0]]
        assert x.exception() is None


def test_what_a_call_takes_stays_on_its_tile_until_it_is_computed():
    with Run(1, 2, backend=Queues) as run:
        marks, [_, store] = run.engines[1].backend.marks, stores(run)
        x = run.on(1).submit(full, 1)
        assert run.engine.wait(lambda: marks[1], PATIENCE)
        marks[1][0].now = True
        total = run.on(1).submit(first, x)
        assert run.engine.wait(lambda: len(marks[1]) > 1, PATIENCE)
        assert store.slots[x.ref].pins == 1
        marks[1][1].now = True
        assert total.result() == 1
        assert store.slots[x.ref].pins == 0


@pytest.mark.parametrize("tiles", [(3,), (1, 3)])
def test_nothing_is_left_of_calls_that_were_under_way_together(tiles):
    with Run(*tiles, backend=Polled) as run:
        ids = [tile for tile, rank in enumerate(run.ranks) if rank == run.ranks[-1]]
        parts = [run.on(ids[i % 3], memory=16_000).submit(full, i) for i in range(9)]
        bad = [run.on(tile, memory=64).submit(fail) for tile in ids]
        worse = [run.on(tile, memory=64).submit(first, x) for tile, x in zip(ids, bad, strict=True)]
        totals = [run.on(ids[-1 - i % 3]).submit(first, part) for i, part in enumerate(parts)]
        assert [total.result() for total in totals] == list(range(9))
        assert None not in [future.exception() for future in bad + worse]
        del parts, bad, worse, totals
        assert_nothing_is_left(run)


def test_a_callback_may_wait_for_what_another_tile_computes():
    """Each callback waits for all others, in the midst of the round that has found its own call computed."""
    notes = Notes()
    with Run(3, backend=Polled) as run:
        futures = [run.on(tile).submit(abs, -tile) for tile in (0, 1, 2)]

        def wait_for_all(_, futures=tuple(futures)):
            notes.add([future.result(PATIENCE) for future in futures])

        for future in futures:
            future.add_done_callback(wait_for_all)
        assert [future.result(PATIENCE) for future in futures] == [0, 1, 2]
        assert notes.all == [[0, 1, 2]] * 3
        assert [run.on(tile).submit(abs, tile).result(PATIENCE) for tile in (0, 1, 2)] == [0, 1, 2]
        del futures, future, wait_for_all
        assert_nothing_is_left(run)


def test_a_tile_that_is_lost_while_it_computes_fails_the_call_and_not_the_rank():
    class Lost(Queues):
        def finish(self, tile):
            if self.marks[tile.id]:
                raise RuntimeError("the device is lost")

    with Run(1, 2, backend=Lost) as run:
        marks = run.engines[1].backend.marks
        x = run.on(1, memory=64).submit(full, 1)
        assert run.engine.wait(lambda: marks[1], PATIENCE)
        marks[1][0].now = True
        assert str(x.exception()) == "the device is lost"
        assert promised(run) == [[0], [0, 0]]
        for each in marks.values():
            each.clear()
        run.engines[1].backend.mark = lambda tile: None
        del x
        assert_nothing_is_left(run)


# -- whoever comes in the midst of it -----------------------------------------------------------------------


def test_a_finaliser_that_runs_under_the_stores_lock_gets_an_error_and_waits_for_nobody():
    notes = Notes()

    class Last:
        """Garbage that uses the scheduler in the end."""

        def __init__(self, use):
            self.use, self.itself = use, self

        def __del__(self):
            try:
                notes.add(self.use())
            except UsageError as error:
                notes.add(str(error))

    with Run(1, 1) as run:
        x, y = run.s.submit(full, 1), run.on(1).submit(full, 2)
        assert (x.exception(), y.exception()) == (None, None)
        uses = (lambda: run.s.submit(abs, 1), run.s.stats, y.result, y.cancel, lambda: x.ref)
        gc.disable()
        try:
            for use in uses:
                Last(use)
            for store in stores(run)[:1]:
                with store.lock:
                    gc.collect()
        finally:
            gc.enable()
        said = "the scheduler cannot be used by a finaliser that runs inside it"
        assert sorted(map(str, notes.all)) == sorted([said] * 3 + ["False", str(x.ref)])
        assert first(y.result()) == 2


def test_a_future_that_is_dropped_under_the_stores_lock_is_let_go_of_later():
    with Run(1) as run:
        x = run.s.submit(full, 1)
        assert x.exception() is None
        [store] = stores(run)
        with store.lock:
            del x
            assert len(store.slots) == 1
        assert_nothing_is_left(run)
