"""How a run begins under mpiexec: who has which tiles, and what MPI is given of them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Run, Start
from .launching import Mpi, Outcome

Job = Callable[..., Path]
pytestmark = pytest.mark.mpi_program

AS_LEVEL_ZERO = Path(__file__).with_name("as_level_zero.py")

EACH_TILE = """
    def where():
        return sched.current().rank, sched.current().tile, len(sched.tiles())

    with sched.Scheduler() as s:
        print(*[s.options(tile=i).submit(where).result() for i in range(s.tiles)])
"""

VALUES = """
    def make(i):
        return sched.xp.full(100_000, i + 0.5)

    with sched.Scheduler() as s:
        parts = [s.options(tile=i).submit(make, i) for i in range(s.tiles)]
        sums = [s.options(tile=0).submit(lambda x: float(x.sum()), part) for part in parts]
        print([future.result() / 100_000 for future in sums])
"""


@pytest.fixture
def level_zero(start: Start) -> Callable[..., Outcome]:
    """Run a job with the CPU device in the place of a node's Level Zero tiles."""

    def run(*arguments: object, mpi: Mpi, ranks: int, tiles: int | None = 12, **environment: str) -> Outcome:
        if tiles is not None:
            environment["TILES"] = str(tiles)
        program = start(
            AS_LEVEL_ZERO,
            "run",
            *arguments,
            mpi=mpi,
            ranks=ranks,
            module=None,
            **environment,
        )
        return program.end()

    return run


def test_each_rank_may_have_several_tiles(run: Run, job: Job, mpi: Mpi) -> None:
    end = run("--device", "host", "--tiles", "2", job(EACH_TILE), mpi=mpi, ranks=3)
    assert end.out == "(0, 0, 2) (0, 1, 2) (1, 2, 2) (1, 3, 2) (2, 4, 2) (2, 5, 2)\n", end
    assert "6 tiles on the host (NumPy): asked for, in 3 ranks\n" in end.err, end


def test_the_driver_without_tiles_has_none_of_several(run: Run, job: Job, one_mpi: Mpi) -> None:
    end = run("--device", "host", "--driver-only", "--tiles", "2", job(EACH_TILE), mpi=one_mpi, ranks=2)
    assert end.out == "(1, 0, 2) (1, 1, 2)\n", end


@pytest.mark.sycl
def test_several_queues_of_the_cpu_device_for_each_rank(run: Run, job: Job, one_mpi: Mpi) -> None:
    end = run("--device", "cpu", "--tiles", "2", job(VALUES), mpi=one_mpi, ranks=2)
    assert end.out == "[0.5, 1.5, 2.5, 3.5]\n", end


@pytest.mark.sycl
def test_a_nodes_tiles_are_shared_out_among_its_ranks(
    level_zero: Callable[..., Outcome], job: Job, one_mpi: Mpi
) -> None:
    end = level_zero(job(EACH_TILE), mpi=one_mpi, ranks=3, tiles=7)
    assert end.out == "(0, 0, 3) (0, 1, 3) (0, 2, 3) (1, 3, 2) (1, 4, 2) (2, 5, 2) (2, 6, 2)\n", end
    assert "7 tiles on Level Zero (" in end.err, end


COMPOSITE = {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}

FROM_SUB_DEVICES = (
    VALUES
    + """
        def where():
            here = sched.current()
            return here.rank, here.device.parent_device is not None

        print(*[s.options(tile=i).submit(where).result() for i in range(s.tiles)])
"""
)


@pytest.mark.sycl
@pytest.mark.parametrize(("ranks", "owners"), [(1, "(0, True) (0, True)"), (2, "(0, True) (1, True)")])
def test_the_tiles_of_a_card_are_its_sub_devices_and_shared_out(
    level_zero: Callable[..., Outcome], job: Job, one_mpi: Mpi, ranks: int, owners: str
) -> None:
    if os.cpu_count() != 2:
        pytest.skip("the CPU device has not two compute units here, and so not two sub-devices")
    end = level_zero(job(FROM_SUB_DEVICES), mpi=one_mpi, ranks=ranks, tiles=None, **COMPOSITE)
    assert end.out == f"[0.5, 1.5]\n{owners}\n", end
    assert "2 tiles on Level Zero (" in end.err, end


@pytest.mark.sycl
def test_more_ranks_than_sub_devices_are_refused_once(
    level_zero: Callable[..., Outcome], job: Job, one_mpi: Mpi
) -> None:
    if os.cpu_count() != 2:
        pytest.skip("the CPU device has not two compute units here, and so not two sub-devices")
    end = level_zero(job("print('never')"), mpi=one_mpi, ranks=3, tiles=None, **COMPOSITE)
    assert (end.status, end.out) == (2, ""), end
    assert end.err.count("3 ranks on this node, but only 2 tiles are visible") == 1, end


@pytest.mark.sycl
def test_more_tiles_than_a_node_has_are_refused_once(
    level_zero: Callable[..., Outcome], job: Job, one_mpi: Mpi
) -> None:
    end = level_zero("--tiles", "5", job("print('never')"), mpi=one_mpi, ranks=3)
    assert (end.status, end.out) == (2, ""), end
    assert (
        end.err.count("3 ranks on this node with 5 tiles each need 15, but only 12 tiles are visible") == 1
    ), end


@pytest.mark.sycl
@pytest.mark.parametrize(
    ("says", "way"),
    [({}, "staged through the host"), ({"MPI_SAYS": "I take them"}, "by device pointers")],
)
def test_values_travel_by_the_way_that_mpi_is_fit_for(
    level_zero: Callable[..., Outcome], job: Job, mpi: Mpi, says: dict[str, str], way: str
) -> None:
    end = level_zero("--tiles", "2", job(VALUES), mpi=mpi, ranks=2, **says)
    assert end.out == "[0.5, 1.5, 2.5, 3.5]\n", end
    assert f"in 2 ranks, values between ranks {way}\n" in end.err, end


@pytest.mark.sycl
@pytest.mark.parametrize("buffers", ["host", "device"])
def test_both_ways_can_be_tried_on_the_cpu_device(run: Run, job: Job, one_mpi: Mpi, buffers: str) -> None:
    end = run("--device", "cpu", "--mpi-buffers", buffers, job(VALUES), mpi=one_mpi, ranks=3)
    assert end.out == "[0.5, 1.5, 2.5]\n", end


@pytest.mark.sycl
def test_device_pointers_without_mpis_word_are_refused_once(
    level_zero: Callable[..., Outcome], job: Job, one_mpi: Mpi
) -> None:
    end = level_zero("--mpi-buffers", "device", job("print('never')"), mpi=one_mpi, ranks=2)
    assert (end.status, end.out) == (2, ""), end
    assert end.err.count("does not say that it takes Level Zero memory") == 1, end


@pytest.mark.sycl
def test_a_rank_that_dies_in_the_trial_leaves_the_remedy_behind(
    level_zero: Callable[..., Outcome], job: Job, mpi: Mpi
) -> None:
    end = level_zero(job("print('never')"), mpi=mpi, ranks=3, MPI_SAYS="yes", TRIAL="die")
    assert end.status != 0, end
    assert "never" not in end.out, end
    assert "ended inside the trial of giving device pointers to MPI" in end.err, end
    assert "start the run with --mpi-buffers host" in end.err, end


def test_a_limit_above_the_memory_is_refused_once(run: Run, job: Job, one_mpi: Mpi) -> None:
    end = run("--device", "host", "--tile-memory", "1000 TiB", job("print('never')"), mpi=one_mpi, ranks=2)
    assert (end.status, end.out) == (2, ""), end
    assert end.err.count("1000 TiB for a tile (--tile-memory) is more than its device has") == 1, end


def test_a_rank_that_cannot_begin_does_not_leave_the_others_waiting(start: Start, job: Job, mpi: Mpi) -> None:
    program = Path(__file__).with_name("broken_start.py")
    end = start(program, "run", "--device", "host", job("print('never')"), mpi=mpi, ranks=3, module=None).end(
        60
    )
    assert (end.status, end.out) == (70, ""), end
    assert "NameError: something is missing" in end.err, end
    assert end.err.count("rank 0 could not begin, by a bug in sched") == 1, end
