"""How a run begins: what is set, who takes which tiles, how much they may hold."""

import os
import platform
from types import SimpleNamespace

import pytest

from sched import backends
from sched.backends import Found
from sched.backends.base import Tile
from sched.errors import DeviceError, RequestError
from sched.runtime import start
from sched.runtime.meeting import CannotBegin, Taken, agree, meet, places, sharing, take
from sched.runtime.settings import Settings
from sched.siblings import ranks

from .together import here, together

AURORA = Found("level_zero", tuple(f"level_zero:gpu:{n}" for n in range(12)), "there are Level Zero tiles")
CPU = Found("cpu", ("opencl:cpu:0",), "asked for")
HOST = Found("host", ("host",), "asked for")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY", "ONEAPI_DEVICE_SELECTOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def met(monkeypatch):
    """Let ranks on these hosts meet; return what each of them heard, or why it cannot begin."""

    monkeypatch.setattr(platform, "node", lambda: here.host)

    def met(hosts, found, settings, local_ranks=None):
        def run(end):
            local_rank = None if local_ranks is None else local_ranks[end.rank]
            return meet(settings, ranks.World("PALS", end.rank, end.size, local_rank, None), end, found, None)

        return together(hosts, run)

    return met


def tiles(everyone):
    return [[tile.index for tile in hello.taken] for hello in everyone]


# --- settings ---


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("tiles", 0, "at least 1"),
        ("tiles", 1.5, "no whole number"),
        ("tiles", True, "no whole number"),
        ("tiles", "2", "no whole number"),
        ("depth", 0, "at least 1"),
        ("depth", None, "no whole number"),
        ("tile_memory", 0, "at least 1"),
        ("tile_memory", "2 GiB", "no whole number"),
        ("mpi_buffers", "gpu", "none of auto, host, device"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name_and_value(name, value, reason):
    with pytest.raises(RequestError, match=f"^{name}={value!r} is .*{reason}"):
        Settings(**{name: value})


# --- the ranks' meeting ---


@pytest.mark.parametrize("local_ranks", [None, [0, 1, 2, 3, 4, 5]])
def test_six_ranks_of_a_node_take_a_card_each(met, local_ranks):
    for everyone in met(["x1"] * 6, AURORA, Settings(), local_ranks):
        assert tiles(everyone) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
        assert places(everyone) == [(0, card) for card in range(6) for _ in range(2)]


def test_each_node_shares_out_its_own_tiles(met):
    everyone = met(["x1", "x2", "x1", "x2", "x2"], AURORA, Settings())[0]
    assert tiles(everyone) == [[*range(6)], [*range(4)], [*range(6, 12)], [*range(4, 8)], [*range(8, 12)]]
    assert [node for node, _ in places(everyone)] == [0] * 6 + [1] * 4 + [0] * 6 + [1] * 4 + [1] * 4


def test_a_driver_without_tiles_leaves_them_to_the_others(met):
    everyone = met(["x1"] * 13, AURORA, Settings(driver_only=True))[0]
    assert tiles(everyone) == [[]] + [[n] for n in range(12)]


def test_tiles_of_a_cpu_are_as_many_as_were_asked_for_and_the_rank_is_their_card(met):
    everyone = met(["x1", "x1", "x2"], CPU, Settings(tiles=2))[0]
    assert tiles(everyone) == [[0, 0]] * 3
    assert places(everyone) == [(0, 0), (0, 0), (0, 1), (0, 1), (1, 2), (1, 2)]
    assert sharing([hello.taken for hello in everyone if hello.host == "x1"]) == 4


def test_what_is_wrong_with_some_ranks_is_heard_by_all(met):
    for error in met(["x1"] * 7, AURORA, Settings(tiles=2)):
        assert isinstance(error, CannotBegin)
        [problem] = error.problems
        assert problem.startswith("7 ranks (the first is 0) cannot begin: 7 ranks on this node with 2 tiles")


def test_local_ranks_that_contradict_mpi_are_heard_by_all(met):
    for error in met(["x1"] * 3, AURORA, Settings(), [0, 0, 0]):
        assert isinstance(error, CannotBegin)
        assert "number the local ranks differently" in error.problems[0]


def test_more_ranks_than_tiles_share_them_where_that_was_asked_for(met):
    two = Found("level_zero", AURORA.filters[:2], "")
    everyone = met(["x1"] * 5, two, Settings(oversubscribe=True))[0]
    assert tiles(everyone) == [[0], [1], [0], [1], [0]]
    assert sharing([hello.taken for hello in everyone]) == 3


def test_one_failure_stops_all_and_names_the_ranks():
    ends = together(["x"] * 3, lambda end: agree(end, None if end.rank == 1 else "no luck"))
    assert [str(error) for error in ends] == ["2 ranks (the first is 0) cannot begin: no luck"] * 3


def test_a_rank_without_gpus_hears_why(monkeypatch):
    monkeypatch.setenv("ZE_AFFINITY_MASK", "0.1")
    with pytest.raises(DeviceError, match=r"ZE_AFFINITY_MASK='0.1' hides GPUs"):
        take(Found("level_zero", (), ""), Settings())


def test_a_mask_does_not_hide_which_tile_it_is(monkeypatch):
    monkeypatch.setenv("ZE_AFFINITY_MASK", "7")
    assert take(Found("level_zero", AURORA.filters[:1], ""), Settings()) == (
        Taken(0, "level_zero:gpu:7", 3),
    )  # fmt: skip


def test_one_process_takes_all_that_it_sees():
    assert [tile.index for tile in take(AURORA, Settings())] == list(range(12))
    assert [tile.index for tile in take(AURORA, Settings(tiles=5))] == list(range(5))


# --- one process ---


@pytest.fixture
def began(monkeypatch):
    """Begin a local run, and return what its engine was made with."""

    class Engine:
        def __init__(self, transport, backend, ranks, **others):
            self.made = {"backend": backend, "ranks": ranks, **others}

    monkeypatch.setattr(start, "Engine", Engine)
    monkeypatch.setattr(start.environment, "defaults", lambda *_, **__: {})
    return lambda **settings: start.local(Settings(**settings)).made


def memory_of_host():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_local_run_has_its_tiles_in_one_rank_on_one_node(began):
    made = began(device="host", tiles=3, check=True, depth=5)
    assert (made["ranks"], made["places"], made["check"], made["depth"]) == ([0] * 3, [(0, 0)] * 3, True, 5)
    assert [tile.id for tile in made["backend"].tiles] == [0, 1, 2]


def test_tiles_share_nine_tenths_of_the_memory(began):
    assert began(device="host", tiles=3)["limit"] == memory_of_host() * 9 // 10 // 3


def test_a_limit_is_taken_as_it_was_set(began):
    assert began(device="host", tiles=3, tile_memory=1 << 20)["limit"] == 1 << 20


def test_a_limit_above_the_memory_is_refused_with_the_numbers(began):
    with pytest.raises(RequestError, match=r"^1024 TiB for a tile \(--tile-memory\) is more than .* has, "):
        began(device="host", tile_memory=1 << 50)


def test_tiles_without_end_are_refused_at_once(began):
    with pytest.raises(RequestError, match=r"^99999999999 tiles for a rank are too many"):
        began(device="host", tiles=99_999_999_999)


def test_a_rank_that_is_alone_cannot_go_without_tiles(began):
    with pytest.raises(RequestError, match="--driver-only leaves no tile"):
        began(device="host", driver_only=True)


@pytest.mark.sycl
def test_tiles_of_the_cpu_device_are_queues_of_their_own_and_share_its_memory(began):
    made = began(device="cpu", tiles=2)
    first, second = made["backend"].tiles
    assert first.queue != second.queue
    assert first.queue.sycl_context == second.queue.sycl_context
    assert made["limit"] == first.nbytes * 9 // 10 // 2


def test_a_gpus_tiles_are_opened_by_their_filters(began, monkeypatch):
    opened = []

    def open_tiles(found, filters, ids, rank):
        opened.append((found.kind, filters, ids, rank))
        return SimpleNamespace(tiles=[Tile(i, rank, "Max 1550", "", 64 << 30) for i in ids])

    monkeypatch.setattr(backends, "find", lambda device: AURORA)
    monkeypatch.setattr(backends, "start", open_tiles)
    made = began(device="level_zero", tiles=3)
    assert opened == [("level_zero", list(AURORA.filters[:3]), range(3), 0)]
    assert made["places"] == [(0, 0), (0, 0), (0, 1)]
    assert made["limit"] == (64 << 30) * 9 // 10
