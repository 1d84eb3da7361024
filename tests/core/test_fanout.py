"""Who sends copies of a value, and to whom."""

import pytest

from tests.core.words import Core


def moves(said):
    """Read moves as pairs of source and target."""
    words = [line.split() for line in said if line.startswith("move")]
    return [(int(source), int(target)) for _, _, _, source, _, target in words]


def hot(tiles, *, home=0):
    """A value that lies at one tile of many."""
    core = Core(tiles)
    core.submit(tile=home)
    core.finish(0)
    return core


class TestATree:
    def test_its_first_two_copies_come_from_the_rank_that_made_the_value(self):
        core = hot(4)
        assert core.submit(0, tile=2) == ["move 0 from 0 to 2", "run 1 on 2"]
        assert core.submit(0, tile=1) == ["move 0 from 0 to 1", "run 2 on 1"]

    def test_each_copy_is_sent_on_twice_in_the_order_in_which_they_were_asked_for(self):
        core = hot(16)
        order = [3, 1, 4, 15, 9, 2, 6, 5, 8, 7, 14]
        for tile in order:
            core.submit(0, tile=tile)
        copies = [0, *order]
        expected = [(copies[(k - 1) // 2], copies[k]) for k in range(1, len(copies))]
        assert moves(core.said) == expected

    def test_it_has_as_many_steps_as_the_logarithm_of_its_ranks(self):
        core = hot(127)
        steps = {0: 0}
        for source, target in moves(core.spread(0)):
            steps[target] = steps[source] + 1
        assert len(steps) == 127
        assert max(steps.values()) == 6

    def test_the_drivers_rank_is_a_leaf_of_it(self):
        core = hot(8, home=7)
        core.want(0)
        core.spread(0)
        sources = [source for source, _ in moves(core.said)]
        assert 0 not in sources
        assert moves(core.said)[:3] == [(7, 0), (7, 1), (1, 2)]

    def test_unless_it_made_the_value(self):
        assert moves(hot(4).spread(0)) == [(0, 1), (0, 2), (1, 3)]

    def test_a_copy_may_be_sent_on_before_it_is_there(self):
        core = Core(4)
        core.submit(tile=0)
        assert moves(core.spread(0)) == [(0, 1), (0, 2), (1, 3)]

    def test_a_task_that_is_tried_again_begins_another(self):
        core = Core(5)
        core.submit(tile=1, retries=1)
        core.spread(0)
        assert moves(core.fail(0)) == [(1, 0), (1, 2), (2, 3), (2, 4)]


class TestAnAllToAll:
    def test_every_rank_sends_its_own_value(self):
        """A tree would give every value the same way, and half of the ranks all of the work."""
        core = Core(16)
        for tile in range(16):
            core.submit(tile=tile)
        for tile in range(16):
            core.finish(tile)
        for tile in range(16):
            core.submit(*range(16), tile=tile)
        assert [sum(source == rank for source, _ in moves(core.said)) for rank in range(16)] == [15] * 16

    def test_what_a_rank_did_not_send_before_is_not_owed(self):
        core = Core(8)
        for task, tile in enumerate([1, 2, 3, 4] * 8):
            core.submit(tile=tile)
            core.finish(task)
            core.submit(task, tile=0)
        core.submit(tile=7)
        sources = [source for source, _ in moves(core.spread(core.next_task - 1))]
        assert len(sources) == 7
        assert sources.count(7) <= 5


class TestSpreading:
    def test_brings_a_value_to_every_rank_with_a_tile_once(self):
        core = Core(ranks=[1, 1, 2, 4])
        core.submit(tile=0)
        core.finish(0)
        assert moves(core.spread(0)) == [(1, 2), (1, 4)]
        assert core.spread(0) == []

    def test_waits_until_it_has_a_place(self):
        core = Core(2, depth=1)
        core.submit(tile=1)
        core.submit(tile=1)
        assert core.spread(1) == []
        assert core.finish(0) == ["0 finished", "run 1 on 1", "move 1 from 1 to 0"]

    def test_that_it_will_keep(self):
        core = Core(2)
        core.submit(tile=1, retries=1)
        assert core.spread(0) == []
        assert core.finish(0) == ["0 finished", "move 0 from 1 to 0"]

    def test_brings_nothing_where_there_is_none(self):
        core = Core(2)
        core.submit()
        core.fail(0)
        assert core.spread(0) == []

    def test_is_undone_by_letting_go(self):
        core = hot(3)
        core.spread(0)
        assert core.release(0) == ["free 0 on 0", "free 0 on 1", "free 0 on 2"]

    @pytest.mark.parametrize("tiles", [1, 2, 3, 4, 100])
    def test_reaches_everybody_whoever_made_it(self, tiles):
        for home in {0, 1 % tiles, tiles - 1}:
            core = hot(tiles, home=home)
            has = {home}
            for source, target in moves(core.spread(0)):
                assert source in has
                has.add(target)
            assert has == set(range(tiles))
