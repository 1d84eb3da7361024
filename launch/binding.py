"""Which tiles a rank takes, why there are none, and whether all ranks together got it right.

The rules:

* nothing here sets a mask. The ranks of a node that see the same tiles share them out, each a contiguous
  block, so that the two tiles of a card stay together. A rank that a wrapper or the MPI has narrowed to one
  tile, or has given a mask of its own, takes what it sees; ranks with the same mask share what it leaves;
* one rank alone cannot tell "my wrapper left me one of twelve tiles" from "there is one tile, and we are
  twelve". Both see one tile and take it; `check` compares what was taken, by physical identity;
* what is wrong is said with the numbers, the variable, its value and the right form. Nothing falls back in
  silence.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_EMULATED = 1024
"""How many tiles one rank may emulate: each has a thread, or a queue."""


class BindingError(ValueError):
    """This rank cannot be given a tile as it was started; the message says how to start it instead."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one rank is, for `seated` to compare.

    Attributes:
        host: the host name, short or with any of the domains a cluster uses.
        local_rank: what the launcher said, else the rank in MPI's split by shared memory.
        view: what narrows the rank's view of the devices, "" if nothing does; see `masks.narrowed`.
        works: whether the rank is to have tiles; with `--driver-only` rank 0 is not.
    """

    host: str
    local_rank: int
    view: str
    works: bool = True


@dataclass(frozen=True, slots=True)
class RankReport:
    """What one rank has taken, for `check` to compare.

    Attributes:
        rank: the rank in the whole run.
        host: as in `Seat`.
        local_rank: what the launcher said, None if it did not.
        shared_rank: the rank in MPI's split by shared memory.
        tiles: names that no other tile of the host has, however this rank is masked: see `masks.physical`.
        visible: how many tiles the rank saw when it chose.
    """

    rank: int
    host: str
    local_rank: int | None
    shared_rank: int
    tiles: tuple[str, ...]
    visible: int


def seated(seats: Sequence[Seat], rank: int) -> tuple[int, int]:
    """Work out as which of how many ranks this one shares the tiles that it sees.

    Args:
        seats: one for each rank of the run.
        rank: the one that asks; it is to have tiles.

    Returns:
        Its place, from 0, among the working ranks of its node, and their number. Where its view is narrowed,
        only those count that have the same: two ranks with a mask that leaves one card share its two tiles,
        and a rank with a mask of its own has all that it leaves.
    """
    own = seats[rank]
    host = short_host(own.host)
    node = [(n, seat) for n, seat in enumerate(seats) if seat.works and short_host(seat.host) == host]
    if own.view:
        node = [(n, seat) for n, seat in node if seat.view == own.view]
    # By the rank too: where launcher and MPI disagree on the local ranks, `check` says so.
    order = sorted((seat.local_rank, n) for n, seat in node)
    return order.index((own.local_rank, rank)), len(order)


def choose(
    visible: int, place: int, ranks: int, *, shared: bool, oversubscribe: bool, tiles: int | None = None
) -> tuple[int, ...]:
    """Choose the tiles of a rank, as indices into the tiles it sees.

    Args:
        visible: tiles this rank sees, each counted once: OpenCL lists the Level Zero ones a second time.
        place: as which of `ranks` it shares them, from 0; see `seated`.
        ranks: how many ranks share them.
        shared: the device is one that all ranks of a node use together (the CPU), so each takes the first,
            as often as it is to have tiles: they are emulated.
        oversubscribe: allow more ranks than tiles; they then share tiles in turn.
        tiles: how many each rank is to have. If None: one, if the device is shared; else the visible tiles
            are shared out evenly, each rank a contiguous block (5 ranks on 12: 3, 3, 2, 2, 2).

    Raises:
        BindingError: there is no tile, there are more ranks than tiles, or more tiles were asked for than
            there are.
    """
    if visible < 1:
        raise BindingError("no device is visible to this rank")
    if tiles is not None and tiles < 1:
        raise BindingError(f"{tiles} tiles for a rank are too few: at least 1 is needed")
    if shared:
        if tiles is not None and tiles > MOST_EMULATED:
            raise BindingError(
                f"{tiles} tiles for a rank are too many to be emulated: ask for at most {MOST_EMULATED}"
            )
        return (0,) * (tiles or 1)
    if tiles is not None and tiles > visible:
        raise BindingError(
            f"{tiles} tiles were asked for, but only {visible} {_are(visible)} visible: ask for at most "
            f"{visible} with --tiles"
        )
    if visible == 1:
        return (0,)
    blocks = _blocks(visible, ranks, tiles)
    if ranks > len(blocks) and not oversubscribe:
        most = len(blocks)
        needed = f"{ranks} ranks on this node"
        if tiles is not None and tiles > 1:
            needed += f" with {tiles} tiles each need {ranks * tiles}"
        raise BindingError(
            f"{needed}, but only {visible} tiles are visible: start at most {most} ranks a node "
            f"(--ppn {most}), or allow sharing with --oversubscribe"
        )
    return tuple(blocks[place % len(blocks)])


def _blocks(visible: int, ranks: int, tiles: int | None) -> list[range]:
    """Cut the visible tiles into blocks of adjacent ones, for one rank each."""
    if tiles is not None:
        return [range(start, start + tiles) for start in range(0, visible - tiles + 1, tiles)]
    count = min(ranks, visible)
    each, more = divmod(visible, count)
    starts = [block * each + min(block, more) for block in range(count + 1)]
    return [range(*ends) for ends in itertools.pairwise(starts)]


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


# --- all ranks together ---

_SHOWN = 12  # ranks in a sentence, and sentences of a kind: a thousand nodes must not print thousands


def check(reports: Sequence[RankReport], *, shared: bool, oversubscribe: bool) -> list[str]:
    """Compare what all ranks took.

    Args:
        reports: one from every rank.
        shared: the ranks of a node use one device together (the CPU); two on it are no problem.
        oversubscribe: two ranks on a tile were asked for.

    Returns:
        The problems, a sentence or two each, none if all is well. Problems of one kind are cut off after a
        dozen, with a last sentence that counts the others.
    """
    problems = _cut(_disagreements(reports))
    if not (shared or oversubscribe):
        problems += _cut(_collisions(reports))
    return problems


def short_host(name: str) -> str:
    """Reduce a host name to what all its spellings share.

    PBS, MPI and the resolver add different domains to `x4109c0s0b0n0`. An address stays whole.
    """
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.partition(".")[0].lower()


def _disagreements(reports: Sequence[RankReport]) -> Iterable[str]:
    hosts: dict[str, list[RankReport]] = defaultdict(list)
    for report in reports:
        hosts[short_host(report.host)].append(report)
    wrong: dict[str, list[RankReport]] = {}
    for host, ranks in hosts.items():
        # The same numbers in another order are as good: Open MPI 5 deals them out so when it oversubscribes.
        if {r.local_rank for r in ranks} != {r.shared_rank for r in ranks}:
            wrong[host] = [r for r in ranks if r.local_rank not in (None, r.shared_rank)]
    for host, ranks in wrong.items():
        if not ranks:
            continue
        numbers = _some(f"rank {r.rank} is {r.local_rank} and {r.shared_rank}" for r in ranks)
        yield (
            f"On {host} the launcher and MPI number the local ranks differently ({numbers}): a variable of "
            f"another launcher is left over, or the ranks of the node do not share memory. Start them with "
            f"one mpiexec, directly."
        )


def _collisions(reports: Sequence[RankReport]) -> Iterable[str]:
    on: dict[tuple[str, str], list[RankReport]] = defaultdict(list)
    for report in reports:
        for tile in report.tiles:
            on[short_host(report.host), tile].append(report)
    for (host, tile), ranks in on.items():
        if len(ranks) < 2:
            continue
        if all(report.visible == 1 for report in ranks):
            cause = (
                "each of them sees this one only. Either the node has no more: start one rank on it, or "
                "allow sharing with --oversubscribe. Or a wrapper gave all the same mask: it must depend on "
                "the local rank"
            )
        else:
            seen = " or ".join(str(n) for n in sorted({report.visible for report in ranks}))
            cause = (
                f"they saw {seen} tiles and had local ranks {_some(str(r.local_rank) for r in ranks)}. The "
                f"numbers must differ: start the ranks with one mpiexec, without a wrapper that masks some "
                f"of them"
            )
        yield f"Ranks {_some(str(r.rank) for r in ranks)} share tile {tile} of {host}: {cause}."


def _some(items: Iterable[str]) -> str:
    known = list(items)
    more = len(known) - _SHOWN
    return ", ".join(known) if more <= 0 else f"{', '.join(known[:_SHOWN])} and {more} more"


def _cut(sentences: Iterable[str]) -> list[str]:
    known = list(sentences)
    more = len(known) - _SHOWN
    if more <= 0:
        return known
    return [*known[:_SHOWN], f"The same is true {more} more times, of other tiles or hosts."]
