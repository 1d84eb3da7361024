"""Values that are brought together, or placed ahead of time."""

import numpy as np
import pytest

from sched.errors import RequestError
from sched.model import Ref
from sched.runtime.exchange import TOGETHER, _batches
from sched.runtime.messages import Packed, Value
from tests.gates import PATIENCE
from tests.runtime.ranks import Run
from tests.runtime.values import LARGE, MANY, SIZE, fail, first, full, on_host, spread_out, tile_of

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


def test_but_not_more_of_it_than_those_behind_may_have_to_wait_for(monkeypatch):
    monkeypatch.setattr("sched.runtime.exchange.TOGETHER", 2 * SIZE)
    with Run(1, 1) as run:
        parts = [run.on(1).submit(full, i) for i in range(6)]
        run.engine.wait(run.engine.idle, PATIENCE)
        assert [first(x) for x in run.s.gather(parts)] == list(range(6))
        assert (run.wires[1].messages[Value], run.wires[1].said[Value]) == (3, 6)


def test_one_large_value_keeps_no_others_from_their_rank():
    small, large = (Packed(bytes(n)) for n in (10, TOGETHER + 1))
    values = [
        (rank, Value(Ref(i), "", p)) for i, (rank, p) in enumerate([(1, small), (2, large), (1, small)])
    ]
    assert [(rank, [value.ref for value in batch]) for rank, batch in _batches(values)] == [
        (2, [1]),
        (1, [0, 2]),
    ]


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
