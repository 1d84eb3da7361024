"""`python -m sched run job.py`, whole: alone and under each MPI."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Run, Start
from .launching import Mpi

Job = Callable[..., Path]
pytestmark = pytest.mark.mpi_program

ALL_TILES = """
    import collections

    def block(i):
        return sched.xp.linspace(i, i + 1, 2_000)

    def total(block, others):
        return float(block.sum()) + sum(float(other.sum()) for other in others), sched.current().tile

    with sched.Scheduler() as s:
        blocks = s.submit_many(block, range(4 * s.tiles))
        ends = [s.submit(total, b, [blocks[0], blocks[-1]]) for b in blocks]
        sums = [end.result()[0] for end in ends]
        want = [2_000 * (i + 0.5) for i in range(len(blocks))]
        for got, base in zip(sums, want):
            assert abs(got - (base + want[0] + want[-1])) < 1e-6 * got, (got, base)
        spread = [s.options(tile=i).submit(lambda: sched.current().tile) for i in range(s.tiles)]
        print("tiles", s.tiles, sorted(f.result() for f in spread))
"""


@pytest.mark.parametrize("ranks", [1, 2, 4, 12])
def test_a_job_has_every_tile(run: Run, job: Job, mpi: Mpi, ranks: int) -> None:
    end = run("--device", "host", job(ALL_TILES), mpi=mpi, ranks=ranks)
    assert end.status == 0, end
    assert end.out == f"tiles {ranks} {list(range(ranks))}\n", end
    assert f"{ranks} tile{'s' if ranks > 1 else ''} on the host" in end.err, end


@pytest.mark.sycl
@pytest.mark.parametrize("ranks", [1, 2, 4, 12])
def test_a_job_has_every_tile_of_the_cpu_device(run: Run, job: Job, one_mpi: Mpi, ranks: int) -> None:
    end = run("--device", "cpu", job(ALL_TILES), mpi=one_mpi, ranks=ranks)
    assert end.status == 0, end
    assert f"tiles {ranks} {list(range(ranks))}\n" == end.out, end


def test_without_mpiexec_all_tiles_are_in_one_process(run: Run, job: Job) -> None:
    end = run("--device", "host", "--tiles", "3", job(ALL_TILES))
    assert (end.status, end.out) == (0, "tiles 3 [0, 1, 2]\n"), end


@pytest.mark.sycl
def test_auto_takes_the_cpu_device_and_says_so(run: Run, job: Job) -> None:
    end = run(
        job("import dpnp as np\nprint(np.arange(3).device.sycl_device.filter_string, sched.xp.__name__)")
    )
    assert (end.status, end.out) == (0, "opencl:cpu:0 dpnp\n"), end
    assert "1 tile on the CPU device" in end.err, end
    assert "no Level Zero tile here" in end.err, end


def test_the_job_sees_its_arguments(run: Run, job: Job) -> None:
    path = job("import sys\nprint(sys.argv[1:], __name__, __file__)")
    end = run("--device", "host", path, "--device", "x", "-n", "a b", "--")
    assert f"['--device', 'x', '-n', 'a b', '--'] __main__ {path}\n" == end.out, end


def test_the_jobs_directory_can_be_imported_from_on_every_rank(run: Run, job: Job, one_mpi: Mpi) -> None:
    job("def where(): return sched.current().rank", "beside.py")
    path = job(
        """
        import beside

        def through_import():
            import beside
            return beside.where()

        with sched.Scheduler() as s:
            for function in (beside.where, through_import):
                print([s.options(tile=i).submit(function).result() for i in range(s.tiles)])
        """
    )
    end = run("--device", "host", path, mpi=one_mpi, ranks=3)
    assert (end.status, end.out) == (0, "[0, 1, 2]\n[0, 1, 2]\n"), end


@pytest.mark.parametrize("ranks", [1, 2])
def test_sys_exit_gives_the_status(run: Run, job: Job, mpi: Mpi, ranks: int) -> None:
    end = run("--device", "host", job("import sys\nprint('bye')\nsys.exit(3)"), mpi=mpi, ranks=ranks)
    assert (end.status, end.out) == (3, "bye\n"), end


def test_an_exception_in_the_job_is_shown_once_and_gives_1(run: Run, job: Job, mpi: Mpi) -> None:
    path = job(
        """
        def main():
            raise ValueError("no luck")
        main()
        """
    )
    end = run("--device", "host", path, mpi=mpi, ranks=3)
    assert end.status == 1, end
    assert end.err.count("ValueError: no luck") == 1, end
    assert 'raise ValueError("no luck")' in end.err, end
    assert "sched/cli.py" not in end.err, end


def test_a_job_that_raises_does_not_wait_for_tasks_that_run(run: Run, job: Job, mpi: Mpi) -> None:
    path = job(
        """
        import pathlib, time

        def sleep(path):
            pathlib.Path(path).write_text("I sleep")
            time.sleep(600)

        s = sched.Scheduler()
        asleep = [s.options(tile=i).submit(sleep, f"asleep-{i}") for i in range(s.tiles)]
        while len(list(pathlib.Path().glob("asleep-*"))) < s.tiles:
            time.sleep(0.01)
        raise ValueError("enough")
        """
    )
    end = run("--device", "host", path, mpi=mpi, ranks=3)
    assert end.status == 1, end
    assert "ValueError: enough" in end.err, end
    assert end.seconds < 60, end


def test_tasks_left_over_are_finished_when_the_job_ends(run: Run, job: Job, one_mpi: Mpi) -> None:
    path = job(
        """
        def note(i):
            open(f"done-{i}", "w").close()

        sched.Scheduler().submit_many(note, range(20))
        """
    )
    end = run("--device", "host", path, mpi=one_mpi, ranks=2)
    assert end.status == 0, end
    assert len(list(path.parent.glob("done-*"))) == 20


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        (None, 2, "the job 'missing.py' cannot be read: No such file or directory"),
        ("directory", 2, "cannot be read: Is a directory"),
        ("def f(:\n", 1, "SyntaxError"),
    ],
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_job_that_cannot_run_is_named_once(
    run: Run, job: Job, tmp_path: Path, one_mpi: Mpi, text: str | None, status: int, message: str, ranks: int
) -> None:
    path: Path | str = "missing.py"
    if text == "directory":
        path = tmp_path / "folder"
        path.mkdir()
    elif text:
        path = job(text)
    end = run("--device", "host", path, mpi=one_mpi, ranks=ranks)
    assert end.status == status, end
    assert end.err.count(message) == 1, end


def test_no_gpu_where_one_was_asked_for_is_one_message(run: Run, job: Job, one_mpi: Mpi) -> None:
    end = run("--device", "level_zero", job("print('never')"), mpi=one_mpi, ranks=3)
    assert (end.status, end.out) == (2, ""), end
    assert end.err.count("3 ranks (the first is 0) cannot begin: ") == 1, end


def test_an_unknown_device_or_option_is_refused(run: Run, job: Job) -> None:
    assert run("--device", "cuda:0", job("")).status == 2
    assert run("--device", "host", "--tiles", "0", job("")).status == 2


def test_driver_only_leaves_rank_0_without_a_tile(run: Run, job: Job, mpi: Mpi) -> None:
    path = job(
        """
        def make(i):
            return sched.xp.full(2_000, i), sched.current().rank

        with sched.Scheduler() as s:
            values = s.gather(s.submit_many(make, range(8)))
            print(s.tiles, sorted({rank for _, rank in values}), [int(a[0]) for a, _ in values])
        """
    )
    end = run("--device", "host", "--driver-only", path, mpi=mpi, ranks=3)
    assert (end.status, end.out) == (0, "2 [1, 2] [0, 1, 2, 3, 4, 5, 6, 7]\n"), end
    alone = run("--device", "host", "--driver-only", path, mpi=mpi, ranks=1)
    assert alone.status == 2, alone


def test_an_mpiexec_of_another_mpi_is_noticed(run: Run, job: Job, one_mpi: Mpi) -> None:
    from .launching import openmpi

    other = openmpi()
    if other is None:
        pytest.skip("openmpi is not installed (tools/test.sh installs it)")
    environment = {k: v for k, v in other.environment.items() if k != "MPI4PY_LIBMPI"}
    mixed = Mpi("mixed", other.mpiexec, environment)
    end = run("--device", "host", job("print('never')"), mpi=mixed, ranks=3)
    assert end.status != 0, end
    assert end.out == "", end
    assert "mpiexec" in end.err, end


@pytest.mark.sycl
def test_ranks_that_find_different_devices_do_not_begin(start: Start, job: Job, one_mpi: Mpi) -> None:
    path = job("print('never')")
    second = ["-n", "1", "env", "OCL_ICD_FILENAMES=/nowhere", sys.executable, "-m", "sched", "run", str(path)]
    end = start("run", path, ":", *second, mpi=one_mpi, ranks=1).end()
    assert (end.status, end.out) == (2, ""), end
    assert end.err.count("ranks found different kinds of device") == 1, end


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_launch_module_of_the_users_does_no_harm(run: Run, job: Job, one_mpi: Mpi, ranks: int) -> None:
    job("rocket = 'user'", "launch.py")
    path = job(
        """
        def name():
            import launch
            return launch.rocket

        with sched.Scheduler() as s:
            print(name(), *[s.options(tile=i).submit(name).result() for i in range(s.tiles)])
        """
    )
    end = run("--device", "host", path, mpi=one_mpi, ranks=ranks)
    assert (end.status, end.out.split()) == (0, ["user"] * (ranks + 1)), end


def test_a_link_to_a_job_finds_the_jobs_neighbours(run: Run, job: Job, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    job("answer = 42", "real/beside.py")
    (tmp_path / "link.py").symlink_to(job("import beside\nprint(beside.answer)", "real/job.py"))
    end = run("--device", "host", tmp_path / "link.py")
    assert (end.status, end.out) == (0, "42\n"), end


def test_a_job_may_close_its_output_and_fork(run: Run, job: Job, one_mpi: Mpi) -> None:
    path = job(
        """
        import os, sys
        with sched.Scheduler() as s:
            print(s.submit(abs, -1).result(), flush=True)
            child = os.fork()
            if not child:
                sys.exit(5)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
            print(s.submit(abs, -2).result(), flush=True)
        sys.stdout.close()
        """
    )
    end = run("--device", "host", path, mpi=one_mpi, ranks=2)
    assert (end.status, end.out) == (0, "1\n2\n"), end
