"""The core against ranks that obey it, each at its own pace, and a script that asks for anything.

A rank obeys its part of the orders in order, some time later. Calls end, values arrive and reports come
in when chance says so. Four things watch:

* `Core.check` reads each action the moment it is given: does it only need earlier ones, is it allowed?
* `Rank` has real values, and fails when it misses one or gets one that it did not ask for.
* After every step the earliest order that is not done can be done, and no tile is idle that could work.
* In the end a replay in plain Python says what every task should have come to, and nothing is left over.

It finds the same stories each time, and does not make them shorter: that takes minutes, and CI has none.
`SCHED_FUZZ=400 pytest -o timeout=0 -o faulthandler_timeout=0 tests/core/test_fuzz.py` does; a larger number
looks longer.
"""

import os
import sys
from collections import Counter, deque
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sched.core.actions import Free, Move, Outcome, Run, Settle
from sched.core.events import (
    CancelRequested,
    Failed,
    Finished,
    Released,
    Spread,
    Submitted,
    TileClosed,
    TilesOpened,
    Wanted,
)
from sched.core.graph import State
from sched.core.pace import MOST
from sched.core.policy import CHEAP
from sched.core.scheduler import Scheduler
from sched.model import DRIVER

ANY = st.integers(0, 999)
"""Chooses one of whatever there is: numbers shrink better than bundles."""


def compute(task, inputs):
    """What the call of a task returns: another input, or another order, is another value."""
    value = task + 1
    for one in inputs:
        value = (value * 1_000_003 + one) % 2_147_483_647
    return value


def nbytes_of(task):
    """How large that is: half of them more than is cheap to send."""
    return CHEAP << (7 * task % 20) >> 10


@dataclass(frozen=True)
class NoValue:
    """Travels in place of a value that never came to be."""

    cause: int


@dataclass
class Known:
    """What is known of a task apart from the core."""

    event: Submitted
    settled: Settle | None = None
    runs: list = field(default_factory=list)
    on_tile: bool = False
    raised: int = 0
    result: int | None = None
    named: bool = True
    wanted: bool = False
    spread: bool = False
    # What it shares with the others of its turn.
    turn: list = field(default_factory=list)
    # Its tiles, and the parts of a gang; of the last attempt.
    tiles: tuple = ()
    parts: list = field(default_factory=list)

    @property
    def key(self):
        return -self.event.priority, self.event.task

    @property
    def finished(self):
        return self.settled is not None and self.settled.outcome is Outcome.FINISHED

    @property
    def waits(self):
        return self.settled is None and not self.on_tile

    @property
    def stands(self):
        return self.on_tile and self.runs[-1].attempt == self.event.retries


class Rank:
    """Obeys in order. A value or a call that it has to wait for does not keep it from the next order."""

    def __init__(self, rank, known):
        self.rank, self.known = rank, known
        self.orders = deque()
        self.values = {}
        self.expected = set()
        self.unwanted = set()
        self.runs = []
        self.outbox = []
        self.network = []
        self.reports = deque()

    def obey(self):
        """Take the next order; return it if it is done with that."""
        action = self.orders.popleft()
        made = {run.task for run in self.runs if self.rank in run.ranks[:1] or not run.ranks}
        known = self.expected | made | set(self.values)
        if isinstance(action, Run):
            assert known.issuperset(self.known[action.task].event.inputs)
            assert action.task not in known
            self.runs.append(action)
        elif isinstance(action, Move) and action.source == self.rank:
            assert action.ref in known
            self.outbox.append(action)
            self.send()
        elif isinstance(action, Move):
            assert action.ref not in known
            self.expected.add(action.ref)
        elif isinstance(action, Free):
            assert action.ref not in {ref for run in self.runs for ref in self.known[run.task].event.inputs}
            if action.ref in self.values:
                del self.values[action.ref]
            else:
                assert action.ref in self.expected, "and if it is to be sent on, that comes first"
                self.unwanted.add(action.ref)
            return action
        return None

    def send(self):
        """Give to the network what is there by now."""
        self.network += [(move, self.values[move.ref]) for move in self.outbox if move.ref in self.values]
        self.outbox = [move for move in self.outbox if move.ref not in self.values]

    def receive(self, ref, value):
        self.expected.remove(ref)
        self.values[ref] = value
        self.send()
        if ref in self.unwanted:
            self.unwanted.remove(ref)
            del self.values[ref]

    def inputs_of(self, run):
        return [self.values.get(ref) for ref in self.known[run.task].event.inputs]

    def can_end(self, run):
        inputs = self.inputs_of(run)
        return None not in inputs or any(isinstance(value, NoValue) for value in inputs)

    def end(self, run, raises):
        """End a call, or do not make it because an input has no value."""
        task, inputs = self.known[run.task], self.inputs_of(run)
        self.runs.remove(run)
        causes = [value.cause for value in inputs if isinstance(value, NoValue)]
        if causes:
            self.values[run.task] = NoValue(causes[0])
            self.reports.append(Failed(run.task, causes[0]))
        elif raises:
            task.raised += 1
            self.values[run.task] = NoValue(run.task)
            self.reports.append(Failed(run.task))
        else:
            self.values[run.task] = task.result = compute(run.task, inputs)
            seconds = 1e-6 if task.event.kind else 0.0
            self.reports.append(Finished(run.task, nbytes_of(run.task), seconds))
        self.send()


class Fuzz(RuleBasedStateMachine):
    """The script, the ranks, and what happens next."""

    @initialize(
        tile_ranks=st.lists(st.integers(0, 3), min_size=1, max_size=6),
        depth=st.integers(1, 3),
        on_demand=st.sampled_from(["none", "none", "first", "driver's"]),
        cards=st.none() | st.lists(st.integers(0, 2), min_size=6, max_size=6),
        budget=st.sampled_from([None, None, 1, CHEAP, 4 * CHEAP]),
    )
    def start(self, tile_ranks, depth, on_demand, cards, budget):
        # Kinds of task that are known to be short.
        self.short = set()
        self.tile_ranks, self.depth = sorted(tile_ranks), depth
        self.tiles = range(len(tile_ranks))
        here = [tile for tile in self.tiles if self.tile_ranks[tile] == DRIVER]
        self.on_demand = {"none": [], "first": [0], "driver's": here}[on_demand]
        self.open = set()
        self.ordinary = len(self.tiles) - len(self.on_demand)
        self.budget = budget
        places = cards and [(rank // 2, card) for rank, card in zip(self.tile_ranks, cards, strict=False)]
        self.core = Scheduler(
            self.tile_ranks, depth=depth, on_demand=self.on_demand, places=places, budget=budget
        )
        self.known = {}
        self.takers_of = {}
        self.ranks = {rank: Rank(rank, self.known) for rank in {DRIVER, *tile_ranks}}
        # What each rank has or is promised, where every value was ever sent, and how often each rank sent it.
        self.has = set()
        self.sent = set()
        self.copies = Counter()
        # Orders that are not done, in their one order, and how many there were in all.
        self.undone = {}
        self.orders = 0

    # -- the core ------------------------------------------------------------------------------------

    def tell(self, event):
        """Give an event to the core, look at what it says, and pass it on."""
        collector, chosen = self.collecting()
        if isinstance(event, Finished) and event.seconds:
            self.short.add(self.known[event.task].event.kind)
        actions = self.core.handle(event)
        collector_now, chosen_now = self.collecting()
        self.held = {*chosen, *chosen_now}
        gang_began = any(isinstance(action, Run) and action.tiles for action in actions)
        for action in actions:
            self.check(action)
            collects = isinstance(action, Run) and collector is not None and collector is collector_now
            if collects and not gang_began:  # one of higher priority: meanwhile it had given its tiles back
                assert not chosen.intersection(chosen_now, {action.tile, *action.tiles}), "it collects that"
            if isinstance(action, Settle):
                continue
            self.orders += 1
            self.undone[id(action)] = action
            for rank in self.concerned(action):
                self.ranks[rank].orders.append(action)
        return actions

    def collecting(self):
        """Tell which gang collects, and what it has; no test from without could say."""
        return self.core._gangs._collector, frozenset(self.core._gangs._chosen)

    def concerned(self, action):
        if isinstance(action, Run):
            return [self.tile_ranks[action.tile]]
        if isinstance(action, Move):
            return [action.source, action.target]
        return [action.rank]

    def done(self, action):
        """Strike out an order: this very one, for named tuples of two types can be equal."""
        del self.undone[id(action)]

    def check(self, action):
        if isinstance(action, Run):
            self.check_run(action)
        elif isinstance(action, Move):
            made = self.tile_ranks[self.known[action.ref].runs[-1].tile]
            self.copies[action.ref, action.source] += 1
            if action.source != made:
                assert action.source != DRIVER, "its thread may be away"
                assert self.copies[action.ref, action.source] <= 2
            elif action.target != DRIVER and (action.ref, DRIVER) not in self.has:
                copies = [key for key in self.sent if key[0] == action.ref]
                assert len(copies) < 2 or self.copies[action.ref, made] >= 2, "it sends the first two itself"
            assert (action.ref, action.source) in self.has
            assert (action.ref, action.target) not in self.has
            assert (action.ref, action.target) not in self.sent, "a value goes to a rank once"
            self.has.add((action.ref, action.target))
            self.sent.add((action.ref, action.target))
        elif isinstance(action, Free):
            assert (action.ref, action.rank) in self.has
            self.has.remove((action.ref, action.rank))
            task = self.known[action.ref]
            if task.settled is None:
                assert not task.on_tile
                assert task.runs[-1].attempt < task.event.retries, "only for a retry"
            else:
                assert not task.named
                assert not self.users(action.ref)
        elif isinstance(action, Settle):
            task = self.known[action.task]
            assert task.settled is None, "it is settled once"
            assert not task.on_tile
            task.settled = action

    def check_run(self, run):
        task, rank = self.known[run.task], self.tile_ranks[run.tile]
        inputs = [self.known[ref] for ref in task.event.inputs]
        if run.ranks and rank != run.ranks[0]:
            self.check_part(run)
            return
        assert task.waits, "it runs while it is settled or already runs"
        assert run.attempt == len(task.runs)
        assert task.event.tile in (None, run.tile), "pinned means pinned"
        for ref, source in zip(task.event.inputs, inputs, strict=True):
            assert (ref, rank) in self.has, "no earlier order puts the input there"
            assert source.finished or source.stands, "it is ahead of a task that may be tried again"
        assert (run.task, rank) not in self.has
        assert not [gang for gang in self.gangs() if run.tile in gang.tiles], "a gang has it to itself"
        task.tiles, task.parts = run.tiles or (run.tile,), [run]
        if task.event.tiles > 1:
            assert not self.is_ahead(run.task)
            near = self.known.get(task.event.near)
            assert near is None or near.stands or near.settled
            self.check_part(run)
        elif self.is_ahead(run.task):
            near = [self.known[task.event.near]] if task.event.near is not None else []
            homes = {source.runs[-1].tile for source in inputs + near if source.runs}
            assert run.tile == task.event.tile or run.tile in homes, "ahead of a stranger"
            ready, ahead = self.loads(ahead=False)[run.tile], self.loads(ahead=True)[run.tile]
            assert ahead < self.depth
            assert ready + ahead <= self.depth
            assert run.tile not in self.on_demand
        else:
            rooms = self.rooms()
            task.turn = self.core._tasks[run.task].turn or []
            mates = [other for other in self.known.values() if other.on_tile and other.turn is task.turn]
            if mates:
                # It comes along with others, of which each is known to be short.
                assert {mate.tiles for mate in mates} == {task.tiles}
                assert len(mates) < MOST
                assert {mate.event.kind for mate in mates} | {task.event.kind} <= self.short
                rooms = [*rooms, run.tile]
            else:
                assert run.tile in rooms
            if task.runs and run.tile == task.runs[-1].tile and task.event.tile is None:
                light = sum(nbytes_of(ref) for ref in task.event.inputs) <= CHEAP
                others = {tile for tile in rooms if task.event.inputs or not self.is_over(tile)}
                others -= self.held
                assert others <= {run.tile} or not light, "it could be tried again elsewhere"
            if not task.event.inputs and task.event.tile is None and self.is_over(run.tile):
                assert not self.takers(), "producers outrun consumers"
            self.open.discard(run.tile)
        self.has.add((run.task, rank))
        task.runs.append(run)
        task.on_tile = True

    def check_part(self, run):
        """Check what one rank contributes to a gang, and when it is the last, the whole of it."""
        task, rank = self.known[run.task], self.tile_ranks[run.tile]
        if rank != run.ranks[0]:
            assert task.on_tile
            task.parts.append(run)
            task.tiles += run.tiles
        first = task.parts[0]
        assert (run.attempt, run.ranks) == (first.attempt, first.ranks)
        assert run.tile == run.tiles[0]
        assert {self.tile_ranks[tile] for tile in run.tiles} == {rank}
        assert all((ref, rank) in self.has for ref in task.event.inputs)
        assert [self.tile_ranks[part.tile] for part in task.parts] == [*run.ranks[: len(task.parts)]]
        if len(task.parts) < len(run.ranks):
            return
        assert len(set(task.tiles)) == len(task.tiles) == task.event.tiles
        others = [other for other in self.known.values() if other.on_tile and other is not task]
        assert not {tile for other in others for tile in other.tiles}.intersection(task.tiles), "not empty"
        for gang in self.gangs():
            if gang is not task and min(len(gang.parts), len(task.parts)) > 1:
                assert not set(gang.parts[0].ranks).intersection(run.ranks), "each could wait for the other"
        on_demand = set(task.tiles).intersection(self.on_demand)
        assert on_demand <= self.open
        wanted = max(task.event.tiles - self.ordinary, task.event.tile in self.on_demand)
        assert len(on_demand) == wanted, "the others suffice"
        self.open -= on_demand

    def gangs(self):
        return [task for task in self.known.values() if task.on_tile and task.event.tiles > 1]

    def takers(self):
        return [task for task in self.known.values() if task.on_tile and task.event.inputs]

    def is_over(self, tile):
        """Tell whether as much waits to be taken from a tile as may be, or more."""
        made = [ref for ref, task in self.known.items() if task.finished and task.tiles[0] == tile]
        waiting = sum(nbytes_of(ref) for ref in made if self.users(ref))
        return self.budget is not None and waiting >= self.budget

    def is_ahead(self, ref):
        return any(not self.known[source].finished for source in self.known[ref].event.inputs)

    def loads(self, *, ahead):
        """Count what each tile has to do; the tasks of one turn are one."""
        loads, turns = Counter(), set()
        for ref, task in self.known.items():
            if task.on_tile and self.is_ahead(ref) is ahead and id(task.turn) not in turns:
                turns.add(id(task.turn))
                loads.update(task.tiles)
        return loads

    def rooms(self):
        loads = self.loads(ahead=False)
        limits = dict.fromkeys(self.tiles, self.depth) | {t: t in self.open for t in self.on_demand}
        taken = {tile for gang in self.gangs() for tile in gang.tiles}
        return [tile for tile in self.tiles if loads[tile] < limits[tile] and tile not in taken]

    def users(self, ref):
        return [t for t in self.takers_of.get(ref, ()) if t.settled is None]

    # -- the script ----------------------------------------------------------------------------------

    def named(self):
        return [ref for ref, task in self.known.items() if task.named]

    def submit(self, inputs=(), tile=None, near=None, priority=0, retries=0, tiles=1):
        ref = len(self.known)
        event = Submitted(ref, tuple(inputs), tile, near, priority, retries, tiles, ref % 2)
        self.known[ref] = Known(event)
        for source in event.inputs:
            self.takers_of.setdefault(source, []).append(self.known[ref])
        self.tell(event)
        return ref

    @rule(
        inputs=st.lists(ANY, max_size=4),
        tile=st.none() | ANY,
        near=st.none() | ANY,
        priority=st.sampled_from([0, 0, 0, 1, -1]),
        retries=st.sampled_from([0, 0, 0, 1, 2]),
        tiles=st.sampled_from([1, 1, 1, 1, 2, 3, 6]),
    )
    def submit_one(self, inputs, tile, near, priority, retries, tiles):
        named = self.named()
        refs = dict.fromkeys(named[i % len(named)] for i in inputs) if named else {}
        tile = None if tile is None else tile % len(self.tiles)
        # One of the youngest: they are the ones that wait, and so make others wait.
        youngest = list(self.known)[-8:]
        near = youngest[near % len(youngest)] if near is not None and youngest else None
        self.submit(refs, tile, near, priority, retries, min(tiles, len(self.tiles)))

    @rule(wide=st.lists(st.sampled_from([1, 1, 2, 3, 6]), min_size=2, max_size=5), source=st.none() | ANY)
    def submit_gangs(self, wide, source):
        """Gangs and others, all at once or one after the other, and something that takes them all."""
        named = self.named()
        refs = [named[source % len(named)]] if source is not None and named else []
        refs = [self.submit(refs, tiles=min(tiles, len(self.tiles))) for tiles in wide]
        self.submit(refs)

    @rule(count=st.integers(2, 8), retries=st.sampled_from([0, 0, 0, 1]))
    def submit_chain(self, count, retries):
        last = self.submit()
        for _ in range(count):
            last = self.submit([last], retries=retries)

    @rule(count=st.integers(2, 8), source=ANY)
    def submit_fan(self, count, source):
        named = self.named() or [self.submit()]
        refs = [self.submit([named[source % len(named)]]) for _ in range(count)]
        self.submit(refs)

    @rule(width=st.integers(2, 5), height=st.integers(1, 3))
    def submit_stencil(self, width, height):
        row = [self.submit() for _ in range(width)]
        for _ in range(height):
            row = [self.submit(row[max(0, i - 1) : i + 2]) for i in range(width)]

    @rule(which=ANY)
    def release(self, which):
        named = self.named() or [self.submit()]
        ref = named[which % len(named)]
        self.known[ref].named = False
        self.tell(Released(ref))

    @rule(which=ANY)
    def want(self, which):
        named = self.named() or [self.submit()]
        ref = named[which % len(named)]
        self.known[ref].wanted = True
        self.tell(Wanted(ref))

    @rule(which=ANY)
    def spread(self, which):
        named = self.named() or [self.submit()]
        ref = named[which % len(named)]
        self.known[ref].spread = True
        self.tell(Spread(ref))

    @rule(which=ANY)
    def cancel(self, which):
        waiting = [ref for ref, task in self.known.items() if task.waits]
        choice = waiting if waiting and which % 8 else list(self.known) or [self.submit()]
        ref = choice[which % len(choice)]
        in_time = self.known[ref].waits
        actions = self.tell(CancelRequested(ref))
        if in_time:
            assert self.known[ref].settled == Settle(ref, Outcome.CANCELLED)
            assert actions[0] is self.known[ref].settled
        else:
            assert actions == []

    @rule(which=ANY)
    def open_tile(self, which):
        if not self.on_demand:
            return
        tile = self.on_demand[which % len(self.on_demand)]
        tiles = tuple(self.on_demand) if which % 3 == 0 else (tile,)
        self.open.update(tiles)
        self.tell(TilesOpened(tiles))

    @rule(which=ANY)
    def close_tile(self, which):
        if not self.on_demand:
            return
        tile = self.on_demand[which % len(self.on_demand)]
        self.open.discard(tile)
        held = self.core._gangs.holds(tile)
        assert self.tell(TileClosed(tile)) == [] or held, "only a gang that gives up makes room"

    # -- the ranks -----------------------------------------------------------------------------------

    def steps(self):
        """Everything that could happen next on the ranks, and between them."""
        for rank in self.ranks.values():
            if rank.orders:
                yield self.obey, rank
            for run in rank.runs:
                if run.ranks[:1] in ((), (rank.rank,)) and self.can_end(run):
                    yield self.end, rank, run
            for i, (move, _) in enumerate(rank.network):
                if move.ref in self.ranks[move.target].expected:
                    yield self.arrive, rank, i
            if rank.reports:
                yield self.report, rank

    def obey(self, rank, raises):
        done = rank.obey()
        if done is not None:
            self.done(done)

    def can_end(self, run):
        """Tell whether all ranks of a task have begun with it, and have what it takes."""
        ranks = [self.ranks[rank] for rank in run.ranks or [self.tile_ranks[run.tile]]]
        return all(
            [part for part in rank.runs if part.task == run.task and rank.can_end(part)] for rank in ranks
        )

    def end(self, rank, run, raises):
        rank.end(run, raises)
        self.done(run)
        for part in self.known[run.task].parts[1:]:
            self.ranks[self.tile_ranks[part.tile]].runs.remove(part)
            self.done(part)

    def arrive(self, rank, i, raises):
        move, value = rank.network.pop(i)
        self.ranks[move.target].receive(move.ref, value)
        self.done(move)

    def report(self, rank, raises):
        event = rank.reports.popleft()
        task = self.known[event.task]
        task.on_tile = False
        again = isinstance(event, Failed) and event.cause is None and task.raised <= task.event.retries
        self.tell(event)
        assert again is (task.settled is None)

    @rule(choices=st.lists(st.tuples(ANY, st.sampled_from([False] * 7 + [True])), min_size=1, max_size=20))
    def go_on(self, choices):
        for choice, raises in choices:
            steps = list(self.steps())
            if not steps:
                return
            step, *arguments = steps[choice % len(steps)]
            step(*arguments, raises)

    @rule()
    def come_to_rest(self):
        """Let everything happen that can, the youngest first."""
        while steps := list(self.steps()):
            step, *arguments = steps[-1]
            step(*arguments, False)

    # -- what always holds ---------------------------------------------------------------------------

    @invariant()
    def the_earliest_order_can_be_done(self):
        action = next(iter(self.undone.values()), None)
        if action is None:
            return
        ranks = [self.ranks[rank] for rank in self.concerned(action)]
        if behind := [rank for rank in ranks if any(order is action for order in rank.orders)]:
            assert all(rank.orders[0] is action for rank in behind)
        elif isinstance(action, Run):
            assert ranks[0].can_end(action)
        else:
            assert any(move is action for move, _ in ranks[0].network)

    @invariant()
    def no_tile_is_idle_while_there_is_work_for_it(self):
        loads, (_, chosen) = self.loads(ahead=False), self.collecting()
        rooms = [tile for tile in self.rooms() if tile not in chosen]
        for ref, task in self.known.items():
            near = self.known.get(task.event.near)
            if near is not None and not near.stands and near.settled is None:
                continue
            if not task.waits or self.is_ahead(ref):
                continue
            if task.event.tiles > 1:
                continue
            if task.event.tile is not None:
                assert task.event.tile not in rooms
            elif task.event.inputs or not self.takers():
                assert not [tile for tile in rooms if not loads[tile]]
            else:
                assert not [tile for tile in rooms if not loads[tile] and not self.is_over(tile)]

    @invariant()
    def the_first_gang_that_can_be_had_collects(self):
        collector, chosen = self.collecting()
        waiting = []
        for ref, task in self.known.items():
            near = self.known.get(task.event.near)
            stands = near is None or near.stands or near.settled is not None
            if task.event.tiles > 1 and task.waits and stands and not self.is_ahead(ref):
                gate = self.on_demand if task.event.tiles > self.ordinary else []
                gate = [task.event.tile] if task.event.tile in self.on_demand else gate
                if not gate or self.open.intersection(gate):
                    waiting.append(task)
        first = min(waiting, key=lambda task: task.key, default=None)
        if collector is not None:
            assert first.event.task == collector.id
            assert len(chosen) <= first.event.tiles
            empty = not any(self.loads(ahead=ahead)[tile] for tile in chosen for ahead in (False, True))
            assert not empty or len(chosen) < first.event.tiles, "it could run"
            if len(chosen) < first.event.tiles:
                missing = set(self.on_demand) & self.open - chosen
                assert not missing - {tile for gang in self.gangs() for tile in gang.tiles}
        elif first is not None:
            assert self.gangs(), "nobody is in its way"

    @invariant()
    def at_rest_nothing_runs(self):
        if not any(self.steps()):
            assert not self.undone
            assert not any(task.on_tile for task in self.known.values())

    @invariant()
    def wanted_values_come_as_soon_as_they_have_a_place(self):
        for ref, task in self.known.items():
            if (task.stands or task.finished) and self.core.state(ref) is not None:
                assert not task.wanted or (ref, DRIVER) in self.has
                assert not task.spread or self.has.issuperset((ref, rank) for rank in self.tile_ranks)

    @invariant()
    def the_core_remembers_what_it_must_and_no_more(self):
        remembered = 0
        for ref, task in self.known.items():
            state = self.core.state(ref)
            if task.settled is not None and not task.named and not self.users(ref):
                assert state is None
                continue
            remembered += 1
            if task.settled is None:
                assert state is (State.PLACED if task.on_tile else State.WAITING)
            else:
                assert state is State[task.settled.outcome.name]
            assert (ref in self.core._tasks and self.core._tasks[ref].users > 0) is bool(self.users(ref))
        assert len(self.core) == remembered

    # -- the end -------------------------------------------------------------------------------------

    def teardown(self):
        if sys.exc_info()[0] is not None or not hasattr(self, "core"):
            return
        self.come_to_rest()
        while any(task.settled is None for task in self.known.values()):
            before = self.orders
            for tile in self.on_demand:
                self.open_tile(self.on_demand.index(tile))
            self.come_to_rest()
            assert self.orders > before, "nothing can move any more"
        self.replay()
        for ref in self.named():
            self.known[ref].named = False
            self.tell(Released(ref))
        self.come_to_rest()
        assert len(self.core) == 0
        assert not self.has
        for rank in self.ranks.values():
            assert not any([rank.values, rank.expected, rank.unwanted, rank.outbox])

    def replay(self):
        """Work out one task after the other what should have come of it."""
        results, blame = {}, {}
        for ref, task in self.known.items():
            bad = [source for source in task.event.inputs if source in blame]
            if task.settled.outcome is Outcome.CANCELLED:
                blame[ref] = {ref}
                expected = Outcome.CANCELLED, [None]
            elif bad:
                blame[ref] = set().union(*(blame[source] for source in bad))
                expected = Outcome.FAILED, blame[ref]
            elif task.raised > task.event.retries:
                blame[ref] = {ref}
                expected = Outcome.FAILED, [None]
            else:
                results[ref] = compute(ref, [results[source] for source in task.event.inputs])
                expected = Outcome.FINISHED, [None]
            assert task.settled.outcome is expected[0]
            assert task.settled.cause in expected[1]
            assert task.result == results.get(ref)
            assert task.raised <= len(task.runs) <= task.event.retries + 1
            if ref in results and task.named:
                home = self.ranks[self.tile_ranks[task.runs[-1].tile]]
                assert home.values[ref] == results[ref]
                for rank in ([DRIVER] if task.wanted else []) + (self.tile_ranks if task.spread else []):
                    assert self.ranks[rank].values[ref] == results[ref]


TestFuzz = Fuzz.TestCase
TestFuzz.settings = settings(
    max_examples=int(os.environ.get("SCHED_FUZZ", "400")),
    phases=[Phase.generate, Phase.shrink] if "SCHED_FUZZ" in os.environ else [Phase.generate],
    stateful_step_count=40,
    derandomize=True,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
