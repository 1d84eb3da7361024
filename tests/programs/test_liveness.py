"""Nothing stands still: not behind the script, not behind a long task, and not after a rank's death.

The jobs below only end if two things happen at the same time; that they end is the test.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Run, Start
from .launching import Mpi, wait_for

Job = Callable[..., Path]
pytestmark = pytest.mark.mpi_program

HELPERS = """
    import os, pathlib, time

    def write(name, *_):
        pathlib.Path(name).write_text("done\\n")

    def wait(name, seconds=60):
        end = time.monotonic() + seconds
        while not pathlib.Path(name).exists():
            assert time.monotonic() < end, name + " was not written"
"""


@pytest.mark.parametrize("device", ["host", pytest.param("cpu", marks=pytest.mark.sycl)])
def test_a_script_that_computes_does_not_stop_the_other_tiles(
    run: Run, job: Job, mpi: Mpi, device: str
) -> None:
    path = job(
        HELPERS
        + """
    def add(x):
        return x + 1

    with sched.Scheduler() as s:
        future = s.options(tile=1).submit(add, 0)
        for i in range(200):  # each takes a decision of rank 0 and a way through another rank
            future = s.options(tile=1 + i % 2).submit(add, future)
        s.options(tile=1).submit(write, "end", future)
        wait("end")  # in Python, without a word to the scheduler
        print(future.result())
    """
    )
    end = run("--device", device, path, mpi=mpi, ranks=3)
    assert (end.status, end.out) == (0, "201\n"), end


@pytest.mark.parametrize("device", ["host", pytest.param("cpu", marks=pytest.mark.sycl)])
def test_a_long_task_does_not_stop_its_ranks_values(run: Run, job: Job, mpi: Mpi, device: str) -> None:
    path = job(
        HELPERS
        + """
    def make():
        return sched.xp.arange(10_000)

    def long():
        write("long")
        wait("used")

    def use(x):
        write("used")
        return int(x[-1])

    with sched.Scheduler() as s:
        value = s.options(tile=1).submit(make)
        sched_value = value.exception()
        busy = s.options(tile=1).submit(long)
        wait("long")
        print(s.options(tile=2).submit(use, value).result())
    """
    )
    end = run("--device", device, path, mpi=mpi, ranks=3)
    assert (end.status, end.out) == (0, "9999\n"), end


@pytest.mark.sycl
def test_the_scripts_own_tile_works_while_the_script_waits(run: Run, job: Job, one_mpi: Mpi) -> None:
    path = job(
        """
        import asyncio, concurrent.futures as cf

        def where():
            return sched.current().tile

        with sched.Scheduler() as s:
            own = s.options(tile=0)
            print(own.submit(where).result(), own.submit(where).exception(), list(own.map(abs, [-5])))
            future = own.submit(where)
            print(len(cf.wait([future]).done), next(cf.as_completed([own.submit(where)])).result())
            future = own.submit(where)
            while not future.done():
                pass
            print(future.result(), s.gather(own.submit_many(lambda i: i, range(3))))

            async def main():
                return await asyncio.gather(*(asyncio.wrap_future(own.submit(where)) for _ in range(3)))

            print(asyncio.run(main()))
        """
    )
    end = run("--device", "cpu", path, mpi=one_mpi, ranks=2)
    assert (end.status, end.out) == (0, "0 None [5]\n1 0\n0 [0, 1, 2]\n[0, 0, 0]\n"), end


def test_a_result_that_is_late_times_out(run: Run, job: Job, one_mpi: Mpi) -> None:
    path = job(
        HELPERS
        + """
    import concurrent.futures

    with sched.Scheduler() as s:
        for tile in range(2):
            late = s.options(tile=tile).submit(wait, f"late-{tile}")
            try:
                late.result(timeout=0.05)
            except concurrent.futures.TimeoutError:
                print("late")
            write(f"late-{tile}")
            late.result()
    """
    )
    end = run("--device", "host", path, mpi=one_mpi, ranks=2)
    assert (end.status, end.out) == (0, "late\nlate\n"), end


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_rank_that_is_killed_ends_the_run(
    start: Start, job: Job, mpi: Mpi, tmp_path: Path, victim: int
) -> None:
    path = job(
        HELPERS
        + """
    def stay(me):
        pathlib.Path(f"pid-{me}").write_text(f"{os.getpid()}\\n")
        time.sleep(600)

    with sched.Scheduler() as s:
        list(s.map(lambda i: i, range(100)))
        everywhere = [s.options(tile=i).submit(stay, i) for i in range(s.tiles)]
        everywhere[0].result()
    """
    )
    program = start("run", "--device", "host", "--quiet", path, mpi=mpi, ranks=3)
    pids = [int(wait_for(tmp_path / f"pid-{rank}")) for rank in range(3)]
    os.kill(pids[victim], signal.SIGKILL)
    end = program.end(10)
    assert end.status != 0, end
    assert "signal" in (end.out + end.err).lower(), end  # the launcher says it; each has its own words
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text(), pid


def test_a_rank_that_ends_before_the_run_does_not_leave_the_others_waiting(
    start: Start, tmp_path: Path, mpi: Mpi
) -> None:
    """As it would after an error in what begins a run."""
    program = tmp_path / "begin.py"
    program.write_text(
        "import os\n"
        "from sched.runtime import session, start\n"
        "from sched.siblings import ranks\n"
        "engine = session.begin(start.Settings(device='host'), ranks.find(os.environ), start.say)\n"
        "if engine.driver is None:\n"
        "    session.serve(engine)\n"
    )
    end = start(program, mpi=mpi, ranks=2, module=None).end(30)
    assert end.status not in (0, -1), end
    assert "rank 0 ends before the run has ended" in end.err, end
