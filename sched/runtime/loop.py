"""What a thread does while it waits: pump, run calls, again, until something is done."""

import threading
import time
from collections.abc import Callable

from sched.model import TaskId, TileId
from sched.runtime.exchange import Exchange, Section
from sched.runtime.hands import Hands
from sched.runtime.relief import Backoff, Hungry, Relief
from sched.runtime.runner import Call

TURN = 0.0002
"""Seconds after which calls that have ended are reported, though the next could start."""


GoesOn = Callable[[TaskId], bool]


def perhaps_not(task: TaskId) -> bool:
    """Say that it is not known; see `Loop.serve`."""
    return False


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

    def serve(
        self, done: Callable[[], bool], deadline: float | None = None, goes_on: GoesOn = perhaps_not
    ) -> bool:
        """Be at work until something is done, at most until a moment of `time.monotonic`.

        Args:
            goes_on: tells of a task whether this surely is not done yet when that has ended.

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
                    self._report([landed], goes_on)
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
                    self._take_turn(hand, call, goes_on)
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
            if shared and self._worker.owes():  # a value that only the script's thread can read
                return shared[0]
        return None

    def _take_turn(self, hand: tuple[TileId, ...], call: Call, goes_on: GoesOn | None) -> None:
        """Make a call, and short ones that follow, and report them together.

        Args:
            goes_on: see `serve`; None if this thread does not pump.
        """
        until = time.perf_counter() + TURN
        ended = []
        following: Call | None = call
        while following is not None:
            if self._hands.run(self._worker, following):
                ended.append(following)
            following = None
            if time.perf_counter() < until and not self.interrupted:
                with self._section:
                    following = self._hands.next(self._worker, hand)
        if goes_on is not None:
            with self._section:
                self.relief.others_pump()
        self._report(ended, goes_on or perhaps_not)

    def _report(self, calls: list[Call], goes_on: GoesOn) -> None:
        """Report calls that have been computed."""
        with self._section:
            for call in calls:
                self._worker.ended(call)
            if not self.interrupted and all(goes_on(call.order.task) for call in calls):
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
            self._take_turn(own, call, None)
            del call
