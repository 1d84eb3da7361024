"""The future: where the result of a task is asked for, wherever that lies."""

import concurrent.futures
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from sched.errors import UsageError
from sched.model import Ref
from sched.runtime import orders
from sched.runtime.current import running
from sched.runtime.engine import Engine
from sched.runtime.exchange import ELSEWHERE
from sched.runtime.faults import revive

SHOWN = 12
"""How many of the failed are named by number."""

TURN = 0.001
"""Seconds for which one of several engines is lent the thread that waits for futures of all of them."""


class Future(orders.Future):
    """The result of a task, wherever it lies. A `concurrent.futures.Future` in every respect.

    As an argument of another task it stands for the value. Dropping it frees the value on its tile.
    """

    def __init__(self, ref: Ref, released: "deque[Ref]", owner: orders.Owner, engine: Engine) -> None:
        super().__init__(ref, released, owner)
        self.packer = engine.packer
        self._engine = engine

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the value and return it, its arrays on the caller's own tile.

        Args:
            timeout: seconds, or None for as long as it takes.

        Raises:
            TimeoutError: It was not there in time (`concurrent.futures.TimeoutError`).
            CancelledError: The task was cancelled.
            DependencyError: It was not run, because a task whose value it takes failed.
            UsageError: It is a task that waits. Give it the future as an argument.
            Exception: Whatever the task raised, with the remote traceback as its cause.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            self._wait(timeout)
            # Without its lock, where that has never been made.
            value = self._result if self._is_good else super().result(0)
            if value is not ELSEWHERE:
                return value
            bring(self._engine, [self], deadline)
            return self._engine.value(self.ref, self._engine.home)
        finally:
            del self  # or else an exception's traceback would keep its own future alive

    def numpy(self, timeout: float | None = None) -> Any:
        """Like `result`, but return a copy with NumPy arrays in the place of a tile's."""
        return self._engine.packer.to_numpy(self.result(timeout), computed=True)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the task to end, and return what it raised, or None.

        Raises:
            TimeoutError: It has not ended in time.
            CancelledError: The task was cancelled.
        """
        try:
            self._wait(timeout)
            return super().exception(0)
        finally:
            del self

    def done(self) -> bool:
        """Tell whether the task has ended. Lends the scheduler a moment, so it may be polled."""
        if not self.ended and not self._engine.closed:
            self._engine.poke()
        return self.ended

    def cancel(self) -> bool:
        """Cancel the task if it has no tile yet; tell whether it is cancelled."""
        if not self.ended and self._engine.cancel(self):
            self._engine.wait(lambda: self.ended)  # another thread may be about to enter it
        return self.cancelled()

    def __del__(self) -> None:
        super().__del__()
        self._engine.tidy()

    def lies_elsewhere(self) -> bool:
        """Tell whether the task has a value, and that is neither here nor small."""
        return self.ended and self._result is ELSEWHERE and not self._engine.is_here(self.ref)

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        """Call `fn` with this future when it is done. It may run in any thread of this process."""
        super().add_done_callback(fn)
        asyncio: Any = sys.modules.get("asyncio")
        loop = asyncio and asyncio._get_running_loop()
        if loop is not None and not self.ended:
            self._engine.lend(loop)

    def _wait(self, timeout: float | None) -> None:
        if self.ended:
            return
        if running.get() is not None:  # it might wait for a task that is to run on its own tile
            raise UsageError("a task cannot wait for another: give it the future as an argument")
        self._engine.wait(lambda: self.ended, timeout, lambda task: task != self.ref)

    @property
    def _is_good(self) -> bool:
        return self._state == "FINISHED" and self._exception is None

    def _make_waiters(self) -> list[Any]:
        return _Waiters(self._engine)


def bring(engine: Engine, futures: list[Future], deadline: float | None) -> None:
    """Let values that are done come to this rank, and wait for them.

    Raises:
        TimeoutError: One was not here in time.
        Exception: Why one cannot come.
    """
    if not engine.closed:
        engine.want([future.ref for future in futures])
    elif not all(engine.is_here(future.ref) for future in futures):
        raise UsageError("the run has ended, and with it the values on its tiles: take them before shutdown")
    for future in futures:
        left = None if deadline is None else deadline - time.monotonic()
        if not engine.wait(lambda ref=future.ref: engine.is_here(ref), left):  # type: ignore[misc]
            raise concurrent.futures.TimeoutError
        fault = engine.fault(future.ref)
        if fault is not None:
            raise revive(fault)


def raise_first(items: list[Any]) -> None:
    """Wait for the futures among these; raise what the first that failed did, noting which have failed."""
    errors: dict[int, BaseException] = {}
    for number, item in enumerate(items):
        if isinstance(item, Future):
            try:
                error = item.exception()
            except concurrent.futures.CancelledError as cancelled:
                error = cancelled
            if error is not None:
                errors[number] = error
    if not errors:
        return
    numbers = ", ".join(map(str, list(errors)[:SHOWN]))
    more = f" and {len(errors) - SHOWN} more" if len(errors) > SHOWN else ""
    note = f"gather: {len(errors)} of {len(items)} values have failed: number {numbers}{more}"
    error = next(iter(errors.values()))
    error.__notes__ = [*dict.fromkeys([*getattr(error, "__notes__", ()), note])]
    try:
        raise error
    finally:
        del error, errors, items, item  # its traceback must not keep them alive


class _Waiters(list[Any]):
    """Whoever waits for a future by `concurrent.futures.wait` or `as_completed`.

    Those wait on an event. If the tiles need the waiting thread (the script's may be the one that has to
    run the task that it waits for), it is exchanged for an event that lends the thread to the scheduler.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    def append(self, waiter: Any) -> None:
        assert self._engine.driver is not None
        alone = len(self._engine.tiles) == len(self._engine.driver.ranks)
        if not (alone and self._engine.backend.background):
            if not isinstance(waiter.event, _LendingEvent):
                waiter.event = _LendingEvent()
            waiter.event.engines[self._engine] = None
        super().append(waiter)


class _LendingEvent(threading.Event):
    """An event whose waiting thread serves the engines of all futures that it waits for, in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.engines: dict[Engine, None] = {}

    def wait(self, timeout: float | None = None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        engines = list(self.engines)
        while not self.is_set() and (deadline is None or time.monotonic() < deadline):
            for engine in engines:
                left = None if deadline is None else deadline - time.monotonic()
                turn = left if len(engines) == 1 else TURN if left is None else min(left, TURN)
                engine.wait(self.is_set, turn)
        return self.is_set()
