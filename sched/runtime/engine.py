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
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from sched.backends.base import Backend, Tile
from sched.errors import UsageError
from sched.model import DRIVER, RankId, Ref
from sched.runtime.driver import Driver
from sched.runtime.exchange import Exchange, Section, say
from sched.runtime.hands import Hands
from sched.runtime.ledger import Stats
from sched.runtime.loop import GoesOn, Loop, perhaps_not
from sched.runtime.messages import Fault, Stop
from sched.runtime.orders import Future, Make, Order, Owner
from sched.runtime.store import State
from sched.transport.base import Transport

if TYPE_CHECKING:
    import asyncio

LENT = 0.001
"""Seconds: between two moments that an asyncio loop lends, and for which `tidy` waits."""

GRACE = 3.0
"""Seconds that ranks are given to end by themselves when something went wrong."""

PATIENCE = 60.0
"""Seconds that they are given when all is well."""

STALL = 300.0

BUG = 70
"""Exit status after an error of our own (`EX_SOFTWARE`)."""


class Engine:
    """One rank of a run.

    Args:
        transport: this rank's end of it.
        backend: its tiles.
        ranks: on rank 0 the rank of every tile in the run, else None.
        depth: how many ready tasks a tile is given at a time.
        limit: bytes for each tile of this rank; what has no room waits in the host's memory.
        check: find out who writes into arguments.
        stall: seconds after which a run that does not get on is ended; 0: never.
        places: on rank 0 the node and card of every tile, if it is known.
    """

    def __init__(
        self,
        transport: Transport,
        backend: Backend,
        ranks: list[RankId] | None,
        *,
        depth: int = 2,
        limit: int = 1 << 62,
        check: bool = False,
        places: Sequence[tuple[int, int]] | None = None,
        stall: float = STALL,
    ) -> None:
        self.backend = backend
        self.rank = transport.rank
        self.tiles = backend.tiles
        self.home: Tile | None = self.tiles[0] if self.tiles else None
        self._closed = False
        self.pid = os.getpid()
        self._transport = transport
        # Re-entrant only so that it can be asked whether this thread holds it: see `Section`.
        self._lock: Any = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._section = Section(self._lock, self._bug)
        scripted = self.rank == DRIVER
        threaded = backend.background and (scripted or len(self.tiles) > 1)
        self._hands = Hands(backend, self._lock, threaded=threaded)
        backend.may_touch = self._hands.are_here
        on_demand = self._hands.shared if scripted else ()
        self._exchange = Exchange(
            transport,
            backend,
            ranks,
            depth=depth,
            on_demand=on_demand,
            changed=self._changed,
            runnable=self._hands.ring,
            may_read=lambda: backend.readable or self._hands.are_here(),
            limit=limit,
            check=check,
            places=places,
            stall=stall,
        )
        self.driver, self.packer = self._exchange.driver, self._exchange.packer
        self._worker = self._exchange.worker
        self._section.inner.append(self._worker.store.lock)
        self._on_demand = bool(on_demand)
        self._lender: asyncio.AbstractEventLoop | None = None
        self._loop = Loop(
            self._exchange,
            self._hands,
            self._changed,
            self._section,
            lambda: self.closed,
            on_demand=self._on_demand,
        )
        self._threads = [self._thread(self._loop.work, tile) for tile in self._hands.own]
        if transport.size > 1:
            self._threads.append(self._thread(self._loop.relief.run))
        for thread in self._threads:
            thread.start()

    @property
    def closed(self) -> bool:
        """Whether the run is over for this process: it has ended, or this is a child that it forked."""
        return self._closed or os.getpid() != self.pid

    def interrupt_later(self, yes: bool) -> None:
        """Let the script's thread raise KeyboardInterrupt when it comes out of the scheduler, or not."""
        self._loop.interrupted = yes

    # -- for the script (rank 0) -------------------------------------------------------------------------

    def submit(self, orders: "list[Order]", make: Make, owner: Owner) -> list[Future]:
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
            self._exchange.keep_up()
        self._exchange.notify()
        self._loop.be_interrupted()
        return futures

    def cancel(self, future: Future) -> bool:
        """Ask that a task be not run; tell whether it has ended, which its future may hear a moment later."""
        with self._driving() as driver:
            return driver.cancel(future)

    def cancel_all(self, owner: Owner) -> None:
        """Ask it for every task of one `Scheduler`."""
        with self._driving() as driver:
            driver.cancel_all(owner)

    def abandon(self, refs: list[Ref]) -> None:
        """Leave word that tasks need not be run. The garbage collector may call it, at any moment."""
        assert self.driver is not None
        self.driver.unwanted.extend(refs)
        self.tidy()

    def want(self, refs: list[Ref]) -> None:
        """Let values come to this rank."""
        with self._driving() as driver:
            for ref in refs:
                driver.want(ref)

    def spread(self, ref: Ref) -> None:
        """Let a value come to every rank that has a tile."""
        with self._driving() as driver:
            driver.spread(ref)

    @contextlib.contextmanager
    def _driving(self) -> Iterator[Driver]:
        """Let the script's thread change the driver's tables, and then do what follows."""
        assert self.driver is not None
        with self._section:
            yield self.driver
            self._exchange.carry_out()
        self._exchange.notify()

    def stats(self) -> Stats:
        """Ask every rank for what is on its tiles and what it has moved."""
        if self.closed:
            raise UsageError("the run has ended, and there is nobody to ask")
        answers: list[Stats] = []
        with self._driving() as driver:
            driver.answers[id(answers)] = answers
            self._exchange.ask(id(answers))
        try:
            self.wait(lambda: len(answers) == self._transport.size)
        finally:
            del driver.answers[id(answers)]
        return Stats.of(answers)

    def tidy(self) -> None:
        """Let go of values that the script has dropped, unless somebody is at it, or about to be.

        It may be called at any moment, so it does not insist on the lock.
        """
        if self._transport.size > 1:  # there the relief looks, if nobody else does
            return
        if self.closed or self._section.is_inside() or not self._lock.acquire(timeout=LENT):
            return
        try:
            self._exchange.carry_out()
        finally:
            self._lock.release()
        self._worker.store.dropped.clear()

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
        """Return a value that is here, for a tile.

        Raises:
            UsageError: It lies on a GPU, and this is another thread than the one that may use that.
        """
        if not (self.backend.background or self.backend.readable or self._hands.are_here()):
            raise UsageError(
                "values on GPU tiles can be taken in the script's main thread only, since two threads must "
                "not use dpnp: wait here if you like (wait, exception, done), and call result() there"
            )
        slot = self._worker.slot(ref)
        assert slot is not None
        return self._worker.store.value(slot, tile)

    def idle(self) -> bool:
        """Tell whether every task of the script has ended."""
        assert self.driver is not None
        return self.driver.idle

    def poke(self) -> None:
        """Give the scheduler a moment of the calling thread, and at most one call of each tile."""
        if self._hands.mine():
            with self._section:
                self._loop.ask_for_work()
        self._loop.serve(lambda: True)

    def lend(self, loop: "asyncio.AbstractEventLoop") -> None:
        """Let the tiles that share the script's thread work while an asyncio loop runs in it."""
        if not self._on_demand or not self._hands.are_here() or self._lender is loop:
            return
        self._lender = loop

        def turn() -> None:
            if self.closed or self.idle():
                self._lender = None
            elif self._lender is loop:  # and not one that began after this had been stopped
                self.poke()
                loop.call_later(LENT, turn)

        loop.call_soon(turn)

    def wait(
        self, done: Callable[[], bool], timeout: float | None = None, goes_on: GoesOn = perhaps_not
    ) -> bool:
        """Lend the calling thread to the scheduler until something is done.

        Args:
            done: tells whether it is.
            timeout: seconds.
            goes_on: tells of a task whether it surely is not done yet when that has ended.

        Returns:
            Whether it is done; False after `timeout` seconds.
        """
        if done():
            return True
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._transport.size > 1 or self._hands.shared or self._hands.mine():
            return self._loop.serve(done, deadline, goes_on)
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
        self._guard(self._loop.serve, lambda: self._worker.stopped)

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
            self._hands.ring_all()
        self._loop.relief.stop()
        for thread in self._threads:
            if thread is not threading.current_thread():
                # A run of one rank that went well has all the time that its tasks need.
                thread.join(None if status == 0 and self._transport.size == 1 else grace)
        if self._transport.size > 1 and any(
            thread.is_alive() for thread in self._threads if thread is not threading.current_thread()
        ):
            return False  # it may be in MPI, which must not end under it
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
