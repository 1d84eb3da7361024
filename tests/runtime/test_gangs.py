"""Tasks on tiles of several ranks: they begin together or not at all, and end with the last of them.

The communicators are not MPI's. `tests/programs/test_values.py` has real ones.
"""

import threading

import pytest

import sched
from sched.errors import DependencyError, LaunchError
from sched.runtime.messages import Conclude, Go, Part, Ready
from tests.gates import PATIENCE, Gate, Notes
from tests.runtime.ranks import Run, Wire
from tests.runtime.values import LIMIT, SIZE, assert_nothing_is_left, fail, first, full, on_tiles, stores


class Comm:
    """Stands in for a communicator: knows its ranks, and that it was freed."""

    def __init__(self, ranks, rank):
        self.size, self.rank, self.freed = len(ranks), ranks.index(rank), 0

    def Free(self):
        self.freed += 1


@pytest.fixture(autouse=True)
def communicators(monkeypatch):
    """Give groups to ranks that have no MPI, and see that each is freed once."""
    made = []

    def group(wire, ranks):
        made.append(Comm(ranks, wire.rank))
        return made[-1]

    monkeypatch.setattr(Wire, "group", group)
    yield made
    assert {comm.freed for comm in made} <= {1}


def duet(run, **options):
    """A gang whose first rank is 1, and its second 2; rank 0's tile is kept out of it."""
    return run.s.options(tiles=2, tile=1, **options)


def part():
    """Tell which part of its gang this is: 0 is the one whose value counts."""
    return sched.current().comm.rank


@pytest.fixture
def run():
    """Four ranks; the gangs of these tests are on the two in the middle, since the first is busy."""
    with Gate() as gate, Run(1, 1, 1, 1, limit=LIMIT) as run:
        busy = run.on(0).submit(gate.hold)
        gate.wait_for()
        yield run
        gate.open()
        busy.result()
        del busy
        assert run.engine.wait(run.engine.idle, PATIENCE)
        assert [run.on(tile).submit(abs, -tile).result() for tile in range(4)] == [0, 1, 2, 3]
        assert_nothing_is_left(run)
        assert not run.engine.driver.torn
        for engine in run.engines.values():
            assert not engine._worker._gangs
            assert set(engine._worker._assigned.values()) == {0}


def test_every_part_is_called_and_the_first_ones_value_counts(run):
    notes = Notes()
    made = duet(run).submit(lambda x: notes.add((sched.current().rank, part(), x)) or [part(), x], 5)
    assert made.result() == [0, 5]
    assert sorted(notes.all) == [(1, 0, 5), (2, 1, 5)]


def test_its_value_lies_on_the_first_of_its_tiles_and_only_there(run):
    made = duet(run).submit(full, 3)
    assert run.on(1).submit(first, made).result() == 3
    assert on_tiles(run)[1:] == [SIZE, 0, 0]


def test_no_part_begins_before_all_have_their_inputs(run):
    notes = Notes()
    with Gate() as gate:
        x = run.on(1).submit(full, 1)
        y = run.on(2).submit(lambda: gate.hold(full(2)))
        gate.wait_for()
        both = duet(run).submit(lambda x, y: notes.add(first(x) + first(y)), x, y)
        assert x.exception() is None
        assert notes.all == []
        gate.open()
        assert both.exception() is None
    assert notes.all == [3, 3]


@pytest.mark.parametrize("here", [1, 2])
def test_an_input_that_cannot_be_pickled_fails_it_before_any_part_begins(run, here, communicators):
    """It is on one of the ranks, so that part could begin, and the other cannot."""
    notes = Notes()
    lock = run.on(here, name="lock").submit(threading.Lock)
    assert lock.exception() is None
    failed = duet(run, name="duet", memory=64).submit(notes.add, lock)
    after = run.s.submit(first, failed)
    error = failed.exception()
    assert type(error) is DependencyError
    assert str(error).startswith("duet was not run: it takes the value of lock, which failed with TypeError")
    assert type(after.exception()) is DependencyError
    assert (notes.all, communicators) == ([], [])


@pytest.mark.parametrize("retries", [0, 1])
def test_an_input_that_fails_fails_it(run, retries):
    with Gate() as gate:
        bad = run.on(2, name="bad").submit(lambda: fail(gate.hold("no luck")))
        gate.wait_for()
        failed = duet(run, retries=retries).submit(full, bad)
        gate.open()
        assert type(failed.exception()) is DependencyError


@pytest.mark.parametrize("number", [0, 1])
def test_a_part_that_raises_fails_it_and_leaves_no_value(run, number):
    """Also the first part's value, which was good until the other had raised."""
    failed = duet(run, memory=64).submit(lambda: fail() if part() == number else full(7))
    after = run.on(2).submit(first, failed)
    assert str(failed.exception()) == "no luck"
    assert type(after.exception()) is DependencyError
    assert run.wires[0].said[Go] == 2, "both have begun, and are told so once"
    assert on_tiles(run)[1:] == [0, 0, 0]
    assert all(set(store.ledger.reserved.values()) == {0} for store in stores(run))


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("bad", ["arguments", "memory", "group"])
def test_a_part_that_fails_before_its_function_is_called_fails_it(run, number, bad, monkeypatch):
    class NotThere:
        """Cannot be read on the rank of that part."""

        def __reduce__(self):
            return _read_but_on, (number + 1,)

    notes = Notes()
    x = run.on(number + 1).submit(full, 1)
    assert x.exception() is None
    if bad == "group":
        end = run.wires[number + 1]
        run.engines[number + 1]._worker.runner._group = lambda ranks: fail(f"no group on {end.rank}")
    if bad == "memory":
        # All that is on the tile of that part is stuck there.
        run.on(number + 1).submit(lambda: None).result()
        stuck = run.on(number + 1).submit(lambda: (full(0, 10_000), threading.Lock()))
        assert stuck.exception() is None
    failed = duet(run, memory="60 KiB" if bad == "memory" else 64).submit(
        lambda thing: notes.add(part()), NotThere() if bad == "arguments" else 0
    )
    assert failed.exception() is not None
    assert len(notes.all) == 1
    assert all(set(store.ledger.reserved.values()) == {0} for store in stores(run))


def _read_but_on(rank):
    if sched.current().rank == rank:
        raise ValueError("it cannot be made here")
    return 0


def test_both_parts_may_fail_and_the_first_to_say_so_is_believed(run):
    with Gate() as gate:
        failed = duet(run).submit(lambda: fail("second") if part() else fail(gate.hold("first")))
        assert run.engine.wait(lambda: run.engine.driver.torn, PATIENCE)
        gate.open()
        assert str(failed.exception()) == "second"


def test_it_ends_only_when_all_parts_have(run):
    """Else its tiles would be given away while one of them still computes."""
    with Gate() as gate:
        failed = duet(run).submit(lambda: gate.hold() if part() else fail())
        gate.wait_for()
        assert run.engine.wait(lambda: run.engine.driver.torn, PATIENCE)
        assert not failed.done()
        after = run.on(1).submit(abs, -1)
        assert not after.done()
        gate.open()
        assert str(failed.exception()) == "no luck"
        assert after.result() == 1


def test_what_takes_its_value_waits_until_the_other_parts_are_known_to_be_good(run):
    with Gate() as gate:
        failed = duet(run).submit(lambda: gate.hold() or fail() if part() else full(7))
        gate.wait_for()
        takers = [run.on(tile).submit(first, failed) for tile in (1, 2, 3)]
        assert run.is_placed(takers[2]), "it waits for the value itself"
        assert run.engine.wait(lambda: run.engine.driver._records[failed.ref].parts.left == 1, PATIENCE)
        gate.open()
        assert str(failed.exception()) == "no luck"
        assert {type(future.exception()) for future in takers} == {DependencyError}


def test_it_may_be_tried_again(run):
    def second_time():
        if part() and not sched.current().attempt:
            fail()
        return full(sched.current().attempt)

    assert first(duet(run, retries=1, memory=64).submit(second_time).result()) == 1


def test_ranks_and_driver_say_no_more_to_each_other_than_it_takes(run):
    assert duet(run).submit(part).result() == 0
    said = [wire.said for wire in run.wires]
    assert [each[Ready] for each in said] == [0, 1, 1, 0]
    assert [each[Part] for each in said] == [0, 0, 1, 0]
    assert (said[0][Go], said[0][Conclude]) == (2, 1)


def test_without_mpi_it_says_so(monkeypatch):
    monkeypatch.undo()
    with Run(1, 1) as run:
        error = run.s.options(tiles=2).submit(full).exception()
        assert isinstance(error, LaunchError)
        assert run.s.submit(abs, -1).result() == 1
        del error
        assert_nothing_is_left(run)
