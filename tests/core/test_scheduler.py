"""The rules of the core, one sentence each."""

import gc
import random
import typing

import pytest

from sched.core import actions as actions_module, events as events_module
from sched.core.actions import Action
from sched.core.events import (
    Event,
    Failed,
    Finished,
    Released,
    Spread,
    Submitted,
    TileClosed,
    TilesOpened,
    Wanted,
)
from sched.core.graph import State, Task
from sched.core.scheduler import Scheduler
from sched.errors import ProtocolError
from tests.core.words import BIG, Core


class TestTasksFindTiles:
    def test_independent_tasks_spread_over_idle_tiles(self):
        core = Core(tiles=4)
        for task in range(4):
            assert core.submit() == [f"run {task} on {task}"]

    def test_each_tile_gets_a_second_task_for_when_the_first_ends_and_no_third(self):
        core = Core(tiles=4)
        for _ in range(9):
            core.submit()
        assert [core.tile[task] for task in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]
        assert 8 not in core.tile
        assert core.finish(2) == ["2 finished", "run 8 on 2"]

    def test_an_idle_tile_is_better_than_one_with_tasks_to_come(self):
        core = Core(tiles=3)
        core.submit(tile=1)
        core.submit(0, tile=0)
        core.submit(tile=2)
        core.finish(2)
        assert core.submit() == ["run 3 on 2"]
        assert core.submit() == ["run 4 on 0"]

    def test_depth_says_how_many(self):
        core = Core(tiles=1, depth=1)
        core.submit()
        assert core.submit() == []

    def test_a_tile_that_falls_idle_gets_the_oldest_task(self):
        core = Core(tiles=1, depth=1)
        for _ in range(3):
            core.submit()
        assert core.finish(0) == ["0 finished", "run 1 on 0"]

    def test_unless_another_has_a_higher_priority(self):
        core = Core(tiles=1, depth=1)
        core.submit()
        core.submit()
        core.submit(priority=-1)
        core.submit(priority=2)
        core.submit(priority=1)
        core.finish_all()
        assert list(core.tile) == [0, 3, 4, 1, 2]

    def test_pinned_tasks_go_to_their_tile(self):
        core = Core(tiles=4)
        assert core.submit(tile=3) == ["run 0 on 3"]
        assert core.submit(tile=3) == ["run 1 on 3"]

    def test_and_wait_for_it_though_others_are_idle(self):
        core = Core(tiles=4, depth=1)
        core.submit(tile=3)
        assert core.submit(tile=3) == []
        assert core.scheduler.has_pinned(3)
        assert core.finish(0) == ["0 finished", "run 1 on 3"]
        assert not core.scheduler.has_pinned(3)

    def test_a_cancelled_task_does_not_wait_for_its_tile(self):
        core = Core(tiles=4, depth=1)
        core.submit(tile=3)
        core.submit(tile=3)
        core.cancel(1)
        assert not core.scheduler.has_pinned(3)
        assert core.finish(0) == ["0 finished"]

    def test_a_tile_takes_its_pinned_tasks_first_and_then_those_whose_data_it_has(self):
        core = Core(tiles=2, depth=1)
        core.submit(tile=0, retries=1)
        core.submit(tile=1)
        core.submit()
        core.submit(0)
        core.submit(tile=0)
        core.finish(0)
        assert core.tile[4] == 0
        core.finish(4)
        assert core.tile[3] == 0
        core.finish(3)
        assert core.tile[2] == 0

    def test_but_a_higher_priority_counts_more_than_either(self):
        core = Core(tiles=1, depth=1)
        core.submit()
        core.submit(tile=0)
        core.submit(priority=1)
        assert core.finish(0) == ["0 finished", "run 2 on 0"]

    def test_an_idle_tile_gets_a_task_whose_data_is_small_and_elsewhere(self):
        core = Core(tiles=2)
        core.submit()
        core.finish(0, nbytes=1000)
        core.submit(tile=0)
        assert core.submit(0) == ["move 0 from 0 to 1", "run 2 on 1"]

    def test_but_large_data_keeps_it_beside_the_task_that_runs_there(self):
        core = Core(tiles=2)
        core.submit()
        core.finish(0, nbytes=BIG)
        core.submit(tile=0)
        assert core.submit(0) == ["run 2 on 0"]

    def test_a_busy_tile_is_not_sent_large_data(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        core.finish(0, nbytes=BIG)
        for tile in (0, 0, 1):
            core.submit(tile=tile)
        assert core.submit(0) == []
        assert core.submit() == ["run 5 on 1"]
        assert core.finish(1) == ["1 finished", "run 4 on 0"]

    def test_nor_does_it_ask_for_it(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        core.finish(0, nbytes=BIG)
        for tile in (0, 0, 1, 1):
            core.submit(tile=tile)
        core.submit(0)
        assert core.finish(3) == ["3 finished"]
        assert core.finish(4) == ["4 finished", "move 0 from 0 to 1", "run 5 on 1"]

    def test_but_an_idle_one_is(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        core.finish(0, nbytes=BIG)
        for tile in (0, 0, 1):
            core.submit(tile=tile)
        assert core.submit(0) == []
        assert core.finish(3) == ["3 finished", "move 0 from 0 to 1", "run 4 on 1"]

    def test_and_a_busy_one_is_sent_small_data(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        core.finish(0, nbytes=1000)
        for tile in (0, 0, 1):
            core.submit(tile=tile)
        assert core.submit(0) == ["move 0 from 0 to 1", "run 4 on 1"]

    def test_of_the_tasks_whose_data_it_has_a_tile_takes_the_one_that_lacks_least(self):
        core = Core(tiles=2, depth=1)
        core.submit(tile=0)
        core.submit(tile=1)
        core.finish(0, nbytes=BIG)
        core.finish(1, nbytes=BIG)
        core.submit(tile=0)
        core.submit(tile=1)
        core.submit(0, 1)
        core.submit(0)
        assert core.finish(2) == ["2 finished", "run 5 on 0"]

    def test_unless_another_has_a_higher_priority_even_so(self):
        core = Core(tiles=2, depth=1)
        core.submit(tile=0)
        core.submit(tile=1)
        core.finish(0, nbytes=BIG)
        core.finish(1, nbytes=BIG)
        core.submit(tile=0)
        core.submit(tile=1)
        core.submit(0)
        core.submit(0, 1, priority=1)
        assert core.finish(2) == ["2 finished", "move 1 from 1 to 0", "run 5 on 0"]

    def test_a_task_goes_where_most_of_its_data_is(self):
        core = Core(tiles=4)
        for _ in range(3):
            core.submit()
        for task, nbytes in enumerate([10, 1000, 100]):
            core.finish(task, nbytes)
        assert core.submit(0, 1, 2) == ["move 0 from 0 to 1", "move 2 from 2 to 1", "run 3 on 1"]

    def test_copies_count_as_data(self):
        core = Core(tiles=4)
        core.submit(tile=0)
        core.submit(tile=1)
        core.finish(0, nbytes=1000)
        core.finish(1, nbytes=10)
        core.submit(0, 1, tile=1)
        core.finish(2, nbytes=500)
        assert core.submit(0, 2) == ["run 3 on 1"]

    def test_tiles_of_one_rank_share_its_values(self):
        core = Core(ranks=[0, 0, 1])
        core.submit(tile=0)
        core.finish(0)
        assert core.submit(0, tile=1) == ["run 1 on 1"]
        assert core.submit(0, tile=2) == ["move 0 from 0 to 1", "run 2 on 2"]

    def test_at_most_eight_tiles_are_compared_but_not_the_same_eight_for_all(self):
        core = Core(tiles=20)
        for _ in range(20):
            core.submit()
        for _ in range(20):
            core.submit(*range(20))
        assert sorted(core.tile[task] for task in range(20, 40)) == list(range(20))


class TestTasksArePlacedAhead:
    def test_a_task_follows_its_input_before_that_is_there(self):
        core = Core(tiles=2)
        core.submit()
        assert core.submit(0) == ["run 1 on 0"]
        assert core.finish(0) == ["0 finished"]

    def test_a_chain_stays_on_its_tile_and_nothing_moves(self):
        core = Core(tiles=4)
        core.submit()
        for task in range(20):
            core.submit(task)
        core.finish_all()
        assert set(core.tile.values()) == {0}
        assert core.said_about("move") == []

    def test_also_when_every_tile_has_one(self):
        core = Core(tiles=4)
        for chain in range(4):
            core.submit()
            for _ in range(9):
                core.submit(core.next_task - 1)
            assert {core.tile[task] for task in core.tile if task // 10 == chain} == {chain}
        core.finish_all()
        assert core.said_about("move") == []

    def test_the_inputs_from_elsewhere_are_on_their_way_before_they_are_there(self):
        core = Core(tiles=2)
        core.submit()
        core.submit()
        assert core.submit(0, 1) == ["move 1 from 1 to 0", "run 2 on 0"]

    def test_not_after_a_task_that_may_be_tried_again(self):
        core = Core(tiles=2)
        core.submit(retries=1)
        assert core.submit(0) == []
        assert core.finish(0) == ["0 finished", "run 1 on 0"]

    def test_but_after_its_last_attempt(self):
        core = Core(tiles=2)
        core.submit(retries=1)
        core.submit(0)
        assert core.fail(0) == ["free 0 on 0", "run 0 on 1 again", "run 1 on 1"]

    def test_or_after_it_has_finished_while_another_input_is_still_computed(self):
        core = Core(tiles=2)
        core.submit(tile=0, retries=1)
        core.submit(tile=1)
        assert core.submit(0, 1) == []
        assert core.finish(0) == ["0 finished", "move 1 from 1 to 0", "run 2 on 0"]

    def test_one_consumer_goes_ahead_and_the_others_find_idle_tiles(self):
        core = Core(tiles=4)
        core.submit()
        said = [core.submit(0) for _ in range(4)]
        assert said == [["run 1 on 0"], [], [], []]
        assert core.finish(0) == [
            "0 finished",
            "move 0 from 0 to 1",
            "run 2 on 1",
            "move 0 from 0 to 2",
            "run 3 on 2",
            "move 0 from 1 to 3",
            "run 4 on 3",
        ]

    def test_a_value_that_is_there_has_no_heirs(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        core.submit(0)
        core.finish(0, nbytes=BIG)
        core.submit(tile=1)
        assert core.submit(0, 2) == ["move 2 from 1 to 0", "run 3 on 0"]

    def test_a_tile_has_no_more_than_depth_before_it_takes_one_ahead(self):
        core = Core(tiles=1)
        core.submit()
        for task in range(5):
            core.submit(task)
        assert list(core.tile) == [0, 1, 2]
        core.finish(0)
        assert list(core.tile) == [0, 1, 2, 3]

    def test_tasks_ahead_leave_room_for_work_that_can_be_done(self):
        core = Core(tiles=2, depth=1)
        core.submit(tile=1)
        core.submit(tile=0)
        core.submit(0, 1, tile=0)
        assert core.finish(1) == ["1 finished"]
        assert core.submit() == ["run 3 on 0"]

    def test_a_tile_with_less_to_do_gets_it_if_it_makes_at_least_half_as_much(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        core.submit(tile=0)
        core.submit(tile=1)
        moves = ["move 0 from 0 to 1", "move 1 from 0 to 1"]
        assert core.submit(0, 1, 2) == [*moves, "run 3 on 1"]

    def test_a_large_input_holds_on_to_it(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        core.finish(0, nbytes=BIG)
        core.submit(tile=1)
        core.submit(tile=0)
        core.submit(tile=0)
        assert core.submit(0, 1) == ["move 1 from 1 to 0", "run 4 on 0"]

    def test_a_pinned_task_too(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        assert core.submit(0, tile=1) == ["move 0 from 0 to 1", "run 1 on 1"]

    def test_a_stencil_moves_two_halos_per_tile_and_step(self):
        width, steps = 6, 10
        core = Core(tiles=width)
        row = [core.next_task + i for i in range(width)]
        for _ in row:
            core.submit()
        for _ in range(steps):
            for i in range(width):
                core.submit(*row[max(0, i - 1) : i + 2])
            row = [task + width for task in row]
        core.finish_all()
        assert len(core.said_about("run")) == width * (1 + steps)
        assert len(core.said_about("move")) == steps * 2 * (width - 1)
        rows = [{core.tile[step * width + i] for i in range(width)} for step in range(1 + steps)]
        assert all(len(tiles) == width for tiles in rows), "each tile has one task of each row"


class TestNear:
    def test_a_task_is_placed_beside_another_without_its_value(self):
        core = Core(tiles=4)
        core.submit(tile=2)
        core.finish(0)
        assert core.submit(near=0) == ["run 1 on 2"]
        assert core.release(0) == ["free 0 on 2"]

    def test_though_that_tile_is_busy_and_others_are_idle(self):
        core = Core(tiles=4)
        core.submit(tile=2)
        assert core.submit(near=0) == ["run 1 on 2"]

    def test_beside_outweighs_all_bytes(self):
        core = Core(tiles=4)
        core.submit(tile=2)
        core.submit(tile=1)
        core.finish(0)
        core.finish(1, nbytes=BIG)
        assert core.submit(1, near=0) == ["move 1 from 1 to 2", "run 2 on 2"]

    def test_it_is_ahead_there_or_nowhere(self):
        core = Core(tiles=3)
        core.submit(tile=0)
        core.submit(tile=2)
        core.submit(0, near=1)
        core.submit(tile=2)
        assert core.submit(0, near=1) == []
        assert core.finish(1) == ["1 finished", "run 4 on 2"]

    def test_it_waits_until_the_other_has_a_place(self):
        core = Core(tiles=2, depth=1)
        core.submit(tile=1)
        core.submit(tile=1)
        assert core.submit(near=1) == []
        assert core.finish(0) == ["0 finished", "run 1 on 1", "run 2 on 0"]

    def test_and_until_it_will_keep_that_place(self):
        core = Core(tiles=2)
        core.submit(tile=1, retries=1)
        assert core.submit(near=0) == []
        assert core.finish(0) == ["0 finished", "run 1 on 1"]

    def test_it_goes_anywhere_when_the_other_never_gets_one(self):
        core = Core(tiles=2, depth=1)
        core.submit(tile=1)
        core.submit(tile=1)
        core.submit(near=1)
        assert core.cancel(1) == ["1 cancelled", "run 2 on 0"]

    def test_or_is_forgotten(self):
        core = Core(tiles=2)
        core.submit()
        core.finish(0)
        core.release(0)
        assert core.submit(near=0) == ["run 1 on 1"]

    def test_a_cancelled_task_follows_no_more(self):
        core = Core(tiles=2)
        core.submit(tile=1, retries=1)
        core.submit(near=0)
        core.cancel(1)
        assert core.finish(0) == ["0 finished"]

    def test_a_task_can_be_both_input_and_neighbour(self):
        core = Core(tiles=2)
        core.submit(tile=1, retries=1)
        assert core.submit(0, near=0) == []
        assert core.finish(0) == ["0 finished", "run 1 on 1"]

    def test_a_waiting_task_can_be_ahead_beside_a_stranger(self):
        core = Core(tiles=3)
        core.submit(tile=0)
        core.submit(tile=2)
        assert core.submit(0, near=1) == ["move 0 from 0 to 2", "run 2 on 2"]


class TestTilesOnDemand:
    def test_they_get_nothing_until_they_open(self):
        core = Core(tiles=1, on_demand=[0])
        assert core.submit() == []
        assert core.tell(TilesOpened((0,))) == ["run 0 on 0"]

    def test_then_one_task_and_no_more(self):
        core = Core(tiles=1, on_demand=[0])
        core.submit()
        core.submit()
        core.tell(TilesOpened((0,)))
        assert core.finish(0) == ["0 finished"]
        assert core.tell(TilesOpened((0,))) == ["run 1 on 0"]

    def test_also_a_task_that_comes_while_they_are_open(self):
        core = Core(tiles=1, on_demand=[0])
        assert core.tell(TilesOpened((0,))) == []
        assert core.submit() == ["run 0 on 0"]
        assert core.submit() == []

    def test_of_several_that_open_each_has_the_tasks_whose_data_is_there(self):
        core = Core(tiles=3, on_demand=[0, 1, 2], ranks=[0, 0, 0])
        for tile in (2, 1):
            core.submit(tile=tile)
        core.tell(TilesOpened((0, 1, 2)))
        core.finish(0, nbytes=10)
        core.finish(1, nbytes=10)
        core.close(0)
        for source in (0, 1):
            core.submit(source)
        assert core.tell(TilesOpened((0, 1, 2))) == ["run 2 on 2", "run 3 on 1"]

    def test_and_others_have_what_is_left(self):
        core = Core(tiles=2, on_demand=[0, 1], ranks=[0, 0])
        core.submit(tile=1)
        core.tell(TilesOpened((0, 1)))
        core.finish(0)
        core.close(0)
        for _ in range(2):
            core.submit(0)
        assert core.tell(TilesOpened((0, 1))) == ["run 1 on 1", "run 2 on 0"]

    def test_nothing_after_they_close(self):
        core = Core(tiles=1, on_demand=[0])
        core.tell(TilesOpened((0,)))
        assert core.tell(TileClosed(0)) == []
        assert core.submit() == []

    def test_nothing_ahead(self):
        core = Core(tiles=2, on_demand=[0])
        core.submit(tile=0)
        core.tell(TilesOpened((0,)))
        assert core.submit(0) == []
        assert core.submit(0, tile=0) == []

    def test_other_tiles_do_the_work_meanwhile(self):
        core = Core(tiles=2, on_demand=[0])
        assert core.submit() == ["run 0 on 1"]
        assert core.submit() == []
        assert core.submit() == ["run 1 on 1"]
        assert core.finish(0) == ["0 finished"]
        assert core.finish(1) == ["1 finished", "run 2 on 1"]

    def test_one_task_is_kept_for_it_that_would_be_second_elsewhere(self):
        core = Core(tiles=3, on_demand=[0])
        for _ in range(3):
            core.submit()
        assert core.tell(TilesOpened((0,))) == ["run 2 on 0"]
        assert sorted(core.tile.values()) == [0, 1, 2]

    def test_but_not_from_a_tile_that_has_run_out_of_work(self):
        core = Core(tiles=2, on_demand=[0])
        core.submit()
        core.submit()
        assert core.finish(0) == ["0 finished", "run 1 on 1"]


class TestValues:
    def test_a_value_goes_to_a_rank_once_for_all_its_tasks(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        core.submit(0, tile=1)
        core.submit(0, tile=1)
        core.finish_all()
        core.submit(0, tile=1)
        assert core.said_about("move") == ["move 0 from 0 to 1"]

    def test_it_comes_from_the_rank_that_made_it_though_others_have_a_copy(self):
        core = Core(tiles=3)
        core.submit(tile=0)
        core.submit(0, tile=1)
        core.finish_all()
        assert core.submit(0, tile=2) == ["move 0 from 0 to 2", "run 2 on 2"]

    def test_a_wanted_value_is_sent_to_the_driver(self):
        core = Core(tiles=2)
        core.submit(tile=1)
        core.finish(0)
        assert core.want(0) == ["move 0 from 1 to 0"]
        assert core.want(0) == []

    def test_even_before_it_is_there(self):
        core = Core(tiles=2)
        core.submit(tile=1)
        assert core.want(0) == ["move 0 from 1 to 0"]

    def test_or_before_it_has_a_place(self):
        core = Core(tiles=2, depth=1)
        core.submit(tile=1)
        core.submit(tile=1)
        assert core.want(1) == []
        assert core.finish(0) == ["0 finished", "run 1 on 1", "move 1 from 1 to 0"]

    def test_but_not_from_a_place_that_it_may_not_keep(self):
        core = Core(tiles=2)
        core.submit(tile=1, retries=1)
        assert core.want(0) == []
        assert core.finish(0) == ["0 finished", "move 0 from 1 to 0"]

    def test_it_does_not_go_where_it_is(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        assert core.want(0) == []

    def test_a_released_value_is_freed_on_every_rank_once(self):
        core = Core(tiles=3)
        core.submit(tile=1)
        core.submit(0, tile=2)
        core.want(0)
        core.finish_all()
        assert core.release(0) == ["free 0 on 0", "free 0 on 1", "free 0 on 2"]
        assert core.scheduler.state(0) is None

    def test_not_before_the_last_task_that_takes_it_has_ended(self):
        core = Core(tiles=1)
        core.submit()
        core.submit(0)
        core.submit(0)
        core.finish(0)
        assert core.release(0) == []
        assert core.finish(1) == ["1 finished"]
        assert core.finish(2) == ["2 finished", "free 0 on 0"]

    def test_nor_before_it_is_there(self):
        core = Core(tiles=1)
        core.submit()
        assert core.release(0) == []
        assert core.finish(0) == ["0 finished", "free 0 on 0"]
        assert len(core.scheduler) == 0

    def test_a_named_value_stays(self):
        core = Core(tiles=1)
        core.submit()
        core.finish(0)
        core.submit(0)
        core.finish(1)
        assert core.said_about("free") == []
        assert len(core.scheduler) == 2

    def test_a_consumer_may_be_heard_of_before_its_input(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        core.submit(0, tile=1)
        core.release(0)
        assert core.finish(1) == ["1 finished"]
        assert core.finish(0) == ["0 finished", "free 0 on 0", "free 0 on 1"]


class TestFailing:
    def test_what_waits_for_a_failed_task_fails_and_names_the_first_cause(self):
        core = Core(tiles=1, depth=1)
        core.submit(retries=0)
        core.submit(tile=0)
        core.submit(1)
        core.submit(2)
        core.finish(0)
        assert core.fail(1)[0] == "1 failed"
        # Task 2 was placed already: its rank will tell.
        assert core.fail(2, cause=1) == ["2 failed because of 1", "3 failed because of 1"]

    def test_all_of_it_at_once_if_it_has_no_place(self):
        core = Core(tiles=1, depth=1)
        core.submit(retries=1)
        core.submit(0)
        core.submit(1)
        core.submit(0, 2)
        assert core.cancel(1) == ["1 cancelled", "2 failed because of 1", "3 failed because of 1"]

    def test_each_once_though_it_hears_of_it_on_two_ways(self):
        core = Core(tiles=1, depth=1)
        core.submit(retries=1)
        core.submit(0)
        core.submit(1)
        core.submit(1, 2)
        assert core.cancel(1) == ["1 cancelled", "2 failed because of 1", "3 failed because of 1"]

    def test_a_task_with_an_input_that_failed_fails_at_once(self):
        core = Core(tiles=1)
        core.submit()
        core.fail(0)
        assert core.submit(0) == ["1 failed because of 0"]
        assert core.submit(1) == ["2 failed because of 0"]

    def test_its_other_inputs_are_let_go(self):
        core = Core(tiles=1)
        core.submit()
        core.submit()
        core.fail(0)
        core.submit(0, 1)
        assert core.finish(1) == ["1 finished"]
        assert core.release(1) == ["free 1 on 0"]

    def test_the_ranks_forget_that_there_is_no_value(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        core.submit(0, tile=1)
        core.release(0)
        core.release(1)
        assert core.fail(0) == ["0 failed"]
        assert core.fail(1, cause=0) == ["1 failed because of 0", "free 0 on 0", "free 0 on 1", "free 1 on 1"]

    def test_a_consumer_may_be_heard_of_first(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        core.submit(0, tile=1)
        core.submit(1)
        assert core.fail(1, cause=0) == ["1 failed because of 0"]
        assert core.fail(0) == ["0 failed"]
        assert core.fail(2, cause=0) == ["2 failed because of 0"]

    def test_other_tasks_go_on(self):
        core = Core(tiles=1, depth=1)
        core.submit()
        core.submit()
        assert core.fail(0) == ["0 failed", "run 1 on 0"]

    def test_a_chain_of_100_000_fails_without_recursion(self):
        core = Core(tiles=1, depth=1)
        core.submit(retries=1)
        for task in range(100_000):
            core.submit(task)
        core.cancel(1)
        assert len(core.said_about("100000 failed because of 1")) == 1
        core.finish(0)
        for task in range(100_001):
            core.release(task)
        assert len(core.scheduler) == 0


class TestRetrying:
    def test_a_task_is_tried_again_elsewhere(self):
        core = Core(tiles=2)
        core.submit(retries=1)
        assert core.fail(0) == ["free 0 on 0", "run 0 on 1 again"]

    def test_with_the_inputs_brought_there(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        core.finish(0)
        core.submit(0, retries=1)
        assert core.fail(1) == ["free 1 on 0", "move 0 from 0 to 1", "run 1 on 1 again"]

    def test_however_large_they_are(self):
        core = Core(tiles=2)
        core.submit(tile=0)
        core.finish(0, nbytes=BIG)
        core.submit(tile=1)
        core.submit(0, retries=1)
        assert core.fail(2) == ["free 2 on 0", "move 0 from 0 to 1", "run 2 on 1 again"]

    def test_and_of_equally_busy_tiles_where_they_are(self):
        core = Core(tiles=3)
        core.submit(tile=1)
        core.finish(0)
        core.submit(tile=2)
        core.submit(tile=1)
        core.submit(0, retries=1)
        assert core.tile[3] == 0
        assert core.fail(3) == ["free 3 on 0", "run 3 on 1 again"]

    def test_or_in_the_same_place_if_there_is_no_other(self):
        core = Core(tiles=1)
        core.submit(retries=1)
        assert core.fail(0) == ["free 0 on 0", "run 0 on 0 again"]

    def test_or_if_it_is_pinned(self):
        core = Core(tiles=2)
        core.submit(tile=0, retries=1)
        assert core.fail(0) == ["free 0 on 0", "run 0 on 0 again"]

    def test_or_if_no_other_has_room(self):
        core = Core(tiles=2, depth=1)
        core.submit(retries=1)
        core.submit(tile=1)
        core.submit()
        assert core.fail(0) == ["free 0 on 0", "run 0 on 0 again"]

    def test_not_more_often_than_asked_for(self):
        core = Core(tiles=2)
        core.submit(retries=2)
        core.fail(0)
        assert core.scheduler.state(0) is State.PLACED
        core.fail(0)
        assert core.fail(0) == ["0 failed"]
        assert core.scheduler.state(0) is State.FAILED

    def test_not_because_an_input_failed(self):
        core = Core(tiles=1)
        core.submit()
        core.submit(0, retries=5)
        core.fail(0)
        assert core.fail(1, cause=0) == ["1 failed because of 0"]

    def test_not_before_it_is_known_that_its_inputs_are_there(self):
        core = Core(tiles=2)
        core.submit()
        core.submit()
        core.submit(0, 1, retries=1)
        core.finish(0)
        assert core.fail(2) == ["free 2 on 0"]
        assert core.finish(1) == ["1 finished", "move 0 from 0 to 1", "run 2 on 1 again"]

    def test_and_then_in_the_same_place_if_there_is_no_other(self):
        core = Core(tiles=2, on_demand=[1])
        core.submit()
        core.tell(TilesOpened((1,)))
        core.submit(tile=1)
        core.submit(0, 1, retries=1)
        core.finish(0)
        assert core.fail(2) == ["free 2 on 0"]
        assert core.finish(1) == ["1 finished", "run 2 on 0 again"]

    def test_it_may_be_cancelled_in_between(self):
        core = Core(tiles=1, depth=1)
        core.submit(retries=1)
        core.submit(priority=1)
        assert core.fail(0) == ["free 0 on 0", "run 1 on 0"]
        assert core.cancel(0) == ["0 cancelled"]
        assert core.release(0) == []
        assert core.scheduler.state(0) is None


class TestCancelling:
    def test_a_waiting_task_is_not_run(self):
        core = Core(tiles=1, depth=1)
        core.submit()
        core.submit()
        assert core.cancel(1) == ["1 cancelled"]
        assert core.finish(0) == ["0 finished"]

    def test_what_needs_it_fails(self):
        core = Core(tiles=1, depth=1)
        core.submit()
        core.submit()
        core.submit(1)
        assert core.cancel(1) == ["1 cancelled", "2 failed because of 1"]

    @pytest.mark.parametrize("late", ["placed", "ended", "cancelled", "forgotten"])
    def test_it_can_be_too_late(self, late):
        core = Core(tiles=1, depth=1)
        core.submit()
        core.submit()
        if late == "cancelled":
            core.cancel(1)
            assert core.cancel(1) == []
            return
        if late != "placed":
            core.finish(0)
        if late == "forgotten":
            core.release(0)
        assert core.cancel(0) == []


IMPOSSIBLE = {
    "submitted twice": Submitted(0),
    "pinned to a tile that is not there": Submitted(5, tile=2),
    "pinned to a tile below zero": Submitted(5, tile=-1),
    "takes a forgotten value": Submitted(5, (9,)),
    "finished before it ran": Finished(2, 0),
    "finished twice": Finished(0, 0),
    "failed before it ran": Failed(2),
    "failed after it finished": Failed(0),
    "finished, and never submitted": Finished(9, 0),
    "released, and never submitted": Released(9),
    "released twice": Released(0),
    "wanted after it was released": Wanted(9),
    "spread after it was released": Spread(0),
    "spread, and forgotten": Spread(9),
    "on no tile": Submitted(5, tiles=0),
    "on more tiles than there are": Submitted(5, tiles=3),
    "opened, and does not work on demand": TilesOpened((1,)),
    "closed, and does not work on demand": TileClosed(1),
    "opened, and is not there": TilesOpened((7,)),
}


class TestTheImpossible:
    @pytest.mark.parametrize("event", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
    def test_is_a_bug_of_the_caller_and_changes_nothing(self, event):
        core = Core(tiles=2, depth=1, on_demand=[0])
        core.submit()
        core.finish(0)
        core.submit(0)
        core.submit()
        core.release(0)
        before = len(core.scheduler), [core.scheduler.state(task) for task in range(10)]
        with pytest.raises(ProtocolError, match=r"\d"):
            core.tell(event)
        assert before == (len(core.scheduler), [core.scheduler.state(task) for task in range(10)])
        assert core.finish(1) == ["1 finished", "free 0 on 1", "run 2 on 1"]


class TestTheVocabulary:
    @pytest.mark.parametrize("event", typing.get_args(Event))
    def test_every_event_is_handled(self, event):
        assert event in Scheduler([0])._on

    def test_nothing_else_is(self):
        assert set(Scheduler([0])._on) == set(typing.get_args(Event))

    @pytest.mark.parametrize("word", [*typing.get_args(Event), *typing.get_args(Action)])
    def test_every_word_is_explained(self, word):
        assert word.__doc__
        assert not word.__doc__.startswith(word.__name__), "that is what NamedTuple writes itself"

    @pytest.mark.parametrize("module", [events_module, actions_module])
    def test_every_word_of_a_module_is_in_its_union(self, module):
        words = {
            x for x in vars(module).values() if hasattr(x, "_fields") and x.__module__ == module.__name__
        }
        assert words == set(typing.get_args(Event if module is events_module else Action))


def test_nothing_of_a_forgotten_task_is_kept():
    def tasks():
        gc.collect()
        return sum(type(thing) is Task for thing in gc.get_objects())

    before = tasks()
    core = Core(tiles=3)
    for task in range(300):
        core.submit(*range(max(0, task - 3), task - 1), near=task - 1, retries=task % 2)
    core.cancel(299)
    core.finish_all()
    for task in range(299):
        core.release(task)
    assert tasks() == before + 1
    core.release(299)
    assert tasks() == before


def test_the_same_events_give_the_same_actions():
    def story():
        chance = random.Random(7)
        core = Core(tiles=5)
        for task in range(200):
            inputs = {chance.randrange(task) for _ in range(min(task, 3))}
            core.submit(*sorted(inputs), priority=chance.randrange(3), retries=chance.randrange(2))
        core.finish_all()
        return core.said

    assert story() == story()
