"""Short tasks are given to a tile in turns."""

import pytest

from sched.core.events import Finished
from sched.core.pace import MOST, TURN, Pace
from tests.core.words import BIG, Core

SHORT, SHORTER, LONG, NEW = 1, 2, 3, 4
"""Kinds of task: those of the last have not been seen yet."""

LASTS = {SHORT: TURN / 100, SHORTER: TURN / 1000, LONG: TURN * 2}


def ended(core, task, nbytes=0):
    """Let a task end, after as long as its kind takes."""
    kind = core.scheduler._tasks[task].kind
    return core.tell(Finished(task, nbytes, LASTS.get(kind, 0.0)))


def experienced(tiles=1, *, depth=1, **settings):
    """A core that knows how long tasks of most kinds take; and a task that keeps each tile busy.

    Those are numbered 3, 4, ...
    """
    core = Core(tiles, depth=depth, **settings)
    for task, kind in enumerate(LASTS):
        core.submit(kind=kind)
        ended(core, task)
    for tile in range(tiles):
        core.submit(tile=tile, kind=NEW)
    core.said.clear()
    return core


def run(tasks, tile=0):
    return [f"run {task} on {tile}" for task in tasks]


class TestThePaceOfAKind:
    def test_is_far_longer_than_a_turn_before_one_has_ended(self):
        assert Pace().of(1) > 1000 * TURN

    def test_is_that_of_the_longest(self):
        pace = Pace()
        for seconds in (0.5, 2.0, 1.9):
            pace.note(1, seconds)
        assert pace.of(1) == 1.9, "0.9 of the longest is less"
        pace.note(1, 0.1)
        assert pace.of(1) == pytest.approx(0.9 * 1.9)
        assert pace.of(2) > 1000 * TURN

    def test_is_forgotten_little_by_little(self):
        pace = Pace()
        pace.note(1, 1.0)
        for _ in range(50):
            pace.note(1, 0.1)
        assert pace.of(1) == 0.1

    def test_is_not_told_by_a_task_whose_time_is_not_known(self):
        pace = Pace()
        pace.note(1, 0.0)
        assert pace.of(1) > 1000 * TURN
        pace.note(1, 1.0)
        pace.note(1, 0.0)
        assert pace.of(1) == 1.0


class TestATurn:
    def test_is_of_several_short_tasks(self):
        core = experienced()
        for _ in range(5):
            core.submit(tile=0, kind=SHORT)
        assert core.finish(3) == ["3 finished", *run([4, 5, 6, 7, 8])]

    def test_counts_as_one_task_until_the_last_of_it_has_ended(self):
        core = experienced(depth=2)
        core.submit(tile=0, kind=NEW)
        for kind in (SHORT, SHORT, SHORT, NEW, NEW, NEW):
            core.submit(tile=0, kind=kind)
        assert core.finish(3) == ["3 finished", *run([5, 6, 7])]
        assert core.finish(4) == ["4 finished", *run([8])]
        for task in (7, 5):
            assert ended(core, task) == [f"{task} finished"]
        assert ended(core, 6) == ["6 finished", *run([9])]

    def test_is_one_of_two_where_a_tile_takes_two(self):
        core = experienced(depth=2)
        core.submit(tile=0, kind=NEW)
        for _ in range(MOST + 3):
            core.submit(tile=0, kind=SHORTER)
        assert core.finish(3) == ["3 finished", *run(range(5, 5 + MOST))]
        assert core.finish(4) == ["4 finished", *run(range(5 + MOST, 8 + MOST))]

    @pytest.mark.parametrize("kind", [NEW, LONG])
    def test_is_not_begun_by_a_task_that_is_long_or_may_be(self, kind):
        core = experienced()
        core.submit(tile=0, kind=kind)
        core.submit(tile=0, kind=SHORT)
        assert core.finish(3) == ["3 finished", *run([4])]

    @pytest.mark.parametrize("kind", [NEW, LONG])
    def test_is_ended_by_a_task_that_is_long_or_may_be(self, kind):
        core = experienced()
        core.submit(tile=0, kind=SHORT)
        core.submit(tile=0, kind=kind)
        core.submit(tile=0, kind=SHORT)
        assert core.finish(3) == ["3 finished", *run([4])]

    def test_is_of_several_kinds_if_all_are_short(self):
        core = experienced()
        for kind in (SHORT, SHORTER, SHORT):
            core.submit(tile=0, kind=kind)
        assert core.finish(3) == ["3 finished", *run([4, 5, 6])]

    def test_lasts_no_longer_than_it_may(self):
        core = experienced()
        core.scheduler._policy.pace.note(SHORTER, TURN * 0.24)
        for _ in range(9):
            core.submit(tile=0, kind=SHORTER)
        assert core.finish(3) == ["3 finished", *run([4, 5, 6, 7])]

    def test_is_of_no_more_tasks_than_it_may(self):
        core = experienced()
        for _ in range(2 * MOST):
            core.submit(tile=0, kind=SHORTER)
        assert core.finish(3) == ["3 finished", *run(range(4, 4 + MOST))]

    def test_is_of_one_that_was_long_once_and_is_forgotten(self):
        core = experienced()
        for _ in range(3):
            core.submit(tile=0, kind=LONG)
        core.scheduler._policy.pace.note(LONG, TURN / 10)
        assert core.finish(3) == ["3 finished", *run([4])], "the longest counts"
        for _ in range(30):
            core.scheduler._policy.pace.note(LONG, TURN / 10)
        assert core.finish(4) == ["4 finished", *run([5, 6])]

    def test_takes_nothing_that_was_cancelled(self):
        core = experienced()
        for _ in range(4):
            core.submit(tile=0, kind=SHORT)
        core.cancel(5)
        assert core.finish(3) == ["3 finished", *run([4, 6, 7])]

    def test_takes_nothing_that_comes_when_it_has_begun(self):
        core = experienced()
        core.submit(tile=0, kind=SHORT)
        core.finish(3)
        assert core.submit(tile=0, kind=SHORT) == []
        assert ended(core, 4) == ["4 finished", *run([5])]


class TestWhereItComesFrom:
    def test_tasks_that_any_tile_may_take_are_left_for_the_others_when_few_wait(self):
        core = experienced(4)
        for _ in range(7):
            core.submit(kind=SHORT)
        assert core.finish(3) == ["3 finished", *run([7, 8, 9])]
        assert core.finish(4) == ["4 finished", *run([10], 1)]
        assert core.finish(5) == ["5 finished", *run([11], 2)]

    def test_in_the_end_each_tile_has_the_same_number(self):
        core = experienced(4, depth=2)
        for _ in range(400):
            core.submit(kind=SHORTER)
        running = [*range(3, 7)]
        while running:
            task = running.pop(0)
            before = len(core.tile)
            ended(core, task)
            running += list(core.tile)[before:]
        counts = [sum(tile == which for task, tile in core.tile.items() if task > 6) for which in range(4)]
        assert sum(counts) == 400
        assert max(counts) - min(counts) <= MOST

    def test_pinned_ones_are_nobody_elses(self):
        core = experienced(4)
        for _ in range(3):
            core.submit(tile=2, kind=SHORT)
        assert core.finish(5) == ["5 finished", *run([7, 8, 9], 2)]

    def test_those_whose_data_is_on_the_tile_come_along_too(self):
        core = Core(2, depth=1)
        for task, kind in enumerate(LASTS):
            core.submit(tile=0, kind=kind)
            ended(core, task, nbytes=1000)
        for tile in (0, 1):
            core.submit(tile=tile, kind=NEW)
        for _ in range(3):
            core.submit(0, kind=SHORT)
        assert core.finish(3) == ["3 finished", *run([5, 6, 7])]

    def test_pinned_ones_and_those_and_others_are_mixed_by_priority(self):
        core = Core(1, depth=1)
        for task, kind in enumerate(LASTS):
            core.submit(kind=kind)
            ended(core, task)
        core.submit(kind=NEW)
        core.submit(kind=SHORT)
        core.submit(kind=SHORT, priority=2)
        core.submit(0, kind=SHORT, priority=3)
        core.submit(tile=0, kind=SHORT, priority=1)
        core.submit(0, kind=SHORT, priority=4)
        core.submit(kind=SHORT)
        assert core.finish(3) == ["3 finished", *run([8, 6, 5, 7, 4])]

    def test_a_long_one_of_higher_priority_is_not_overtaken(self):
        core = experienced()
        core.submit(tile=0, kind=SHORT, priority=2)
        core.submit(kind=LONG, priority=1)
        core.submit(kind=LONG)
        core.submit(tile=0, kind=SHORT)
        assert core.finish(3) == ["3 finished", *run([4])]
        assert ended(core, 4) == ["4 finished", *run([5])]

    def test_a_heavy_input_ends_it(self):
        core = experienced(2)
        core.submit(tile=1, kind=NEW)
        core.finish(4)
        core.finish(5, nbytes=BIG)
        core.submit(tile=1, kind=NEW)
        for source in ((), (5,), ()):
            core.submit(*source, tile=0, kind=SHORT)
        assert core.finish(3) == ["3 finished", *run([7])]
        assert ended(core, 7) == ["7 finished", "move 5 from 1 to 0", *run([8, 9])]

    def test_a_light_one_is_brought(self):
        core = experienced(2)
        core.submit(tile=1, kind=NEW)
        core.finish(4)
        core.finish(5, nbytes=1000)
        core.submit(tile=1, kind=NEW)
        for source in ((), (5,), ()):
            core.submit(*source, tile=0, kind=SHORT)
        assert core.finish(3) == ["3 finished", *run([7]), "move 5 from 1 to 0", *run([8, 9])]

    def test_a_tile_over_its_budget_takes_no_sources_along(self):
        core = experienced(budget=10)
        core.submit(tile=0, kind=NEW)
        core.submit(4, tile=0, kind=NEW)
        assert core.finish(3) == ["3 finished", *run([4, 5])]
        for _ in range(4):
            core.submit(kind=SHORT)
        core.submit(4, tile=0, kind=SHORT)
        core.submit(4, tile=0, kind=SHORT)
        assert core.finish(4, nbytes=10) == ["4 finished"]
        assert core.finish(5) == ["5 finished", *run([10, 11])]

    def test_and_one_below_it_does(self):
        core = experienced(budget=10)
        for _ in range(4):
            core.submit(kind=SHORT)
        assert core.finish(3) == ["3 finished", *run([4, 5, 6])]


class TestWhatElseHappens:
    def test_one_that_raises_is_tried_again_after_the_others(self):
        core = experienced()
        for retries in (0, 1, 0):
            core.submit(tile=0, kind=SHORT, retries=retries)
        core.finish(3)
        assert core.fail(5) == ["free 5 on 0"]
        assert ended(core, 4) == ["4 finished"]
        assert ended(core, 6) == ["6 finished", "run 5 on 0 again"]
        assert ended(core, 5) == ["5 finished"]
        assert core.submit(tile=0, kind=NEW) == run([7])

    def test_it_does_not_come_along_where_it_has_raised(self):
        core = experienced()
        for _ in range(4):
            core.submit(kind=SHORT, retries=1)
        core.finish(3)
        assert core.fail(5) == ["free 5 on 0"]
        core.submit(kind=SHORT, priority=1)
        core.submit(kind=SHORT)
        ended(core, 4)
        assert ended(core, 6) == ["6 finished", *run([8])]
        assert ended(core, 8) == ["8 finished", "run 5 on 0 again", *run([7])]

    def test_a_failure_ends_a_part_of_it(self):
        core = experienced()
        for _ in range(3):
            core.submit(tile=0, kind=SHORT)
        core.finish(3)
        core.submit(tile=0, kind=NEW)
        for task in (4, 6):
            assert core.fail(task) == [f"{task} failed"]
        assert core.fail(5) == ["5 failed", *run([7])]

    def test_what_takes_a_value_of_it_is_placed_ahead_and_is_no_part_of_it(self):
        core = experienced()
        for _ in range(3):
            core.submit(tile=0, kind=SHORT)
        core.finish(3)
        assert core.submit(5, kind=SHORT) == run([7])
        core.submit(tile=0, kind=NEW)
        for task in (5, 4, 6):
            assert ended(core, task) == [f"{task} finished"]
        assert ended(core, 7) == ["7 finished", *run([8])]

    def test_a_gang_waits_for_all_of_it(self):
        core = experienced(2)
        for _ in range(3):
            core.submit(tile=0, kind=SHORT)
        core.finish(3)
        core.finish(4)
        assert core.submit(tiles=2, kind=SHORT) == []
        core.submit(tile=0, kind=SHORT)
        for task in (7, 5):
            assert ended(core, task) == [f"{task} finished"]
        assert ended(core, 6)[1:] == ["run 8 on 0 for 0+1", "run 8 on 1 for 0+1"]
        assert ended(core, 8) == ["8 finished", *run([9])]

    def test_a_gang_is_never_part_of_one(self):
        core = experienced(2)
        core.submit(tile=0, kind=SHORT)
        core.submit(tiles=2, kind=SHORT, priority=1)
        core.submit(tile=0, kind=SHORT)
        assert core.finish(3) == ["3 finished"]
        assert core.finish(4)[1:] == ["run 6 on 0 for 0+1", "run 6 on 1 for 0+1"]

    def test_a_tile_that_works_on_demand_takes_one_whole_turn(self):
        core = Core(1, depth=2, on_demand=[0])
        for task, kind in enumerate(LASTS):
            core.submit(kind=kind)
            core.open(0)
            ended(core, task)
        for _ in range(4):
            core.submit(tile=0, kind=SHORT)
        assert core.open(0) == run([3, 4, 5, 6])
        core.submit(tile=0, kind=SHORT)
        for task in (3, 4, 5, 6):
            assert ended(core, task) == [f"{task} finished"]
        assert core.open(0) == run([7])
