"""`sched bench data`: a row for each size, figures that belong together, and no wrong byte unnoticed."""

import json
from pathlib import Path

import pytest

from sched.bench import data

from .conftest import Run, Start
from .launching import Mpi

pytestmark = pytest.mark.mpi_program

SMALL = ("bench", "data", "--sizes", "8,1MiB", "--repeat", "2")


def check_figures(path: Path, device: str) -> None:
    """See that the JSON has all that the table shows, and that its figures agree with each other."""
    found = json.loads(path.read_text())
    assert found["device"].startswith(device), found
    assert (found["from_tile"], found["to_tile"], found["unit"]) == (0, 1, "s"), found
    assert [row["nbytes"] for row in found["rows"]] == [8, 1 << 20], found
    for row in found["rows"]:
        for way in ("raw", "task", "pickled"):
            assert 0 < row[way]["least"] <= row[way]["median"] <= row[way]["most"], row
        assert row["ratio"] == pytest.approx(row["raw"]["median"] / row["task"]["median"]), row
    sent = found["rows"][1]["samples"]
    moved = [(move["times"], move["nbytes"]) for move in found["rows"][1]["moves"].values()]
    assert (sent, sent << 20) in moved, found  # each value once, and all of it


def check_table(out: str) -> None:
    rows = [line.split() for line in out.splitlines() if line.lstrip()[:1].isdigit()]
    assert [row[:2] for row in rows] == [["8", "B"], ["1", "MiB"]], out


@pytest.mark.parametrize("device", ["host", pytest.param("cpu", marks=pytest.mark.sycl)])
def test_table_and_json_have_a_row_for_each_size(start: Start, mpi: Mpi, tmp_path: Path, device: str) -> None:
    if device == "cpu":
        pytest.importorskip("dpnp")
    path = tmp_path / "figures.json"
    end = start(*SMALL, "--device", device, "--json", path, mpi=mpi, ranks=2).end()
    assert end.status == 0, end
    check_table(end.out)
    check_figures(path, "opencl:cpu" if device == "cpu" else "host")


def test_of_more_ranks_two_are_used(start: Start, one_mpi: Mpi, tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    end = start(*SMALL, "--device", "host", "--json", path, mpi=one_mpi, ranks=4).end()
    assert end.status == 0, end
    assert "tile 0 to tile 1 of 4" in end.out, end
    check_figures(path, "host")


@pytest.mark.sycl
def test_staged_values_arrive_as_well(start: Start, one_mpi: Mpi, tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    options = ("--device", "cpu", "--mpi-buffers", "host", "--json", path)
    end = start(*SMALL, *options, mpi=one_mpi, ranks=2).end()
    assert end.status == 0, end
    assert "staged through the host" in end.out, end
    check_figures(path, "opencl:cpu")


@pytest.mark.parametrize("under_mpi", [True, False])
def test_one_rank_is_too_few(start: Start, one_mpi: Mpi, under_mpi: bool) -> None:
    end = start(*SMALL, "--device", "host", mpi=one_mpi if under_mpi else None, ranks=1).end()
    assert (end.status, end.out) == (2, ""), end
    assert "needs two ranks" in end.err, end
    assert "mpiexec -n 2" in end.err, end


def test_sizes_are_looked_at_before_anything_starts(start: Start) -> None:
    end = start("bench", "data", "--sizes", "8,0").end()
    assert end.status == 2, end
    assert "'8,0' has a size of no bytes" in end.err, end


def test_a_file_that_cannot_be_written_is_named(start: Start, one_mpi: Mpi, tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "figures.json"
    end = start(*SMALL, "--device", "host", "--json", path, mpi=one_mpi, ranks=2).end()
    assert end.status == 1, end
    assert f"{str(path)!r} cannot be written: No such file or directory" in end.err, end


@pytest.mark.parametrize(
    ("way", "right", "wrong"),
    [
        ("MPI", "comm.Send(sent, other)", "comm.Send(sent[::-1].copy(), other)"),
        ("mpi4py", "task.comm.send(to_numpy(sent), other)", "task.comm.send(to_numpy(sent) + 1, other)"),
        ("sched", "return on_tile(pattern(nbytes, seed))", "return on_tile(pattern(nbytes, seed + 1))"),
    ],
)
def test_a_wrong_byte_is_noticed(
    run: Run, one_mpi: Mpi, tmp_path: Path, way: str, right: str, wrong: str
) -> None:
    source = Path(data.__file__).read_text()
    assert source.count(right) == 1
    broken = tmp_path / "broken.py"
    broken.write_text(source.replace(right, wrong))
    end = run("--device", "host", broken, "9", "1", "", mpi=one_mpi, ranks=2)
    assert end.status == 1, end
    assert f"9 bytes that were sent by {way} did not arrive as they were" in end.err, end
