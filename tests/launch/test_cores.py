"""Which cores belong to which tile. The node of Aurora is as ALCF's pages describe it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from launch.cores import Card, Node, beside, deal, parse, show, to_deal

AURORA = Node({0: tuple(range(52)), 1: tuple(range(52, 104))}, tuple(Card(card // 3, 2) for card in range(6)))
EVERY_CPU = frozenset(range(208))
TWELVE = "1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100"
SIX = "1-16:17-32:33-48:53-68:69-84:85-100"


def listed(devices: list[list[str]], *, composite: bool) -> str:
    blocks = deal(AURORA)
    named = [[f"level_zero:gpu:{device}" for device in own] for own in devices]
    return ":".join(show(beside(own, blocks, composite=composite)) for own in named)


def test_the_ranks_of_an_aurora_node_have_the_cores_that_alcf_lists() -> None:
    assert listed([[str(tile)] for tile in range(12)], composite=False) == TWELVE
    assert listed([[f"{tile // 2}.{tile % 2}"] for tile in range(12)], composite=True) == TWELVE
    assert listed([[str(tile), str(tile + 1)] for tile in range(0, 12, 2)], composite=False) == SIX
    assert listed([[f"{card}.0", f"{card}.1"] for card in range(6)], composite=True) == SIX


def test_a_rank_with_tiles_on_both_sockets_has_cores_of_both() -> None:
    assert listed([["5", "6"]], composite=False) == "41-48,53-60"


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(Node({0: tuple(range(8))}, ()), id="no card"),
        pytest.param(Node({0: tuple(range(8))}, (Card(-1, 2),)), id="a card that is nowhere"),
        pytest.param(
            Node({0: tuple(range(8))}, (Card(0, 2), Card(1, 2))), id="a card by a node without cores"
        ),
        pytest.param(Node({0: tuple(range(8))}, (Card(0, 0),)), id="tiles unknown"),
        pytest.param(Node({0: tuple(range(3))}, (Card(0, 2), Card(0, 2))), id="fewer cores than tiles"),
        pytest.param(Node({}, (Card(0, 2),)), id="no cores"),
    ],
)
def test_where_it_is_not_known_what_is_beside_what_nothing_is_dealt(node: Node) -> None:
    assert deal(node) == []


@pytest.mark.parametrize(
    "device", ["level_zero:gpu:12", "level_zero:gpu:0 (ZE_AFFINITY_MASK=what)", "level_zero:gpu:0.x"]
)
@pytest.mark.parametrize("composite", [False, True])
def test_a_tile_that_is_not_known_has_no_cores(device: str, composite: bool) -> None:
    assert beside(["level_zero:gpu:1", device], deal(AURORA), composite=composite) == ()


@pytest.mark.parametrize(
    "allowed",
    [
        pytest.param(EVERY_CPU, id="all"),
        pytest.param(EVERY_CPU - {0, 104, 52, 156}, id="all but the system's"),
    ],
)
def test_who_may_use_the_whole_node_is_dealt_its_cores(allowed: frozenset[int]) -> None:
    assert to_deal(AURORA, allowed, {"OMP_NUM_THREADS": "8", "OMP_PLACES": ""}) == deal(AURORA) != []


@pytest.mark.parametrize(
    ("allowed", "env"),
    [
        pytest.param(frozenset(range(1, 9)), {}, id="bound by the launcher"),
        pytest.param(frozenset(range(52)), {}, id="started with taskset"),
        pytest.param(EVERY_CPU, {"OMP_PLACES": "cores"}, id="places for OpenMP"),
        pytest.param(EVERY_CPU, {"KMP_AFFINITY": "compact"}, id="Intel's OpenMP"),
    ],
)
def test_who_was_given_cores_or_has_a_wish_keeps_them(allowed: frozenset[int], env: dict[str, str]) -> None:
    assert to_deal(AURORA, allowed, env) == []


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=8),
    st.lists(st.integers(1, 64), min_size=4, max_size=4),
)
def test_no_core_is_dealt_twice_and_each_is_beside_its_card(
    cards: list[tuple[int, int]], counts: list[int]
) -> None:
    cores = {numa: tuple(range(100 * numa, 100 * numa + count)) for numa, count in enumerate(counts)}
    blocks = deal(Node(cores, tuple(Card(*card) for card in cards)))
    dealt = [cpu for card in blocks for block in card for cpu in block]
    assert len(dealt) == len(set(dealt))
    for (numa, tiles), own in zip(cards, blocks, strict=False):
        assert len(own) == tiles
        assert all(block and set(block) <= set(cores[numa][1:]) for block in own)


# --- lists of CPUs ---


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8", [0, 1, 2, 3, 8]),
        ("5\n", [5]),
        ("", []),
        ("x", []),
        ("1-", []),
        ("0-1,104-105", [0, 1, 104, 105]),
    ],
)
def test_lists_of_cpus_are_read_as_linux_writes_them(text: str, cpus: list[int]) -> None:
    assert parse(text) == cpus


@given(st.sets(st.integers(0, 300)))
def test_what_is_written_is_read_back(cpus: set[int]) -> None:
    assert parse(show(cpus)) == sorted(cpus)
