"""A machine that is not there: the real core, simulated ranks, virtual time.

It tells what a placement costs on thousands of tiles, exactly and again the same: by its counts a
change of policy is judged. It plays by these rules:

* *The driver* takes in one event after another, each in `decide` seconds. What follows from one event
  goes as one message to each rank that it concerns and is there `latency` seconds later, as is what the
  ranks report. The driver's own rank needs no message.
* *A rank* obeys in order, and nothing in it blocks. A task runs once its inputs are on the rank. A tile
  runs one task at a time: the first that became runnable.
* *A gang* is a task on several tiles. Each of its ranks keeps its tiles for it once the inputs are there;
  when all do, it runs, on all of them, and its value is then at the first rank.
* *A move* leaves once the value is there. A rank sends one value at a time, in the order in which they
  could leave; that takes `link(source, target, nbytes)` seconds. Any number can arrive at a time.
* *A value* takes memory until it is freed there and no longer being sent.
* *A task without a value* is known to be one as soon as the first input is known to have none.
* *The script* is an iterator: of the events that a script causes, of `Until` and of `Pause`. It shares its
  thread with the tiles on demand: they are open while it waits, and it goes on when they are idle.
"""

import gc
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, TypeVar

from sched.core.actions import Free, Move, Run, Settle
from sched.core.events import Event, Failed, Finished, Submitted, TileClosed, TilesOpened
from sched.core.scheduler import Scheduler
from sched.errors import ProtocolError
from sched.model import DRIVER, RankId, Ref, TaskId, TileId, assert_never
from sched.sim.rank import Rank
from sched.sim.terms import LINK, Pause, Report, Until

N = TypeVar("N", int, float)


class Machine:
    """Run scripts of submissions on tiles that take no time but virtual time.

    Args:
        ranks: the rank of each tile.
        seconds: how long each task runs: a number, something to index by task id, or a function of it.
        nbytes: how large its value is, in the same three forms.
        link: how long a value takes, given source, target and bytes.
        latency: how long a message between the driver and another rank takes.
        decide: how long the driver is busy with an event.
        failures: how many attempts of a task raise, where not none.
        depth: as the core's, and so are `places` and `budget`.
        on_demand: as the core's. These tiles share their thread with the script.
    """

    def __init__(
        self,
        ranks: Sequence[RankId],
        seconds: float | Sequence[float] | Mapping[TaskId, float] | Callable[[TaskId], float] = 1.0,
        nbytes: int | Sequence[int] | Mapping[TaskId, int] | Callable[[TaskId], int] = 0,
        *,
        link: Callable[[RankId, RankId, int], float] = LINK,
        latency: float = 5e-6,
        decide: float = 0.0,
        failures: Mapping[TaskId, int] | None = None,
        depth: int = 2,
        on_demand: Collection[TileId] = (),
        places: Sequence[tuple[int, int]] | None = None,
        budget: int | None = None,
    ) -> None:
        self._core = Scheduler(ranks, depth=depth, on_demand=on_demand, places=places, budget=budget)
        self._tile_rank = tuple(ranks)
        self._ranks = [Rank() for _ in range(max(DRIVER, *ranks) + 1)]
        self._queues: list[list[TaskId]] = [[] for _ in ranks]
        self._running = [False] * len(ranks)
        self._seconds = _by_task(seconds)
        self._nbytes_of = _by_task(nbytes)
        self._link, self._latency, self._decide = link, latency, decide
        self._to_raise = dict(failures or {})
        self._on_demand = frozenset(on_demand)
        # What is to come: when, a number that keeps the order, a method and its arguments.
        self._agenda: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._now = self._decided = 0.0
        self._serial = 0
        self._inputs: dict[TaskId, tuple[Ref, ...]] = {}
        # The tiles of each gang that has been told to run, by rank, and how many ranks cannot begin yet.
        self._gangs: dict[TaskId, dict[RankId, tuple[TileId, ...]]] = {}
        self._absent: dict[TaskId, int] = {}
        self._script: Iterator[Event | Until | Pause] = iter(())
        self._awaited: TaskId | None = None
        self._listening = False
        self._on_demand_busy = 0
        self._makespan = 0.0
        self._runs = self._moves = self._nbytes_moved = self._messages = self._events = 0
        self._busy = [0.0] * len(ranks)
        self._homes: dict[TaskId, TileId] = {}
        self._outcomes: dict[TaskId, Settle] = {}

    def run(self, script: Iterable[Event | Until | Pause]) -> Report:
        """Play the script to its end, and then until nothing is left to do.

        Returns:
            What has happened on this machine since it was made.

        Raises:
            ProtocolError: Tasks are left that nothing can move: a bug in the core, or a script that
                waits for a task which it did not submit.
        """
        self._script = iter(script)
        collects = gc.isenabled()
        # Nothing in here makes cycles that last, and looking for them takes half of the time.
        gc.disable()
        try:
            self._speak()
            while self._agenda:
                self._now, _, method, arguments = heappop(self._agenda)
                method(*arguments)
        finally:
            if collects:
                gc.enable()
        if self._awaited is not None:
            raise ProtocolError(f"the script waits for task {self._awaited}, and nothing moves any more")
        if waiting := len(self._inputs) - len(self._outcomes):
            raise ProtocolError(f"{waiting} tasks have not ended, and nothing moves any more")
        return Report(
            makespan=self._makespan,
            runs=self._runs,
            moves=self._moves,
            nbytes_moved=self._nbytes_moved,
            messages=self._messages,
            events=self._events,
            held=[rank.most for rank in self._ranks],
            nbytes_held=[rank.most_nbytes for rank in self._ranks],
            left=[rank.held for rank in self._ranks],
            busy=self._busy,
            homes=self._homes,
            outcomes=self._outcomes,
            remembered=len(self._core),
        )

    def _at(self, when: float, method: Callable[..., None], *arguments: Any) -> None:
        self._serial += 1
        heappush(self._agenda, (when, self._serial, method, arguments))

    # -- the script ------------------------------------------------------------------------------------

    def _speak(self) -> None:
        """Let the script go on until it waits or ends."""
        for said in self._script:
            if isinstance(said, Until):
                if said.task not in self._outcomes:
                    self._awaited = said.task
                    break
            elif isinstance(said, Pause):
                self._at(self._now + said.seconds, self._speak)
                return
            else:
                if isinstance(said, Submitted):
                    self._inputs[said.task] = said.inputs
                if self._decide:
                    self._decided = max(self._decided, self._now) + self._decide
                    self._at(self._decided, self._handle, said)
                    self._at(self._decided, self._speak)
                    return
                self._handle(said)
        self._listening = True
        if self._on_demand:
            self._handle(TilesOpened(tuple(self._on_demand)))

    # -- the driver ------------------------------------------------------------------------------------

    def _report(self, rank: RankId, event: Finished | Failed) -> None:
        when = self._now
        if rank != DRIVER:
            when += self._latency
        self._at(when, self._hear if self._decide else self._take_in, event)

    def _hear(self, event: Finished | Failed) -> None:
        self._decided = max(self._decided, self._now) + self._decide
        self._at(self._decided, self._take_in, event)

    def _take_in(self, event: Finished | Failed) -> None:
        """Have the core handle a report, and see whether the script goes on."""
        gang = self._gangs.pop(event.task, None)
        tiles = (self._homes[event.task],) if gang is None else itertools.chain(*gang.values())
        on_demand = [tile for tile in tiles if tile in self._on_demand]
        self._handle(event)
        self._on_demand_busy -= len(on_demand)
        if self._awaited in self._outcomes:
            if self._listening:
                self._listening = False
                for other in self._on_demand:
                    self._handle(TileClosed(other))
            if not self._on_demand_busy:
                self._awaited = None
                self._speak()
        elif self._listening and on_demand:
            self._handle(TilesOpened(tuple(on_demand)))

    def _handle(self, event: Event) -> None:
        """Give an event to the core, and what follows from it to the ranks."""
        self._events += 1
        letters: dict[RankId, list[Run | Move | Free]] = {}
        for action in self._core.handle(event):
            if isinstance(action, Run):
                rank = self._tile_rank[action.tile]
                if not action.ranks or action.ranks[0] == rank:
                    self._runs += 1
                    self._homes[action.task] = action.tile
                if action.ranks:
                    self._gangs.setdefault(action.task, {})[rank] = action.tiles
                    self._absent[action.task] = len(action.ranks)
                if self._on_demand:
                    self._on_demand_busy += len(self._on_demand.intersection(action.tiles or [action.tile]))
                letters.setdefault(rank, []).append(action)
            elif isinstance(action, Move):
                letters.setdefault(action.source, []).append(action)
                letters.setdefault(action.target, [])
            elif isinstance(action, Free):
                letters.setdefault(action.rank, []).append(action)
            elif isinstance(action, Settle):
                self._outcomes[action.task] = action
                self._makespan = self._now
            else:
                assert_never(action)
        for rank, letter in letters.items():
            if rank == DRIVER:
                self._obey(rank, letter)
            else:
                self._messages += 1
                self._at(self._now + self._latency, self._obey, rank, letter)

    # -- the ranks -------------------------------------------------------------------------------------

    def _obey(self, rank: RankId, letter: list[Run | Move | Free]) -> None:
        here = self._ranks[rank]
        for action in letter:
            if isinstance(action, Run):
                self._expect(rank, here, action.task)
            elif isinstance(action, Move):
                if action.ref in here.values:
                    self._send(rank, here, action.ref, action.target)
                else:
                    here.outbox.setdefault(action.ref, []).append(action.target)
            elif isinstance(action, Free):
                self._forget(here, action.ref)
            else:
                assert_never(action)

    def _expect(self, rank: RankId, here: Rank, task: TaskId) -> None:
        """Run a task when its inputs are there."""
        absent = []
        for ref in self._inputs[task]:
            if ref not in here.values:
                absent.append(ref)
            elif (cause := here.values[ref]) is not None:
                self._at(self._now, self._refuse, rank, task, cause)
                return
        if not absent:
            self._queue(rank, task)
            return
        here.missing[task] = len(absent)
        for ref in absent:
            here.takers.setdefault(ref, []).append(task)

    def _there(self, rank: RankId, here: Rank, ref: Ref, cause: TaskId | None, nbytes: int) -> None:
        """Go on with what waited for a value at a rank; `cause` is the task to blame if there is none."""
        here.values[ref] = cause
        here.hold(nbytes)
        for target in here.outbox.pop(ref, ()):
            self._send(rank, here, ref, target)
        for task in here.takers.pop(ref, ()):
            missing = here.missing.pop(task, None)
            if missing is None:
                continue
            if cause is not None:
                self._at(self._now, self._refuse, rank, task, cause)
            elif missing == 1:
                self._queue(rank, task)
            else:
                here.missing[task] = missing - 1

    def _refuse(self, rank: RankId, task: TaskId, cause: TaskId) -> None:
        self._messages += rank != DRIVER
        self._report(rank, Failed(task, cause))
        self._there(rank, self._ranks[rank], task, cause, 0)

    def _queue(self, rank: RankId, task: TaskId) -> None:
        if task in self._gangs:
            self._join(rank, task)
            return
        tile = self._homes[task]
        if self._running[tile]:
            self._queues[tile].append(task)
        else:
            self._start(tile, task)

    def _start(self, tile: TileId, task: TaskId) -> None:
        self._running[tile] = True
        seconds = self._seconds(task)
        self._busy[tile] += seconds
        self._at(self._now + seconds, self._end, tile, task)

    def _join(self, rank: RankId, task: TaskId) -> None:
        """Keep the tiles of a rank for a gang, and run it if all its ranks do."""
        gang = self._gangs[task]
        for tile in gang[rank]:
            if self._running[tile]:
                raise ProtocolError(f"task {task} needs tile {tile} for itself, and another task runs there")
            self._running[tile] = True
        self._absent[task] -= 1
        if not self._absent[task]:
            seconds = self._seconds(task)
            for tile in itertools.chain(*gang.values()):
                self._busy[tile] += seconds
            self._at(self._now + seconds, self._disband, task)

    def _disband(self, task: TaskId) -> None:
        gang = self._gangs[task]
        for tile in itertools.chain(*gang.values()):
            self._running[tile] = False
        self._messages += len([rank for rank in gang if rank != DRIVER])
        self._conclude(task, self._tile_rank[self._homes[task]], max(gang))

    def _end(self, tile: TileId, task: TaskId) -> None:
        rank = self._tile_rank[tile]
        self._messages += rank != DRIVER
        self._conclude(task, rank, rank)
        queue = self._queues[tile]
        if queue:
            self._start(tile, queue.pop(0))
        else:
            self._running[tile] = False

    def _conclude(self, task: TaskId, rank: RankId, last: RankId) -> None:
        here = self._ranks[rank]
        if self._to_raise.get(task, 0):
            self._to_raise[task] -= 1
            self._report(last, Failed(task))
            self._there(rank, here, task, task, 0)
        else:
            nbytes = self._nbytes_of(task)
            self._report(last, Finished(task, nbytes))
            self._there(rank, here, task, None, nbytes)

    def _send(self, rank: RankId, here: Rank, ref: Ref, target: RankId) -> None:
        cause = here.values[ref]
        nbytes = self._nbytes_of(ref) if cause is None else 0
        self._moves += 1
        self._nbytes_moved += nbytes
        here.sending[ref] = here.sending.get(ref, 0) + 1
        here.sends_until = max(here.sends_until, self._now) + self._link(rank, target, nbytes)
        self._at(here.sends_until, self._arrive, here, target, ref, cause, nbytes)

    def _arrive(self, source: Rank, target: RankId, ref: Ref, cause: TaskId | None, nbytes: int) -> None:
        source.sending[ref] -= 1
        if not source.sending[ref]:
            del source.sending[ref]
            if ref in source.leaving:
                source.leaving.remove(ref)
                source.lose(nbytes)
        here = self._ranks[target]
        if ref in here.unwanted:
            here.unwanted.remove(ref)
        else:
            self._there(target, here, ref, cause, nbytes)

    def _forget(self, here: Rank, ref: Ref) -> None:
        if ref not in here.values:
            here.unwanted.add(ref)
            here.takers.pop(ref, None)
            return
        cause = here.values.pop(ref)
        if ref in here.sending:
            here.leaving.add(ref)
        else:
            here.lose(self._nbytes_of(ref) if cause is None else 0)


def _by_task(given: N | Sequence[N] | Mapping[TaskId, N] | Callable[[TaskId], N]) -> Callable[[TaskId], N]:
    if callable(given):
        return given
    if isinstance(given, (int, float)):
        return lambda task: given
    return given.__getitem__
