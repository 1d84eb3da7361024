"""One rank, one tile: which one, why there is none, and whether all ranks together got it right.

The rules:

* nothing here sets a mask. Where a wrapper or the MPI has narrowed a rank to one tile, that one is taken;
  else the rank indexes the visible tiles by its local rank;
* one rank alone cannot tell "my wrapper left me one of twelve tiles" from "there is one tile, and we are
  twelve". Both see one tile and take it; `check` compares what was taken, by physical identity;
* what is wrong is said with the numbers, the variable, its value and the right form. Nothing falls back in
  silence.
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launch.ranks import World


class BindingError(ValueError):
    """This rank cannot be given a tile as it was started; the message says how to start it instead."""


@dataclass(frozen=True, slots=True)
class RankReport:
    """What one rank has taken, for `check` to compare.

    Attributes:
        rank: the rank in the whole run.
        host: the host name, short or with any of the domains a cluster uses.
        local_rank: what the launcher said, None if it did not.
        shared_rank: the rank in MPI's split by shared memory.
        tile: a name that no other tile of the host has, however this rank is masked. `level_zero:gpu:0` will
            not do: each masked rank calls its own tile so. Nor will a PCI address alone: both tiles of a card
            have the same.
        visible: how many tiles the rank saw when it chose.
    """

    rank: int
    host: str
    local_rank: int | None
    shared_rank: int
    tile: str
    visible: int


def choose(visible: int, world: World, *, shared: bool, oversubscribe: bool) -> int:
    """Choose the tile of this rank, as an index into the tiles it sees.

    Args:
        visible: tiles this rank sees, each counted once: OpenCL lists the Level Zero ones a second time.
        world: the layout of the ranks. Who knows from MPI what the launcher did not say may fill it in.
        shared: the device is one that all ranks of a node use together (the CPU), so each takes the first.
        oversubscribe: allow more ranks than tiles; they then share tiles in turn.

    Raises:
        BindingError: there is no tile, there are more ranks than tiles, or the local rank is unknown.
    """
    if visible < 1:
        raise BindingError("no device is visible to this rank")
    if shared or visible == 1:
        return 0
    if world.local_rank is None:
        if world.launcher is None:
            return 0
        raise BindingError(
            f"{visible} tiles are visible, but {world.launcher} did not say which of this node's ranks this "
            f"one is: start the ranks with the mpiexec of your MPI, or let a wrapper leave each rank one "
            f"tile by ZE_AFFINITY_MASK."
        )
    ranks = max(world.local_size or 0, world.local_rank + 1)
    if ranks > visible and not oversubscribe:
        raise BindingError(
            f"{ranks} ranks on this node, but only {visible} tiles are visible: start at most {visible} "
            f"ranks a node (--ppn {visible}), or allow sharing with --oversubscribe. If these are whole "
            f"cards, ZE_FLAT_DEVICE_HIERARCHY=FLAT shows each of their tiles."
        )
    return world.local_rank % visible


# --- why no GPU is visible ---

_SELECTOR, _MASK, _HIERARCHY = "ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY"
_MASK_ENTRY = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?")
_TILES_A_CARD = 2  # of the Data Center GPU Max 1550, for which masks in card.tile form are written


def no_level_zero(env: Mapping[str, str]) -> str:
    """Explain in one sentence why this process sees no Level Zero GPU, and what to do.

    Call it when the count is zero: neither variable below makes the runtime complain, it just lists nothing.
    The selector is looked at first because it applies whatever the mask says.
    """
    return (
        _selector_fault(env)
        or _mask_fault(env)
        or f"No Level Zero GPU is visible, and neither {_SELECTOR} nor {_MASK} hides one: this machine has "
        f"none (a login node, a laptop) or its driver is missing; go to a GPU node, or ask for the CPU with "
        f"--device cpu."
    )


def _selector_fault(env: Mapping[str, str]) -> str | None:
    value = env.get(_SELECTOR, "")
    terms = [term.strip().lower() for term in value.split(";") if term.strip()]
    said = f"{_SELECTOR}={value!r}"
    remedy = f"write {_SELECTOR}='level_zero:gpu'"
    for term in terms:
        backend, colon, devices = term.lstrip("!").partition(":")
        if ":" in devices:
            # The grammar of dpctl.SyclDevice; here it lists nothing, without an error.
            number = devices.rpartition(":")[2]
            if backend == "level_zero" and number.isdigit():
                remedy += f", or 'level_zero:{number}' for that one"
            return f"{said} is a dpctl filter, which this variable reads as no device at all: {remedy}."
        if not colon:
            return f"{said} names no backend, as in 'backend:device', and selects nothing: {remedy}."
    accepted = [term for term in terms if not term.startswith("!")]
    if accepted and not any(_names_gpus(term) for term in accepted):
        return f"{said} leaves out the Level Zero GPUs: {remedy}."
    if any(_bans_gpus(term) for term in terms):
        return f"{said} excludes the Level Zero GPUs by a '!' term: {remedy}."
    chosen = [device for term in accepted if _names_gpus(term) for device in _devices(term)]
    mask = _mask_entries(env)
    if mask and chosen and all(device.isdigit() and int(device) >= len(mask) for device in chosen):
        # Masked devices are counted from 0 again, so the same number in both places matches nothing.
        return (
            f"{said} comes after {_MASK}={env[_MASK]!r}, which leaves {len(mask)} device(s) counted from 0 "
            f"again, so no number matches: unset {_MASK}, and {remedy}."
        )
    return None


def _devices(term: str) -> list[str]:
    return [device.strip() for device in term.partition(":")[2].split(",")]


def _names_gpus(term: str) -> bool:
    backend = term.partition(":")[0]
    return backend in ("level_zero", "*") and any(
        device in ("gpu", "*") or device[:1].isdigit() for device in _devices(term)
    )


def _bans_gpus(term: str) -> bool:
    backend = term.partition(":")[0]
    return backend in ("!level_zero", "!*") and any(device in ("gpu", "*") for device in _devices(term))


def _mask_entries(env: Mapping[str, str]) -> list[str]:
    mask = env.get(_MASK, "")
    return [] if mask in ("", "default") else mask.split(",")


def _mask_fault(env: Mapping[str, str]) -> str | None:
    """Judge the mask as the driver does: by the hierarchy, entry by entry, skipping what does not fit."""
    entries = _mask_entries(env)
    if not entries:
        return None
    said = f"{_MASK}={env[_MASK]!r}"
    hierarchy = env.get(_HIERARCHY, "")
    remedy = f"unset {_MASK} and each rank takes the tile of its local rank"
    parsed = [_MASK_ENTRY.fullmatch(entry) for entry in entries]
    matches = [match for match in parsed if match is not None]
    if len(matches) < len(entries):
        return f"{said} is no list of device numbers such as '0,1' and hides every GPU: {remedy}."
    if hierarchy == "COMPOSITE":
        # Plain numbers are cards here. One that would be a tile in FLAT mode is the usual mistake.
        tiles = ",".join(m[0] if m[2] else "{}.{}".format(*divmod(int(m[1]), _TILES_A_CARD)) for m in matches)
        flat = f" (if tiles counted as in FLAT mode were meant, write {_MASK}='{tiles}')"
        meant = "" if tiles == env[_MASK] else flat
        return (
            f"{said} names no GPU of this node: with {_HIERARCHY}=COMPOSITE entries are 'card' or "
            f"'card.tile', on Aurora 0 to 5 and 0.0 to 5.1, and others are skipped without a word{meant}; "
            f"{remedy}."
        )
    known = hierarchy in ("FLAT", "COMBINED")
    mode = f"{_HIERARCHY}={hierarchy or '(unset)'}" + ("" if known else ", for which the driver takes FLAT,")
    if any(m[2] for m in matches):
        tiles = ",".join(str(int(m[1]) * _TILES_A_CARD + int(m[2])) if m[2] else m[0] for m in matches)
        return (
            f"{said} hides GPUs: with {mode} tiles have plain numbers and 'card.tile' entries are skipped "
            f"without a word; write {_MASK}='{tiles}', or {remedy}."
        )
    return (
        f"{said} names no GPU of this node: with {mode} entries are tiles, on Aurora 0 to 11, and numbers "
        f"beyond the last are skipped without a word; {remedy}."
    )


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
        on[short_host(report.host), report.tile].append(report)
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
