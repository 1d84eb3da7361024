"""What makes one rank go: one lock, and threads that take turns at the same few duties.

The duties are: *pump* (take in messages, let the driver decide, send what is to be sent) and *run* calls.
All tables are changed under the one lock; calls run without it.

                         runs calls                     pumps
    rank 0, host         a thread for each tile         whoever waits for the scheduler, else the relief
    rank 0, sycl         the script's thread, while     the same
                         it waits for the scheduler
    other ranks          the main thread                the main thread, else the relief

The *relief* (`relief.py`) pumps while nobody else does. One thread alone touches dpnp on each rank (several
can freeze a process), and on rank 0 that is the script's own, since the script may use dpnp itself; so with
`sycl` that tile takes no call while the script computes.
"""

import contextlib
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from sched.backends.base import Backend, Tile
from sched.errors import UsageError
from sched.model import DRIVER, RankId, Ref, TileId
from sched.runtime.driver import Future, Order, Owner
from sched.runtime.exchange import Exchange, Section, say
from sched.runtime.messages import Fault, Stop
from sched.runtime.relief import Backoff, Hungry, Relief
from sched.runtime.worker import Call, State
from sched.transport.base import Transport

if TYPE_CHECKING:
    import asyncio

LENT = 0.001
"""Seconds: between two moments that an asyncio loop lends, and for which `tidy` waits."""

GRACE = 3.0
"""Seconds that ranks are given to end by themselves when something went wrong."""

PATIENCE = 60.0
"""Seconds that they are given when all is well."""

BUG = 70
"""Exit status after an error of our own (`EX_SOFTWARE`)."""


class Engine:
    """One rank of a run.

    Args:
        transport: this rank's end of it.
        backend: its tiles.
        ranks: on rank 0 the rank of every tile in the run, else None.
        depth: how many ready tasks a tile is given at a time.
    """

    def __init__(
        self, transport: Transport, backend: Backend, ranks: list[RankId] | None, *, depth: int = 2
    ) -> None:
        self.backend = backend
        self.rank = transport.rank
        self.tiles = backend.tiles
        self.home: Tile | None = self.tiles[0] if self.tiles else None
        self._closed = False
        self.interrupted = False
        self.pid = os.getpid()
        self._transport = transport
        # Re-entrant only so that it can be asked whether this thread holds it: see `Section`.
        self._lock: Any = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._section = Section(self._lock, self._bug)
        # Tiles with a thread of their own, and tiles for which the pumping thread runs calls itself.
        scripted = self.rank == DRIVER
        threaded = backend.background and (scripted or len(self.tiles) > 1)
        self._inline = () if threaded else tuple(tile.id for tile in self.tiles)
        self._bells = {t.id: threading.Condition(self._lock) for t in self.tiles} if threaded else {}
        on_demand = self._inline if scripted else ()
        # Which tiles' calls a thread runs, also while it waits for something else.
        self._hands: dict[int, tuple[TileId, ...]] = {threading.get_ident(): self._inline}
        self._exchange = Exchange(
            transport,
            backend,
            ranks,
            depth=depth,
            on_demand=on_demand,
            changed=self._changed,
            runnable=self._runnable,
            may_read=self._may_read,
        )
        self.driver, self.packer = self._exchange.driver, self._exchange.packer
        self._worker = self._exchange.worker
        self._on_demand = bool(on_demand)
        self._lender: asyncio.AbstractEventLoop | None = None
        self._relief = Relief(self._lock, self._exchange.pump, self._exchange.notify, self._starving)
        self._threads = [self._thread(self._work, tile) for tile in self._bells]
        if transport.size > 1:
            self._threads.append(self._thread(self._relief.run))
        for thread in self._threads:
            thread.start()

    @property
    def closed(self) -> bool:
        """Whether the run is over for this process: it has ended, or this is a child that it forked."""
        return self._closed or os.getpid() != self.pid

    # -- for the script (rank 0) -------------------------------------------------------------------------

    def submit(
        self, orders: "list[Order]", make: Callable[[Ref, "deque[Ref]"], Future], owner: Owner
    ) -> list[Future]:
        """Take in calls, in one go.

        Raises:
            RequestError: One can never run; then none was taken.
        """
        assert self.driver is not None
        with self._section:
            if self.closed:
                raise UsageError("cannot schedule new futures after shutdown")
            for order in orders:
                self.driver.check(order.options)
            futures = [self.driver.submit(order, make, owner) for order in orders]
            self._exchange.pump()
        self._exchange.notify()
        self._be_interrupted()
        return futures

    def cancel(self, future: Future) -> bool:
        """Ask that a task be not run; tell whether it has ended, which its future may hear a moment later."""
        assert self.driver is not None
        with self._section:
            ended = self.driver.cancel(future)
            self._exchange.carry_out()
        self._exchange.notify()
        return ended

    def cancel_all(self, owner: Owner) -> None:
        """Ask it for every task of one `Scheduler`."""
        assert self.driver is not None
        with self._section:
            self.driver.cancel_all(owner)
            self._exchange.carry_out()
        self._exchange.notify()

    def abandon(self, refs: list[Ref]) -> None:
        """Leave word that tasks need not be run. The garbage collector may call it, at any moment."""
        assert self.driver is not None
        self.driver.unwanted.extend(refs)
        self.tidy()

    def want(self, refs: list[Ref]) -> None:
        """Let values come to this rank."""
        assert self.driver is not None
        with self._section:
            for ref in refs:
                self.driver.want(ref)
            self._exchange.carry_out()
        self._exchange.notify()

    def tidy(self) -> None:
        """Let go of values that the script has dropped, unless somebody is at it, or about to be.

        It may be called at any moment, so it does not insist on the lock.
        """
        if self.closed or self._lock._is_owned() or not self._lock.acquire(timeout=LENT):
            return
        try:
            self._exchange.carry_out()
        finally:
            self._lock.release()
        self._worker.dropped.clear()

    def is_here(self, ref: Ref) -> bool:
        """Tell whether a value (or the news that it cannot come) is on this rank."""
        slot = self._worker.slot(ref)
        return slot is not None and slot.state is not State.EMPTY

    def fault(self, ref: Ref) -> Fault | None:
        """Return why a value that is here is none."""
        slot = self._worker.slot(ref)
        assert slot is not None
        return slot.fault

    def value(self, ref: Ref, tile: Tile | None) -> Any:
        """Return a value that is here, for a tile."""
        return self._worker.value(ref, tile)

    def idle(self) -> bool:
        """Tell whether every task of the script has ended."""
        assert self.driver is not None
        return self.driver.idle

    def poke(self) -> None:
        """Give the scheduler a moment of the calling thread, and at most one call of each tile."""
        hand = self._hands.get(threading.get_ident())
        if hand:
            with self._section:
                self._ask_for_work()
        self._serve(lambda: True)

    def lend(self, loop: "asyncio.AbstractEventLoop") -> None:
        """Let the tiles that share the script's thread work while an asyncio loop runs in it."""
        if not self._on_demand or threading.get_ident() not in self._hands or self._lender is loop:
            return
        self._lender = loop

        def turn() -> None:
            if self.closed or self.idle():
                self._lender = None
            elif self._lender is loop:  # and not one that began after this had been stopped
                self.poke()
                loop.call_later(LENT, turn)

        loop.call_soon(turn)

    def wait(self, done: Callable[[], bool], timeout: float | None = None) -> bool:
        """Lend the calling thread to the scheduler until something is done.

        Returns:
            Whether it is done; False after `timeout` seconds.
        """
        if done():
            return True
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._transport.size > 1 or self._hands.get(threading.get_ident()) or self._inline:
            return self._serve(done, deadline)
        assert self.driver is not None
        settled = self.driver.settled
        while not done():
            self._exchange.notify()
            with self._changed:
                left = None if deadline is None else deadline - time.monotonic()
                if not self._changed.wait_for(lambda: done() or bool(settled), left):
                    return done()
        return True

    # -- the loop ----------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Work for the driver until it says stop (ranks other than 0)."""
        self._guard(self._serve, lambda: self._worker.stopped)

    def close(self, status: int, grace: float = GRACE) -> bool:
        """End the run; on rank 0 this ends the other ranks too.

        Returns:
            False if some rank has not ended within `grace` seconds.
        """
        with self._section:
            if self.driver is not None and self._transport.size > 1:
                for rank in range(1, self._transport.size):
                    self._exchange.deliver(RankId(rank), Stop())
                self._exchange.carry_out()
            self._closed = self._exchange.closed = True
            for bell in self._bells.values():
                bell.notify_all()
        self._relief.stop()
        for thread in self._threads:
            if thread is not threading.current_thread():
                # A run of one rank that went well has all the time that its tasks need.
                thread.join(None if status == 0 and self._transport.size == 1 else grace)
        with self._section:  # a thread that has not ended must not send meanwhile
            return self._transport.close(grace)

    def abort(self, status: int = BUG) -> NoReturn:
        """End all ranks now."""
        self._transport.abort(status)

    def finish(self, status: int) -> None:
        """End the run with this status; by force if a rank does not end by itself."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the job may have closed it
                stream.flush()
        if not self.close(status, PATIENCE if status == 0 else GRACE):
            say("a rank has not ended in time, and the run is ended by force")
            self._transport.abort(status or BUG)

    def _serve(self, done: Callable[[], bool], deadline: float | None = None) -> bool:
        hand = self._hands.get(threading.get_ident(), ())
        backoff = Backoff()
        hungry = Hungry()
        with self._section:
            self._relief.others_pump()
        try:
            while True:
                with self._section:
                    busy = self._exchange.pump()
                    starving = None if hand else self._starving()
                busy |= self._exchange.notify()
                self._be_interrupted()
                hungry.look(starving)
                over = done() or (deadline is not None and time.monotonic() >= deadline)
                call = None
                with self._section:
                    # The script's thread leaves no call behind that it has taken.
                    if over and not (self._on_demand and self._holds_calls(hand)):
                        if hand and self._on_demand and self.driver is not None:
                            self.driver.close_all()
                        return done()
                    if hand:
                        if not over:
                            self._ask_for_work()
                        call = self._next(hand)
                        if call is not None:
                            self._relief.others_leave()
                if call is not None:
                    self._execute(call, serving=True)
                    busy = True
                if busy:
                    backoff.reset()
                else:
                    backoff.pause(self._pause)
        finally:
            with self._section:
                if hand and self._on_demand and self.driver is not None:
                    self.driver.close_all()
                self._relief.others_leave()

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait(seconds)

    def _next(self, tiles: tuple[TileId, ...]) -> Call | None:
        for tile in tiles:
            call = self._worker.next(tile)
            if call is not None:
                return call
        return None

    def _holds_calls(self, tiles: tuple[TileId, ...]) -> bool:
        return any(self._worker.has_calls(tile) for tile in tiles)

    def _ask_for_work(self) -> None:
        """Offer the tiles that work on demand and have no call."""
        if not self._on_demand:
            return
        assert self.driver is not None
        for tile in self._inline:
            if not self._worker.has_calls(tile):
                self.driver.open(tile)
        self._exchange.carry_out()

    def _starving(self) -> TileId | None:
        """Return a tile whose tasks only the script's thread can run, if such tasks wait. Under the lock."""
        if self.driver is not None and self._on_demand:
            if len(self._inline) == len(self.driver.ranks) and not self.driver.idle:
                return self._inline[0]
            for tile in self._inline:
                if self.driver.has_pinned(tile):
                    return tile
        return None

    def _execute(self, call: Call, *, serving: bool = False) -> None:
        value, fault = self._worker.run(call)
        with self._section:
            if serving:
                self._relief.others_pump()
            self._worker.ended(call, value, fault)
            del value
            self._exchange.carry_out()
        self._exchange.notify()
        self._be_interrupted()

    def _may_read(self) -> bool:
        return self.backend.readable or threading.get_ident() in self._hands

    def _runnable(self, tile: TileId) -> None:
        bell = self._bells.get(tile)
        if bell is not None:
            bell.notify()

    def _be_interrupted(self) -> None:
        """Raise the KeyboardInterrupt that `interrupt` has held back, in the script's thread."""
        if self.interrupted and threading.current_thread() is threading.main_thread():
            self.interrupted = False
            raise KeyboardInterrupt

    def _bug(self) -> None:
        """End the run after an error that cannot be: tables that it left half changed would be a hang."""
        say(f"a bug in sched, on rank {self.rank}. Please report it.")
        if self._transport.size > 1:
            traceback.print_exc()
            self._transport.abort(BUG)
        self._closed = self._exchange.closed = True

    # -- threads -------------------------------------------------------------------------------------------

    def _thread(self, target: Callable[..., None], *args: Any) -> threading.Thread:
        return threading.Thread(
            target=self._guard, args=(target, *args), name=f"sched-{target.__name__}", daemon=True
        )

    def _guard(self, target: Callable[..., object], *args: Any) -> None:
        """Never let a thread of ours, or a rank, end unnoticed: that would be a hang."""
        try:
            target(*args)
        except BaseException:
            if not self.closed:
                traceback.print_exc()
                say(f"a bug in sched, on rank {self.rank}. Please report it.")
                self._transport.abort(BUG)

    def _work(self, tile: TileId) -> None:
        bell = self._bells[tile]
        self._hands[threading.get_ident()] = (tile,)
        while True:
            with self._lock:
                while (call := self._worker.next(tile)) is None and not self.closed:
                    bell.wait()
                if call is None or self.closed:
                    return
            self._execute(call)
            del call
