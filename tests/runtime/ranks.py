"""Runs of several ranks in one process: the whole runtime but for MPI.

Rank 0 is driven by the test's thread, and each other rank serves in a thread of its own.
"""

import concurrent.futures as cf
import itertools
import threading
from collections import Counter, deque

from sched.backends.host import Host
from sched.client import Scheduler
from sched.core.graph import State
from sched.model import DRIVER, RankId
from sched.runtime.engine import Engine
from sched.runtime.messages import Value, decode
from sched.transport.base import Lane
from sched.transport.loopback import Loopback
from tests.gates import PATIENCE


class Wire(Loopback):
    """A rank's end that keeps a record of what it sent, and that can hold back what it received."""

    def __init__(self, rank, size):
        super().__init__(rank, size)
        self.said = Counter()
        self.messages = Counter()  # by the type of the first item
        self.sent = []
        self.held = None
        self.late = deque()
        self.overtaken = []
        self.failed = None

    def send(self, target, lane, data, buffers=()):
        batch = decode(bytes(data), list(buffers))
        self.messages[type(batch[0])] += 1
        for item in batch:
            self.said[type(item)] += 1
            if type(item) is Value:
                self.sent.append((item.ref, target))
        super().send(target, lane, data, buffers)

    def values_first(self):
        """Let the next value that comes overtake all orders that come before it."""
        self.held = deque()

    def receive(self):
        if self.held is None:
            return self.late.popleft() if self.late else super().receive()
        while (message := super().receive()) is not None:
            if message.lane is Lane.VALUES:
                self.overtaken = [type(order) for m in self.held for order in decode(m.data, m.buffers)]
                self.late, self.held = self.held, None
                return message
            self.held.append(message)
        return None

    def abort(self, status):
        self.failed = status
        raise SystemExit(status)


class Run:
    """A run of several ranks.

    Args:
        tiles: how many each rank has.
        depth: how many tasks a tile takes at a time.
        backend: the kind of all tiles.
        settings: what else the engines are to be told: `limit`, `check`.
    """

    def __init__(self, *tiles, depth=2, backend=Host, **settings):
        self.wires = [Wire(RankId(rank), len(tiles)) for rank in range(len(tiles))]
        for wire in self.wires:
            wire.peers = self.wires
        self.engines = {}
        self.statuses = {}
        starts = [0, *itertools.accumulate(tiles)]
        self._ids = [range(*pair) for pair in itertools.pairwise(starts)]
        self.ranks = [RankId(rank) for rank, count in enumerate(tiles) for _ in range(count)]
        self.depth, self.backend, self.settings = depth, backend, settings
        began = threading.Barrier(len(tiles))
        self.threads = [
            threading.Thread(target=self._serve, args=(rank, began), daemon=True)
            for rank in range(1, len(tiles))
        ]
        for thread in self.threads:
            thread.start()
        self.engine = self._engine(0)
        began.wait(PATIENCE)
        self.s = Scheduler(engine=self.engine)

    def _engine(self, rank):
        engine = self.engines[rank] = Engine(
            self.wires[rank],
            self.backend(self._ids[rank], RankId(rank)),
            self.ranks if rank == DRIVER else None,
            depth=self.depth,
            **self.settings,
        )
        return engine

    def _serve(self, rank, began):
        # Made in the thread that serves: it is the one that runs the calls of a single tile.
        engine = self._engine(rank)
        began.wait(PATIENCE)
        engine.serve()
        self.statuses[rank] = 0
        engine.close(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.shutdown()
        self.join()
        assert self.statuses == dict.fromkeys(range(1, len(self.wires)), 0)

    def join(self):
        for thread in self.threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in self.threads)
        assert [wire.failed for wire in self.wires] == [None] * len(self.wires)

    def on(self, tile, **options):
        return self.s.options(tile=tile, **options)

    def sent(self):
        """List all values that were sent: (ref, from, to)."""
        return sorted((ref, wire.rank, target) for wire in self.wires for ref, target in wire.sent)

    def is_placed(self, future):
        return self.engine.driver._core.state(future.ref) is State.PLACED

    def remembered(self):
        """List the values that each rank still knows, once everything that was ordered is done."""
        last = self.settle()
        assert len(self.engine.driver._core) == len(last)
        refs = {future.ref for future in last}
        return {rank: set(engine._worker.store.slots) - refs for rank, engine in self.engines.items()}

    def settle(self):
        """Wait until everything that was ordered is done; return the futures of the tasks that tell."""
        assert self.engine.wait(self.engine.idle, PATIENCE)
        # Each rank obeys in order: by the end of the first round it has sent what it was to send, and by
        # the end of the second it has taken in what the others sent.
        last = []
        for _ in range(2):
            last.clear()
            last += [self.on(tile).submit(abs, tile) for tile in range(len(self.ranks))]
            cf.wait(last)
        return last
