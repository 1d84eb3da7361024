"""What a rank hears and says: messages and reports in, orders, values and futures' endings out.

The tables of `worker` and, on rank 0, of `driver` change in here only, under the engine's lock.
"""

import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from sched.backends.base import Backend, Rung
from sched.core.actions import Outcome
from sched.errors import RequestError, UsageError
from sched.model import DRIVER, RankId, TaskId, TileId
from sched.runtime.driver import Driver
from sched.runtime.messages import (
    Answer,
    Ask,
    Broke,
    Done,
    Part,
    Ready,
    ToDriver,
    ToRank,
    Value,
    decode,
    encode,
    size,
)
from sched.runtime.orders import Ending
from sched.runtime.worker import Worker
from sched.transport.base import Lane, Message, Transport

TOGETHER = 64 << 20
"""Bytes of values that go to the same rank in one message: those behind them are not to wait for too long."""

PERIOD = 0.0001
"""Seconds after which a script that submits in a loop looks whether anything has come."""

WORRIED = 10.0
"""Seconds after which it is said that a task has failed on one of its ranks, and others have not returned."""

REPORTS = frozenset({Done, Broke, Ready, Part, Answer})


class Exchange:
    """One rank's tables and the wire.

    Args:
        transport: this rank's end of it.
        backend: its tiles.
        ranks: on rank 0 the rank of every tile in the run, else None.
        depth: how many ready tasks a tile is given at a time.
        on_demand: tiles that take a call only when they are opened.
        changed: the engine's lock, as a condition that is notified when futures have ended.
        runnable: is told the tile of each call that may start.
        may_read: tells whether this thread may read the arrays of a tile now.
        limit: bytes for each tile.
        check: find out who writes into arguments.
        places: of all tiles in the run; see `core.scheduler.Scheduler`.
        stall: seconds after which a run that does not get on is ended; 0: never.
    """

    def __init__(
        self,
        transport: Transport,
        backend: Backend,
        ranks: list[RankId] | None,
        *,
        depth: int,
        on_demand: Collection[TileId],
        changed: Any,
        runnable: Callable[[TileId], None],
        may_read: Callable[[], bool],
        limit: int,
        check: bool,
        places: Sequence[tuple[int, int]] | None,
        stall: float,
    ) -> None:
        self.closed = False
        self.worker = Worker(
            transport.rank, backend, self._tell, runnable, transport.group, limit=limit, check=check
        )
        self.packer = self.worker.packer
        self.driver: Driver | None = None
        if ranks is not None:
            self.driver = Driver(
                ranks,
                self.packer,
                self.deliver,
                depth=depth,
                on_demand=on_demand,
                places=places,
                limit=limit,
            )
        self._rank = transport.rank
        self._transport = transport
        self._changed = changed
        self._may_read = may_read
        self._outbox: dict[RankId, list[ToRank | ToDriver]] = {}
        self._own: deque[ToRank] = deque()
        self._reports: deque[ToDriver] = deque()
        self._direct = Rung.POINTER if backend.direct else Rung.STAGED
        self._pumped = 0.0
        self._stall = stall
        # Tasks of which it has been said that some of their ranks do not return.
        self._worried: set[TaskId] = set()
        transport.room = self.worker.store.room

    def pump(self) -> bool:
        """Take in what has come, and send what is to be sent. Under the lock."""
        busy = False
        self._pumped = time.perf_counter()
        for _ in range(64):
            message = self._transport.receive()
            if message is None:
                break
            busy = True
            batch = decode(message.data, message.buffers)
            if type(batch[0]) is Value:
                self._note(message, batch)
            for item in batch:
                kind = type(item)
                if kind is Value:
                    self.worker.arrive(item)
                elif kind in REPORTS:
                    self._reports.append(item)
                else:
                    self.worker.obey(item)
        self.carry_out()
        if self.driver is not None and self.driver.torn:
            self._mend()
        return busy

    def keep_up(self) -> None:
        """Pump if there is anything to be done, or may be by now. Under the lock."""
        if self._outbox or self._own or self._reports or time.perf_counter() - self._pumped > PERIOD:
            self.pump()

    def moving(self) -> bool:
        """Tell whether bytes are on their way, from here or to here."""
        return self._transport.is_moving()

    def carry_out(self) -> None:
        """Do what follows, until nothing does, and send it off. Under the lock."""
        if self.closed:
            return
        if self.driver is not None:
            self.driver.collect()
        while self._own or self._reports:
            while self._own:
                self.worker.obey(self._own.popleft())
            while self._reports:
                assert self.driver is not None
                self.driver.report(self._reports.popleft())
        may_pack = self._may_read()
        for target, values in _batches(self.worker.outgoing(may_pack)):
            self._transport.send(target, Lane.VALUES, *encode(values))
        if self._outbox:
            outbox, self._outbox = self._outbox, {}
            for rank, batch in outbox.items():
                self._transport.send(rank, Lane.CONTROL, *encode(batch))

    def deliver(self, rank: RankId, message: ToRank) -> None:
        if rank == self._rank:
            self._own.append(message)
        else:
            self._outbox.setdefault(rank, []).append(message)

    def ask(self, number: int) -> None:
        """Ask every rank for what is on its tiles. The answers come to `driver.answers`. Under the lock."""
        for rank in range(self._transport.size):
            self.deliver(RankId(rank), Ask(number))

    def _note(self, message: Message, values: Sequence[Value]) -> None:
        """Enter a move that has come to its end here."""
        tiles = sum(len(value.packed.memories) for value in values if value.packed is not None)
        sizes = [size(buffer) for buffer in message.buffers]
        first = len(sizes) - tiles
        seconds = message.seconds
        if sizes[first:]:
            self.packer.moves.note(self._direct, sum(sizes[first:]), seconds)
        if first:
            self.packer.moves.note(Rung.HOST, sum(sizes[:first]), 0.0 if sizes[first:] else seconds)
        if not sizes:
            self.packer.moves.note(Rung.HOST, len(message.data))

    def _mend(self) -> None:
        """Say so if a task has failed on one of its ranks and others do not return; at last end the run."""
        assert self.driver is not None
        for task, (since, fault) in self.driver.torn.items():
            seconds = time.monotonic() - since
            what = f"{fault.task_name} has failed on one of its ranks ({fault.type_name}: {fault.message})"
            if seconds > WORRIED and task not in self._worried:
                self._worried.add(task)
                say(f"{what}, and others have not returned since: perhaps they wait for it in MPI")
            if self._stall and seconds > self._stall:
                say(f"{what}, and others have not returned for {self._stall:.0f} s: the run ends (--stall)")
                say(fault.story)
                self._transport.abort(1)

    def _tell(self, message: ToDriver) -> None:
        if self.driver is not None:
            self._reports.append(message)
        else:
            self._outbox.setdefault(DRIVER, []).append(message)

    def notify(self) -> bool:
        """Tell futures how they ended, and let go of what was dropped.

        Without the lock, since the script's callbacks and finalisers may do anything.
        """
        self.worker.store.dropped.clear()
        if self.driver is None or not self.driver.settled:
            return False
        settled = self.driver.settled
        while settled:
            try:
                ending = settled.popleft()
            except IndexError:  # another thread was quicker
                break
            self._end(ending)
            del ending
        with self._changed:
            self._changed.notify_all()
        return True

    def _end(self, ending: Ending) -> None:
        future = ending.future
        if ending.outcome is Outcome.CANCELLED:
            future.note_cancelled()
        elif ending.make_error is not None:
            future.set_exception(ending.make_error())
        elif ending.small is not None:
            future.set_result(self.packer.freeze(self.packer.unpack(ending.small, None)))
        else:
            future.set_result(ELSEWHERE)


def _batches(outgoing: Sequence[tuple[RankId, Value]]) -> Iterator[tuple[RankId, list[Value]]]:
    """Put together what goes to the same rank: one message for many values, unless they are large."""
    batches: dict[RankId, list[Value]] = {}
    sizes: dict[RankId, int] = {}
    for target, value in outgoing:
        batches.setdefault(target, []).append(value)
        sizes[target] = sizes.get(target, 0) + (0 if value.packed is None else value.packed.nbytes)
        if sizes[target] > TOGETHER:
            yield target, batches.pop(target)
            del sizes[target]
    yield from batches.items()


class Section:
    """The engine's lock for whoever comes from outside.

    A finaliser or callback of the user's that happens to run while this very thread holds the lock would
    see tables that are half changed, or wait for itself: it gets an error. And an error of ours inside ends
    the run.
    """

    def __init__(self, lock: Any, bug: Callable[[], None]) -> None:
        self._lock = lock
        self._bug = bug
        # Locks that may be taken under it, and never the other way round.
        self.inner: list[Any] = []
        self._pid = os.getpid()

    def is_inside(self) -> bool:
        """Tell whether this very thread is inside: then what runs is a finaliser, or a callback."""
        return self._lock._is_owned() or any(lock._is_owned() for lock in self.inner)

    def __enter__(self) -> None:
        if os.getpid() != self._pid:  # a thread that is not here may hold the lock
            raise UsageError("a forked child cannot use its parent's scheduler: start it in another way")
        if self.is_inside():
            raise UsageError("the scheduler cannot be used by a finaliser that runs inside it")
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        try:
            if kind is not None and not issubclass(kind, RequestError | UsageError | KeyboardInterrupt):
                self._bug()
        finally:
            self._lock.release()


def say(text: str) -> None:
    with contextlib.suppress(Exception):  # the job may have closed it
        (sys.stderr or sys.__stderr__).write(f"sched: {text}\n")  # type: ignore[union-attr]
        (sys.stderr or sys.__stderr__).flush()  # type: ignore[union-attr]


class _ValueOnATile:
    """The result of a future whose value lies on a tile."""

    def __repr__(self) -> str:
        return "<value on a tile>"


ELSEWHERE = _ValueOnATile()
