"""The thread that keeps messages moving while a rank's main thread is away, and how to wait for them.

The *relief* pumps when the thread whose turn it is has been away (in a call, or in the user's script) for
about a millisecond, and until that comes back. Short calls never meet it. While others pump it sleeps.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from sched.model import TileId

LOOK = 0.001
"""Seconds between two looks at whether everybody is still away."""

DOZE_AFTER = 200
"""Looks without anybody away for long, after which the relief sleeps until it is called."""

PATIENT = 20_000
"""Looks at bytes that are on their way without any sleep."""

STARVING = 5.0
"""Seconds after which tasks that only the script's thread could run are worth a warning."""


class Backoff:
    """How long to pause between two looks at nothing: not at all, then a yield, then up to 1 ms.

    Measured on 2 cores: a round trip between 2 ranks takes 11 us, and each of 12 idle ranks needs 4 to 5 %
    of a core.
    """

    def __init__(self) -> None:
        self._looks = 0
        self._moving = 0

    def reset(self) -> None:
        self._looks = self._moving = 0

    def pause(self, sleep: Callable[[float], object], moving: bool) -> None:
        """Wait a little: by `sleep`, if nothing has come for long; not so soon if bytes are on their way."""
        if moving and self._moving < PATIENT:
            # What follows when they have come is answered as quickly as if they had come at once.
            self._moving += 1
            self._looks = 0
            os.sched_yield()
            return
        self._looks += 1
        if self._looks < 20:
            return
        if self._looks < 220:
            os.sched_yield()
            return
        sleep(min(0.001, 0.00005 * (self._looks - 219)))


class Relief:
    """Pump while nobody else does.

    Args:
        lock: the engine's.
        pump: takes in what has come, under the lock; tells whether there was anything.
        notify: tells futures how they ended, without the lock; tells whether there were any.
        moving: tells whether bytes are on their way.
        starving: returns, under the lock, a tile whose tasks wait for the thread that is away.
    """

    def __init__(
        self,
        lock: Any,
        pump: Callable[[], bool],
        notify: Callable[[], bool],
        starving: Callable[[], TileId | None],
        moving: Callable[[], bool],
    ) -> None:
        self._lock = lock
        self._pump = pump
        self._notify = notify
        self._starving = starving
        self._moving = moving
        # How many other threads pump right now, and how often one has begun to.
        self._present = 0
        self._turns = 0
        self._stopped = False
        self._dozing = False
        self._bell = threading.Event()

    def others_pump(self) -> None:
        """Note that another thread pumps from here on. Under the lock."""
        self._present += 1
        self._turns += 1

    def others_leave(self) -> None:
        """Note that it does not any more, and wake up if it was the last. Under the lock."""
        self._present -= 1
        if self._dozing and not self._present:
            self._bell.set()

    def stop(self) -> None:
        """End `run`."""
        self._stopped = True
        self._bell.set()

    def run(self) -> None:
        """Be the relief, until `stop`."""
        idle = 0
        while not self._stopped:
            turns = self._turns
            time.sleep(LOOK)
            if not self._present and self._turns == turns:
                self._stand_in(turns)
                idle = 0
            else:
                idle += 1
                if idle > DOZE_AFTER:
                    self._doze()
                    idle = 0

    def _stand_in(self, turns: int) -> None:
        """Pump until another thread does."""
        backoff = Backoff()
        hungry = Hungry()
        while not self._present and self._turns == turns and not self._stopped:
            with self._lock:
                busy = self._pump()
                starving = self._starving()
            busy |= self._notify()
            hungry.look(starving)
            if busy:
                backoff.reset()
            else:
                backoff.pause(time.sleep, self._moving())

    def _doze(self) -> None:
        """Sleep until everybody is away."""
        with self._lock:
            self._bell.clear()
            self._dozing = self._present > 0 and not self._stopped
        if self._dozing:
            self._bell.wait()
            self._dozing = False


class Hungry:
    """Warns, once in a process, if tasks wait long for the thread of the script, which is elsewhere."""

    _warned = False

    def __init__(self) -> None:
        self._since: float | None = None

    def look(self, tile: TileId | None) -> None:
        """Note which tile's tasks wait for that thread, if any do."""
        if tile is None:
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif time.monotonic() - self._since > STARVING and not Hungry._warned:
            Hungry._warned = True
            sys.stderr.write(
                f"sched: tasks have waited {STARVING:.0f} s for tile {tile}, which shares the script's "
                "thread. It works whenever that thread waits for the scheduler (result, wait, as_completed, "
                "map, gather), and not while it computes or waits for another thread. "
                "Or start with --driver-only.\n"
            )
            sys.stderr.flush()
