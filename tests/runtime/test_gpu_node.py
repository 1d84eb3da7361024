"""Ranks on a node with GPUs, from what dpctl lists to who has taken which tile: as data, no GPU was asked."""

import os

import pytest

from sched.backends import Found, devices
from sched.errors import DeviceError
from sched.runtime.meeting import take
from sched.runtime.settings import Settings
from sched.siblings import binding, masks

from .gpu_node import Node

HIERARCHY, MASK, SELECTOR = "ZE_FLAT_DEVICE_HIERARCHY", "ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"
FLAT, COMPOSITE, COMBINED = ({HIERARCHY: mode} for mode in ("FLAT", "COMPOSITE", "COMBINED"))
BOTH = {SELECTOR: "opencl:gpu;level_zero:gpu"}  # of Aurora's frameworks module
AURORA = [(card, tile) for card in range(6) for tile in range(2)]


@pytest.fixture
def bind(monkeypatch):
    """Bind the ranks of one node, each with its environment; return the hardware that each has taken."""

    def bind(environments, tiles=(2,) * 6, **settings):
        nodes, names, reports = [], [], []
        seats = [binding.Seat("x1", rank, masks.narrowed(env)) for rank, env in enumerate(environments)]
        for rank, env in enumerate(environments):
            monkeypatch.setattr(devices, "_parts", {})  # of another process
            monkeypatch.setattr(devices, "_first_of_card", {})
            for name in (HIERARCHY, MASK, SELECTOR):
                monkeypatch.delenv(name, raising=False)
            for name, value in env.items():
                monkeypatch.setenv(name, value)
            node = Node(os.environ, tiles=tiles)
            found = Found("level_zero", tuple(devices.usable(node, "level_zero")), "")
            place = binding.seated(seats, rank)
            taken = take(found, Settings(**settings), *place)
            nodes.append([node.hardware(found.filters[tile.index]) for tile in taken])
            names += [(tile, nodes[-1][number]) for number, tile in enumerate(taken)]
            own = tuple(tile.name for tile in taken)
            reports.append(binding.RankReport(rank, "x1", rank, rank, own, len(found.filters)))
        problems = binding.check(reports, shared=False, oversubscribe=settings.get("oversubscribe", False))
        # A name, and a card, stand for the same hardware in every process.
        assert len({(tile.name, real) for tile, real in names}) == len({real for _, real in names})
        assert len({tile.name for tile, _ in names}) == len({real for _, real in names})
        cards = {(tile.card, card) for tile, real in names for card, _ in real}
        assert len(cards) == len({card for card, _ in cards})
        return [sorted(tile for real in own for tile in real) for own in nodes], problems

    return bind


EACH_ITS_TILE = {
    "FLAT": lambda rank: FLAT,
    "unset": lambda rank: {},
    "COMPOSITE": lambda rank: COMPOSITE,
    "COMBINED": lambda rank: COMBINED,
    "FLAT, both backends": lambda rank: FLAT | BOTH,
    "COMPOSITE, both backends": lambda rank: COMPOSITE | BOTH,
    "COMPOSITE, an empty selector and mask": lambda rank: COMPOSITE | {SELECTOR: "", MASK: ""},
    "FLAT, a mask for each": lambda rank: FLAT | {MASK: str(rank)},
    "FLAT, a mask and both backends": lambda rank: FLAT | BOTH | {MASK: str(rank)},
    "COMBINED, a mask for each": lambda rank: COMBINED | {MASK: str(rank)},
    "COMPOSITE, gpu_tile_compact.sh": lambda rank: COMPOSITE | {MASK: f"{rank // 2}.{rank % 2}"},
    "COMPOSITE, gpu_dev_compact.sh": lambda rank: COMPOSITE | {MASK: str(rank // 2)},
    "COMPOSITE, a mask of all": lambda rank: COMPOSITE | {MASK: "5,4,3,2,1,0"},
    "FLAT, a selector for each": lambda rank: FLAT | {SELECTOR: f"level_zero:{rank}"},
    "COMPOSITE, a selector for each": lambda rank: (
        COMPOSITE | {SELECTOR: f"level_zero:{rank // 2}.{rank % 2}"}
    ),
    "COMPOSITE, mask and selector": lambda rank: (
        COMPOSITE | {MASK: f"{rank // 2}", SELECTOR: f"level_zero:0.{rank % 2}"}
    ),
}


@pytest.mark.parametrize("layout", EACH_ITS_TILE.values(), ids=EACH_ITS_TILE.keys())
def test_twelve_ranks_take_the_twelve_tiles_in_order(bind, layout):
    taken, problems = bind([layout(rank) for rank in range(12)])
    assert taken == [[tile] for tile in AURORA]
    assert problems == []


@pytest.mark.parametrize("env", [FLAT, COMPOSITE, COMBINED, COMPOSITE | BOTH])
@pytest.mark.parametrize(("ranks", "each"), [(1, 12), (2, 6), (6, 2)])
def test_fewer_ranks_have_whole_cards(bind, env, ranks, each):
    taken, problems = bind([env] * ranks)
    assert taken == [AURORA[rank * each : (rank + 1) * each] for rank in range(ranks)]
    assert problems == []


def test_six_ranks_with_a_card_each_by_a_mask_have_its_two_tiles(bind):
    taken, problems = bind([COMPOSITE | {MASK: str(rank)} for rank in range(6)])
    assert taken == [AURORA[2 * rank : 2 * rank + 2] for rank in range(6)]
    assert problems == []


@pytest.mark.parametrize("env", [FLAT, COMPOSITE])
def test_twenty_four_ranks_share_twelve_tiles_where_that_is_allowed(bind, env):
    with pytest.raises(binding.BindingError, match="24 ranks on this node, but only 12 tiles are visible"):
        bind([env] * 24)
    taken, problems = bind([env] * 24, oversubscribe=True)
    assert taken == [[tile] for tile in AURORA] * 2
    assert problems == []


@pytest.mark.parametrize(
    ("env", "tiles"),
    [
        (COMPOSITE | {MASK: "1,3.1"}, [(1, 0), (1, 1), (3, 1)]),
        (COMPOSITE | {MASK: "3.1,1.0,1.1"}, [(1, 0), (1, 1), (3, 1)]),
        (COMPOSITE | {MASK: "4.0,2.1"}, [(2, 1), (4, 0)]),
        (FLAT | {MASK: "9,3,4"}, [(1, 1), (2, 0), (4, 1)]),
        (COMBINED | {MASK: "5,4"}, [(2, 0), (2, 1)]),
        (FLAT | {MASK: "3,0.1"}, [(1, 1)]),
    ],
)
def test_a_mask_of_several_entries_leaves_them_in_the_order_of_the_hardware(bind, env, tiles):
    assert bind([env])[0] == [tiles]
    assert bind([env] * len(tiles))[0] == [[tile] for tile in tiles]


def test_tiles_of_a_card_with_four_are_told_apart_under_a_mask(bind):
    env = COMPOSITE | {MASK: "0.1,0.3,1"}
    assert bind([env], tiles=(4, 4))[0] == [[(0, 1), (0, 3), *((1, tile) for tile in range(4))]]


def test_cards_with_one_tile_are_tiles(bind):
    assert bind([COMPOSITE] * 4, tiles=(1,) * 4)[0] == [[(card, 0)] for card in range(4)]


def test_combined_devices_tell_which_tiles_are_on_one_card(monkeypatch):
    monkeypatch.setenv(HIERARCHY, "COMBINED")
    monkeypatch.setattr(devices, "_first_of_card", {})
    names = devices.usable(Node(os.environ, tiles=(4, 4)), "level_zero")
    taken = take(Found("level_zero", tuple(names), ""), Settings())
    assert [tile.card for tile in taken] == [taken[0].card] * 4 + [taken[4].card] * 4
    assert taken[0].card != taken[4].card


def test_a_card_that_two_ranks_see_differently_is_found_to_be_shared(bind):
    taken, [problem] = bind([COMPOSITE | {MASK: "2"}, COMPOSITE | {MASK: "2.1"}])
    assert taken == [[(2, 0), (2, 1)], [(2, 1)]]
    assert "Ranks 0, 1 share tile level_zero:gpu:2.1 of x1" in problem


def test_twelve_ranks_under_one_mask_are_found_on_one_tile(bind):
    _, [problem] = bind([COMPOSITE | {MASK: "0.0"}] * 12)
    assert "share tile level_zero:gpu:0.0 of x1: each of them sees this one only" in problem


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (FLAT | {MASK: "2.1"}, ["ZE_AFFINITY_MASK='2.1'", "FLAT", "ZE_AFFINITY_MASK='5'"]),
        (COMBINED | {MASK: "0.0,0.1"}, ["COMBINED", "ZE_AFFINITY_MASK='0,1'"]),
        ({MASK: "2.1"}, ["ZE_FLAT_DEVICE_HIERARCHY=(unset)", "ZE_AFFINITY_MASK='5'"]),
        (COMPOSITE | {MASK: "7"}, ["COMPOSITE", "0.0 to 5.1", "ZE_AFFINITY_MASK='3.1'"]),
        (FLAT | {MASK: "12"}, ["0 to 11"]),
        (COMPOSITE | {SELECTOR: "opencl:gpu"}, ["ONEAPI_DEVICE_SELECTOR='opencl:gpu'", "leaves out"]),
    ],
)
def test_who_sees_no_gpu_is_told_which_variable_hides_them_and_its_right_form(bind, env, words):
    with pytest.raises(DeviceError) as caught:
        bind([env])
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_tile_is_not_divided_further_whatever_its_driver_offers(monkeypatch):
    monkeypatch.setenv(HIERARCHY, "FLAT")
    node = Node(os.environ)
    for device in node.by_name.values():
        device.parts = (device, device)
    assert devices.usable(node, "level_zero") == [f"level_zero:gpu:{n}" for n in range(12)]


def test_of_a_node_without_usm_nothing_is_listed(monkeypatch):
    node = Node({})
    for device in node.by_name.values():
        device.has_aspect_usm_device_allocations = False
    assert devices.usable(node, "level_zero") == devices.usable(node, "cpu") == []
