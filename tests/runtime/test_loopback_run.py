"""Runs of several ranks in one process: the whole runtime but for MPI.

Rank 0 is driven by the test's thread, and each other rank serves in a thread of its own.
"""

import concurrent.futures as cf
import itertools
import threading
from collections import Counter, deque

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import sched
from sched.backends.host import Host
from sched.errors import DependencyError, RemoteTraceback
from sched.runtime.messages import Define, Expect
from tests.gates import PATIENCE, Gate, Notes
from tests.runtime.ranks import Run

LARGE = 10_000


def array(value=0.0):
    return np.full(LARGE, float(value))


def total(*arrays):
    return float(sum(a.sum() for a in arrays))


def add(*arrays):
    return sum(arrays)


def where(*_):
    return sched.current().tile, sched.current().rank


def fail(what="no luck"):
    raise ValueError(what)


def locked(*_):
    return threading.Lock()


@pytest.mark.parametrize("tiles", [(1,), (1, 1), (2, 2), (1, 1, 1, 1), (0, 1, 2)], ids=str)
def test_results_are_right_wherever_they_are_made(tiles):
    with Run(*tiles) as run:
        everywhere = [run.on(tile).submit(where) for tile in range(sum(tiles))]
        assert [future.result() for future in everywhere] == list(enumerate(run.ranks))
        assert list(run.s.map(pow, range(100), itertools.repeat(2))) == [i * i for i in range(100)]
        arrays = [run.s.submit(array, i) for i in range(20)]
        assert run.s.submit(total, *arrays).result() == LARGE * 190
        assert [a[0] for a in run.s.gather(arrays)] == list(range(20))
        assert run.s.gather(arrays, stack=True).shape == (20, LARGE)


def test_a_function_of_the_script_goes_to_each_rank_once():
    with Run(1, 1, 1) as run:
        captured = array(1)

        def mine(x):
            return float(captured[x])

        assert [f.result() for t in range(3) for f in run.on(t).submit_many(mine, range(5))] == [1.0] * 15
        assert run.wires[0].said[Define] == 2
        captured += 1
        assert run.on(1).submit(mine, 0).result() == 1.0, "it is as it was when it was pickled"
        del mine
        assert run.remembered() == {0: set(), 1: set(), 2: set()}
        # What is left is `abs`, which belongs to a module.
        assert [len(engine._worker.runner._functions) for engine in run.engines.values()] == [1, 1, 1]


def test_a_value_goes_to_a_rank_once_and_not_through_the_driver():
    with Run(1, 1, 2) as run:
        value = run.on(1).submit(array, 1)
        consumers = [run.on(tile).submit(total, value) for tile in (2, 3, 2, 3, 1, 2)]
        assert [future.result() for future in consumers] == [LARGE] * 6
        assert run.sent() == [(value.ref, 1, 2)]
        for _ in range(3):
            assert value.result()[0] == 1
            run.s.gather([value, value])
        assert run.sent() == [(value.ref, 1, 0), (value.ref, 1, 2)]


def test_a_small_value_needs_no_second_message():
    with Run(1, 1) as run:
        small = [run.on(1).submit(abs, -3), run.on(1).submit(str, "x")]
        assert run.s.gather(small) == [3, "x"]
        assert run.sent() == []


def test_map_asks_for_several_values_at_a_time():
    with Run(0, 1) as run:
        for i, value in enumerate(run.s.map(array, range(50), buffersize=8)):
            assert value[0] == i
            del value
        assert len(run.sent()) == 50


def test_a_value_flows_on_before_the_driver_asks():
    """The consumer is placed while the producer runs, and the script hears of it only in the end."""
    with Run(1, 1, 1) as run, Gate() as gate:
        value = run.on(1).submit(lambda: gate.hold(array(3)))
        gate.wait_for()
        chain = run.on(2).submit(add, value, value)
        back = run.on(1).submit(add, chain, value)
        assert run.is_placed(chain)
        assert run.is_placed(back)
        gate.open()
        assert back.result()[0] == 9
        assert run.sent() == [(value.ref, 1, 2), (chain.ref, 2, 1), (back.ref, 1, 0)]


def test_a_value_may_come_before_the_news_of_it():
    with Run(1, 1, 1) as run, Gate() as gate:
        value = run.on(1).submit(lambda: gate.hold(array(3)))
        gate.wait_for()
        run.wires[2].values_first()
        consumer = run.on(2).submit(total, value)
        gate.open()
        assert consumer.result() == 3 * LARGE
        assert Expect in run.wires[2].overtaken


def test_a_failure_may_come_before_the_news_of_it():
    with Run(1, 1, 1) as run, Gate() as gate:
        value = run.on(1).submit(lambda: fail(gate.hold("no luck")))
        gate.wait_for()
        run.wires[2].values_first()
        consumer = run.on(2).submit(total, value)
        assert run.is_placed(consumer)
        gate.open()
        assert type(consumer.exception()) is DependencyError
        assert Expect in run.wires[2].overtaken


def test_a_value_that_nobody_wants_any_more_is_dropped_when_it_comes():
    with Run(1, 1, 1) as run, Gate() as gate:
        value = run.on(1).submit(lambda: gate.hold(array(3)))
        consumer = run.on(2).submit(total, value)
        assert run.is_placed(consumer)
        del value, consumer
        gate.open()
        assert run.remembered() == {0: set(), 1: set(), 2: set()}


def test_a_failure_crosses_ranks_with_its_story():
    class Mine(Exception):
        pass

    def raising():
        raise Mine("no luck")

    with Run(1, 1) as run:
        error = run.on(1, name="unlucky").submit(raising).exception()
        assert type(error) is Mine
        assert isinstance(error.__cause__, RemoteTraceback)
        assert "### unlucky (task " in str(error.__cause__)
        assert "on tile 1, rank 1, " in str(error.__cause__)
        assert 'raise Mine("no luck")' in str(error.__cause__)


def test_a_producer_that_fails_tells_consumers_that_were_placed_ahead():
    with Run(1, 1, 1, 1) as run, Gate() as gate:
        first = run.on(1, name="first").submit(lambda: fail(gate.hold("no luck")))
        gate.wait_for()
        second = [run.on(tile, name=f"second on {tile}").submit(total, first) for tile in range(4)]
        third = [run.on(3 - tile, name="third").submit(total, future) for tile, future in enumerate(second)]
        assert all(map(run.is_placed, second))
        gate.open()
        for future in second + third:
            error = future.exception()
            assert type(error) is DependencyError
            assert "it takes the value of first, which failed with ValueError: no luck" in str(error)
            assert type(error.__cause__) is ValueError
        assert type(first.exception()) is ValueError
        assert run.s.submit(abs, -1).result() == 1


def test_of_several_inputs_one_that_fails_is_enough():
    """Also if the others come later, or fail too."""
    with Run(1, 1, 1) as run, Gate() as early, Gate() as late:
        inputs = [
            run.on(0).submit(lambda: early.hold(array())),
            run.on(1, name="bad").submit(lambda: fail(early.hold("no luck"))),
            run.on(1).submit(lambda: late.hold(array())),
            run.on(0).submit(lambda: fail(late.hold("much too late"))),
        ]
        early.wait_for(2)
        consumer = run.on(2).submit(total, *inputs)
        assert run.is_placed(consumer)
        early.open()
        assert "takes the value of bad, which failed with ValueError: no luck" in str(consumer.exception())
        late.open()
        cf.wait(inputs)
        assert run.on(2).submit(total, inputs[0], inputs[2]).result() == 0


def test_what_cannot_be_pickled_is_a_value_on_its_own_rank_and_fails_elsewhere():
    with Run(1, 1, 1) as run, Gate() as gate:
        lock = run.on(1, name="lock").submit(lambda: [gate.hold(), threading.Lock()])
        gate.wait_for()
        ahead = run.on(2, name="ahead").submit(str, lock)
        own = run.on(1).submit(lambda x: x[1].locked(), lock)
        assert run.is_placed(ahead)
        gate.open()
        assert own.result() is False
        later = run.on(2, name="later").submit(str, lock)
        for name, future in (("ahead", ahead), ("later", later)):
            error = future.exception()
            assert type(error) is DependencyError
            assert str(error).startswith(
                f"{name} was not run: it takes the value of lock, which failed with TypeError: cannot pickle"
            )
            assert "sending the value of lock from rank 1" in str(error.__cause__.__cause__)
        assert lock.exception() is None
        for _ in range(2):
            with pytest.raises(TypeError, match="cannot pickle"):
                lock.result()
        with pytest.raises(TypeError, match="cannot pickle"):
            run.s.gather([lock])
        assert run.on(1).submit(lambda x: x[1].locked(), lock).result() is False


class Returns:
    """Can be pickled, but not be read again."""

    def __reduce__(self):
        return fail, ("it cannot be made here",)


def test_what_cannot_be_read_fails_where_it_is_read():
    with Run(1, 1, 1) as run:
        value = run.on(1).submit(lambda: [Returns(), array()])
        consumer = run.on(2, name="reader").submit(len, value)
        with pytest.raises(ValueError, match="it cannot be made here") as info:
            consumer.result()
        assert "### reader (task " in str(info.value.__cause__)
        with pytest.raises(ValueError, match="it cannot be made here"):
            value.result()
        with pytest.raises(ValueError, match="it cannot be made here"):
            run.on(2).submit(len, [Returns()]).result()
        assert run.on(1).submit(len, value).result() == 2


class Odd(Exception):
    def __init__(self, left, right):
        super().__init__(f"{left} and {right}")


def test_an_exception_comes_as_itself_whatever_its_constructor_takes():
    def odd():
        raise Odd(1, 2)

    with Run(1, 1) as run:
        error = run.on(1).submit(odd).exception()
        assert type(error) is Odd
        assert str(error) == "1 and 2"


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exception_that_usually_ends_a_process_does_not_end_the_rank(kind):
    def raising():
        raise kind

    with Run(1, 1) as run:
        assert type(run.on(1).submit(raising).exception()) is kind
        assert run.on(1).submit(abs, -1).result() == 1


def test_a_retry_goes_to_another_rank():
    notes = Notes()

    def second_time(value):
        notes.add(where())
        return [value[0]] if sched.current().attempt else fail()

    with Run(1, 1, 1) as run:
        value = run.on(1).submit(array, 5)
        assert run.s.options(retries=1, near=value).submit(second_time, value).result() == [5]
        assert notes.all[0] == (1, 1), "it is near its input at first"
        assert notes.all[1] != notes.all[0]
        pinned = run.on(2, retries=1).submit(second_time, value)
        assert pinned.result() == [5]
        assert notes.all[2:] == [(2, 2)] * 2


def test_a_task_that_takes_the_value_of_a_retried_one_gets_the_good_one():
    def flaky():
        return array(7) if sched.current().attempt == 2 else fail()

    with Run(1, 1, 1) as run:
        value = run.s.options(retries=2).submit(flaky)
        consumers = [run.on(tile).submit(total, value) for tile in range(3)]
        assert [future.result() for future in consumers] == [7 * LARGE] * 3


def test_other_ranks_answer_while_one_computes():
    """A rank that is inside a call still sends what others want of it."""
    with Run(1, 1, 1) as run, Gate() as gate:
        value = run.on(1).submit(array, 4)
        value.exception()
        busy = run.on(1).submit(gate.hold)
        gate.wait_for()
        assert run.on(2).submit(total, value).result(PATIENCE) == 4 * LARGE
        assert value.result(PATIENCE)[0] == 4
        assert not busy.done()


class Private(Host):
    """Only the thread that runs the calls may read arrays, as on a GPU."""

    readable = False


def test_a_value_that_cannot_be_sent_yet_is_sent_after_the_call():
    with Run(1, 1, 1, backend=Private) as run, Gate() as gate:
        value = run.on(1).submit(array, 4)
        value.exception()
        busy = run.on(1).submit(gate.hold)
        gate.wait_for()
        consumer = run.on(2).submit(total, value)
        with pytest.raises(cf.TimeoutError):
            consumer.result(0.05)
        gate.open()
        assert consumer.result() == 4 * LARGE
        assert busy.result() is None


def test_a_value_that_is_dropped_before_it_could_be_sent():
    """The task that was to have it has failed by then, because of another input."""
    with Run(1, 1, 1, backend=Private) as run, Gate() as gate, Gate() as bad_luck:
        value = run.on(1).submit(array, 4)
        value.exception()
        busy = run.on(1).submit(gate.hold)
        bad = run.on(0).submit(lambda: fail(bad_luck.hold()))
        gate.wait_for()
        bad_luck.wait_for()
        consumer = run.on(2).submit(total, value, bad)
        assert run.is_placed(consumer)
        bad_luck.open()
        assert type(consumer.exception()) is DependencyError
        ref = value.ref
        del value, bad, consumer
        run.on(2).submit(abs, -1).result()  # with this, the ranks hear that nobody wants it any more
        gate.open()
        busy.result()
        del busy
        assert run.remembered() == {0: set(), 1: set(), 2: set()}
        assert (ref, 1, 2) in run.sent(), "it was dropped for a wrong reason"


def test_work_goes_on_while_the_script_computes():
    """Messages move, and tasks follow on each other, while the script's thread is not in the scheduler."""
    reached = threading.Event()
    with Run(1, 1) as run:
        futures = [run.s.submit(array, 0)]
        for i in range(20):
            futures.append(run.on(i % 2).submit(add, futures[-1], 1.0))
        cf.Future.add_done_callback(futures[-1], lambda f: reached.set())
        assert reached.wait(PATIENCE)
        assert futures[-1].result()[0] == 20


class Scripted(Host):
    """Rank 0's tile shares the script's thread, as with arrays that only one thread may touch."""

    background = False


def thread():
    return threading.get_ident()


WAYS_TO_WAIT = {
    "result": lambda s, future: future.result(),
    "exception": lambda s, future: future.exception(),
    "numpy": lambda s, future: future.numpy(),
    "wait": lambda s, future: cf.wait([future]),
    "as_completed": lambda s, future: list(cf.as_completed([future])),
    "map": lambda s, future: list(s.map(abs, [1])),
    "gather": lambda s, future: s.gather([future]),
    "shutdown": lambda s, future: s.shutdown(),
    "done": lambda s, future: any(future.done() for _ in range(1000)),
}


@pytest.mark.parametrize("wait", WAYS_TO_WAIT.values(), ids=WAYS_TO_WAIT)
def test_a_tile_that_shares_the_scripts_thread_works_while_that_waits(wait):
    notes = Notes()
    with Run(1, backend=Scripted) as run:
        future = run.s.submit(lambda: notes.add(thread()))
        assert notes.all == []
        wait(run.s, future)
        assert future.done()
        assert notes.all == [thread()]


def test_what_others_can_do_is_done_while_the_script_computes():
    with Run(1, 1, backend=Scripted) as run, Gate() as gate:
        assert run.on(1).submit(where).result() == (1, 1)  # so the script has waited, and that is over
        others = [run.s.submit(gate.hold, [i]) for i in range(8)]
        own = run.on(0).submit(where)
        ended = threading.Semaphore(0)
        for future in others:
            cf.Future.add_done_callback(future, lambda f: ended.release())
        gate.open()
        for _ in others:
            assert ended.acquire(timeout=PATIENCE / 3), "rank 1 has not done it all by itself"
        assert not cf.Future.done(own)
        assert own.result() == (0, 0)


def test_one_thread_may_wait_for_several_runs_that_share_it():
    with Run(1, backend=Scripted) as a, Run(1, backend=Scripted) as b, Run(1, 1) as c:
        futures = [run.s.submit(where) for run in (a, b, c)]
        futures += [run.s.submit(where, future) for run, future in zip((a, b, c), futures, strict=True)]
        assert cf.wait(futures, timeout=PATIENCE).not_done == set()
        with Gate() as gate:
            late, soon = c.s.submit(gate.hold), a.s.submit(where)
            assert cf.wait([late, soon], return_when=cf.FIRST_COMPLETED).done == {soon}
            assert cf.wait([late, soon], timeout=0.01).not_done == {late}


def test_stop_while_a_rank_is_busy():
    run = Run(1, 1, 2)
    with Gate() as gate:
        busy = [run.on(tile).submit(gate.hold) for tile in (1, 2, 3)]
        gate.wait_for(3)
        run.engine.close(5, grace=0.05)
        assert run.threads[0].is_alive()
        gate.open()
    run.join()
    assert run.statuses == {1: 0, 2: 0}
    with pytest.raises(RuntimeError, match="after shutdown"):
        run.s.submit(abs, 1)
    del busy


def test_a_value_that_was_left_elsewhere_says_so_after_the_end():
    with Run(1, 1) as run:
        near, far = run.on(0).submit(array, 1), run.on(1).submit(array, 2)
        taken = run.on(1).submit(array, 3)
        assert taken.result()[0] == 3
        cf.wait([near, far])
    assert near.result()[0] == 1
    assert taken.result()[0] == 3
    with pytest.raises(sched.UsageError, match="take them before shutdown"):
        far.result()


def test_shutdown_waits_for_all_ranks():
    notes = Notes()
    with Run(1, 1, 1) as run:
        run.s.map(notes.add, range(60))
    assert sorted(notes.all) == list(range(60))


def test_nothing_is_left_on_any_rank_when_everything_is_dropped():
    with Run(1, 1, 2) as run:
        rows = [run.s.submit(array, i) for i in range(8)]
        for _ in range(3):
            rows = [run.s.submit(add, *rows[max(0, i - 1) : i + 2]) for i in range(8)]
        bad = [run.on(tile, retries=1).submit(fail) for tile in range(4)]
        worse = [run.on(3 - tile).submit(total, future) for tile, future in enumerate(bad)]
        kept = run.on(3).submit(locked)
        lost = run.on(0).submit(str, kept)
        run.s.gather(rows)
        cf.wait([*bad, *worse, kept, lost])
        del rows, bad, worse, kept, lost
        assert run.remembered() == {rank: set() for rank in range(3)}


def test_callbacks_come_from_any_rank():
    with Run(1, 1, 1) as run:
        told = deque()
        futures = [run.on(tile).submit(where) for tile in range(3)]
        for future in futures:
            future.add_done_callback(lambda f: told.append(f.result()))
        assert cf.wait(futures, timeout=PATIENCE).done == set(futures)
    assert sorted(told) == [(0, 0), (1, 1), (2, 2)]


def test_cancelling_before_a_task_has_a_tile():
    with Run(1, 1) as run, Gate() as gate:
        busy = [run.s.submit(gate.hold, i) for i in range(4)]
        waiting = [run.s.submit(array, i) for i in range(4)]
        follower = run.s.submit(total, *waiting)
        assert all(future.cancel() for future in waiting)
        assert not any(future.cancel() for future in busy)
        assert "which was cancelled" in str(follower.exception())
        gate.open()
        assert [future.result() for future in busy] == [0, 1, 2, 3]


def test_threads_of_the_script_share_a_run():
    def script(run, number, found):
        for i in range(10):
            value = run.s.submit(array, number + i)
            found.append(run.on(i % 3).submit(total, value).result())

    with Run(1, 1, 1) as run:
        results = [[] for _ in range(4)]
        threads = [threading.Thread(target=script, args=(run, n, found)) for n, found in enumerate(results)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert results == [[LARGE * float(n + i) for i in range(10)] for n in range(4)]


# -- any graph -----------------------------------------------------------------------------------------


class Boom(Exception):
    """What a task raises that is meant to."""


class Task:
    """One task of a random graph, as both sides know it."""

    def __init__(self, inputs, tile, near, failures, retries, large, priority):
        self.inputs, self.tile, self.near = inputs, tile, near
        self.failures, self.retries = failures, retries
        self.large, self.priority = large, priority


tasks = st.builds(
    Task,
    inputs=st.lists(st.integers(0, 99), max_size=3),
    tile=st.none() | st.integers(0, 99),
    near=st.none() | st.integers(0, 99),
    failures=st.sampled_from([0, 0, 0, 0, 0, 1, 2]),
    retries=st.sampled_from([0, 0, 0, 1, 2]),
    large=st.booleans(),
    priority=st.integers(-1, 1),
)


def work(number, failures, large, inputs):
    """Fail some times; then return a number that tells the inputs and their order."""
    if sched.current().attempt < failures:
        raise Boom(number)
    value = number + 1
    for one in inputs:
        value = (value * 1_000_003 + int(one[0])) % 2_147_483_647
    return np.full(1000 if large else 1, value)


def expected(graph):
    """Work out one task after the other: its value; or of which tasks one is to blame, and whether itself."""
    outcomes = []
    for number, (task, sources) in enumerate(graph):
        bad = [outcomes[i][1] for i in sources if outcomes[i][0] is None]
        if bad:
            outcomes.append((None, set().union(*bad)))
        elif task.failures > task.retries:
            outcomes.append((None, {number}))
        else:
            value = number + 1
            for i in sources:
                value = (value * 1_000_003 + outcomes[i][0]) % 2_147_483_647
            outcomes.append((value, None))
    return outcomes


def outcome(future):
    """Return the same of a future; of which tasks one is to blame, it names just one."""
    error = future.exception(PATIENCE)
    if error is None:
        value = future.result(PATIENCE)
        assert (value == value[0]).all()
        return int(value[0]), None
    if type(error) is Boom:
        return None, error.args[0]
    assert type(error) is DependencyError
    assert type(error.__cause__) is Boom
    return None, error.__cause__.args[0]


@settings(
    max_examples=120,
    derandomize=True,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    tiles=st.lists(st.integers(1, 2), min_size=1, max_size=4),
    depth=st.integers(1, 3),
    plan=st.lists(tasks, min_size=1, max_size=25),
    drop=st.booleans(),
    backend=st.sampled_from([Host, Scripted, Private]),
)
def test_any_graph_comes_to_what_it_comes_to_in_sequence(tiles, depth, plan, drop, backend):
    graph = [(task, [i % number for i in task.inputs] if number else []) for number, task in enumerate(plan)]
    outcomes = expected(graph)
    with Run(*tiles, depth=depth, backend=backend) as run:
        futures = []
        for number, (task, sources) in enumerate(graph):
            view = run.s.options(
                tile=None if task.tile is None else task.tile % len(run.ranks),
                near=futures[task.near % number] if task.near is not None and number else None,
                priority=task.priority,
                retries=task.retries,
            )
            inputs = [futures[i] for i in sources]
            futures.append(view.submit(work, number, task.failures, task.large, inputs))
        # Those whose value others take may be dropped as soon as they are submitted.
        watched = futures[-5:] if drop else futures
        first = len(futures) - len(watched)
        del futures, inputs, view
        for number, future in enumerate(watched, first):
            value, blamed = outcome(future)
            assert value == outcomes[number][0]
            assert blamed is None if value is not None else blamed in outcomes[number][1]
        times = Counter((ref, target) for ref, _, target in run.sent())
        assert all(count == 1 for count in times.values()), "a value goes to a rank once"
        del watched, future
        assert run.remembered() == {rank: set() for rank in range(len(tiles))}
