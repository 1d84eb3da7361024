"""What a task costs: empty tasks in bulk, and one at a time.

    mpiexec -n 2 python -m sched run --device host benchmarks/dispatch.py [TASKS]

Every result is checked. In the same run a ping-pong of the same MPI between two ranks cannot be timed from
a job, so the yardstick here is the plain call in this process.
"""

import statistics
import sys
import time

import sched


def empty(i):
    return i


def main(count):
    with sched.Scheduler() as s:
        assert list(s.map(empty, range(100))) == list(range(100))  # functions travel, threads wake
        start = time.perf_counter()
        futures = [s.submit(empty, i) for i in range(count)]
        submitted = time.perf_counter() - start
        assert [future.result() for future in futures] == list(range(count))
        one_by_one = time.perf_counter() - start
        start = time.perf_counter()
        assert [future.result() for future in s.submit_many(empty, range(count))] == list(range(count))
        in_bulk = time.perf_counter() - start
        singles = []
        for i in range(1000):
            start = time.perf_counter()
            assert s.submit(empty, i).result() == i
            singles.append(time.perf_counter() - start)
        chain_start = time.perf_counter()
        future = s.submit(empty, 7)
        for _ in range(1000):
            future = s.submit(empty, future)
        assert future.result() == 7
        chain = (time.perf_counter() - chain_start) / 1000
        start = time.perf_counter()
        assert [empty(i) for i in range(count)] == list(range(count))
        plain = time.perf_counter() - start
        print(f"tiles                          {s.tiles}")
        print(f"submit {count} empty tasks      {count / submitted:10.0f} /s")
        print(f"submit one by one, all results {count / one_by_one:10.0f} /s")
        print(f"submit_many, all results       {count / in_bulk:10.0f} /s")
        print(f"one at a time, median          {statistics.median(singles) * 1e6:10.0f} us")
        print(f"one at a time, 99th percentile {statistics.quantiles(singles, n=100)[98] * 1e6:10.0f} us")
        print(f"chain of 1000, per task        {chain * 1e6:10.0f} us")
        print(f"plain call, per call           {plain / count * 1e6:10.2f} us")


main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
