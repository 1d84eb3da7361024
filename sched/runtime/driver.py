"""Rank 0's half of the scheduling: the script's futures on one side, the core on the other.

All methods are called under the engine's lock. What concerns futures is collected in `settled`, because
their callbacks must run without the lock.
"""

import functools
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from weakref import WeakValueDictionary

from sched.core.actions import Action, Free, Move, Outcome, Run, Settle
from sched.core.events import (
    CancelRequested,
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
from sched.core.scheduler import Scheduler
from sched.errors import RequestError
from sched.model import RankId, Ref, TaskId, TileId, assert_never
from sched.runtime.faults import dependent, revive
from sched.runtime.functions import Functions
from sched.runtime.ledger import Stats
from sched.runtime.messages import (
    Answer,
    Assign,
    Broke,
    Conclude,
    Define,
    Done,
    Drop,
    Expect,
    Fault,
    Forget,
    Go,
    Packed,
    Part,
    Ready,
    Send,
    ToDriver,
    ToRank,
)
from sched.runtime.orders import Ending, Future, Make, Options, Order, Owner, Parts, Record
from sched.runtime.packing import Packer

WINDOW = 0.5
"""How much of a tile may be taken by values that wait for their consumers, before it makes more of them."""


_Blame = dict[TaskId, tuple[str, Fault | None]]
"""Tasks that have no value: the name of the one that failed first, and its fault if it was not cancelled."""


class Driver:
    """Turn calls into tasks, the core's actions into orders, and reports into futures' results.

    Args:
        ranks: the rank of each tile.
        deliver: takes an order to a rank, also to this one.
        depth, on_demand, places: see `core.scheduler.Scheduler`.
        limit: bytes for each tile.
    """

    def __init__(
        self,
        ranks: Sequence[RankId],
        packer: Packer,
        deliver: Callable[[RankId, ToRank], None],
        *,
        depth: int,
        on_demand: Collection[TileId],
        places: Sequence[tuple[int, int]] | None,
        limit: int,
    ) -> None:
        self.functions = Functions(packer)
        self.released: deque[Ref] = deque()
        self.unwanted: deque[Ref] = deque()
        self.settled: deque[Ending] = deque()
        self.ranks = tuple(ranks)
        # What ranks have answered to each question that is open.
        self.answers: dict[int, list[Stats]] = {}
        # Tasks on several ranks that have failed on one of them, and when: the others may wait for it in MPI.
        self.torn: dict[TaskId, tuple[float, Fault]] = {}
        self._limit = limit
        self._core = Scheduler(
            ranks, depth=depth, on_demand=on_demand, places=places, budget=int(limit * WINDOW)
        )
        self._deliver = deliver
        self._records: dict[TaskId, Record] = {}
        self._next = 0
        self._open: set[TileId] = set()
        self._failed: WeakValueDictionary[TaskId, Future] = WeakValueDictionary()

    def submit(self, order: Order, make: Make, owner: Owner) -> Future:
        """Take in a call, which `check` has found to be possible."""
        task = TaskId(self._next)
        self._next += 1
        future = make(task, self.released, owner)
        self._records[task] = Record(order, future, owner)
        owner.waiting.add(task)
        options = order.options
        tile = None if options.tile is None else TileId(options.tile)
        self._handle(
            Submitted(
                task,
                order.inputs,
                tile,
                options.near,
                options.priority,
                options.retries,
                options.tiles,
                order.function.number,
            )
        )
        return future

    def check(self, options: Options) -> None:
        """See whether a task with these options can ever run.

        Raises:
            RequestError: It needs a tile that there is not, or more of them or of memory than there is.
        """
        if options.tile is not None and not 0 <= options.tile < len(self.ranks):
            raise RequestError(
                f"tile={options.tile} does not exist: this run has {len(self.ranks)} tiles, "
                f"0 to {len(self.ranks) - 1}"
            )
        if not 1 <= options.tiles <= len(self.ranks):
            raise RequestError(f"tiles={options.tiles} cannot be had: this run has {len(self.ranks)} tiles")
        if not 0 <= options.memory <= self._limit:
            raise RequestError(
                f"memory={options.memory} bytes cannot be had: a tile has {self._limit} (--tile-memory)"
            )

    def report(self, message: ToDriver) -> None:
        """Take in what a rank says."""
        if type(message) is Done and self._records[message.task].parts is None:
            self._handle(Finished(message.task, message.nbytes, message.seconds), small=message.value)
            return
        match message:
            case Answer(number, stats):
                if number in self.answers:
                    self.answers[number].append(stats)
            case Ready(task):
                self._ready(task)
            case Part(task, fault, cause):
                self._part(task, None, fault, cause)
            case Done(task):
                self._part(task, message, None, None)
            case Broke(task, cause, fault) if self._records[task].parts is not None:
                self._part(task, message, fault, cause)
            case Broke(task, cause, fault):
                self._failed_with(task, cause, fault)
            case _:
                assert_never(message)

    def _ready(self, task: TaskId) -> None:
        """Count the ranks of a task that have what it takes; it begins with the last."""
        parts = self._records[task].parts
        assert parts is not None
        parts.ready += 1
        if parts.ready == len(parts.ranks):
            self._go(task, parts)

    def _go(self, task: TaskId, parts: Parts) -> None:
        """Let all ranks of a task begin; or none, because of a fault."""
        if not parts.gone:
            parts.gone = True
            for rank in parts.ranks:
                self._deliver(rank, Go(task, parts.fault, parts.cause))

    def _part(
        self, task: TaskId, report: Done | Broke | None, fault: Fault | None, cause: TaskId | None
    ) -> None:
        """Count the ranks of a task that have ended; it ends with the last."""
        parts = self._records[task].parts
        assert parts is not None
        parts.left -= 1
        if report is not None and type(report) is Done:
            parts.done = report
        if fault is not None and parts.fault is None:
            parts.fault, parts.cause = fault, cause
            if parts.gone:
                self.torn[task] = (time.monotonic(), fault)
            self._go(task, parts)
        if parts.left:
            return
        self.torn.pop(task, None)
        self._records[task].parts = None
        self._deliver(parts.ranks[0], Conclude(task, parts.fault))
        if parts.fault is not None:
            self._failed_with(task, parts.cause, parts.fault)
        else:
            assert parts.done is not None
            _, size, value, seconds = parts.done
            self._handle(Finished(task, size, seconds), small=value)

    def _failed_with(self, task: TaskId, cause: TaskId | None, fault: Fault) -> None:
        blame: _Blame = {task if cause is None else cause: (fault.task_name, fault)}
        self._handle(Failed(task, cause), blame=blame)

    @property
    def idle(self) -> bool:
        """Whether every task has ended."""
        return not self._records

    def cancel(self, future: Future) -> bool:
        """Ask that a task be not run; tell whether it has ended. Its future is then among `settled`."""
        self._handle(CancelRequested(future.ref))
        return future.ref not in self._records

    def cancel_all(self, owner: Owner) -> None:
        """Ask it for all tasks of an owner."""
        for task in [task for task, record in self._records.items() if record.owner is owner]:
            self._handle(CancelRequested(task))

    def want(self, ref: Ref) -> None:
        """Let a value come to this rank."""
        self._handle(Wanted(ref))

    def spread(self, ref: Ref) -> None:
        """Let a value come to every rank that has a tile."""
        self._handle(Spread(ref))

    def open(self, tiles: Iterable[TileId]) -> None:
        """Let tiles that work on demand take one task each, unless they may already."""
        new = tuple([tile for tile in tiles if tile not in self._open])
        if new:
            self._open.update(new)
            self._handle(TilesOpened(new))

    def close_all(self) -> None:
        """Let such tiles take no more."""
        for tile in sorted(self._open):
            self._handle(TileClosed(tile))
        self._open.clear()

    def has_pinned(self, tile: TileId) -> bool:
        """Tell whether tasks wait for this tile that can run nowhere else."""
        return self._core.has_pinned(tile)

    def collect(self) -> None:
        """Let go of values and functions that the script does not name any more, and of tasks."""
        while self.unwanted:
            self._handle(CancelRequested(self.unwanted.popleft()))
        while self.released:
            self._handle(Released(self.released.popleft()))
        forgotten = self.functions.forgotten
        while forgotten:
            number, ranks = forgotten.popleft()
            for rank in sorted(ranks):
                self._deliver(rank, Forget(number))

    def _handle(
        self,
        event: Event,
        *,
        small: Packed | None = None,
        blame: _Blame | None = None,
    ) -> None:
        actions = self._core.handle(event)
        if actions:
            self._carry_out(actions, small, blame or {})

    def _carry_out(
        self,
        actions: Sequence[Action],
        small: Packed | None,
        blame: _Blame,
    ) -> None:
        for action in actions:
            match action:
                case Run():
                    self._assign(action)
                case Move(ref, source, target):
                    self._deliver(source, Send(ref, target))
                    self._deliver(target, Expect(ref))
                case Free(ref, rank):
                    self._deliver(rank, Drop(ref))
                case Settle(task, outcome, cause):
                    record = self._records.pop(task)
                    error = None
                    if outcome is not Outcome.FINISHED:
                        error = self._blame(task, record, outcome, cause, blame)
                    self.settled.append(Ending(record.future, record.owner, outcome, small, error))
                case _:
                    assert_never(action)

    def _assign(self, action: Run) -> None:
        task, tile, attempt, tiles, ranks = action
        record = self._records[task]
        order, rank = record.order, self.ranks[tile]
        self._open.difference_update(tiles or (tile,))
        function = order.function
        if rank not in function.known:
            function.known.add(rank)
            self._deliver(rank, Define(function.number, function.code))
        if len(ranks) < 2:
            ranks = ()
        elif rank == ranks[0]:
            record.parts = Parts(ranks)
        self._deliver(
            rank,
            Assign(
                task,
                tile,
                function.number,
                order.arguments,
                order.inputs,
                attempt,
                order.name,
                order.options.memory,
                tiles,
                ranks,
            ),
        )
        if not attempt and (not ranks or rank == ranks[0]):
            record.future.set_running_or_notify_cancel()

    def _blame(
        self,
        task: TaskId,
        record: Record,
        outcome: Outcome,
        cause: TaskId | None,
        blame: _Blame,
    ) -> Callable[[], BaseException] | None:
        """Find out why a task has no value, and remember it for those that will take it."""
        future = record.future
        self._failed[task] = future
        if outcome is Outcome.CANCELLED:
            future.blame = blame[task] = (record.order.name, None)
            return None
        found = blame.get(task if cause is None else cause)
        if found is None:
            for ref in record.order.inputs:
                source = self._failed.get(ref)
                if source is not None and source.blame is not None:
                    found = source.blame
                    break
        assert found is not None
        future.blame = blame[task] = found
        name, fault = found
        if cause is None:
            assert fault is not None
            return functools.partial(revive, fault)
        return functools.partial(dependent, record.order.name, fault, name)
