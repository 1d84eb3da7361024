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

import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from sched.backends.base import Backend, Tile
from sched.core.actions import Outcome
from sched.model import DRIVER, RankId, Ref, TileId
from sched.runtime.driver import Driver, Ending, Future, Order, Owner
from sched.runtime.messages import Broke, Done, Fault, Stop, ToDriver, ToRank, Value, decode, encode
from sched.runtime.relief import Backoff, Relief
from sched.runtime.worker import Call, State, Worker
from sched.transport.base import Lane, Transport

if TYPE_CHECKING:
    import asyncio

LENT = 0.001
"""Seconds between two moments that an asyncio loop lends."""

GRACE = 3.0
"""Seconds that ranks are given to end by themselves."""

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
        self.closed = False
        self._transport = transport
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._worker = Worker(self.rank, backend, self._tell, self._runnable)
        self.packer = self._worker.packer
        self._outbox: dict[RankId, list[ToRank | ToDriver]] = {}
        self._own: deque[ToRank] = deque()
        self._reports: deque[ToDriver] = deque()
        # Tiles with a thread of their own, and tiles for which the pumping thread runs calls itself.
        scripted = self.rank == DRIVER
        threaded = backend.background and (scripted or len(self.tiles) > 1)
        self._inline = () if threaded else tuple(tile.id for tile in self.tiles)
        self._bells = {t.id: threading.Condition(self._lock) for t in self.tiles} if threaded else {}
        on_demand = self._inline if scripted else ()
        self._hand = threading.get_ident()
        self.driver: Driver | None = None
        if ranks is not None:
            self.driver = Driver(ranks, self.packer, self._deliver, depth=depth, on_demand=on_demand)
        self._on_demand = bool(on_demand)
        self._lender: asyncio.AbstractEventLoop | None = None
        self._relief = Relief(self._lock, self._pump, self._notify, self._starving)
        self._threads = [self._thread(self._work, tile) for tile in self._bells]
        if transport.size > 1:
            self._threads.append(self._thread(self._relief.run))
        for thread in self._threads:
            thread.start()

    # -- for the script (rank 0) -------------------------------------------------------------------------

    def submit(
        self, orders: "list[Order]", make: Callable[[Ref, "deque[Ref]"], Future], owner: Owner
    ) -> list[Future]:
        """Take in calls, in one go.

        Raises:
            RequestError: One can never run; then none was taken.
        """
        assert self.driver is not None
        with self._lock:
            for order in orders:
                self.driver.check(order.options)
            futures = [self.driver.submit(order, make, owner) for order in orders]
            self._pump()
        self._notify()
        return futures

    def cancel(self, future: Future) -> bool:
        """Ask that a task be not run; tell whether it has ended, which its future may hear a moment later."""
        assert self.driver is not None
        with self._lock:
            ended = self.driver.cancel(future)
            self._carry_out()
        self._notify()
        return ended

    def cancel_all(self, owner: Owner) -> None:
        """Ask it for every task of one `Scheduler`."""
        assert self.driver is not None
        with self._lock:
            self.driver.cancel_all(owner)
            self._carry_out()
        self._notify()

    def want(self, refs: list[Ref]) -> None:
        """Let values come to this rank."""
        assert self.driver is not None
        with self._lock:
            for ref in refs:
                self.driver.want(ref)
            self._carry_out()
        self._notify()

    def tidy(self) -> None:
        """Let go of values that the script has dropped, unless somebody is at it, or about to be."""
        if not self.closed and self._lock.acquire(blocking=False):
            try:
                self._carry_out()
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
        with self._lock:
            self._pump()
            if self._is_hand():
                self._ask_for_work()
        self._notify()
        self._serve(lambda: True)

    def lend(self, loop: "asyncio.AbstractEventLoop") -> None:
        """Let the tiles that share the script's thread work while an asyncio loop runs in it."""
        if not self._is_hand() or self._lender is loop:
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
        if self._transport.size == 1 and not self._inline:
            with self._changed:
                return self._changed.wait_for(done, timeout)
        return self._serve(done, None if timeout is None else time.monotonic() + timeout)

    # -- the loop ----------------------------------------------------------------------------------------

    def serve(self) -> int:
        """Work for the driver until it says stop (ranks other than 0).

        Returns:
            The exit status that it said.
        """
        self._guard(self._serve, lambda: self._worker.stopped is not None)
        assert self._worker.stopped is not None
        return self._worker.stopped

    def close(self, status: int, grace: float = GRACE) -> bool:
        """End the run; on rank 0 this ends the other ranks too.

        Returns:
            False if some rank has not ended within `grace` seconds.
        """
        with self._lock:
            if self.driver is not None and self._transport.size > 1:
                for rank in range(1, self._transport.size):
                    self._deliver(RankId(rank), Stop(status))
                self._carry_out()
            self.closed = True
            for bell in self._bells.values():
                bell.notify_all()
        self._relief.stop()
        for thread in self._threads:
            if thread is not threading.current_thread():
                # A run of one rank that went well has all the time that its tasks need.
                thread.join(None if status == 0 and self._transport.size == 1 else grace)
        return self._transport.close(grace)

    def abort(self) -> NoReturn:
        """End all ranks now."""
        sys.stderr.flush()
        self._transport.abort(BUG)

    def finish(self, status: int) -> None:
        """End the run with this status; by force if a rank does not end by itself."""
        sys.stdout.flush()
        sys.stderr.flush()
        if not self.close(status):
            self._transport.abort(status or BUG)

    def _serve(self, done: Callable[[], bool], deadline: float | None = None) -> bool:
        hand = self._is_hand()
        backoff = Backoff()
        with self._lock:
            self._relief.others_pump()
        try:
            while True:
                with self._lock:
                    busy = self._pump()
                busy |= self._notify()
                over = done() or (deadline is not None and time.monotonic() >= deadline)
                if over and not (hand and self._holds_calls()):
                    return done()
                call = None
                if hand:
                    with self._lock:
                        if not over:
                            self._ask_for_work()
                        call = self._next_inline()
                        if call is not None:
                            self._relief.others_leave()
                if call is not None:
                    self._execute(call, inline=True)
                    busy = True
                if busy:
                    backoff.reset()
                else:
                    backoff.pause(self._pause)
        finally:
            with self._lock:
                if hand and self.driver is not None:
                    self.driver.close_all()
                self._relief.others_leave()

    def _is_hand(self) -> bool:
        """Whether this is the thread that runs calls between two messages."""
        return bool(self._inline) and threading.get_ident() == self._hand

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait(seconds)

    def _next_inline(self) -> Call | None:
        for tile in self._inline:
            call = self._worker.next(tile)
            if call is not None:
                return call
        return None

    def _holds_calls(self) -> bool:
        """Whether a tile that works on demand has taken a call that has not ended.

        Then the script's thread stays until it has: nothing is left behind when it goes.
        """
        return self._on_demand and any(self._worker.has_calls(tile) for tile in self._inline)

    def _ask_for_work(self) -> None:
        """Offer the tiles that work on demand and have no call."""
        if not self._on_demand:
            return
        assert self.driver is not None
        for tile in self._inline:
            if not self._worker.has_calls(tile):
                self.driver.open(tile)
        self._carry_out()

    def _starving(self) -> TileId | None:
        """Return a tile whose tasks only the script's thread can run, if such tasks wait. Under the lock."""
        if self.driver is not None and self._on_demand:
            for tile in self._inline:
                if self.driver.has_pinned(tile):
                    return tile
        return None

    def _execute(self, call: Call, *, inline: bool = False) -> None:
        value, fault = self._worker.run(call)
        with self._lock:
            if inline:
                self._relief.others_pump()
            self._worker.ended(call, value, fault)
            del value
            self._carry_out()
        self._notify()

    def _pump(self) -> bool:
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
                    self._worker.arrive(item)
                elif kind is Done or kind is Broke:
                    self._reports.append(item)
                else:
                    self._worker.obey(item)
        self._carry_out()
        return busy

    def _carry_out(self) -> None:
        """Do what follows, until nothing does, and send it off. Under the lock."""
        if self.driver is not None:
            self.driver.collect()
        while self._own or self._reports:
            while self._own:
                self._worker.obey(self._own.popleft())
            while self._reports:
                assert self.driver is not None
                self.driver.report(self._reports.popleft())
        may_pack = self.backend.readable or threading.get_ident() == self._hand
        for target, value in self._worker.outgoing(may_pack):
            self._transport.send(target, Lane.VALUES, *encode([value]))
        if self._outbox:
            for rank, batch in self._outbox.items():
                self._transport.send(rank, Lane.CONTROL, *encode(batch))
            self._outbox.clear()

    def _deliver(self, rank: RankId, message: ToRank) -> None:
        if rank == self.rank:
            self._own.append(message)
        else:
            self._outbox.setdefault(rank, []).append(message)

    def _tell(self, message: ToDriver) -> None:
        if self.driver is not None:
            self._reports.append(message)
        else:
            self._outbox.setdefault(DRIVER, []).append(message)

    def _runnable(self, tile: TileId) -> None:
        bell = self._bells.get(tile)
        if bell is not None:
            bell.notify()

    def _notify(self) -> bool:
        """Tell futures how they ended, and let go of what was dropped.

        Without the lock, since the script's callbacks and finalisers may do anything.
        """
        self._worker.dropped.clear()
        if self.driver is None or not self.driver.settled:
            return False
        settled, told = self.driver.settled, []
        while settled:
            try:
                ending = settled.popleft()
            except IndexError:  # another thread was quicker
                break
            self._end(ending)
            told.append(ending.owner)
            del ending
        with self._changed:
            for owner in told:
                owner.outstanding -= 1
            self._changed.notify_all()
        return True

    def _end(self, ending: Ending) -> None:
        future = ending.future
        if ending.outcome is Outcome.CANCELLED:
            future.note_cancelled()
        elif ending.error is not None:
            future.set_exception(ending.error)
        elif ending.small is not None:
            future.set_result(self.packer.unpack(ending.small, None))
        else:
            future.set_result(ELSEWHERE)

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
            if self.closed:
                return
            sys.stderr.write(f"sched: a bug in sched, on rank {self.rank}. Please report it.\n")
            traceback.print_exc()
            sys.stderr.flush()
            self._transport.abort(BUG)

    def _work(self, tile: TileId) -> None:
        bell = self._bells[tile]
        while True:
            with self._lock:
                while (call := self._worker.next(tile)) is None and not self.closed:
                    bell.wait()
                if call is None or self.closed:
                    return
            self._execute(call)
            del call


class _Elsewhere:
    """The result of a future whose value lies on a tile."""

    def __repr__(self) -> str:
        return "<value on a tile>"


ELSEWHERE = _Elsewhere()
