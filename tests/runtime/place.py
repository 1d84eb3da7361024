"""A store without a run around it, in which something may happen between any two steps of it."""

import pickle

import numpy as np

from sched.backends.host import Host
from sched.model import DRIVER, Ref
from sched.runtime.messages import Packed
from sched.runtime.packing import Packer, _array_at
from sched.runtime.store import Slot, Store

N = 1000
SIZE = 8 * N


class Landed(bytearray):
    """Memory of a tile, in which something has arrived."""

    nbytes = property(len)

    def space(self, start, stop):
        raise NotImplementedError


class Tiles(Host):
    """Two tiles whose memory is not simply the host's."""

    def __init__(self):
        super().__init__(range(2), DRIVER)
        self.finished = []
        self.full = False

    def room(self, nbytes, tile):
        if tile and self.full:
            raise MemoryError
        return Landed(nbytes) if tile else bytearray(nbytes)

    def finish(self, tile):
        self.finished.append(tile.id)


class Watched(Packer):
    """A packer during whose work something else happens, once."""

    meanwhile = None

    def _loads(self, *args):
        return self._and_meanwhile(super()._loads(*args))

    def _pack(self, *args, **kwargs):
        return self._and_meanwhile(super()._pack(*args, **kwargs))

    def _and_meanwhile(self, made):
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return made


class Turnstile:
    """The store's lock, before which something else may happen."""

    def __init__(self, lock):
        self._lock, self._left, self._call = lock, 0, None

    def is_taken(self):
        return self._lock._is_owned()

    def before(self, number, call):
        """Let something happen before it is taken for the so-manieth time from now."""
        self._left, self._call = number, call

    def __enter__(self):
        self._left -= 1
        if not self._left:
            self._call()
        return self._lock.__enter__()

    def __exit__(self, *error):
        return self._lock.__exit__(*error)


class Place:
    """A store of two tiles with room for so many values on each."""

    def __init__(self, room=3):
        self.backend = Tiles()
        self.packer = Watched(self.backend)
        self.store = Store(self.packer, room * SIZE)
        self.store.lock = self.turnstile = Turnstile(self.store.lock)
        self.ledger = self.store.ledger
        self.a, self.b = self.backend.tiles

    def slot(self, ref=0):
        return self.store.slots.setdefault(Ref(ref), Slot(Ref(ref)))

    def make(self, ref=0, n=N, tile=None):
        """Make a value on a tile: its number, many times."""
        slot = self.slot(ref)
        self.store.keep(slot, tile or self.a, np.full(n, float(ref)), 0)
        return slot

    def arrive(self, ref=0, *, on_tile=True):
        """Let such a value come from another rank."""
        slot = self.slot(ref)
        memory = self.store.room(SIZE, on_tile)
        memoryview(memory)[:] = np.full(N, float(ref)).tobytes()
        self.store.land(slot, Packed(pickle.dumps(_At()), (), (memory,)))
        return slot

    def make_on_both(self):
        self.make(tile=self.b)
        return self.make(tile=self.a)

    def aside(self, ref=0, tile=None):
        """Make a value and put it aside."""
        slot = self.make(ref, tile=tile)
        self.store._put_aside(slot, tile or self.a)
        assert slot.spilled == ((tile or self.a).id, SIZE)
        return slot

    @property
    def now(self):
        return list(self.ledger.now.values())

    @property
    def spilled(self):
        return list(self.ledger.spilled.values())

    def lies_on(self, slot):
        return sorted(slot.values)

    def good(self, slot, tile=None):
        """Tell whether the value is what it was, also on the tile where it is asked for."""
        return bool((self.store.value(slot, tile or self.a) == float(slot.ref)).all())

    def drop_all(self):
        for slot in list(self.store.slots.values()):
            self.store.drop(slot)
        assert self.now == self.spilled == list(self.ledger.reserved.values()) == [0, 0]
        assert not any(self.store._resident.values())


class _At:
    def __reduce__(self):
        return _array_at, (0, "<f8", (N,), "C")
