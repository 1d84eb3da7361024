"""What a thread does while it waits: pump, run calls, again, until something is done."""

import threading
import time
from collections.abc import Callable

from sched.model import TileId
from sched.runtime.exchange import Exchange, Section
from sched.runtime.hands import Hands
from sched.runtime.relief import Backoff, Hungry, Relief
from sched.runtime.runner import Call


class Loop:
    """The turns of a rank's threads.

    Args:
        changed: the engine's lock, as a condition that is notified when futures have ended.
        section: that lock, for whoever comes from outside.
        closed: tells whether the run is over.
        on_demand: whether the tiles whose calls the script's thread runs take them only while it waits.

    Attributes:
        interrupted: a KeyboardInterrupt is held back; see `interrupt`.
        relief: the thread that pumps while nobody else does.
    """

    def __init__(
        self,
        exchange: Exchange,
        hands: Hands,
        changed: threading.Condition,
        section: Section,
        closed: Callable[[], bool],
        *,
        on_demand: bool,
    ) -> None:
        self.interrupted = False
        self._exchange = exchange
        self._driver, self._worker = exchange.driver, exchange.worker
        self._hands = hands
        self._changed = changed
        self._section = section
        self._closed = closed
        self._on_demand = on_demand
        self.relief = Relief(changed, exchange.pump, exchange.notify, self._starving, exchange.moving)

    def serve(self, done: Callable[[], bool], deadline: float | None = None) -> bool:
        """Be at work until something is done, at most until a moment of `time.monotonic`.

        Returns:
            Whether it is done.
        """
        hand = self._hands.mine()
        backoff = Backoff()
        hungry = Hungry()
        with self._section:
            self.relief.others_pump()
        try:
            while True:
                with self._section:
                    busy = self._exchange.pump()
                    starving = None if hand else self._starving()
                busy |= self._exchange.notify()
                for landed in self._hands.landed():
                    self._worker.runner.land(landed)
                    self._end(landed, more=not done())
                    busy = True
                self.be_interrupted()
                hungry.look(starving)
                over = done() or (deadline is not None and time.monotonic() >= deadline)
                call = None
                with self._section:
                    # The script's thread leaves no call behind that it has taken.
                    if over and not (self._on_demand and self._holds_calls(hand)):
                        return done()
                    if hand:
                        if not over:
                            self.ask_for_work()
                        call = self._hands.next(self._worker, hand)
                        if call is not None:
                            self.relief.others_leave()
                if call is not None:
                    if self._make(call, serving=True):
                        self._end(call, more=not done())
                    busy = True
                if busy:
                    backoff.reset()
                else:
                    backoff.pause(self._pause, self._exchange.moving())
        finally:
            with self._section:
                if hand and self._on_demand and self._driver is not None:
                    self._driver.close_all()
                    self._exchange.carry_out()
                self.relief.others_leave()

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait(seconds)

    def _holds_calls(self, tiles: tuple[TileId, ...]) -> bool:
        return any(self._worker.has_calls(tile) for tile in tiles)

    def ask_for_work(self) -> None:
        """Offer the tiles that work on demand and have no call. Under the lock."""
        self._offer()
        self._exchange.carry_out()

    def _offer(self) -> None:
        if self._on_demand:
            assert self._driver is not None
            self._driver.open([tile for tile in self._hands.shared if not self._worker.has_calls(tile)])

    def _starving(self) -> TileId | None:
        """Return a tile whose tasks only the script's thread can run, if such tasks wait. Under the lock."""
        if self._driver is not None and self._on_demand:
            shared = self._hands.shared
            if len(shared) == len(self._driver.ranks) and not self._driver.idle:
                return shared[0]
            for tile in shared:
                if self._driver.has_pinned(tile):
                    return tile
        return None

    def _make(self, call: Call, *, serving: bool = False) -> bool:
        """Make a call; tell whether it is computed."""
        computed = self._hands.run(self._worker, call)
        if serving:
            with self._section:
                self.relief.others_pump()
        return computed

    def _end(self, call: Call, *, more: bool = False) -> None:
        """Report a call; if this thread goes on, its tiles take the next at the same moment."""
        with self._section:
            self._worker.ended(call)
            if more:
                # Before the core hears of the end: else what it makes ready would go to another tile.
                self._offer()
            self._exchange.carry_out()
        self._exchange.notify()
        self.be_interrupted()

    def be_interrupted(self) -> None:
        """Raise the KeyboardInterrupt that `interrupt` has held back, in the script's thread."""
        if self.interrupted and threading.current_thread() is threading.main_thread():
            self.interrupted = False
            raise KeyboardInterrupt

    def work(self, tile: TileId) -> None:
        """Be the thread of a tile, until the run is over."""
        own = (tile,)
        with self._changed:
            self._hands.take_up(tile)
        while True:
            with self._changed:
                while (call := self._hands.next(self._worker, own)) is None and not self._closed():
                    self._hands.wait_for_call(tile)
                if call is None or self._closed():
                    return
            self._make(call)
            self._end(call)
            del call
