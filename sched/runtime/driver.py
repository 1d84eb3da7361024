"""Rank 0's half of the scheduling: the script's futures on one side, the core on the other.

All methods are called under the engine's lock. What concerns futures is collected in `settled`, because
their callbacks must run without the lock.
"""

import concurrent.futures
import functools
import traceback
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from sched.core.actions import Action, Free, Move, Outcome, Run, Settle
from sched.core.events import (
    CancelRequested,
    Event,
    Failed,
    Finished,
    Released,
    Submitted,
    TileClosed,
    TileOpened,
    Wanted,
)
from sched.core.scheduler import Scheduler
from sched.errors import RequestError
from sched.model import RankId, Ref, TaskId, TileId, assert_never
from sched.runtime.functions import Function, Functions
from sched.runtime.messages import (
    Assign,
    Broke,
    Define,
    Done,
    Drop,
    Expect,
    Fault,
    Forget,
    Packed,
    Send,
    ToDriver,
    ToRank,
)
from sched.runtime.packing import Handle, Packer, dependent, revive


class Future(Handle, concurrent.futures.Future[Any]):
    """The driver's side of a future: the task it names, and where to say that nobody names it any more."""

    def __init__(self, ref: Ref, released: "deque[Ref]") -> None:
        super().__init__()
        self.ref = ref
        self._released = released
        # Why it has no value: the name of the task that failed first, and its fault if it was not cancelled.
        self.blame: tuple[str, Fault | None] | None = None
        self.before_callbacks: Callable[[], None] | None = None

    def _invoke_callbacks(self) -> None:
        """See that whoever counts tasks knows before a callback asks; and that none ends a thread of ours."""
        if self.before_callbacks is not None:
            self.before_callbacks()
            self.before_callbacks = None
        try:
            super()._invoke_callbacks()  # type: ignore[misc]
        except BaseException:  # SystemExit and its like; the others are logged there
            traceback.print_exc()

    def note_cancelled(self) -> None:
        """Enter that it was cancelled, and tell everybody who waits."""
        with self._condition:
            self._state = "PENDING"  # also if the task has been running, and waits to be tried again
        super().cancel()
        self.set_running_or_notify_cancel()

    def __del__(self) -> None:
        # May run in any thread at any moment, so it only leaves word; the engine does the rest.
        self._released.append(self.ref)


class Options(NamedTuple):
    """How a task is to be run; see `client.Scheduler.options`."""

    tile: int | None = None
    near: Ref | None = None
    priority: int = 0
    retries: int = 0
    name: str | None = None


class Order(NamedTuple):
    """One call as the script asked for it, packed."""

    function: Function
    arguments: Packed
    inputs: tuple[Ref, ...]
    options: Options
    name: str


class Ending(NamedTuple):
    """What a future is to be told: a small value, an exception, or neither (the value lies on a tile).

    The exception is made without the lock: the user's own code runs when it is unpickled.
    """

    future: Future
    owner: "Owner"
    outcome: Outcome
    small: Packed | None
    make_error: Callable[[], BaseException] | None


class _Record:
    __slots__ = ("future", "order", "owner")

    def __init__(self, order: Order, future: Future, owner: "Owner") -> None:
        self.order = order
        self.future = future
        self.owner = owner


_Blame = dict[TaskId, tuple[str, Fault | None]]
"""Tasks that have no value: the name of the one that failed first, and its fault if it was not cancelled."""


class Owner:
    """Counts what one `Scheduler` of the script still waits for."""

    __slots__ = ("outstanding",)

    def __init__(self) -> None:
        self.outstanding = 0


class Driver:
    """Turn calls into tasks, the core's actions into orders, and reports into futures' results.

    Args:
        ranks: the rank of each tile.
        deliver: takes an order to a rank, also to this one.
    """

    def __init__(
        self,
        ranks: Sequence[RankId],
        packer: Packer,
        deliver: Callable[[RankId, ToRank], None],
        *,
        depth: int,
        on_demand: Collection[TileId],
    ) -> None:
        self.functions = Functions(packer)
        self.released: deque[Ref] = deque()
        self.unwanted: deque[Ref] = deque()
        self.settled: deque[Ending] = deque()
        self.ranks = tuple(ranks)
        self._core = Scheduler(ranks, depth=depth, on_demand=on_demand)
        self._deliver = deliver
        self._records: dict[TaskId, _Record] = {}
        self._next = 0
        self._open: set[TileId] = set()
        self._failed: WeakValueDictionary[TaskId, Future] = WeakValueDictionary()

    def submit(self, order: Order, make: Callable[[Ref, "deque[Ref]"], Future], owner: Owner) -> Future:
        """Take in a call, which `check` has found to be possible."""
        task = TaskId(self._next)
        self._next += 1
        future = make(task, self.released)
        self._records[task] = _Record(order, future, owner)
        owner.outstanding += 1
        options = order.options
        tile = None if options.tile is None else TileId(options.tile)
        self._handle(Submitted(task, order.inputs, tile, options.near, options.priority, options.retries))
        return future

    def check(self, options: Options) -> None:
        """See whether a task with these options can ever run.

        Raises:
            RequestError: It is pinned to a tile that there is not.
        """
        if options.tile is not None and not 0 <= options.tile < len(self.ranks):
            raise RequestError(
                f"tile={options.tile} does not exist: this run has {len(self.ranks)} tiles, "
                f"0 to {len(self.ranks) - 1}"
            )

    def report(self, message: ToDriver) -> None:
        """Take in what a rank says about a task."""
        match message:
            case Done(task, size, value):
                self._handle(Finished(task, size), small=value)
            case Broke(task, cause, fault):
                blame: _Blame = {task if cause is None else cause: (fault.task_name, fault)}
                self._handle(Failed(task, cause), blame=blame)
            case _:
                assert_never(message)

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

    def open(self, tile: TileId) -> None:
        """Let a tile that works on demand take one task, unless it may already."""
        if tile not in self._open:
            self._open.add(tile)
            self._handle(TileOpened(tile))

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
                case Run(task, tile, attempt):
                    self._run(task, tile, attempt)
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

    def _run(self, task: TaskId, tile: TileId, attempt: int) -> None:
        record = self._records[task]
        order, rank = record.order, self.ranks[tile]
        self._open.discard(tile)
        function = order.function
        if rank not in function.known:
            function.known.add(rank)
            self._deliver(rank, Define(function.number, function.code))
        self._deliver(
            rank, Assign(task, tile, function.number, order.arguments, order.inputs, attempt, order.name)
        )
        if not attempt:
            record.future.set_running_or_notify_cancel()

    def _blame(
        self,
        task: TaskId,
        record: _Record,
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
