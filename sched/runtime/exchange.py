"""What a rank hears and says: messages and reports in, orders, values and futures' endings out.

The tables of `worker` and, on rank 0, of `driver` change in here only, under the engine's lock.
"""

import contextlib
import os
import sys
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from sched.backends.base import Backend
from sched.core.actions import Outcome
from sched.errors import RequestError, UsageError
from sched.model import DRIVER, RankId, TileId
from sched.runtime.driver import Driver, Ending, Owner
from sched.runtime.messages import Broke, Done, ToDriver, ToRank, Value, decode, encode
from sched.runtime.worker import Worker
from sched.transport.base import Lane, Transport


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
    ) -> None:
        self.closed = False
        self.worker = Worker(transport.rank, backend, self._tell, runnable)
        self.packer = self.worker.packer
        self.driver: Driver | None = None
        if ranks is not None:
            self.driver = Driver(ranks, self.packer, self.deliver, depth=depth, on_demand=on_demand)
        self._rank = transport.rank
        self._transport = transport
        self._changed = changed
        self._may_read = may_read
        self._outbox: dict[RankId, list[ToRank | ToDriver]] = {}
        self._own: deque[ToRank] = deque()
        self._reports: deque[ToDriver] = deque()

    def pump(self) -> bool:
        """Take in what has come, and send what is to be sent. Under the lock."""
        busy = False
        for _ in range(64):
            message = self._transport.receive()
            if message is None:
                break
            busy = True
            for item in decode(message.data, message.buffers):
                kind = type(item)
                if kind is Value:
                    self.worker.arrive(item)
                elif kind is Done or kind is Broke:
                    self._reports.append(item)
                else:
                    self.worker.obey(item)
        self.carry_out()
        return busy

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
        for target, value in self.worker.outgoing(may_pack):
            self._transport.send(target, Lane.VALUES, *encode([value]))
        if self._outbox:
            outbox, self._outbox = self._outbox, {}
            for rank, batch in outbox.items():
                self._transport.send(rank, Lane.CONTROL, *encode(batch))

    def deliver(self, rank: RankId, message: ToRank) -> None:
        if rank == self._rank:
            self._own.append(message)
        else:
            self._outbox.setdefault(rank, []).append(message)

    def _tell(self, message: ToDriver) -> None:
        if self.driver is not None:
            self._reports.append(message)
        else:
            self._outbox.setdefault(DRIVER, []).append(message)

    def notify(self) -> bool:
        """Tell futures how they ended, and let go of what was dropped.

        Without the lock, since the script's callbacks and finalisers may do anything.
        """
        self.worker.dropped.clear()
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
        future.before_callbacks = lambda: self._count_down(ending.owner)
        if ending.outcome is Outcome.CANCELLED:
            future.note_cancelled()
        elif ending.make_error is not None:
            future.set_exception(ending.make_error())
        elif ending.small is not None:
            future.set_result(self.packer.unpack(ending.small, None))
        else:
            future.set_result(ELSEWHERE)

    def _count_down(self, owner: Owner) -> None:
        with self._changed:
            owner.outstanding -= 1


class Section:
    """The engine's lock for whoever comes from outside.

    A finaliser or callback of the user's that happens to run while this very thread holds the lock would
    see tables that are half changed, or wait for itself: it gets an error. And an error of ours inside ends
    the run.
    """

    def __init__(self, lock: Any, bug: Callable[[], None]) -> None:
        self._lock = lock
        self._bug = bug
        self._pid = os.getpid()

    def __enter__(self) -> None:
        if os.getpid() != self._pid:  # a thread that is not here may hold the lock
            raise UsageError("a forked child cannot use its parent's scheduler: start it in another way")
        if self._lock._is_owned():
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


class _Elsewhere:
    """The result of a future whose value lies on a tile."""

    def __repr__(self) -> str:
        return "<value on a tile>"


ELSEWHERE = _Elsewhere()
