"""The ranks' first meeting: where each is, what it sees, which tiles it takes, and whether all of it fits.

What comes of it is computed by every rank from what all have said, so all come to the same end.
"""

import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sched.backends import Found
from sched.backends.devices import first_of_card
from sched.errors import DeviceError, SchedError
from sched.model import DRIVER
from sched.runtime.settings import Settings
from sched.siblings import binding, masks, ranks

if TYPE_CHECKING:
    from sched.transport.mpi import MpiTransport


class CannotBegin(SchedError):
    """The run cannot begin. Raised on all ranks alike, for rank 0 to say why.

    Attributes:
        problems: one sentence, or a few, for each.
        stuck: messages are under way that may never arrive, so that the ranks cannot end by themselves.
    """

    def __init__(self, problems: Sequence[str], *, stuck: bool = False) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        self.stuck = stuck


@dataclass(frozen=True, slots=True)
class Taken:
    """A tile that a rank takes.

    Attributes:
        index: into the devices that the rank has found.
        name: the same for two tiles only if they are the same hardware.
        card: as in `masks.Physical`; None: the rank stands for it.
    """

    index: int
    name: str
    card: int | None


@dataclass(frozen=True, slots=True)
class Hello:
    """What ranks tell each other about themselves."""

    host: str
    local_rank: int | None
    shared_rank: int
    taken: tuple[Taken, ...]
    visible: int
    kind: str
    error: str | None


def meet(
    settings: Settings, world: ranks.World, transport: "MpiTransport", found: Found | None, error: str | None
) -> list[Hello]:
    """Take this rank's tiles, knowing where the others are; and hear what all have taken. Collective.

    Args:
        settings: of the run.
        world: what the launcher says of this rank.
        transport: this rank's end.
        found: the devices that it sees.
        error: why it sees none.

    Returns:
        What each rank said, by rank.

    Raises:
        CannotBegin: Some rank has no tile that it could take, or what the ranks took does not fit together.
    """
    works = not (settings.driver_only and transport.rank == DRIVER)
    host = platform.node()
    # Tuples: pickle would look for the sibling's class where another may have its name.
    place = transport.shared_rank if world.local_rank is None else world.local_rank
    seat = (host, place, masks.narrowed(os.environ), works)
    seats = [binding.Seat(*other) for other in transport.allgather(seat)]
    taken: tuple[Taken, ...] = ()
    if found is not None and works:
        try:
            taken = take(found, settings, *binding.seated(seats, transport.rank))
        except (DeviceError, binding.BindingError) as raised:
            error = str(raised)
    kind, visible = ("", 0) if found is None else (found.kind, len(found.filters))
    hello = Hello(host, world.local_rank, transport.shared_rank, taken, visible, kind, error)
    everyone: list[Hello] = transport.allgather(hello)
    problems = _problems(everyone, settings.oversubscribe)
    if problems:
        raise CannotBegin(problems)
    return everyone


def agree(transport: "MpiTransport", failure: str | None) -> None:
    """Go on only if no rank has failed. Collective.

    Raises:
        CannotBegin: Some have.
    """
    problems = by_text(transport.allgather(failure))
    if problems:
        raise CannotBegin(problems)


def take(found: Found, settings: Settings, place: int = 0, ranks: int = 1) -> tuple[Taken, ...]:
    """Take the tiles of the rank that has this place among so many ranks; see `binding.choose`.

    Raises:
        BindingError: There are not enough.
        DeviceError: There are none.
    """
    shared = found.kind != "level_zero"
    if not shared and not found.filters:
        raise DeviceError(masks.no_level_zero(os.environ))
    chosen = binding.choose(
        len(found.filters),
        place,
        ranks,
        shared=shared,
        oversubscribe=settings.oversubscribe,
        tiles=settings.tiles,
    )
    if shared:
        return tuple(Taken(index, found.filters[index], None) for index in chosen)
    return tuple(_taken(index, found.filters[index]) for index in chosen)


def _taken(index: int, device: str) -> Taken:
    card = masks.physical(first_of_card(device), os.environ).card
    return Taken(index, masks.physical(device, os.environ).name, card)


def places(everyone: Sequence[Hello]) -> list[tuple[int, int]]:
    """Return the node and the card of every tile, by tile; both as numbers."""
    nodes: dict[str, int] = {}
    return [
        (
            nodes.setdefault(binding.short_host(hello.host), len(nodes)),
            rank if tile.card is None else tile.card,
        )
        for rank, hello in enumerate(everyone)
        for tile in hello.taken
    ]


def sharing(node: Iterable[Sequence[Taken]]) -> int:
    """Return how many tiles there are on one device, at most, if these are what the ranks of a node took."""
    return max(Counter(tile.name for taken in node for tile in taken).values())


def _problems(everyone: Sequence[Hello], oversubscribe: bool) -> list[str]:
    errors = by_text([hello.error for hello in everyone])
    if errors:
        return errors
    kinds = {hello.kind for hello in everyone}
    if len(kinds) > 1:
        where = ", ".join(
            f"{kind} on {next(h.host for h in everyone if h.kind == kind)}" for kind in sorted(kinds)
        )
        return [f"ranks found different kinds of device ({where}): say which is meant with --device"]
    reports = [
        binding.RankReport(
            rank, h.host, h.local_rank, h.shared_rank, tuple(tile.name for tile in h.taken), h.visible
        )
        for rank, h in enumerate(everyone)
    ]
    return binding.check(reports, shared=kinds != {"level_zero"}, oversubscribe=oversubscribe)


def by_text(errors: Sequence[str | None]) -> list[str]:
    """Say each error once, and which ranks have it."""
    ranks_with: dict[str, list[int]] = {}
    for rank, error in enumerate(errors):
        if error is not None:
            ranks_with.setdefault(error, []).append(rank)
    return [f"{_ranks(ranks)} cannot begin: {error}" for error, ranks in ranks_with.items()]


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"{len(ranks)} ranks (the first is {ranks[0]})"
