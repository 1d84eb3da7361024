"""Who has which tile: the table of `sched tiles`, from recorded rows and from runs."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from sched.commands.table import SHOWN, Row, as_dicts, marks, show
from tests.programs.launching import CHECKOUT, Mpi

from .conftest import Command

SOCKETS = tuple(range(0, 52)) + tuple(range(104, 156)), tuple(range(52, 104)) + tuple(range(156, 208))
ADDRESSES = [f"000{domain}:{bus}:00.0" for domain in (0, 1) for bus in ("18", "42", "6c")]


def aurora(*, nodes: int = 1) -> list[Row]:
    """Return the rows of 12 ranks a node, bound as ALCF's list has it, with a tile each in FLAT mode."""
    starts = [*range(1, 49, 8), *range(53, 101, 8)]
    return [
        Row(
            tile=12 * node + local,
            rank=12 * node + local,
            host=f"x410{node}c0s0b0n0.hsn.cm.aurora.alcf.anl.gov",
            local_rank=local,
            filter=f"level_zero:gpu:{local}",
            device="Intel(R) Data Center GPU Max 1550",
            nbytes=65_520 << 20,
            hardware=f"level_zero:gpu:{local}",
            card=f"{local // 2}.{local % 2}",
            pci=ADDRESSES[local // 2],
            near=SOCKETS[local // 6],
            numa=(local // 6,),
            cpus=tuple(range(starts[local], starts[local] + 8)),
            queue="out of order",
            mpi="MPICH Version: 5.0",
            threads="MULTIPLE",
        )
        for node in range(nodes)
        for local in range(12)
    ]


def test_twelve_ranks_on_twelve_tiles_have_no_mark():
    assert marks(aurora(nodes=2)) == [[]] * 24
    assert "<-" not in show(aurora(nodes=2))


def test_the_table_says_where_each_tile_is():
    lines = show(aurora()).splitlines()
    assert lines[0].split() == [
        "tile",
        "rank",
        "host",
        "local",
        "filter",
        "card.stack",
        "PCI",
        "NUMA",
        "cores",
    ]
    assert lines[7].split() == [
        *("6", "6", "x4100c0s0b0n0", "6", "level_zero:gpu:6", "3.0", "0001:18:00.0", "1", "53-60"),
    ]


def test_what_all_tiles_have_in_common_is_said_once():
    assert show(aurora()).splitlines()[13:] == [
        "",
        "device: Intel(R) Data Center GPU Max 1550",
        "memory: 64 GiB",
        "queue: out of order",
        "MPI: MPICH Version: 5.0",
        "threads: MULTIPLE",
        "MPI says it takes GPU pointers: no",
    ]


def test_what_differs_has_a_column():
    rows = aurora()
    rows[3] = replace(rows[3], threads="SERIALIZED")
    lines = show(rows).splitlines()
    assert "threads" in lines[0]
    assert lines[4].endswith("SERIALIZED")


def test_a_tile_that_two_ranks_have_is_marked_on_both():
    rows = aurora(nodes=2)
    rows[3] = replace(rows[3], hardware=rows[2].hardware)
    assert (marks(rows)[2], marks(rows)[3]) == (["also rank 3's"], ["also rank 2's"])
    assert sum(map(bool, marks(rows))) == 2
    assert "<- also rank 2's" in show(rows).splitlines()[4]


def test_the_same_node_under_two_names_is_one():
    rows = aurora()
    rows[3] = replace(rows[3], hardware=rows[2].hardware, host="x4100c0s0b0n0")
    assert marks(rows)[3] == ["also rank 2's"]


def test_tiles_that_share_a_device_on_purpose_are_not_marked():
    rows = [Row(tile=n, rank=n, host="laptop", filter="opencl:cpu:0", device="CPU") for n in range(4)]
    assert marks(rows) == [[]] * 4


def test_cores_of_the_other_socket_are_marked():
    rows = aurora()
    rows[6] = replace(rows[6], cpus=tuple(range(8)))
    assert marks(rows)[6] == ["cores far: near are 52-103,156-207"]


def test_cores_of_both_sockets_are_marked():
    # What --depth 8 --cpu-bind depth gives to rank 6.
    rows = aurora()
    rows[6] = replace(rows[6], cpus=tuple(range(48, 56)))
    assert marks(rows)[6] == ["some cores far: near are 52-103,156-207"]


def test_a_rank_that_is_not_bound_is_not_marked():
    rows = [replace(row, cpus=tuple(range(208)), whole=True) for row in aurora()]
    assert marks(rows) == [[]] * 12
    assert "0-207 (all)" in show(rows)


def test_one_rank_with_tiles_of_both_sockets_may_have_cores_of_both():
    rows = [replace(row, rank=0, cpus=tuple(range(1, 103))) for row in aurora()]
    assert marks(rows) == [[]] * 12


def test_a_long_table_is_cut_and_counts_the_rest():
    table = show(aurora(nodes=1000)).splitlines()
    assert table[SHOWN].startswith(f"{SHOWN - 1} ")
    assert table[SHOWN + 1] == f"... and {12_000 - SHOWN} more tiles, none of them marked; --json has all"


def test_a_mark_far_down_is_shown_all_the_same():
    rows = aurora(nodes=100)
    rows[1001] = replace(rows[1001], cpus=(60,))
    lines = show(rows).splitlines()
    assert lines[SHOWN + 1].startswith("1001 ")
    assert lines[SHOWN + 1].endswith("<- cores far: near are 0-51,104-155")
    assert lines[SHOWN + 2].startswith(f"... and {1200 - SHOWN - 1} more tiles, none of them marked")


def test_json_has_every_tile_and_its_marks():
    rows = aurora(nodes=100)
    rows[1001] = replace(rows[1001], cpus=(60,))
    known = json.loads(json.dumps(as_dicts(rows)))
    assert len(known) == 1200
    assert known[1001]["marks"] == ["cores far: near are 0-51,104-155"]
    assert (known[7]["card"], known[7]["pci"]) == ("3.1", "0001:18:00.0")


@pytest.mark.mpi_program
def test_every_rank_has_its_row(command: Command, mpi: Mpi):
    end = command("tiles", "--device", "host", "--json", mpi=mpi, ranks=3)
    assert end.status == 0, end
    rows = json.loads(end.out)
    assert [(row["tile"], row["rank"], row["threads"]) for row in rows] == [
        (n, n, "MULTIPLE") for n in range(3)
    ], end
    assert {row["local_rank"] for row in rows} == {0, 1, 2}, end
    assert {row["mpi"].partition(" ")[0].lower() for row in rows} in ({"mpich"}, {"open"}), end


@pytest.mark.mpi_program
def test_cores_are_those_of_the_rank(command: Command, one_mpi: Mpi):
    bound = Mpi(one_mpi.name, one_mpi.mpiexec, {"HYDRA_BINDING": "core"})
    end = command("tiles", "--device", "host", "--json", mpi=bound, ranks=2)
    assert [len(row["cpus"]) for row in json.loads(end.out)] == [1, 1], end


def test_one_process_has_the_tiles_that_a_job_would_have(command: Command):
    end = command("tiles", "--device", "host", "--tiles", "5")
    assert end.status == 0, end
    assert [line.split()[0] for line in end.out.splitlines()[:6]] == ["tile", *"01234"], end
    assert "MPI: none" in end.out, end


@pytest.mark.sycl
def test_a_sycl_tile_tells_its_queue(command: Command):
    end = command("tiles", "--device", "cpu", "--json")
    (row,) = json.loads(end.out)
    assert (row["filter"], row["queue"]) == ("opencl:cpu:0", "out of order"), end


@pytest.mark.mpi_program
@pytest.mark.sycl
def test_level_zero_tiles_are_told_by_the_hardware(command: Command, one_mpi: Mpi):
    end = command("tiles", "--json", mpi=one_mpi, ranks=2, TILES="4")
    assert [(row["rank"], row["filter"], row["card"], row["marks"]) for row in json.loads(end.out)] == [
        (0, "level_zero:gpu:0", "0.0", []),
        (0, "level_zero:gpu:1", "0.1", []),
        (1, "level_zero:gpu:2", "1.0", []),
        (1, "level_zero:gpu:3", "1.1", []),
    ], end


@pytest.mark.mpi_program
@pytest.mark.sycl
def test_a_tile_that_was_shared_on_purpose_is_marked(command: Command, one_mpi: Mpi):
    end = command("tiles", "--oversubscribe", mpi=one_mpi, ranks=3, TILES="2")
    assert end.status == 0, end
    marked = [line for line in end.out.splitlines() if "<- also rank" in line]
    assert [line.split()[1] for line in marked] == ["0", "2"], end


@pytest.mark.mpi_program
def test_what_keeps_a_job_from_beginning_is_said_as_there(command: Command, one_mpi: Mpi):
    end = command("tiles", "--device", "host", "--tiles", "5000", mpi=one_mpi, ranks=2)
    assert (end.status, end.out) == (2, ""), end
    assert end.err.count("5000 tiles for a rank are too many to be emulated") == 1, end


def test_the_commands_load_nothing_that_other_commands_do_not_need():
    heavy = ("numpy", "mpi4py", "dpctl", "cloudpickle", "subprocess", "fractions", "launch", "sched.runtime")
    code = "import sys, sched.commands.tiles, sched.commands.doctor; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) & set(heavy) == set()
