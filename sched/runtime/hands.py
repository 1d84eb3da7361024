"""Which thread runs which tiles' calls, and what of them is still being computed.

Where a thread runs the calls of one tile it waits for each to be computed. Where it runs those of several,
it starts a call on each and goes round, so that no tile waits for another's work.
"""

import threading
from collections.abc import Iterator
from typing import Any

from sched.backends.base import Backend
from sched.model import TileId
from sched.runtime.runner import Call
from sched.runtime.worker import Worker


class Hands:
    """The threads that run calls on a rank. What concerns all of them is called under the engine's lock.

    Args:
        backend: this rank's tiles.
        lock: the engine's.
        threaded: whether each tile has a thread of its own, or the thread that makes this runs all calls.

    Attributes:
        shared: the tiles whose calls that thread runs.
        own: the tiles that have a thread of their own.
    """

    def __init__(self, backend: Backend, lock: Any, *, threaded: bool) -> None:
        ids = tuple(tile.id for tile in backend.tiles)
        self.shared = () if threaded else ids
        self.own = ids if threaded else ()
        self._bells = {tile: threading.Condition(lock) for tile in self.own}
        self._tiles: dict[int, tuple[TileId, ...]] = {threading.get_ident(): self.shared}
        self._flying: dict[TileId, Call] = {}

    def mine(self) -> tuple[TileId, ...]:
        """Return the tiles whose calls the calling thread runs."""
        return self._tiles.get(threading.get_ident(), ())

    def are_here(self) -> bool:
        """Tell whether the calling thread is one that may use the queues."""
        return threading.get_ident() in self._tiles

    def take_up(self, tile: TileId) -> None:
        """Let the calling thread be the one that runs the calls of a tile."""
        self._tiles[threading.get_ident()] = (tile,)

    def ring(self, tile: TileId) -> None:
        """Wake the tile's thread, if it has one: there is a call to run."""
        bell = self._bells.get(tile)
        if bell is not None:
            bell.notify()

    def ring_all(self) -> None:
        """Wake all of them: the run is over."""
        for bell in self._bells.values():
            bell.notify_all()

    def wait_for_call(self, tile: TileId) -> None:
        """Wait until the tile's thread is woken."""
        self._bells[tile].wait()

    def next(self, worker: Worker, tiles: tuple[TileId, ...]) -> Call | None:
        """Take a call that one of these tiles can start now."""
        for tile in tiles:
            if tile not in self._flying:
                call: Call | None = worker.next(tile)
                if call is not None:
                    return call
        return None

    def run(self, worker: Worker, call: Call) -> bool:
        """Make a call; tell whether it is computed. Else `landed` will yield it."""
        several = len(self.mine()) > 1
        if worker.runner.run(call, wait=not several):
            return True
        self._flying[call.order.tile] = call
        return False

    def landed(self) -> Iterator[Call]:
        """Yield the calls that have been computed since they were made."""
        if self._flying and self.mine():
            for tile, call in list(self._flying.items()):
                # A callback may have waited meanwhile, and with that have landed it.
                if self._flying.get(tile) is call and (call.mark is None or call.mark.done()):
                    del self._flying[tile]
                    yield call
