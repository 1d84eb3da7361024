"""The cores of a machine, read from a /sys like Aurora's; and those of this process."""

import ast
import os
import subprocess
import sys

import pytest

from sched.runtime import cores, start
from sched.runtime.meeting import Hello, Taken
from sched.runtime.settings import Settings
from sched.siblings import cores as dealing

AURORA = dealing.Node(
    {0: tuple(range(52)), 1: tuple(range(52, 104))}, tuple(dealing.Card(card // 3, 2) for card in range(6))
)
TILES = ("gt/gt0", "gt/gt1"), ("device/tile0", "device/tile1")  # i915's, and xe's


@pytest.fixture
def machine(tmp_path):
    """Write files of /sys; return its root."""

    def machine(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        return tmp_path

    return machine


def told(program):
    """Run a program in a process of its own; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def with_threads(files):
    files["devices/system/cpu/smt/active"] = "1"
    for cpu in range(208):
        siblings = f"{cpu % 104},{cpu % 104 + 104}"
        files[f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"] = siblings
    return files


def add_card(root, number, address, numa, tiles, vendor="0x8086"):
    device = root / "devices/pci" / address
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    (device / "numa_node").write_text(f"{numa}\n")
    card = root / "class/drm" / f"card{number}"
    card.mkdir(parents=True)
    (card / "device").symlink_to(device)
    (root / "class/drm" / f"card{number}-DP-1").mkdir()
    for tile in tiles:
        (card / tile).mkdir(parents=True)


@pytest.mark.parametrize("tiles", TILES)
def test_a_node_of_aurora_is_read_with_its_cards_in_the_order_of_the_bus(machine, tiles):
    root = machine(
        with_threads(
            {
                "devices/system/node/node0/cpulist": "0-51,104-155",
                "devices/system/node/node1/cpulist": "52-103,156-207",
                "devices/system/node/node2/cpulist": "",  # HBM
                "devices/system/node/online": "0-2",
            }
        )
    )
    addresses = [f"{domain:04}:{bus}:00.0" for domain in (0, 1) for bus in ("18", "42", "6c")]
    for number, address in enumerate(reversed(addresses)):
        add_card(root, number, address, int(address.startswith("0001")), tiles)
    add_card(root, 6, "0000:03:00.0", 0, [], vendor="0x1a03")  # of the board's own controller
    assert cores.read(root) == AURORA


def test_a_card_that_linux_places_nowhere_is_nowhere(machine):
    root = machine({"devices/system/node/node0/cpulist": "0-3", "devices/system/cpu/smt/active": "0"})
    add_card(root, 0, "0000:00:02.0", -1, [])
    assert cores.read(root) == dealing.Node({0: (0, 1, 2, 3)}, (dealing.Card(-1, 0),))


def test_of_a_machine_without_such_files_nothing_is_known(tmp_path):
    assert cores.read(tmp_path) == dealing.Node({}, ())
    assert cores.firsts({3, 1}, tmp_path) == [1, 3]


def test_this_machine_has_cores():
    assert cores.count() >= 1
    assert all(cores.read().cores.values())


def test_threads_that_run_already_are_bound_with_the_others():
    program = """
import os, threading
from sched.runtime import cores
stop = threading.Event()
thread = threading.Thread(target=stop.wait)
thread.start()
cpu = max(os.sched_getaffinity(0))
cores.bind((cpu,))
print([os.sched_getaffinity(int(t)) == {cpu} for t in os.listdir("/proc/self/task")], cores.count())
stop.set()
"""
    bound, _, count = told(program).rpartition(" ")
    assert (ast.literal_eval(bound)[:2], count) == ([True, True], "1")


@pytest.mark.parametrize(("given", "said"), [("", "False"), ("os.sched_setaffinity(0, {cpu})", "True")])
def test_who_has_other_cores_than_the_parent_was_bound(given, said):
    if given and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("there is one core")
    program = f"import os; cpu = max(os.sched_getaffinity(0)); {given}\n"
    program += "from sched.runtime import cores; print(cores.bound())"
    assert told(program) == said


# --- where a run begins ---


@pytest.fixture
def on_aurora(monkeypatch):
    """Pretend to be on a node of Aurora, not bound; return the cores to which this process is bound."""
    bound = []
    for name in ("ZE_FLAT_DEVICE_HIERARCHY", "OMP_PLACES", "OMP_PROC_BIND", "KMP_AFFINITY", "KMP_HW_SUBSET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cores, "read", lambda: AURORA)
    monkeypatch.setattr(cores, "bound", lambda: False)
    monkeypatch.setattr(cores, "bind", bound.append)
    monkeypatch.setattr(start.os, "sched_getaffinity", lambda _: set(range(208)))
    return bound


def hello(*tiles):
    taken = tuple(Taken(index, f"level_zero:gpu:{tile}", 0) for index, tile in enumerate(tiles))
    return Hello("x1", 0, 0, taken, 12, "level_zero", None)


FOUND = start.backends.Found("level_zero", tuple(f"level_zero:gpu:{n}" for n in range(12)), "")


def test_a_rank_is_bound_beside_its_tiles(on_aurora):
    blocks = start._to_deal(Settings())
    assert start._bind(FOUND, hello(6, 7), blocks) == 16
    assert on_aurora == [tuple(range(53, 69))]


def test_a_rank_without_tiles_is_left_alone(on_aurora):
    assert start._bind(FOUND, hello(), start._to_deal(Settings())) == 0
    assert on_aurora == []


@pytest.mark.parametrize("device", ["cpu", "host"])
def test_other_devices_are_beside_all_cores(on_aurora, device):
    assert start._to_deal(Settings(device=device)) == []


def test_auto_binds_only_where_it_found_gpus(on_aurora):
    blocks = start._to_deal(Settings(device="auto"))
    assert blocks
    assert start._bind(start.backends.Found("cpu", ("opencl:cpu:0",), ""), hello(0), blocks) == 0


def test_a_rank_keeps_the_cores_that_its_launcher_gave_it(on_aurora, monkeypatch):
    monkeypatch.setattr(cores, "bound", lambda: True)
    assert start._to_deal(Settings()) == []


def test_a_rank_keeps_its_cores_if_told_to(on_aurora):
    assert start._to_deal(Settings(keep_cores=True)) == []


@pytest.mark.parametrize(("ranks", "threads"), [(12, "8"), (6, "16"), (1, "96"), (24, "4")])
def test_threads_are_as_many_as_the_cores_that_a_rank_will_have(on_aurora, monkeypatch, ranks, threads):
    monkeypatch.setattr(start.backends, "find", lambda device: FOUND)
    monkeypatch.setattr(start.os, "environ", {})
    start._find(Settings(), ranks, start._to_deal(Settings()))
    assert start.os.environ["OMP_NUM_THREADS"] == threads
