"""Values between the ranks of real runs."""

import pytest

from .conftest import Run
from .launching import CHECKOUT, Mpi

pytestmark = pytest.mark.mpi_program

CPU = pytest.param("cpu", marks=pytest.mark.sycl)
KINDS = ["host", CPU]


@pytest.mark.parametrize("way", ["device", "host"])
@pytest.mark.parametrize("device", KINDS)
def test_a_task_on_several_ranks_has_a_communicator_of_them(
    run: Run, job, mpi: Mpi, device: str, way: str
) -> None:
    end = run(
        *("--device", device, "--mpi-buffers", way),
        job("""
            import numpy as np

            def ring(x):
                comm = sched.current().comm
                token = np.full(1000, comm.rank, "i8")
                comm.Sendrecv_replace(token, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
                return comm.size, comm.allreduce(int(token[0])), float(x.sum()), comm.rank

            with sched.Scheduler() as s:
                x = s.submit(lambda: sched.xp.ones(3000))
                for tiles in (2, 3, 2, 3):
                    found = s.options(tiles=tiles).submit(ring, x).result()
                    assert found == (tiles, tiles * (tiles - 1) // 2, 3000, 0), found
                many = [s.options(tiles=2).submit(ring, x) for _ in range(10)]
                others = [s.submit(abs, -1) for _ in range(10)]
                assert s.options(tiles=2).submit(lambda: sched.current().comm.Free()).exception() is None
                lock = s.options(tile=1).submit(__import__("threading").Lock)
                error = s.options(tiles=2, tile=2).submit(ring, lock).exception()
                assert type(error) is sched.DependencyError, error
                assert [f.result() for f in many + others] == 10 * [(2, 1, 3000.0, 0)] + 10 * [1]
                print("all in step")
            """),
        mpi=mpi,
        ranks=3,
    )
    assert (end.status, end.out) == (0, "all in step\n"), end


def test_a_task_that_fails_on_one_of_its_ranks_fails(run: Run, job, mpi: Mpi) -> None:
    end = run(
        "--device",
        "host",
        job("""
            def odd():
                if sched.current().comm.rank == 1:
                    raise ValueError("on the second")

            with sched.Scheduler() as s:
                bad = s.options(tiles=2).submit(odd)
                after = s.submit(lambda x: x, bad)
                print(repr(bad.exception()), type(after.exception()).__name__, s.submit(abs, -1).result())
            """),
        mpi=mpi,
        ranks=2,
    )
    assert (end.status, end.out) == (0, "ValueError('on the second') DependencyError 1\n"), end


def test_a_run_ends_if_the_others_wait_for_a_rank_that_has_failed(run: Run, job, mpi: Mpi) -> None:
    end = run(
        *("--device", "host", "--stall", "1"),
        job("""
            def odd():
                comm = sched.current().comm
                if comm.rank == 1:
                    raise ValueError("on the second")
                comm.recv(source=1)

            with sched.Scheduler() as s:
                s.options(tiles=2, name="duet").submit(odd).exception()
            """),
        mpi=mpi,
        ranks=2,
    )
    assert end.status not in (0, -1), end
    said = "duet has failed on one of its ranks (ValueError: on the second), and others have not returned"
    assert said in end.err, end


@pytest.mark.parametrize("device", KINDS)
def test_objects_of_the_scripts_own_classes_bring_their_arrays(
    run: Run, job, one_mpi: Mpi, device: str
) -> None:
    end = run(
        "--device",
        device,
        job("""
            import dataclasses
            import typing

            class Slots:
                __slots__ = ("x", "n")
                def __init__(self, x):
                    self.x, self.n = x, 1

            class More(Slots):
                __slots__ = ("z",)

            @dataclasses.dataclass(slots=True)
            class Data:
                x: object
                n: int = 2

            @dataclasses.dataclass(frozen=True)
            class Frozen:
                x: object

            class Named(typing.NamedTuple):
                x: object

            KINDS = [Slots, More, Data, Frozen, Named]

            def make(i):
                return KINDS[i](sched.xp.ones(3000))

            def use(thing):
                return float(thing.x.sum()), type(thing).__name__

            with sched.Scheduler() as s:
                for i, kind in enumerate(KINDS):
                    thing = s.options(tile=1).submit(make, i)
                    for tile in (0, 1):
                        assert s.options(tile=tile).submit(use, thing).result() == (3000, kind.__name__)
                    assert type(thing.result()) is kind
                    assert use(thing.result()) == (3000, kind.__name__)
                    mine = kind(sched.xp.ones(3000))
                    assert s.options(tile=1).submit(use, mine).result() == (3000, kind.__name__)
                print("well travelled")
            """),
        mpi=one_mpi,
        ranks=2,
    )
    assert (end.status, end.out) == (0, "well travelled\n"), end


@pytest.mark.parametrize("way", ["device", "host"])
@pytest.mark.sycl
def test_values_go_by_the_way_that_was_asked_for(run: Run, job, mpi: Mpi, way: str) -> None:
    end = run(
        "--device",
        "cpu",
        "--mpi-buffers",
        way,
        job("""
            def make(i):
                return sched.xp.arange(i * 1_000_000 + 7, dtype="float64")[::-1] if i % 2 else \
                    sched.xp.full((3, i * 100_000), i, dtype="int16")

            def check(i, x):
                if i % 2:
                    assert x.shape == (i * 1_000_000 + 7,) and float(x[0] - x[-1]) == x.size - 1, i
                else:
                    assert x.shape == (3, i * 100_000) and int(x.sum()) == i * x.size, i
                return i

            with sched.Scheduler() as s:
                values = [s.options(tile=i % 3).submit(make, i) for i in range(1, 7)]
                for tile in range(3):
                    done = [s.options(tile=tile).submit(check, i, x) for i, x in enumerate(values, 1)]
                    assert [f.result() for f in done] == [1, 2, 3, 4, 5, 6]
                moves = s.stats().moves
                print(sorted(name for name in moves if "MPI" in name or "staged" in name))
            """),
        mpi=mpi,
        ranks=3,
    )
    rung = {"device": "device pointer to MPI", "host": "staged through the host"}[way]
    assert (end.status, end.out) == (0, f"{[rung]}\n"), end


@pytest.mark.sycl
def test_a_product_three_times_as_large_as_the_tiles(run: Run, one_mpi: Mpi) -> None:
    """Three matrices of 11 MiB on 12 tiles of 0.9 MiB; the blocks have 80 KiB."""
    end = run(
        *("--device", "cpu", "--tile-memory", "900KiB"),
        *(CHECKOUT / "examples" / "gemm.py", "--size", 1200, "--block", 100),
        mpi=one_mpi,
        ranks=12,
    )
    assert end.status == 0, end
    assert "(right)" in end.out, end


@pytest.mark.parametrize("device", KINDS)
def test_results_that_are_dropped_leave_no_memory_behind(run: Run, job, one_mpi: Mpi, device: str) -> None:
    end = run(
        "--device",
        device,
        job("""
            import resource

            MIB = 1 << 20

            def make(i):
                return sched.xp.full(MIB, float(i))

            def use(x):
                return float(x[0])

            def highest():
                return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

            def work(count):
                waiting = [s.submit(make, i) for i in range(16)]
                for i in range(16, count):
                    x = waiting.pop(0)
                    assert s.submit(use, x).result() == i - 16
                    waiting.append(s.submit(make, i))

            with sched.Scheduler() as s:
                work(50)
                before = [s.options(tile=tile).submit(highest).result() for tile in (0, 1)]
                work(250)
                after = [s.options(tile=tile).submit(highest).result() for tile in (0, 1)]
                grown = [b - a for a, b in zip(before, after)]
                assert max(grown) < 400, grown  # of 2,000 MiB that were made; 256 may be kept for reuse
                print("flat", sum(tile.now for tile in s.stats().tiles) < 20 * 8 * MIB)
            """),
        mpi=one_mpi,
        ranks=2,
    )
    assert (end.status, end.out) == (0, "flat True\n"), end


def test_an_array_above_two_gibibytes_arrives(run: Run, job, mpi: Mpi) -> None:
    end = run(
        "--device",
        "host",
        job("""
            import resource

            COUNT = 2_200 << 20

            def make():
                x = sched.xp.zeros(COUNT, dtype="u1")
                x[:: 1 << 20] = sched.xp.arange(2_200) % 251
                return x

            def check(x):
                assert x.shape == (COUNT,)
                assert (x[:: 1 << 20] == sched.xp.arange(2_200) % 251).all() and not x[1 :: 1 << 20].any()
                return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

            with sched.Scheduler() as s:
                x = s.options(tile=1).submit(make)
                held = s.options(tile=0).submit(check, x).result()
                assert held < 2 * 2_200, held  # no second copy of it
                print("whole")
            """),
        mpi=mpi,
        ranks=2,
    )
    assert (end.status, end.out) == (0, "whole\n"), end


@pytest.mark.sycl
def test_no_two_ranks_draw_the_same_random_numbers(run: Run, job, one_mpi: Mpi) -> None:
    end = run(
        "--device",
        "cpu",
        job("""
            def draw():
                xp = sched.xp
                return float(xp.random.gamma(2.0, size=1)[0]), float(xp.random.normal(size=1)[0])

            with sched.Scheduler() as s:
                drawn = [s.options(tile=tile).submit(draw).result() for tile in range(3)]
                print([len(set(numbers)) for numbers in zip(*drawn)])
            """),
        mpi=one_mpi,
        ranks=3,
    )
    assert (end.status, end.out) == (0, "[3, 3]\n"), end


@pytest.mark.sycl
def test_what_crosses_ranks_of_the_cpu_device_is_what_it_was(run: Run, job, mpi: Mpi) -> None:
    end = run(
        "--device",
        "cpu",
        job("""
            import numpy as np
            xp = sched.xp

            DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
            VIEWS = [
                lambda x: x, lambda x: x[::-1], lambda x: x[3:, 5:-5], lambda x: x.T, lambda x: x[::2, ::-3],
                lambda x: x[7], lambda x: x[2:2], lambda x: x[1, 2],
            ]

            def usable(dtype):
                try:
                    return bool(xp.ones(1, dtype=np.dtype(dtype)).size)
                except Exception:
                    return False

            def source(dtype):
                return (np.arange(30_000) % 97).reshape(100, 300).astype(dtype)

            def make(dtype, i):
                return {"x": VIEWS[i](xp.asarray(source(dtype))), "n": i}

            def check(got, dtype, i):
                x = got["x"]
                assert x.sycl_queue == sched.current().queue
                assert not x.flags.writable
                same = np.array_equal(xp.asnumpy(x), VIEWS[i](source(dtype)))
                return same and x.dtype == np.dtype(dtype) and got["n"] == i

            with sched.Scheduler() as s:
                kinds = [d for d in DTYPES if usable(d)]
                cases = [(d, i) for d in kinds for i in range(len(VIEWS))]
                there = [s.options(tile=1 + n % 2).submit(make, *case) for n, case in enumerate(cases)]
                checks = [
                    s.options(tile=t).submit(check, x, *c) for t in range(3) for x, c in zip(there, cases)
                ]
                assert all(s.gather(checks)), [c for c, ok in zip(3 * cases, s.gather(checks)) if not ok]

                rows = [s.options(tile=n % 3).submit(xp.full, 3_000, float(n)) for n in range(12)]
                want = list(range(12))
                assert xp.asnumpy(s.gather(rows, stack=True))[:, 7].tolist() == want
                assert s.gather(rows, to="host", stack=True)[:, 7].tolist() == want
                assert xp.asnumpy(s.gather(rows, to=2, stack=True).result())[:, 7].tolist() == want
                everywhere = s.put(xp.ones(5_000), broadcast=True)
                sums = [s.options(tile=t).submit(lambda x: float(x.sum()), everywhere) for t in range(3)]
                assert [total.result() for total in sums] == 3 * [5_000]
                print(len(kinds) >= 13, "as they were")
            """),
        mpi=mpi,
        ranks=3,
    )
    assert (end.status, end.out) == (0, "True as they were\n"), end


@pytest.mark.parametrize("device", KINDS)
def test_what_is_in_objects_of_the_script_is_read_only(run: Run, job, one_mpi: Mpi, device: str) -> None:
    end = run(
        "--device",
        device,
        job("""
            import numpy as np

            class Thing:
                def __init__(self, n):
                    self.a, self.n = sched.xp.zeros(n), np.zeros(n)
                    self.deep = [{"x": sched.xp.zeros(n)}]

            class Slots:
                __slots__ = ("a", "deep", "n")
                __init__ = Thing.__init__

            WHERE = [lambda o: o.a, lambda o: o.n, lambda o: o.deep[0]["x"]]

            def write(thing, i):
                WHERE[i](thing)[0] = 5

            with sched.Scheduler() as s:
                for kind in (Thing, Slots):
                    for n in (5, 3000):
                        thing = s.options(tile=1).submit(kind, n)
                        for tile in (0, 1):
                            for i in range(len(WHERE)):
                                error = s.options(tile=tile).submit(write, thing, i).exception()
                                assert isinstance(error, ValueError), (kind, n, tile, i, error)
                        assert [float(where(thing.result())[0]) for where in WHERE] == [0, 0, 0]
                print("as it was made")
            """),
        mpi=one_mpi,
        ranks=2,
    )
    assert (end.status, end.out) == (0, "as it was made\n"), end
