"""What ZE_AFFINITY_MASK and ONEAPI_DEVICE_SELECTOR leave to be seen: which devices, or why none.

Neither makes the runtime complain, whatever is written in it: it just lists less. So both are read here by
the rules of those who obey them: the mask by the Level Zero driver, in the hierarchy that
ZE_FLAT_DEVICE_HIERARCHY gives (FLAT where it is unset), and after it the selector by SYCL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

_SELECTOR, _MASK, _HIERARCHY = "ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY"
_MASK_ENTRY = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?")
_TILES_A_CARD = 2  # of the Data Center GPU Max 1550, for which masks in card.tile form are written


@dataclass(frozen=True, slots=True)
class Physical:
    """A piece of hardware of a node.

    Attributes:
        name: the same for two ranks exactly if their device is the same, as far as the variables tell.
        card: devices with the same number are tiles of one card.
        tile: which tile of its card it is, from 0.
    """

    name: str
    card: int
    tile: int


def physical(device: str, env: Mapping[str, str]) -> Physical:
    """Work out which device of the node a visible Level Zero device is.

    Masks and selectors number what they leave from 0 again, so each masked rank calls its own tile
    `level_zero:gpu:0`. A PCI address would not do either: dpctl does not tell it, and the tiles of a card
    have the same.

    Args:
        device: its filter string in this process; `level_zero:gpu:3.1` is sub-device 1 of `level_zero:gpu:3`.
        env: the environment in which the devices were listed.

    Returns:
        The device by the number that an unmasked process would see. Where tiles are root devices (FLAT),
        every two are taken for a card, which is so on Aurora; of cards with one tile this makes pairs.
    """
    composite = is_composite(env)
    number: str | None = device.rpartition(":")[2]
    # The selector counts what the mask has left.
    for left in (_left_by_selector(env), _left_by_mask(env, composite)):
        if left is not None and number is not None:
            number = _before(number, left)
    if number is None:
        # Something else than these rules was at work: the name holds only together with them.
        said = ", ".join(f"{name}={env[name]}" for name in (_SELECTOR, _MASK) if env.get(name))
        root, _, part = device.rpartition(":")[2].partition(".")
        return Physical(f"{device} ({said})", int(root), int(part or 0))
    root, _, part = number.partition(".")
    card, tile = (int(root), int(part or 0)) if composite else divmod(int(root), _TILES_A_CARD)
    return Physical(f"level_zero:gpu:{number}", card, tile)


def is_composite(env: Mapping[str, str]) -> bool:
    """Tell whether root devices are cards, whose tiles are sub-devices; else root devices are tiles."""
    return env.get(_HIERARCHY) == "COMPOSITE"


def narrowed(env: Mapping[str, str]) -> str:
    """Return what narrows a process's view to certain devices, as a text to compare; "" if nothing does."""
    mask = env[_MASK] if _mask_entries(env) else ""
    selector = "" if _left_by_selector(env) is None else env[_SELECTOR]
    return "; ".join(filter(None, [mask, selector]))


class _Left(NamedTuple):
    """A root device that a variable leaves: its number before, and which of its sub-devices; None: all."""

    root: int
    parts: tuple[int, ...] | None


def _before(number: str, left: list[_Left]) -> str | None:
    """Return the number, "root" or "root.part", that a device had before; None if it had none."""
    root, _, part = number.partition(".")
    if int(root) >= len(left):
        return None
    before, parts = left[int(root)]
    if parts is not None and not part and len(parts) == 1:
        part = "0"  # a lone sub-device is a root device, without sub-devices of its own
    if parts is not None and part:
        if int(part) >= len(parts):
            return None
        part = str(parts[int(part)])
    return f"{before}.{part}" if part else str(before)


def _left_by_mask(env: Mapping[str, str], composite: bool) -> list[_Left] | None:
    """List the devices that a mask leaves; None if there is no mask.

    The order within a mask counts for nothing, and what is not in the hierarchy's form is skipped.
    """
    entries = _mask_entries(env)
    if not entries:
        return None
    matches = [match for match in map(_MASK_ENTRY.fullmatch, entries) if match is not None]
    if not composite:
        return [
            _Left(number, None) for number in sorted({int(match[1]) for match in matches if not match[2]})
        ]
    tiles: dict[int, set[int | None]] = {}
    for match in matches:
        tiles.setdefault(int(match[1]), set()).add(int(match[2]) if match[2] else None)
    return [
        _Left(card, None if None in named else tuple(sorted(tile for tile in named if tile is not None)))
        for card, named in sorted(tiles.items())
    ]


def _left_by_selector(env: Mapping[str, str]) -> list[_Left] | None:
    """List the devices that the selector names; None if it goes by kind, and so leaves the numbers alone."""
    terms = [term.strip().lower() for term in env.get(_SELECTOR, "").split(";") if term.strip()]
    about_them = [term for term in terms if term.lstrip("!").partition(":")[0] in ("level_zero", "*")]
    named = {device for term in about_them for device in _devices(term)}
    if all(device in ("gpu", "cpu", "*") for device in named):
        return None
    if any(term.startswith("!") for term in about_them):
        return []
    if all(device.isdigit() for device in named):
        return [_Left(number, None) for number in sorted(map(int, named))]
    tile = _MASK_ENTRY.fullmatch(next(iter(named)))
    # Of several sub-devices it is not known in which order they become root devices.
    return [_Left(int(tile[1]), (int(tile[2]),))] if tile is not None and len(named) == 1 else []


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
    if is_composite(env):
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
