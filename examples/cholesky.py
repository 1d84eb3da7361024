"""Factorise a dense symmetric positive definite matrix, A = L Lᵀ, block by block.

The matrix is the covariance of random points in the plane, as in Gaussian-process regression or kriging. Its
blocks are made by tasks, on the tiles. The loops in `cholesky` are those of the textbook, and nothing in them
waits: they hand futures from task to task, and the scheduler finds the parallelism in that.

    mpiexec -n 12 python -m sched run examples/cholesky.py --size 6000 --block 500
"""

import argparse
import sys
import time
from concurrent.futures import wait
from typing import Any, NamedTuple

import numpy as np

import sched


class Block(NamedTuple):
    """A block of the matrix, and the tiles that had a hand in it."""

    data: Any
    tiles: frozenset[int]


def computed_here(data, *inputs):
    return Block(data, frozenset({sched.current().tile}).union(*(block.tiles for block in inputs)))


def covariance(p, q):
    """Let it fall off with the distance exponentially; and each point has some variance of its own."""
    xp = sched.xp
    p, q = xp.asarray(p), xp.asarray(q)
    distance = xp.hypot(p[:, :1] - q[:, 0], p[:, 1:] - q[:, 1])
    return computed_here(xp.exp(-distance) + 0.1 * (distance == 0))


def potrf(a):
    return computed_here(sched.xp.linalg.cholesky(a.data), a)


def invert(diagonal):
    # dpnp has no triangular solve. All blocks of a column are divided by the same diagonal block, so that is
    # inverted once, and each division becomes a product, which GPUs like better anyway.
    return computed_here(sched.xp.linalg.inv(diagonal.data), diagonal)


def trsm(a, inverse):
    return computed_here(a.data @ inverse.data.T, a, inverse)


def syrk(c, a):
    return computed_here(c.data - a.data @ a.data.T, c, a)


def gemm(c, a, b):
    return computed_here(c.data - a.data @ b.data.T, c, a, b)


def cholesky(s, a, blocks):
    """Submit the factorisation.

    Args:
        s: the scheduler.
        a: futures of the blocks, `a[i, j]` for i >= j. Each is replaced by that of the factor's block, and
            what nobody needs any more is freed on its tile.
        blocks: how many there are in each direction.
    """
    for k in range(blocks):
        # The diagonal and the column under it are what everybody waits for: they go first.
        urgent, later = s.options(priority=2 * (blocks - k) + 1), s.options(priority=2 * (blocks - k))
        a[k, k] = urgent.submit(potrf, a[k, k])
        inverse = urgent.submit(invert, a[k, k])
        for i in range(k + 1, blocks):
            a[i, k] = urgent.submit(trsm, a[i, k], inverse)
        for j in range(k + 1, blocks):
            a[j, j] = later.submit(syrk, a[j, j], a[j, k])
            for i in range(j + 1, blocks):
                a[i, j] = later.submit(gemm, a[i, j], a[i, k], a[j, k])


def assemble(a, values, size, block):
    """Put the blocks of a lower triangle into one NumPy array."""
    whole = np.zeros((size, size))
    for (i, j), value in zip(a, values, strict=True):
        rows, columns = value.data.shape
        whole[i * block : i * block + rows, j * block : j * block + columns] = value.data
    return whole


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=2400, help="rows of the matrix (2400)")
    parser.add_argument("--block", type=int, default=240, help="rows of a block (240)")
    options = parser.parse_args()
    n, block = options.size, options.block
    blocks = -(-n // block)

    with sched.Scheduler() as s:
        points = np.random.default_rng(1).uniform(0, 10, (n, 2))
        parts = [points[i * block : (i + 1) * block] for i in range(blocks)]
        lower = [(i, j) for j in range(blocks) for i in range(j, blocks)]
        made = s.submit_many(covariance, [parts[i] for i, _ in lower], [parts[j] for _, j in lower])
        a = dict(zip(lower, made, strict=True))
        wait(made)

        start = time.perf_counter()
        cholesky(s, a, blocks)
        wait(a.values())
        seconds = time.perf_counter() - start

        factor = s.gather(a.values(), to="host")
        matrix = assemble(a, s.gather(made, to="host"), n, block)

    tiles = frozenset().union(*(value.tiles for value in factor))
    print(f"Cholesky of {n} x {n} in blocks of {block}: {seconds:.2f} s, {n**3 / 3e9 / seconds:.1f} GFLOP/s")
    print(f"{len(tiles)} of {s.tiles} tiles took part")
    expected = np.linalg.cholesky(matrix)  # it reads the lower triangle only
    error = np.abs(assemble(a, factor, n, block) - expected).max() / np.abs(expected).max()
    right = error < n * np.finfo(float).eps
    print(f"largest difference to numpy.linalg.cholesky: {error:.1e} ({'right' if right else 'WRONG'})")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
