"""Let heat spread over a square plate with cold edges: the 2-D heat equation, explicit in time.

The plate is cut into strips, each of which lives on a tile. Every `--halo` steps a strip needs that many rows
from either neighbour. Those are futures like any other, so there is no exchange to write, no barrier, and
nobody waits for the whole plate: a strip goes on as soon as its own neighbours' rows are there.

    mpiexec -n 12 python -m sched run examples/heat.py --size 6000 --steps 400
"""

import argparse
import sys
import time
from concurrent.futures import wait

import numpy as np

import sched

R = 0.2  # diffusivity * dt / dx**2; stable up to 1/4


def warm(first, rows, size):
    """Make the strip of the plate that begins at row `first`: warm off the centre, and cold at the edges."""
    xp = sched.xp
    y = xp.arange(first, first + rows) / (size - 1)
    x = xp.arange(size) / (size - 1)
    u = xp.exp(-50 * (y - 0.4) ** 2)[:, None] * xp.exp(-50 * (x - 0.3) ** 2)
    u[:, 0] = u[:, -1] = 0
    if first == 0:
        u[0] = 0
    if first + rows == size:
        u[-1] = 0
    return u


def spread(u, steps):
    """Take time steps in place. The outermost rows and columns stay as they are."""
    for _ in range(steps):
        u[1:-1, 1:-1] += R * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return u


def advance(strip, above, below, steps):
    """Take steps with a strip, between the nearest rows of its neighbours (None beyond the plate's edge).

    Of those rows the outermost is wrong after the first step, the next after the second, and so on. So there
    are as many of them as there are steps, and then they are thrown away.
    """
    u = sched.xp.concatenate([part for part in (above, strip, below) if part is not None])
    spread(u, steps)
    skip = 0 if above is None else steps
    return u[skip : skip + len(strip)]


def rows(strip, start, stop):
    return strip[start:stop].copy()  # a view would do as well, but keep all of the strip in memory


def where(strip):
    return sched.current().tile


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=600, help="points along each side (600)")
    parser.add_argument("--steps", type=int, default=120, help="time steps (120)")
    parser.add_argument("--halo", type=int, default=8, help="steps between exchanges, and rows of each (8)")
    options = parser.parse_args()
    size, halo = options.size, options.halo

    with sched.Scheduler() as s:
        bounds = [size * i // s.tiles for i in range(s.tiles + 1)]
        if size // s.tiles < halo:
            parser.error(f"{size} rows in {s.tiles} strips are too few for --halo {halo}")
        tiles = [s.options(tile=i) for i in range(s.tiles)]
        cuts = zip(tiles, bounds[:-1], bounds[1:], strict=True)
        strips = [tile.submit(warm, first, last - first, size) for tile, first, last in cuts]
        expected = np.concatenate(s.gather(strips, to="host"))

        start = time.perf_counter()
        for done in range(0, options.steps, halo):
            steps = min(halo, options.steps - done)
            # The rows at either end of a strip are values of their own, so that only they travel.
            top = [tile.submit(rows, u, None, steps) for tile, u in zip(tiles, strips, strict=True)]
            bottom = [tile.submit(rows, u, -steps, None) for tile, u in zip(tiles, strips, strict=True)]
            inputs = zip(tiles, strips, [None, *bottom[:-1]], [*top[1:], None], strict=True)
            strips = [tile.submit(advance, *values, steps) for tile, *values in inputs]
        wait(strips)
        seconds = time.perf_counter() - start
        used = set(s.gather([tile.submit(where, u) for tile, u in zip(tiles, strips, strict=True)]))
        plate = np.concatenate(s.gather(strips, to="host"))

    updates = size**2 * options.steps / seconds
    print(f"{options.steps} steps of {size} x {size} points: {seconds:.2f} s,", end=" ")
    print(f"{updates / 1e6:.0f} million points/s, {7 * updates / 1e9:.1f} GFLOP/s")
    print(f"{len(used)} of {s.tiles} tiles took part; the warmest point has {plate.max():.4f}")
    spread(expected, options.steps)
    error = np.abs(plate - expected).max()
    right = error < 1e-13 * options.steps
    print(f"largest difference to NumPy on the whole plate: {error:.1e} ({'right' if right else 'WRONG'})")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
