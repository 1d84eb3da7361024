"""Producers do not outrun consumers."""

from tests.core.words import Core


def full(*, tiles=2, depth=1, producers=6):
    """Producers, more than the tiles take, for a budget of 10 bytes."""
    core = Core(tiles, depth=depth, budget=10)
    for _ in range(producers):
        core.submit()
    return core


class TestTheBudget:
    def test_does_not_count_while_nothing_is_taken(self):
        core = full()
        assert core.finish(0, nbytes=10) == ["0 finished", "run 2 on 0"]
        core.submit(*range(6))
        assert core.finish(2, nbytes=10) == ["2 finished", "run 3 on 0"]

    def test_keeps_a_tile_from_producing_while_a_task_takes_something(self):
        core = full(depth=2)
        assert core.submit(0, tile=0) == ["run 6 on 0"]
        core.finish(0, nbytes=10)
        assert core.finish(2, nbytes=10) == ["2 finished"]
        assert core.finish(1) == ["1 finished", "run 4 on 1"]

    def test_wakes_a_tile_that_is_below_it_again(self):
        core = full(depth=2)
        core.submit(0, tile=0)
        core.submit(1, tile=1)
        core.finish(0, nbytes=10)
        core.finish(2)
        assert core.finish(6) == ["6 finished", "run 4 on 0", "run 5 on 0"]

    def test_counts_what_is_asked_for_later(self):
        core = Core(2, depth=1, budget=10)
        core.submit(tile=0)
        core.finish(0, nbytes=10)
        core.submit(tile=1)
        core.submit(1, tile=1)
        core.submit(0, tile=1)
        assert core.submit() == []
        assert core.cancel(3) == ["3 cancelled", "run 4 on 0"]

    def test_is_no_reason_to_keep_a_task_with_inputs(self):
        core = Core(1, depth=2, budget=10)
        core.submit()
        core.submit(0)
        core.submit(0)
        assert core.finish(0, nbytes=10) == ["0 finished", "run 2 on 0"]
        assert core.submit() == []
        assert core.submit(0) == []
        assert core.finish(1) == ["1 finished", "run 4 on 0"]

    def test_nor_one_that_is_pinned(self):
        core = Core(1, depth=2, budget=10)
        core.submit()
        core.submit(0)
        core.finish(0, nbytes=10)
        assert core.submit(tile=0) == ["run 2 on 0"]

    def test_nor_a_reason_to_go_elsewhere_only_to_wait(self):
        core = Core(2, depth=1, budget=10)
        core.submit(tile=0)
        core.submit(0, tile=0)
        core.submit(0, tile=0)
        core.finish(0, nbytes=10)
        assert core.submit(near=0) == ["run 3 on 1"]

    def test_does_not_count_when_the_last_task_that_takes_something_has_ended(self):
        core = Core(2, depth=1, budget=10)
        core.submit(tile=0)
        core.finish(0, nbytes=10)
        core.submit(tile=1)
        core.submit(1, tile=1)
        core.submit(0, tile=1)
        core.submit()
        core.submit(0, 4)
        core.submit(tile=1)
        assert core.cancel(3) == ["3 cancelled"]
        assert core.finish(1) == ["1 finished"]
        assert core.finish(2) == ["2 finished", "run 6 on 1", "run 4 on 0", "run 5 on 0"]


class TestSourcesThatWait:
    def test_keep_nobody_from_what_comes_after_them(self):
        core = Core(2, depth=1, budget=10)
        core.submit(tile=0)
        core.finish(0, nbytes=10)
        core.submit(0, tile=0)
        core.submit(tile=1)
        core.submit()
        core.submit(0)
        assert core.finish(1) == ["1 finished", "run 4 on 0"]
        assert core.finish(2) == ["2 finished", "run 3 on 1"]

    def test_come_in_their_order_with_tasks_that_have_inputs(self):
        core = Core(1, depth=1, budget=1000)
        core.submit(retries=1)
        core.submit()
        core.submit(0)
        core.submit(priority=1)
        core.submit()
        core.finish_all()
        assert list(core.tile) == [0, 3, 2, 1, 4]

    def test_may_be_cancelled(self):
        core = Core(1, depth=1, budget=10)
        core.submit()
        core.finish(0, nbytes=10)
        core.submit(0)
        core.submit()
        core.cancel(2)
        assert core.finish(1) == ["1 finished"]

    def test_are_as_many_second_ones_as_without_a_budget(self):
        plain, budgeted = Core(3, on_demand=[0]), Core(3, on_demand=[0], budget=1000)
        for core in (plain, budgeted):
            for _ in range(9):
                core.submit()
            core.open(0)
            core.finish_all()
        assert plain.said == budgeted.said
