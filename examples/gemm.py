"""Multiply two matrices, C = A B, block by block, on tiles that hold only a part of them at a time.

Every tile has a limit (`--tile-memory`). Blocks that are not needed now wait in the host's memory, and come
back when a task takes them; nothing of that is in this file. At the end it asks what the tiles have held.

    mpiexec -n 12 python -m sched run --tile-memory 24MiB examples/gemm.py --size 4000 --block 500
"""

import argparse
import sys
import time
from concurrent.futures import wait

import numpy as np

import sched

MIB = 1 << 20


def make(i, j, block, size, seed):
    """A block of a matrix of which every element can be told: there is nothing to be read from a file."""
    xp = sched.xp
    rows = xp.arange(i * block, min((i + 1) * block, size), dtype=xp.float64)
    columns = xp.arange(j * block, min((j + 1) * block, size), dtype=xp.float64)
    return xp.cos(seed + 0.01 * rows[:, None] + 0.02 * columns)


def product(a, b):
    return a @ b


def accumulate(c, a, b):
    return c + a @ b


def multiply(s, a, b, blocks, memory):
    """Submit the product of two matrices of blocks; return the futures of its blocks.

    Each block of C is a chain of tasks. It begins where its block of A is, and goes on where C is.
    """
    c = {}
    for i in range(blocks):
        for j in range(blocks):
            c[i, j] = s.options(near=a[i, 0], memory=memory).submit(product, a[i, 0], b[0, j])
            for k in range(1, blocks):
                c[i, j] = s.options(near=c[i, j], memory=memory).submit(accumulate, c[i, j], a[i, k], b[k, j])
    return c


def expected(size, rows):
    """Compute some rows of the product with NumPy."""
    index = np.arange(size, dtype=float)
    a = np.cos(1 + 0.01 * np.asarray(rows, float)[:, None] + 0.02 * index)
    return a @ np.cos(2 + 0.01 * index[:, None] + 0.02 * index)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=1200, help="rows of the matrices (1200)")
    parser.add_argument("--block", type=int, default=200, help="rows of a block (200)")
    options = parser.parse_args()
    n, block = options.size, options.block
    blocks = -(-n // block)
    memory = 2 * 8 * block**2  # of the result, and of a @ b beside it

    with sched.Scheduler() as s:
        start = time.perf_counter()
        at = [(i, j) for i in range(blocks) for j in range(blocks)]
        a = {(i, j): s.submit(make, i, j, block, n, 1) for i, j in at}
        b = {(i, j): s.submit(make, i, j, block, n, 2) for i, j in at}
        c = multiply(s, a, b, blocks, memory)
        wait(c.values())
        seconds = time.perf_counter() - start
        stats = s.stats()
        rows = [0, n // 2, n - 1]
        found = np.zeros((len(rows), n))
        for row, values in zip(rows, found, strict=True):
            i, offset = divmod(row, block)
            parts = s.gather([c[i, j] for j in range(blocks)], to="host")
            values[:] = np.concatenate([part[offset] for part in parts])

    held = max(tile.peak for tile in stats.tiles)
    limit = stats.tiles[0].limit
    spilled = stats.moves["spilled to the host"].times if "spilled to the host" in stats.moves else 0
    print(f"{n} x {n} in blocks of {block}: {seconds:.2f} s, {2 * n**3 / 1e9 / seconds:.1f} GFLOP/s")
    print(
        f"the matrices have {3 * 8 * n**2 / MIB:.0f} MiB; a tile held at most {held / MIB:.1f} MiB, "
        f"and may hold {limit / MIB:.0f}; blocks were put aside {spilled} times"
    )
    error = np.abs(found - expected(n, rows)).max() / n
    right = error < n * np.finfo(float).eps and held <= limit
    print(f"largest difference to NumPy: {error:.1e} ({'right' if right else 'WRONG'})")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
