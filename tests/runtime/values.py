"""What the tests of values have in common: arrays whose numbers tell them apart, and what is left of them."""

import gc

import numpy as np

import sched

KIB = 1 << 10
LARGE = 2_000  # float64: more than rides along in a message's own bytes
SIZE = 8 * LARGE
"""Bytes of one of the arrays."""

LIMIT = 100 * KIB
"""Bytes for a tile, where there is a limit: six arrays, and a little."""

MANY = [(1,), (3,), (1, 1, 1), (2, 1, 2)]
"""How many tiles the ranks have."""


def full(value, n=LARGE):
    """Make an array of the tile."""
    return sched.xp.full(n, value, dtype="float64")


def on_host(value):
    """Make one of NumPy's."""
    return np.full(LARGE, float(value))


def first(x):
    return float(x[0])


def fail(value="no luck"):
    raise ValueError(value)


def tile_of(*_):
    return sched.current().tile


def spread_out(run, values=6):
    """Submit arrays that are full of 0., 1., ..., one on each tile in turn."""
    return [run.on(i % len(run.ranks)).submit(full, i) for i in range(values)]


def stores(run):
    """List the stores of all ranks."""
    return [run.engines[rank]._worker.store for rank in sorted(run.engines)]


def on_tiles(run):
    """List how many bytes lie on each tile."""
    return [tile.now for tile in run.s.stats().tiles]


def moved(run, rung):
    """Tell how often something has moved in this way."""
    found = run.s.stats().moves.get(rung)
    return 0 if found is None else found.times


def assert_nothing_is_left(run):
    """When everything was dropped, no rank knows a value, counts a byte, or keeps a promise."""
    gc.collect()
    assert run.remembered() == {rank: set() for rank in run.engines}
    for store in stores(run):
        for count in (store.ledger.now, store.ledger.reserved, store.ledger.spilled):
            assert set(count.values()) <= {0}, store.ledger.__dict__
        assert not any(store.ledger._users.values())
        assert not any(store._resident.values())
