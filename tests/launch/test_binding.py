"""Which tile a rank takes, why there is none, and what shows up when all ranks compare."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from launch.binding import BindingError, RankReport, check, choose, no_level_zero, short_host
from launch.ranks import World

RANKS = range(12)


def local(rank: int, size: int | None) -> World:
    return World("PALS", rank, size, rank, size)


# --- a node of Aurora as its ranks see it: the filter string of each listed device, and what it stands for
# ---

FLAT = [(f"level_zero:gpu:{n}", f"tile {n}") for n in RANKS]
BY_OPENCL = [(f"opencl:gpu:{n}", f"tile {n}") for n in RANKS]
CARDS = [(f"level_zero:gpu:{n}", f"card {n}") for n in range(6)]
TILES_OF_CARDS = [(f"level_zero:gpu:{n // 2}", f"tile {n}") for n in RANKS]  # after create_sub_devices

LISTS = {
    "FLAT": lambda rank: FLAT,
    "FLAT, the module's selector opencl:gpu;level_zero:gpu": lambda rank: BY_OPENCL + FLAT,
    "FLAT, a mask for each rank": lambda rank: [("level_zero:gpu:0", f"tile {rank}")],
    "FLAT, a mask and both selectors": lambda rank: [
        ("opencl:gpu:0", f"tile {rank}"),
        ("level_zero:gpu:0", f"tile {rank}"),
    ],
    "COMPOSITE, its cards divided": lambda rank: TILES_OF_CARDS,
    "COMPOSITE, a card.tile mask for each rank": lambda rank: [("level_zero:gpu:0", f"tile {rank}")],
}


def taken(name: str, world: World, *, oversubscribe: bool = False) -> tuple[str, int]:
    """Return the tile that a rank takes from a recorded list, and how many it saw."""
    assert world.local_rank is not None
    tiles = [tile for device, tile in LISTS[name](world.local_rank) if device.startswith("level_zero:")]
    return tiles[choose(len(tiles), world, shared=False, oversubscribe=oversubscribe)], len(tiles)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("size", [12, None])
def test_twelve_ranks_take_twelve_tiles(name: str, size: int | None) -> None:
    reports = [
        RankReport(rank, "x4109c0s0b0n0", rank, rank, *taken(name, local(rank, size))) for rank in RANKS
    ]
    assert len({report.tile for report in reports}) == 12
    assert check(reports, shared=False, oversubscribe=False) == []


@pytest.mark.parametrize("rank", RANKS)
def test_twelve_ranks_on_six_undivided_cards_are_refused_on_every_rank(rank: int) -> None:
    with pytest.raises(BindingError, match=r"12 ranks .* only 6 tiles .*--ppn 6.*--oversubscribe.*FLAT"):
        choose(len(CARDS), local(rank, 12), shared=False, oversubscribe=False)


def test_without_a_local_size_the_rank_beyond_the_tiles_is_refused() -> None:
    assert choose(6, local(5, None), shared=False, oversubscribe=False) == 5
    with pytest.raises(BindingError, match="7 ranks"):
        choose(6, local(6, None), shared=False, oversubscribe=False)


def test_every_rank_takes_the_shared_cpu() -> None:
    assert {choose(1, local(rank, 12), shared=True, oversubscribe=False) for rank in RANKS} == {0}
    assert {choose(2, local(rank, 12), shared=True, oversubscribe=False) for rank in RANKS} == {0}


def test_a_process_without_a_launcher_takes_the_first_tile() -> None:
    alone = World(None, None, None, None, None)
    assert choose(12, alone, shared=False, oversubscribe=False) == 0


def test_a_rank_that_does_not_know_its_local_rank_is_refused_unless_it_sees_one_tile() -> None:
    world = World("PMIx", 3, None, None, None)
    assert choose(1, world, shared=False, oversubscribe=False) == 0
    with pytest.raises(BindingError, match="PMIx did not say"):
        choose(12, world, shared=False, oversubscribe=False)


def test_no_device_is_an_error_even_for_a_shared_one() -> None:
    with pytest.raises(BindingError, match="no device"):
        choose(0, local(0, 1), shared=True, oversubscribe=True)


@given(visible=st.integers(1, 24), data=st.data())
def test_ranks_that_fit_never_share(visible: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, visible))
    known = data.draw(st.sampled_from([size, None]))
    if visible > 1:
        tiles = [choose(visible, local(r, known), shared=False, oversubscribe=False) for r in range(size)]
        assert sorted(tiles) == list(range(size))


@given(visible=st.integers(1, 24), size=st.integers(1, 100))
def test_ranks_too_many_are_spread_evenly(visible: int, size: int) -> None:
    tiles = [choose(visible, local(r, size), shared=False, oversubscribe=True) for r in range(size)]
    loads = [tiles.count(tile) for tile in range(visible)]
    assert max(loads) - min(loads) <= 1


# --- why no GPU is visible ---


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({}, ["neither ONEAPI_DEVICE_SELECTOR nor ZE_AFFINITY_MASK", "--device cpu"]),
        ({"ZE_AFFINITY_MASK": "", "ONEAPI_DEVICE_SELECTOR": ""}, ["neither", "--device cpu"]),
        ({"ONEAPI_DEVICE_SELECTOR": "opencl:gpu;level_zero:gpu"}, ["neither", "--device cpu"]),
        ({"ONEAPI_DEVICE_SELECTOR": "!opencl:*"}, ["neither"]),
        ({"ONEAPI_DEVICE_SELECTOR": "*:0"}, ["neither"]),
        # the selector
        ({"ONEAPI_DEVICE_SELECTOR": "opencl:cpu:0"}, ["='opencl:cpu:0'", "dpctl filter", "level_zero:gpu"]),
        ({"ONEAPI_DEVICE_SELECTOR": "level_zero:gpu:3"}, ["dpctl filter", "'level_zero:3'"]),
        ({"ONEAPI_DEVICE_SELECTOR": "opencl:cpu"}, ["='opencl:cpu'", "leaves out", "level_zero:gpu"]),
        ({"ONEAPI_DEVICE_SELECTOR": "*:cpu"}, ["='*:cpu'", "leaves out"]),
        ({"ONEAPI_DEVICE_SELECTOR": "opencl:gpu"}, ["leaves out"]),
        ({"ONEAPI_DEVICE_SELECTOR": "Level_Zero:CPU"}, ["leaves out"]),
        ({"ONEAPI_DEVICE_SELECTOR": "gpu"}, ["='gpu'", "names no backend", "level_zero:gpu"]),
        ({"ONEAPI_DEVICE_SELECTOR": "!*:gpu"}, ["excludes", "'!'"]),
        ({"ONEAPI_DEVICE_SELECTOR": "*:*;!level_zero:*"}, ["excludes"]),
        (
            {"ONEAPI_DEVICE_SELECTOR": "level_zero:3", "ZE_AFFINITY_MASK": "3"},
            ["='level_zero:3'", "ZE_AFFINITY_MASK='3'", "counted from 0 again", "unset ZE_AFFINITY_MASK"],
        ),
        # the mask, in each hierarchy
        (
            {"ZE_AFFINITY_MASK": "2.1", "ZE_FLAT_DEVICE_HIERARCHY": "FLAT"},
            ["='2.1'", "ZE_FLAT_DEVICE_HIERARCHY=FLAT", "ZE_AFFINITY_MASK='5'"],
        ),
        (
            {"ZE_AFFINITY_MASK": "0.0,5.1", "ZE_FLAT_DEVICE_HIERARCHY": "COMBINED"},
            ["ZE_FLAT_DEVICE_HIERARCHY=COMBINED", "ZE_AFFINITY_MASK='0,11'"],
        ),
        ({"ZE_AFFINITY_MASK": "2.1"}, ["(unset)", "the driver takes FLAT", "ZE_AFFINITY_MASK='5'"]),
        (
            {"ZE_AFFINITY_MASK": "2.1", "ZE_FLAT_DEVICE_HIERARCHY": "composite"},
            ["ZE_FLAT_DEVICE_HIERARCHY=composite, for which the driver takes FLAT"],
        ),
        (
            {"ZE_AFFINITY_MASK": "12", "ZE_FLAT_DEVICE_HIERARCHY": "FLAT"},
            ["='12'", "ZE_FLAT_DEVICE_HIERARCHY=FLAT", "0 to 11", "unset ZE_AFFINITY_MASK"],
        ),
        (
            {"ZE_AFFINITY_MASK": "7", "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"},
            ["='7'", "ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE", "0.0 to 5.1", "ZE_AFFINITY_MASK='3.1'"],
        ),
        (
            {"ZE_AFFINITY_MASK": "6.0", "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"},
            ["='6.0'", "0.0 to 5.1", "unset"],
        ),
        ({"ZE_AFFINITY_MASK": "level_zero:3"}, ["='level_zero:3'", "no list of device numbers", "'0,1'"]),
        # both are wrong: the selector first
        ({"ONEAPI_DEVICE_SELECTOR": "opencl:cpu", "ZE_AFFINITY_MASK": "2.1"}, ["leaves out"]),
    ],
)
def test_the_reason_names_the_variable_the_value_and_the_right_form(
    env: dict[str, str], words: list[str]
) -> None:
    sentence = no_level_zero(env)
    assert [word for word in words if word not in sentence] == []
    assert sentence.endswith(".")


VARIABLES = ["ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY"]


@given(st.dictionaries(st.sampled_from(VARIABLES), st.text("level_zrogpu*!:;,.012 ")))
def test_there_is_a_reason_whatever_the_variables_hold(env: dict[str, str]) -> None:
    assert no_level_zero(env).endswith(".")


# --- all ranks together ---


def on_one_tile(visible: int, ranks: int = 12) -> list[RankReport]:
    return [RankReport(r, "node", r, r, "0000:18:00.0 tile 0", visible) for r in range(ranks)]


def test_twelve_ranks_on_the_only_tile_are_found() -> None:
    [problem] = check(on_one_tile(visible=1), shared=False, oversubscribe=False)
    assert "Ranks 0, 1, 2" in problem
    assert "tile 0000:18:00.0 tile 0 of node" in problem
    assert "each of them sees this one only" in problem
    assert "--oversubscribe" in problem
    assert "same mask" in problem


def test_two_ranks_on_one_of_many_tiles_are_found() -> None:
    reports = [RankReport(0, "node", 3, 3, "tile 3", 12), RankReport(1, "node", 3, 3, "tile 3", 12)]
    [problem] = check(reports, shared=False, oversubscribe=False)
    assert "Ranks 0, 1 share tile tile 3 of node" in problem
    assert "they saw 12 tiles and had local ranks 3, 3" in problem


@pytest.mark.parametrize("allowed", [{"shared": True}, {"oversubscribe": True}])
def test_sharing_is_no_problem_where_it_was_asked_for(allowed: dict[str, bool]) -> None:
    assert check(on_one_tile(1), **{"shared": False, "oversubscribe": False} | allowed) == []


def test_the_same_tile_name_on_two_hosts_is_two_tiles() -> None:
    reports = [RankReport(0, "a", 0, 0, "tile 0", 12), RankReport(1, "b", 0, 0, "tile 0", 12)]
    assert check(reports, shared=False, oversubscribe=False) == []


def test_one_host_under_two_names_is_one_host() -> None:
    names = ["x4109c0s0b0n0.hsn.cm.aurora.alcf.anl.gov", "x4109c0s0b0n0.hostmgmt2109.cm", "X4109c0s0b0n0"]
    reports = [RankReport(n, name, n, n, "tile 0", 12) for n, name in enumerate(names)]
    [problem] = check(reports, shared=False, oversubscribe=False)
    assert "of x4109c0s0b0n0:" in problem


def test_addresses_are_not_cut() -> None:
    assert [short_host(name) for name in ("10.0.0.1", "10.0.0.2", "::1")] == ["10.0.0.1", "10.0.0.2", "::1"]


def test_a_local_rank_that_mpi_sees_otherwise_is_found() -> None:
    reports = [RankReport(r, "node", 0, r, f"tile {r}", 1) for r in range(3)]
    [problem] = check(reports, shared=True, oversubscribe=False)
    assert "On node" in problem
    assert "rank 1 is 0 and 1, rank 2 is 0 and 2" in problem


def test_a_local_rank_that_the_launcher_did_not_give_is_no_disagreement() -> None:
    assert check([RankReport(0, "n", None, 0, "t", 1)], shared=False, oversubscribe=False) == []


def test_a_thousand_broken_nodes_do_not_fill_the_terminal() -> None:
    reports = [RankReport(n, f"x{n // 12}", 0, n % 12, "tile 0", 1) for n in range(12_000)]
    problems = check(reports, shared=False, oversubscribe=False)
    assert len(problems) == 26
    assert problems[12] == problems[25] == "The same is true 988 more times, of other tiles or hosts."
    assert sum(map(len, problems)) < 12_000


def test_a_crowd_on_one_tile_is_counted_rather_than_listed() -> None:
    [problem] = check(on_one_tile(visible=1, ranks=100), shared=False, oversubscribe=False)
    assert "10, 11 and 88 more share" in problem


@given(st.permutations(RANKS), st.integers(1, 4))
def test_any_one_to_one_binding_is_good(order: list[int], nodes: int) -> None:
    reports = [
        RankReport(node * 12 + rank, f"n{node}", rank, rank, f"tile {order[rank]}", 12)
        for node in range(nodes)
        for rank in RANKS
    ]
    assert check(reports, shared=False, oversubscribe=False) == []


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_a_problem_is_told_exactly_when_a_tile_is_taken_twice(tiles: list[int]) -> None:
    reports = [RankReport(r, "node", r, r, f"tile {tile}", 6) for r, tile in enumerate(tiles)]
    twice = {tile for tile in tiles if tiles.count(tile) > 1}
    assert len(check(reports, shared=False, oversubscribe=False)) == len(twice)


def test_the_same_local_ranks_in_another_order_are_as_good():
    reports = [
        RankReport(rank, "node", local, rank, f"level_zero:gpu:{local}", 4)
        for rank, local in enumerate([0, 2, 1, 3])
    ]
    assert check(reports, shared=False, oversubscribe=False) == []
