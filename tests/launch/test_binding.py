"""Which tiles a rank takes, and what shows up when all ranks compare."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from launch.binding import (
    MOST_EMULATED,
    BindingError,
    RankReport,
    Seat,
    check,
    choose,
    seated,
    short_host,
)
from launch.masks import narrowed, physical

RANKS = range(12)
AURORA = "x4109c0s0b0n0"


# --- a node of Aurora as its ranks see it: how many root devices are listed, under which variables ---

FLAT, COMPOSITE = {"ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}, {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}

LAYOUTS = {
    "FLAT": lambda rank: (12, FLAT),
    "FLAT, the module's selector": lambda rank: (
        12,
        {**FLAT, "ONEAPI_DEVICE_SELECTOR": "opencl:gpu;level_zero:gpu"},
    ),
    "FLAT, a mask for each rank": lambda rank: (1, {**FLAT, "ZE_AFFINITY_MASK": f"{rank}"}),
    "FLAT, a selector for each rank": lambda rank: (
        1,
        {**FLAT, "ONEAPI_DEVICE_SELECTOR": f"level_zero:{rank}"},
    ),
    "FLAT, the same mask of all": lambda rank: (
        12,
        {**FLAT, "ZE_AFFINITY_MASK": "0,1,2,3,4,5,6,7,8,9,10,11"},
    ),
    "COMPOSITE, gpu_tile_compact.sh": lambda rank: (
        1,
        {**COMPOSITE, "ZE_AFFINITY_MASK": f"{rank // 2}.{rank % 2}"},
    ),
}


def bound(
    layout: str, ranks: int, tiles: int | None = None, *, driver_only: bool = False
) -> list[RankReport]:
    """Bind the ranks of a node; report those that have tiles."""
    seen = [LAYOUTS[layout](rank) for rank in range(ranks)]
    seats = [
        Seat(AURORA, rank, narrowed(env), works=not driver_only or rank > 0)
        for rank, (_, env) in enumerate(seen)
    ]
    reports = []
    for rank, (visible, env) in enumerate(seen):
        if seats[rank].works:
            chosen = choose(visible, *seated(seats, rank), shared=False, oversubscribe=False, tiles=tiles)
            names = tuple(physical(f"level_zero:gpu:{index}", env).name for index in chosen)
            reports.append(RankReport(rank, AURORA, rank, rank, names, visible))
    return reports


def numbers(reports: list[RankReport]) -> list[list[int]]:
    return [[int(name.removeprefix("level_zero:gpu:")) for name in report.tiles] for report in reports]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("tiles", [None, 1])
def test_twelve_ranks_take_twelve_tiles(layout: str, tiles: int | None) -> None:
    reports = bound(layout, 12, tiles)
    assert len({report.tiles for report in reports}) == 12
    assert check(reports, shared=False, oversubscribe=False) == []


@pytest.mark.parametrize(
    ("ranks", "blocks"),
    [
        (1, [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]]),
        (2, [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]),
        (5, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9], [10, 11]]),
        (6, [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]),
        (12, [[n] for n in range(12)]),
    ],
)
def test_the_tiles_are_shared_out_in_blocks(ranks: int, blocks: list[list[int]]) -> None:
    reports = bound("FLAT", ranks)
    assert numbers(reports) == blocks
    assert check(reports, shared=False, oversubscribe=False) == []


@pytest.mark.parametrize(("ranks", "tiles"), [(1, 1), (3, 2), (2, 5), (1, 12), (12, 1), (4, 3)])
def test_with_tiles_each_rank_takes_that_many(ranks: int, tiles: int) -> None:
    blocks = [list(range(rank * tiles, (rank + 1) * tiles)) for rank in range(ranks)]
    assert numbers(bound("FLAT", ranks, tiles)) == blocks


@pytest.mark.parametrize(("ranks", "tiles"), [(13, None), (13, 1), (7, 2), (3, 5), (2, 12)])
def test_too_many_are_refused_with_the_numbers_on_every_rank(ranks: int, tiles: int | None) -> None:
    needed = "" if tiles in (None, 1) else f" with {tiles} tiles each need {ranks * tiles}"
    most = 12 // (tiles or 1)
    for place in range(ranks):
        with pytest.raises(BindingError) as caught:
            choose(12, place, ranks, shared=False, oversubscribe=False, tiles=tiles)
        assert f"{ranks} ranks on this node{needed}, but only 12 tiles are visible: " in str(caught.value)
        assert f"at most {most} ranks a node (--ppn {most})" in str(caught.value)
        assert "--oversubscribe" in str(caught.value)


@pytest.mark.parametrize(("visible", "seen"), [(1, "only 1 is visible"), (12, "only 12 are visible")])
@pytest.mark.parametrize("oversubscribe", [False, True])
def test_more_tiles_for_a_rank_than_it_sees_are_refused(visible: int, seen: str, oversubscribe: bool) -> None:
    with pytest.raises(BindingError, match=f"^13 tiles were asked for, but {seen}: "):
        choose(visible, 0, 1, shared=False, oversubscribe=oversubscribe, tiles=13)


def test_the_driver_without_tiles_leaves_them_to_the_others() -> None:
    assert numbers(bound("FLAT", 13, driver_only=True)) == [[n] for n in range(12)]
    assert numbers(bound("FLAT", 3, 2, driver_only=True)) == [[0, 1], [2, 3]]


def test_a_mask_of_its_own_is_a_ranks_to_use_whole() -> None:
    seats = [Seat(AURORA, rank, f"{2 * rank},{2 * rank + 1}") for rank in range(6)]
    for rank in range(6):
        assert choose(2, *seated(seats, rank), shared=False, oversubscribe=False) == (0, 1)


def test_a_mask_that_all_have_is_shared_out() -> None:
    seats = [Seat(AURORA, rank, "8,9,10,11") for rank in range(4)]
    assert [choose(4, *seated(seats, r), shared=False, oversubscribe=False) for r in range(4)] == [
        (0,), (1,), (2,), (3,)
    ]  # fmt: skip


def test_ranks_with_the_same_mask_share_what_it_leaves() -> None:
    seats = [Seat(AURORA, rank, str(rank // 2)) for rank in range(12)]  # gpu_dev_compact.sh
    assert [seated(seats, rank) for rank in range(12)] == [(rank % 2, 2) for rank in range(12)]


def test_ranks_without_a_mask_count_those_with_one_too() -> None:
    seats = [Seat(AURORA, rank, "3" if rank == 3 else "") for rank in range(12)]
    assert [seated(seats, rank) for rank in (2, 3, 4)] == [(2, 12), (0, 1), (4, 12)]


def test_ranks_are_seated_by_node_and_local_rank() -> None:
    names = [f"{AURORA}.hsn.cm.aurora.alcf.anl.gov", "other", AURORA.upper(), "other"]
    seats = [Seat(name, local, "") for name, local in zip(names, [1, 0, 0, 1], strict=True)]
    assert [seated(seats, rank) for rank in range(4)] == [(1, 2), (0, 2), (0, 2), (1, 2)]


def test_ranks_with_the_same_local_rank_are_seated_apart() -> None:
    seats = [Seat(AURORA, 0, "") for _ in range(3)]
    assert [seated(seats, rank) for rank in range(3)] == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize("visible", [1, 2])
def test_a_shared_device_is_taken_by_all_and_as_often_as_they_want(visible: int) -> None:
    for place in RANKS:
        assert choose(visible, place, 12, shared=True, oversubscribe=False) == (0,)
        assert choose(visible, place, 12, shared=True, oversubscribe=False, tiles=3) == (0, 0, 0)


@pytest.mark.parametrize("tiles", [MOST_EMULATED + 1, 99_999_999_999])
def test_emulated_tiles_without_end_are_refused(tiles: int) -> None:
    with pytest.raises(BindingError, match=f"^{tiles} tiles for a rank are too many .* at most 1024$"):
        choose(1, 0, 1, shared=True, oversubscribe=True, tiles=tiles)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("tiles", [0, -1])
def test_no_tiles_are_too_few(shared: bool, tiles: int) -> None:
    with pytest.raises(BindingError, match="at least 1"):
        choose(12, 0, 1, shared=shared, oversubscribe=True, tiles=tiles)


def test_no_device_is_an_error_even_for_a_shared_one() -> None:
    with pytest.raises(BindingError, match="no device"):
        choose(0, 0, 1, shared=True, oversubscribe=True)


@given(visible=st.integers(2, 24), data=st.data())
def test_ranks_that_fit_take_every_tile_once_in_blocks(visible: int, data: st.DataObject) -> None:
    ranks = data.draw(st.integers(1, visible))
    taken = [choose(visible, place, ranks, shared=False, oversubscribe=False) for place in range(ranks)]
    assert [tile for block in taken for tile in block] == list(range(visible))
    assert max(map(len, taken)) - min(map(len, taken)) <= 1


@given(visible=st.integers(2, 24), ranks=st.integers(1, 100), data=st.data())
def test_ranks_too_many_are_spread_evenly(visible: int, ranks: int, data: st.DataObject) -> None:
    tiles = data.draw(st.sampled_from([None, *range(1, visible + 1)]))
    taken = [
        choose(visible, place, ranks, shared=False, oversubscribe=True, tiles=tiles) for place in range(ranks)
    ]
    users = [sum(tile in block for block in taken) for tile in {tile for block in taken for tile in block}]
    assert max(users) - min(users) <= 1
    if tiles is not None:
        assert {len(set(block)) for block in taken} == {tiles}


# --- all ranks together ---


def on_one_tile(visible: int, ranks: int = 12) -> list[RankReport]:
    return [RankReport(r, "node", r, r, ("0000:18:00.0 tile 0",), visible) for r in range(ranks)]


def test_twelve_ranks_on_the_only_tile_are_found() -> None:
    [problem] = check(on_one_tile(visible=1), shared=False, oversubscribe=False)
    assert "Ranks 0, 1, 2" in problem
    assert "tile 0000:18:00.0 tile 0 of node" in problem
    assert "each of them sees this one only" in problem
    assert "--oversubscribe" in problem
    assert "same mask" in problem


def test_two_ranks_on_one_of_many_tiles_are_found() -> None:
    reports = [RankReport(0, "node", 3, 3, ("tile 3",), 12), RankReport(1, "node", 3, 3, ("tile 3",), 12)]
    [problem] = check(reports, shared=False, oversubscribe=False)
    assert "Ranks 0, 1 share tile tile 3 of node" in problem
    assert "they saw 12 tiles and had local ranks 3, 3" in problem


def test_blocks_that_overlap_are_found() -> None:
    reports = [
        RankReport(0, "node", 0, 0, ("tile 0", "tile 1"), 2),
        RankReport(1, "node", 1, 1, ("tile 1", "tile 2"), 2),
    ]
    [problem] = check(reports, shared=False, oversubscribe=False)
    assert "Ranks 0, 1 share tile tile 1 of node" in problem


@pytest.mark.parametrize("allowed", [{"shared": True}, {"oversubscribe": True}])
def test_sharing_is_no_problem_where_it_was_asked_for(allowed: dict[str, bool]) -> None:
    assert check(on_one_tile(1), **{"shared": False, "oversubscribe": False} | allowed) == []


def test_the_same_tile_name_on_two_hosts_is_two_tiles() -> None:
    reports = [RankReport(0, "a", 0, 0, ("tile 0",), 12), RankReport(1, "b", 0, 0, ("tile 0",), 12)]
    assert check(reports, shared=False, oversubscribe=False) == []


def test_one_host_under_two_names_is_one_host() -> None:
    names = ["x4109c0s0b0n0.hsn.cm.aurora.alcf.anl.gov", "x4109c0s0b0n0.hostmgmt2109.cm", "X4109c0s0b0n0"]
    reports = [RankReport(n, name, n, n, ("tile 0",), 12) for n, name in enumerate(names)]
    [problem] = check(reports, shared=False, oversubscribe=False)
    assert "of x4109c0s0b0n0:" in problem


def test_addresses_are_not_cut() -> None:
    assert [short_host(name) for name in ("10.0.0.1", "10.0.0.2", "::1")] == ["10.0.0.1", "10.0.0.2", "::1"]


def test_a_local_rank_that_mpi_sees_otherwise_is_found() -> None:
    reports = [RankReport(r, "node", 0, r, (f"tile {r}",), 1) for r in range(3)]
    [problem] = check(reports, shared=True, oversubscribe=False)
    assert "On node" in problem
    assert "rank 1 is 0 and 1, rank 2 is 0 and 2" in problem


def test_a_local_rank_that_the_launcher_did_not_give_is_no_disagreement() -> None:
    assert check([RankReport(0, "n", None, 0, ("t",), 1)], shared=False, oversubscribe=False) == []


def test_a_thousand_broken_nodes_do_not_fill_the_terminal() -> None:
    reports = [RankReport(n, f"x{n // 12}", 0, n % 12, ("tile 0",), 1) for n in range(12_000)]
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
        RankReport(node * 12 + rank, f"n{node}", rank, rank, (f"tile {order[rank]}",), 12)
        for node in range(nodes)
        for rank in RANKS
    ]
    assert check(reports, shared=False, oversubscribe=False) == []


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_a_problem_is_told_exactly_when_a_tile_is_taken_twice(tiles: list[int]) -> None:
    reports = [RankReport(r, "node", r, r, (f"tile {tile}",), 6) for r, tile in enumerate(tiles)]
    twice = {tile for tile in tiles if tiles.count(tile) > 1}
    assert len(check(reports, shared=False, oversubscribe=False)) == len(twice)


def test_the_same_local_ranks_in_another_order_are_as_good():
    reports = [
        RankReport(rank, "node", local, rank, (f"level_zero:gpu:{local}",), 4)
        for rank, local in enumerate([0, 2, 1, 3])
    ]
    assert check(reports, shared=False, oversubscribe=False) == []
