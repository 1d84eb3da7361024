"""What placements cost, on machines of every size: in counts, which are exact."""

import math

import pytest

from sched.core.actions import Outcome
from sched.core.events import CancelRequested, Released, Submitted, Wanted
from sched.core.scheduler import Scheduler
from sched.core.tiles import Tiles
from sched.errors import ProtocolError
from sched.sim.machine import Machine
from sched.sim.terms import Link, Pause, Until

FREE = Link(0.0, float("inf"))
"""Moves take no time."""

MS = 1e-3


def inputs_of(kind, width, step, column):
    """The columns of the row before that a task of a Task-Bench-style graph takes, in their order."""
    if step == 0 or kind == "independent":
        columns = []
    elif kind == "stencil_1d":
        columns = range(max(0, column - 1), min(column + 1, width - 1) + 1)
    elif kind == "fft":
        sets = max(1, (width - 1).bit_length())
        stride = 1 << (step + sets - 1) % sets
        columns = [column - stride, column, column + stride]
    elif kind == "tree":
        columns = [column // 2]
    elif kind == "all_to_all":
        columns = range(width)
    return [other for other in columns if 0 <= other < width_of(kind, width, step - 1)]


def width_of(kind, width, step):
    return min(width, 1 << min(step, 62)) if kind == "tree" else width


def graph(kind, width, steps):
    """Submit a Task-Bench-style graph row by row, and let go of each row after the next."""
    last, row = [], []
    for step in range(steps):
        for column in range(width_of(kind, width, step)):
            task = row[-1] + 1 if row else last[-1] + 1 if last else 0
            yield Submitted(task, tuple(last[other] for other in inputs_of(kind, width, step, column)))
            row.append(task)
        yield from map(Released, last)
        last, row = row, []
    yield from map(Released, last)


def chance(task):
    """A number in [0, 1) that looks like one drawn by lot."""
    return task * 2_654_435_761 % 2**32 / 2**32


def nothing_is_left(report):
    return report.remembered == 0 and not any(report.left)


class TestGraphs:
    @pytest.mark.parametrize(
        ("kind", "tasks", "edges"),
        [
            ("independent", 184, 0),
            ("stencil_1d", 184, 484),
            ("tree", 167, 166),
            ("fft", 184, 428),
            ("all_to_all", 184, 1408),
        ],
    )
    def test_they_have_as_many_tasks_and_edges_as_published(self, kind, tasks, edges):
        submitted = [event for event in graph(kind, 8, 23) if isinstance(event, Submitted)]
        assert len(submitted) == tasks
        assert sum(len(event.inputs) for event in submitted) == edges


# kind, tiles, width, steps: runs, moves, messages. What cannot be better is marked.
GOLDEN = {
    ("independent", 1, 8, 20): (160, 0, 0),
    ("stencil_1d", 1, 8, 20): (160, 0, 0),
    ("fft", 1, 8, 20): (160, 0, 0),
    ("tree", 1, 32, 20): (511, 0, 0),
    ("all_to_all", 1, 8, 5): (40, 0, 0),
    ("independent", 2, 8, 20): (160, 0, 162),
    ("stencil_1d", 2, 8, 20): (160, 77, 214),  # 38 moves, if tile 0 had the left half
    ("fft", 2, 8, 20): (160, 92, 212),
    ("tree", 2, 32, 20): (511, 38, 503),
    ("all_to_all", 2, 8, 5): (40, 32, 39),  # each value once to the other rank
    ("independent", 12, 12, 20): (240, 0, 462),
    ("stencil_1d", 12, 12, 20): (240, 418, 888),  # two halos per tile and step
    ("fft", 12, 12, 20): (240, 328, 906),
    ("tree", 12, 32, 20): (511, 134, 1123),
    ("all_to_all", 12, 12, 5): (60, 528, 395),  # each value once to each other rank
    ("independent", 1200, 1200, 5): (6000, 0, 14388),
    ("stencil_1d", 1200, 1200, 5): (6000, 9592, 32355),  # two halos per tile and step
    ("fft", 1200, 1200, 5): (6000, 9570, 34680),
    ("tree", 1200, 1200, 13): (4447, 2069, 12994),
    ("all_to_all", 1200, 48, 5): (240, 9024, 5075),  # each value once to each rank that needs it
    ("independent", 12000, 12000, 2): (24000, 0, 71994),
    ("stencil_1d", 12000, 12000, 2): (24000, 23998, 107987),  # two halos per tile and step
    ("fft", 12000, 12000, 2): (24000, 23998, 107987),
    ("tree", 12000, 12000, 13): (8191, 4095, 24534),
    ("all_to_all", 12000, 48, 5): (240, 9024, 5075),  # each value once to each rank that needs it
}


class TestCounts:
    """Whoever changes the policy changes these, and says in the commit why the new ones are better."""

    @pytest.mark.parametrize(("kind", "tiles", "width", "steps"), GOLDEN)
    def test_of_moves_and_messages(self, kind, tiles, width, steps):
        report = Machine(range(tiles), MS, 1 << 16).run(graph(kind, width, steps))
        assert nothing_is_left(report)
        assert GOLDEN[kind, tiles, width, steps] == (report.runs, report.moves, report.messages)
        assert report.nbytes_moved == report.moves << 16

    @pytest.mark.parametrize("columns", [1, 2, 4])
    def test_a_stencil_whose_columns_wish_to_stay_moves_little_but_halos(self, columns):
        tiles, steps = 12, 20
        width = columns * tiles

        def script():
            for event in graph("stencil_1d", width, steps):
                if isinstance(event, Submitted) and event.task < width:
                    event = event._replace(tile=event.task // columns)
                elif isinstance(event, Submitted):
                    event = event._replace(near=event.task - width)
                yield event

        report = Machine(range(tiles), MS, 1 << 16).run(script())
        halos = 2 * (tiles - 1) * (steps - 1)
        assert halos <= report.moves <= 1.02 * halos
        assert report.makespan <= 1.05 * columns * steps * MS


class TestMakespan:
    """Against what no schedule can beat: the longest chain, and all work shared out evenly."""

    @pytest.mark.parametrize("tiles", [1, 2, 12, 1200, 12000])
    def test_of_independent_equal_tasks(self, tiles):
        report = Machine(range(tiles), MS).run(graph("independent", tiles, 2))
        assert report.makespan <= 1.02 * 2 * MS

    @pytest.mark.parametrize("tiles", [2, 12, 240])
    def test_of_tasks_of_very_different_length(self, tiles):
        seconds = [2 * MS * chance(task) for task in range(16 * tiles)]
        report = Machine(range(tiles), seconds).run(graph("independent", tiles, 16))
        assert sum(seconds) / tiles <= report.makespan <= 1.15 * sum(seconds) / tiles
        assert sum(report.busy) == pytest.approx(sum(seconds))

    @pytest.mark.parametrize(
        ("kind", "width", "steps", "factor"),
        [
            ("stencil_1d", 12, 20, 1.1),
            ("stencil_1d", 48, 20, 1.1),
            ("fft", 12, 20, 1.4),
            ("fft", 48, 20, 1.1),
            ("tree", 48, 12, 1.2),
            ("all_to_all", 12, 20, 1.4),
        ],
    )
    def test_of_graphs_on_12_tiles(self, kind, width, steps, factor):
        report = Machine(range(12), MS, 1 << 16).run(graph(kind, width, steps))
        assert report.makespan <= factor * MS * max(steps, report.runs / 12)

    def test_of_a_fan_out(self):
        """The root, its first consumer beside it, and the other eleven where nothing else is to do."""
        script = [Submitted(0), *(Submitted(task, (0,)) for task in range(1, 13))]
        report = Machine(range(12), MS, link=FREE, latency=0.0).run(script)
        assert report.makespan == pytest.approx(2 * MS)
        assert report.moves == 11

    def test_of_the_same_events_is_the_same(self):
        def report():
            return Machine(range(7), lambda task: chance(task) * MS, 1000).run(graph("fft", 20, 10))

        assert report() == report()


class TestTheRules:
    """Of the machine itself."""

    def test_a_message_takes_its_time_and_the_drivers_rank_needs_none(self):
        report = Machine([0], 1.0, latency=0.1).run([Submitted(0)])
        assert (report.makespan, report.messages) == (1.0, 0)
        report = Machine([1], 1.0, latency=0.1).run([Submitted(0)])
        assert (report.makespan, report.messages) == (pytest.approx(1.2), 2)

    def test_a_driver_that_must_think_is_the_limit(self):
        report = Machine(range(100), MS, decide=MS).run(graph("independent", 100, 10))
        assert report.events == 3 * 1000
        assert report.makespan >= 2000 * MS

    def test_values_leave_one_after_the_other(self):
        script = [Submitted(0, tile=0), *(Submitted(task, (0,), tile=task) for task in (1, 2))]
        machine = Machine(range(3), 1.0, 100, link=Link(0.25, 1000.0), latency=0.0)
        assert machine.run(script).makespan == pytest.approx(1.0 + 2 * (0.25 + 0.1) + 1.0)

    def test_a_link_may_depend_on_its_ends(self):
        def link(source, target, nbytes):
            return 5.0 if {source, target} == {1, 2} else 1.0

        script = [Submitted(0, tile=1), Submitted(1, (0,), tile=2), Submitted(2, (1,), tile=0)]
        assert Machine(range(3), 1.0, link=link, latency=0.0).run(script).makespan == 9.0

    def test_seconds_and_bytes_come_in_three_forms(self):
        def makespan(seconds):
            return Machine([0], seconds).run([Submitted(0), Submitted(1)]).makespan

        assert (
            makespan(2) == makespan([1, 3]) == makespan({0: 1, 1: 3}) == makespan(lambda task: 1 + 2 * task)
        )

    def test_a_tile_runs_what_became_runnable_first(self):
        script = [
            Submitted(0, tile=1),
            Submitted(1, (0,), tile=0),
            Submitted(2, tile=0),
        ]
        report = Machine(range(2), 1.0, link=FREE, latency=0.0).run(script)
        assert report.makespan == 2.0
        assert report.busy == [2.0, 1.0]

    def test_memory_is_counted_where_values_are(self):
        script = [
            Submitted(0, tile=0),
            Submitted(1, (0,), tile=1),
            Submitted(2, (0,), tile=1),
            *map(Released, range(3)),
        ]
        report = Machine(range(2), 1.0, [10, 20, 40]).run(script)
        # The second task of tile 1 ends while the value of the first is being freed.
        assert report.held == [1, 2]
        assert report.nbytes_held == [10, 50]
        assert nothing_is_left(report)

    def test_a_value_is_kept_until_it_is_sent(self):
        script = [Submitted(0, tile=0), Submitted(1, (0,), tile=1), Submitted(2, (0,), tile=2)]
        script += map(Released, range(3))
        # The failure at rank 1 is heard of before rank 2 has its copy, but that is still needed.
        report = Machine(range(3), 1.0, 8, link=Link(10.0), failures={1: 1}).run(script)
        assert report.held == [1, 2, 2]
        assert nothing_is_left(report)

    def test_a_wanted_value_comes_to_the_driver(self):
        report = Machine([1], 1.0, 8).run([Submitted(0), Wanted(0)])
        assert report.moves == 1
        assert report.left == [1, 1]

    def test_a_script_that_waits_for_nothing_is_told_so(self):
        with pytest.raises(ProtocolError, match="the script waits for task 7"):
            Machine([0]).run([Submitted(0), Until(7), Submitted(1)])

    def test_tasks_that_nothing_can_move_are_a_bug(self, monkeypatch):
        monkeypatch.setattr(Scheduler, "_finished", lambda self, event: None)
        with pytest.raises(ProtocolError, match="2 tasks have not ended"):
            Machine([0]).run([Submitted(0), Submitted(1)])


class TestFailures:
    def test_a_task_is_tried_again(self):
        script = [Submitted(0, retries=2), Submitted(1, (0,))]
        report = Machine(range(2), 1.0, failures={0: 2}).run(script)
        assert {task: settle.outcome for task, settle in report.outcomes.items()} == {
            0: Outcome.FINISHED,
            1: Outcome.FINISHED,
        }
        assert report.runs == 4

    def test_what_needs_it_is_told_by_the_ranks(self):
        script = [
            Submitted(0, tile=0),
            Submitted(1, tile=1),
            Submitted(2, (0, 1), tile=1),
            Submitted(3, (2,), tile=2),
            *map(Released, range(4)),
        ]
        report = Machine(range(3), 1.0, 8, failures={0: 1}).run(script)
        assert [report.outcomes[task].outcome.value for task in range(4)] == [
            "failed",
            "finished",
            "failed",
            "failed",
        ]
        assert report.outcomes[3].cause == 0
        assert report.moves == 2
        assert report.nbytes_moved == 0
        assert nothing_is_left(report)

    def test_what_was_on_its_way_to_it_is_dropped(self):
        script = [
            Submitted(0, tile=0),
            Submitted(1, tile=1),
            Submitted(2, (0, 1), tile=2),
            *map(Released, range(3)),
        ]

        def link(source, target, nbytes):
            return 50.0 if source == 1 else 1.0

        report = Machine(range(3), 1.0, 8, link=link, failures={0: 1}).run(script)
        assert report.outcomes[2].cause == 0
        assert report.held[2] == 2
        assert nothing_is_left(report)

    @pytest.mark.parametrize("kind", ["stencil_1d", "fft", "tree", "all_to_all"])
    def test_leave_nothing_behind(self, kind):
        failures = {task: 1 for task in range(1000) if chance(task) < 0.05}
        report = Machine([tile // 2 for tile in range(12)], MS, 100, failures=failures).run(
            graph(kind, 16, 10)
        )
        assert Outcome.FAILED in {settle.outcome for settle in report.outcomes.values()}
        assert nothing_is_left(report)


class TestScripts:
    def test_may_wait(self):
        def script():
            for task in range(3):
                yield Submitted(task)
                yield Until(task)

        report = Machine(range(3), 1.0, latency=0.0).run(script())
        assert report.makespan == 3.0

    def test_may_compute(self):
        report = Machine([0], 1.0).run([Submitted(0), Pause(5.0), Submitted(1)])
        assert report.makespan == 6.0

    def test_may_think_better_of_it(self):
        script = [Submitted(0), Submitted(1), Submitted(2), CancelRequested(2)]
        report = Machine([0], 1.0).run(script)
        assert report.outcomes[2].outcome is Outcome.CANCELLED
        assert report.makespan == 2.0

    def test_share_their_thread_with_tiles_on_demand(self):
        """Tile 0 works while the script waits, and the script goes on when tile 0 is done."""

        def script():
            yield from map(Submitted, range(4))
            yield Pause(10.0)
            yield Until(3)
            yield Submitted(4)
            yield Pause(10.0)

        report = Machine([0, 1], 4.0, latency=0.0, depth=1, on_demand=[0]).run(script())
        # Tile 1: 0 from 0, 1 from 4, 2 from 8 to 12. Tile 0: 3 from 10 to 14. Tile 1: 4 from 14 to 18.
        assert report.homes == {0: 1, 1: 1, 2: 1, 3: 0, 4: 1}
        assert report.makespan == 18.0

    def test_do_not_go_on_before_that(self):
        def script():
            yield Submitted(0, tile=1)
            yield Submitted(1, tile=0)
            yield Until(0)
            yield Submitted(2, tile=1)

        report = Machine([0, 1], [1.0, 5.0, 1.0], latency=0.0, on_demand=[0]).run(script())
        assert report.makespan == 6.0

    def test_leave_tiles_on_demand_to_the_rest_when_they_end(self):
        report = Machine([0], 1.0, on_demand=[0]).run(map(Submitted, range(5)))
        assert report.makespan == 5.0


class TestGangs:
    def test_run_when_all_their_ranks_have_what_they_take(self):
        def link(source, target, nbytes):
            return float(target)

        script = [Submitted(0, tile=0), Submitted(1, (0,), tiles=3)]
        report = Machine(range(3), 1.0, 8, link=link, latency=0.0).run(script)
        # Rank 0 sends to rank 1 from 1 to 2, and to rank 2 from 2 to 4.
        assert report.makespan == 5.0
        assert report.busy == [2.0, 1.0, 1.0]
        assert report.held == [2, 1, 1]

    def test_are_one_call_and_a_report_of_each_rank(self):
        report = Machine([0, 0, 1, 2], 1.0, latency=0.1).run([Submitted(0, tiles=4)])
        assert (report.runs, report.messages) == (1, 4)
        assert report.makespan == pytest.approx(1.2)

    def test_run_between_other_tasks(self):
        script = [Submitted(task, tiles=4 if task % 10 == 5 else 1) for task in range(100)]
        report = Machine(range(4), MS, latency=0.0, link=FREE).run([*script, *map(Released, range(100))])
        assert nothing_is_left(report)
        assert sum(report.busy) == pytest.approx((90 + 4 * 10) * MS)
        # Each gang waits for the two tasks that a tile may have.
        assert report.makespan <= sum(report.busy) / 4 * 1.3

    def test_are_tried_again(self):
        report = Machine(range(3), 1.0, failures={0: 1}).run([Submitted(0, tiles=2, retries=1)])
        assert report.runs == 2
        assert report.outcomes[0].outcome is Outcome.FINISHED

    def test_need_their_tiles_empty(self, monkeypatch):
        monkeypatch.setattr(Tiles, "tasks", lambda self, tile: 0)
        with pytest.raises(ProtocolError, match="task 1 needs tile 0 for itself"):
            Machine(range(2)).run([Submitted(0), Submitted(1, tiles=2)])

    def test_share_tiles_on_demand_with_the_script(self):
        def script():
            yield Submitted(0, tiles=3)
            yield Submitted(1)
            yield Pause(10.0)
            yield Until(0)
            yield Pause(5.0)

        report = Machine([0, 0, 1], 2.0, latency=0.0, on_demand=[0, 1]).run(script())
        assert report.homes == {0: 0, 1: 2}
        assert report.makespan == 12.0

    def test_are_all_that_a_machine_on_demand_does_at_a_time(self):
        script = [Submitted(0, tiles=2), Submitted(1), Submitted(2, tiles=2), *map(Released, range(3))]
        report = Machine([0, 0], 1.0, on_demand=[0, 1]).run(script)
        assert report.makespan == 3.0
        assert nothing_is_left(report)


class TestAHotValue:
    def test_reaches_all_ranks_in_about_as_many_steps_as_the_logarithm_of_their_number(self):
        ranks, second = 96, Link(0.0, float(1 << 26))
        script = [Submitted(0, tile=0), *(Submitted(task, (0,), tile=task) for task in range(1, ranks))]
        report = Machine(range(ranks), 1.0, 1 << 26, link=second, latency=0.0).run(script)
        steps = report.makespan - 2.0
        assert report.moves == ranks - 1
        # As each rank sends one copy after the other, the second in line gets its own a step later.
        assert steps <= 1.7 * math.log2(ranks)

    def test_of_every_rank_is_sent_by_every_rank(self):
        """An all-to-all of large values: no rank sends more than it must, and the links are the bound."""
        ranks, link = 12, Link(0.0, 1e9)
        report = Machine(range(ranks), MS, 10**7, link=link, latency=0.0).run(graph("all_to_all", ranks, 5))
        assert report.makespan == pytest.approx(5 * MS + 4 * (ranks - 1) * 10 * MS)


MB = 10**6


def reductions(producers):
    """Producers, and one chain of reductions that takes them one after the other."""
    yield from map(Submitted, range(producers))
    yield Submitted(producers, (0, 1))
    for task in range(2, producers):
        yield Submitted(producers + task - 1, (producers + task - 2, task))
    yield from map(Released, range(2 * producers - 1))


class TestABudget:
    def test_bounds_what_a_chain_of_reductions_has_still_to_take(self):
        def report(budget):
            machine = Machine(range(12), MS, lambda task: 8 * MB if task < 2000 else 8, budget=budget)
            return machine.run(reductions(2000))

        free, kept = report(None), report(64 * MB)
        assert sum(free.nbytes_held) > 0.8 * 2000 * 8 * MB
        # A tile has two more under way when it comes to its budget, and the one that reduces gets copies.
        assert max(kept.nbytes_held) <= (64 + 5 * 8) * MB
        assert kept.makespan <= 1.1 * free.makespan
        assert nothing_is_left(kept)

    @pytest.mark.parametrize("tiles", [1, 12])
    def test_does_not_slow_an_all_to_all(self, tiles):
        def report(budget):
            return Machine(range(tiles), MS, 8 * MB, budget=budget).run(graph("all_to_all", 240, 2))

        assert report(None).makespan == report(16 * MB).makespan

    @pytest.mark.parametrize("kind", ["stencil_1d", "fft", "tree", "all_to_all"])
    def test_never_keeps_a_graph_from_its_end(self, kind):
        failures = {task: 1 for task in range(1000) if chance(task) < 0.05}
        machine = Machine([tile // 2 for tile in range(12)], MS, 100, failures=failures, budget=1)
        assert nothing_is_left(machine.run(graph(kind, 16, 10)))
