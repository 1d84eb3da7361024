"""Tasks on several tiles at the same time."""

import pytest

from tests.core.words import BIG, Core

TWO_ON_A_CARD = [(0, tile // 2) for tile in range(12)]
"""Six cards of one node."""


def busy(*tiles, count=6, **settings):
    """Some tiles of many are full: two tasks each, numbered in the order of the tiles."""
    core = Core(count, **settings)
    for tile in tiles:
        core.submit(tile=tile)
        core.submit(tile=tile)
    return core


class TestAGang:
    def test_has_all_of_its_tiles_at_once(self):
        core = Core(ranks=[0, 0, 0])
        assert core.submit(tiles=2) == ["run 0 on 0+1 for 0"]

    def test_is_run_by_each_of_its_ranks_the_lead_first(self):
        core = Core(ranks=[0, 0, 1, 1])
        assert core.submit(tiles=3, tile=2) == ["run 0 on 2 for 1+0", "run 0 on 0+1 for 1+0"]

    def test_has_its_inputs_on_all_of_them_and_its_value_on_the_lead(self):
        core = Core(3)
        core.submit(tile=0)
        core.finish(0)
        assert core.submit(0, tiles=3) == [
            "move 0 from 0 to 1",
            "move 0 from 0 to 2",
            "run 1 on 0 for 0+1+2",
            "run 1 on 1 for 0+1+2",
            "run 1 on 2 for 0+1+2",
        ]
        assert core.finish(1) == ["1 finished"]
        assert core.release(1) == ["free 1 on 0"]

    def test_has_them_to_itself_until_it_ends(self):
        core = Core(2)
        core.submit(tiles=2)
        assert core.submit() == []
        assert core.submit(0) == []
        assert core.submit(0, tile=0) == []
        assert core.finish(0)[0] == "0 finished"
        assert set(core.tile) == {0, 1, 2, 3}

    def test_waits_for_its_inputs(self):
        core = Core(2)
        core.submit()
        assert core.submit(0, tiles=2) == []
        assert core.finish(0) == ["0 finished", "move 0 from 0 to 1", *runs(1, 0, 1)]

    def test_waits_for_its_neighbour_to_have_a_place(self):
        core = Core(3, depth=1)
        core.submit(tile=2)
        core.submit(tile=2)
        assert core.submit(near=1, tiles=2) == []
        assert core.finish(0) == ["0 finished", "run 1 on 2"]
        assert core.finish(1) == ["1 finished", *runs(2, 2, 1)]

    def test_may_be_followed_by_tasks_ahead_elsewhere(self):
        core = Core(3)
        core.submit(tiles=2)
        assert core.submit(0, tile=2) == ["move 0 from 0 to 2", "run 1 on 2"]

    def test_of_one_tile_is_an_ordinary_task(self):
        assert Core(2).submit(tiles=1) == ["run 0 on 0"]

    def test_fails_and_what_takes_its_value_fails_with_it(self):
        core = Core(2)
        core.submit(tiles=2)
        core.submit(0)
        assert core.fail(0) == ["0 failed", "1 failed because of 0"]
        assert core.submit() == ["run 2 on 0"]

    def test_is_tried_again_with_another_lead(self):
        core = Core(2)
        core.submit(tiles=2, retries=1)
        assert core.fail(0) == ["free 0 on 0", *(f"{run} again" for run in runs(0, 1, 0))]

    def test_and_without_the_old_one_if_there_are_others(self):
        core = Core(12, places=TWO_ON_A_CARD)
        core.submit(tiles=2, retries=1)
        assert core.tiles[0] == (0, 1)
        core.fail(0)
        assert core.tiles[0] == (2, 3)

    def test_but_in_the_same_place_if_it_is_pinned(self):
        core = Core(3)
        core.submit(tiles=2, tile=1, retries=1)
        core.fail(0)
        assert core.tile[0] == 1


def runs(task, lead, *others):
    """What is said of a gang with one tile of each rank."""
    ranks = "+".join(map(str, [lead, *sorted(others)]))
    return [f"run {task} on {tile} for {ranks}" for tile in [lead, *sorted(others)]]


class TestCollecting:
    def test_tiles_take_nothing_new_until_the_gang_runs(self):
        core = busy(0, 1, count=2)
        assert core.submit(tiles=2) == []
        assert core.submit(priority=9) == []
        assert core.submit(tile=0, priority=9) == []
        for task in range(3):
            assert core.finish(task) == [f"{task} finished"]
        assert core.finish(3) == ["3 finished", *runs(4, 0, 1)]

    def test_nor_anything_ahead(self):
        core = Core(2)
        core.submit(tile=0)
        core.submit(tile=1)
        core.submit(tiles=2)
        assert core.submit(0) == []
        assert core.submit(0, 1, tile=1) == []

    def test_what_was_there_before_runs_to_its_end(self):
        core = Core(2)
        core.submit(tile=0)
        core.submit(0, tile=1)
        core.submit(1, tile=0)
        core.submit(tiles=2)
        core.finish(0)
        core.finish(1)
        assert core.finish(2) == ["2 finished", *runs(3, 0, 1)]

    def test_also_if_it_is_tried_again(self):
        core = Core(2)
        core.submit(tile=0, retries=1)
        core.submit(tiles=2)
        assert core.fail(0) == ["free 0 on 0", *runs(1, 0, 1)]
        assert core.finish(1) == ["1 finished", "run 0 on 0 again"]

    def test_the_other_tiles_go_on(self):
        core = busy(0, 1, 2, count=3)
        core.submit(tiles=2)
        core.submit()
        assert core.finish(4) == ["4 finished", "run 7 on 2"]

    def test_one_gang_collects_at_a_time(self):
        core = busy(0, 1, 2, 3, count=4)
        core.submit(tiles=2)
        core.submit(tiles=2)
        core.submit()
        assert core.finish(4) == ["4 finished", "run 10 on 2"]

    def test_the_first_by_priority_and_then_by_age(self):
        core = busy(0, 1, count=2)
        core.submit(tiles=2)
        core.submit(tiles=2)
        core.submit(tiles=2, priority=1)
        core.finish_all()
        assert list(core.tile) == [0, 1, 2, 3, 6, 4, 5]

    def test_one_that_comes_before_it_takes_over(self):
        core = busy(0, 1, 2, count=3)
        core.submit(tile=0)
        core.submit(tiles=2, tile=0)
        assert core.finish(0) == ["0 finished"]
        assert core.submit(tiles=2, tile=2, priority=1) == ["run 6 on 0"]

    def test_a_cancelled_gang_gives_its_tiles_back(self):
        core = busy(0, 1, count=2)
        core.submit(tiles=2)
        core.submit()
        assert core.finish(0) == ["0 finished"]
        assert core.cancel(4) == ["4 cancelled", "run 5 on 0"]

    def test_ordinary_tasks_never_keep_a_gang_from_running(self):
        core = busy(0, 1, 2, count=3)
        core.submit(tiles=3)
        for _ in range(6):
            core.submit(priority=1)
            core.finish(min(task for task in core.tile if core.scheduler.state(task) == 1))
        assert 6 in core.tile

    def test_gangs_never_keep_an_ordinary_task_from_running(self):
        core = Core(2)
        core.submit(tiles=2)
        core.submit()
        core.submit(tile=1)
        for _ in range(3):
            core.submit(tiles=2, priority=1)
        assert core.finish(0) == ["0 finished", "run 1 on 0", "run 2 on 1"]

    def test_a_large_gang_is_not_passed_by_small_ones(self):
        core = Core(4)
        core.submit(tiles=2)
        core.submit(tiles=4)
        assert core.submit(tiles=2) == []
        assert core.finish(0) == ["0 finished", *runs(1, 0, 1, 2, 3)]

    def test_other_tiles_work_while_too_few_are_left_for_a_gang(self):
        core = Core(4)
        core.submit(tiles=2)
        core.submit(tiles=4)
        assert core.submit() == ["run 2 on 2"]

    def test_gangs_of_several_ranks_share_none(self):
        """Rank 0 could begin with one, and rank 1 with the other."""
        core = Core(ranks=[0, 0, 1, 1])
        core.submit(tiles=2, tile=0)
        core.submit(tiles=2, tile=2)
        assert core.tiles == {0: (0, 1), 1: (2, 3)}
        core.finish(0)
        core.finish(1)
        core.submit(tile=1)
        core.submit(tile=3)
        core.submit(tiles=3, tile=0)
        core.submit(tiles=2, tile=3)
        core.finish(2)
        assert core.tiles[4] == (0, 1, 2)
        assert 5 not in core.tiles
        core.finish(3)
        assert 5 not in core.tiles
        core.finish(4)
        assert core.tiles[5] == (3, 2)

    def test_gangs_of_one_rank_may_share_it(self):
        core = Core(ranks=[0, 0, 0, 0])
        core.submit(tiles=2)
        assert core.submit(tiles=2) == ["run 1 on 2+3 for 0"]


class TestWhichTiles:
    def test_those_of_one_card(self):
        core = busy(0, 2, count=12, places=TWO_ON_A_CARD)
        core.submit(tiles=2)
        assert core.tiles[4] == (4, 5)

    def test_though_it_is_busier_than_tiles_of_two(self):
        core = busy(0, 3, count=4, places=TWO_ON_A_CARD[:4])
        core.finish(0)
        assert core.submit(tiles=2) == []
        assert core.finish(1) == ["1 finished", *runs(4, 0, 1)]

    def test_the_least_loaded_of_a_card(self):
        core = Core(4, places=[(0, 0)] * 4)
        core.submit(tile=1)
        core.submit(tiles=2)
        assert core.tiles[1] == (0, 2)

    def test_else_those_of_one_rank(self):
        core = Core(ranks=[0, 1, 1, 2], places=[(0, card) for card in range(4)])
        core.submit(tiles=2)
        assert core.tiles[0] == (1, 2)

    def test_else_those_of_one_node(self):
        core = Core(ranks=range(6), places=[(tile % 2, tile) for tile in range(6)])
        core.submit(tiles=3)
        assert core.tiles[0] == (0, 2, 4)

    def test_else_those_of_few_ranks(self):
        core = Core(ranks=[0, 1, 2, 2, 2], places=[(0, tile) for tile in range(5)])
        core.submit(tiles=4)
        assert core.tiles[0] == (1, 2, 3, 4)

    def test_and_of_these_the_least_loaded(self):
        core = busy(0, 2)
        core.submit(tiles=2)
        assert core.tiles[4] == (3, 4)

    def test_scattered_ones_if_there_are_no_others(self):
        core = Core(5)
        core.submit(tiles=2, tile=1)
        core.submit(tiles=2, near=0, tile=4)
        assert core.tiles == {0: (1, 0), 1: (4, 3)}
        core.submit(tile=3)
        core.finish(0)
        core.submit(tiles=3, tile=0)
        assert core.tiles[3] == (0, 1, 2)

    def test_with_the_pinned_one_as_the_lead(self):
        core = Core(12, places=TWO_ON_A_CARD)
        core.submit(tiles=2, tile=7)
        assert core.tiles[0] == (7, 6)

    def test_or_the_one_that_is_wished(self):
        core = Core(12, places=TWO_ON_A_CARD)
        core.submit(tile=9)
        core.finish(0)
        core.submit(near=0, tiles=2)
        assert core.tiles[1] == (9, 8)

    def test_all_of_a_machine(self):
        core = Core(12, places=TWO_ON_A_CARD)
        core.submit(tiles=12)
        assert core.tiles[0] == tuple(range(12))

    @pytest.mark.parametrize("nbytes", [0, BIG])
    def test_whatever_its_inputs_are(self, nbytes):
        core = Core(4, places=TWO_ON_A_CARD[:4])
        core.submit(tile=3)
        core.finish(0, nbytes=nbytes)
        core.submit(tile=3)
        core.submit(0, tiles=2)
        assert core.tiles[2] == (0, 1)


class TestTilesOnDemand:
    def test_are_left_out_if_the_others_suffice(self):
        core = Core(3, on_demand=[0])
        core.open(0)
        assert core.submit(tiles=2) == runs(0, 1, 2)

    def test_take_part_when_they_are_open_if_not(self):
        core = Core(2, on_demand=[0])
        assert core.submit(tiles=2) == []
        assert core.scheduler.has_pinned(0)
        assert core.open(0) == runs(0, 0, 1)
        assert not core.scheduler.has_pinned(0)
        assert core.finish(0) == ["0 finished"]
        assert core.submit(tile=0) == []
        assert core.open(0) == ["run 1 on 0"]

    def test_keep_nobody_waiting_while_they_are_closed(self):
        core = Core(3, on_demand=[0])
        core.submit(tiles=3)
        assert core.submit() == ["run 1 on 1"]
        assert core.submit(tiles=2) == []
        assert core.finish(1) == ["1 finished", *runs(2, 1, 2)]

    def test_take_nothing_else_while_such_a_gang_collects(self):
        core = Core(2, on_demand=[0])
        core.submit(tile=1)
        core.submit(tiles=2)
        core.submit(tile=0)
        assert core.open(0) == []
        assert core.open(0) == []
        assert core.finish(0) == ["0 finished", *runs(1, 0, 1)]

    def test_are_all_that_there_are_in_one_process(self):
        core = Core(ranks=[0, 0], on_demand=[0, 1])
        core.submit(tiles=2)
        core.submit()
        assert core.open(0) == []
        assert core.open(1) == ["run 0 on 0+1 for 0"]
        assert core.finish(0) == ["0 finished"]
        assert core.open(0) == ["run 1 on 0"]

    def test_are_given_back_with_all_others_when_they_close(self):
        core = Core(2, on_demand=[0])
        core.submit(tile=1)
        core.submit(tiles=2)
        core.open(0)
        assert core.submit(tile=1) == []
        assert core.close(0) == ["run 2 on 1"]
        assert core.open(0) == []
        core.finish(0)
        assert core.finish(2) == ["2 finished", *runs(1, 0, 1)]

    def test_stay_with_a_gang_as_long_as_one_is_open(self):
        core = Core(ranks=[0, 0, 1], on_demand=[0, 1])
        core.submit(tiles=3)
        core.submit(tile=2)
        core.open(0)
        assert core.finish(1) == ["1 finished"]
        assert core.open(1) == ["run 0 on 0+1 for 0+1", "run 0 on 2 for 0+1"]

    def test_may_be_pinned_to(self):
        core = Core(3, on_demand=[0])
        core.submit(tiles=2, tile=0)
        assert core.open(0) == runs(0, 0, 1)
        assert core.submit(tiles=2, tile=0) == []
        assert core.finish(0) == ["0 finished"]
        assert core.open(0) == runs(1, 0, 1)

    def test_no_more_of_them_take_part_than_are_needed(self):
        core = Core(ranks=[0, 0, 1], on_demand=[0, 1])
        core.submit(tile=2)
        core.submit(tiles=2)
        core.submit()
        assert core.open(0) == []
        assert core.open(1) == ["run 2 on 1"]
        assert core.finish(0) == ["0 finished", "run 1 on 0 for 0+1", "run 1 on 2 for 0+1"]
