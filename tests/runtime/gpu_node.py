"""A node with GPUs as dpctl would list it: hierarchy, mask and selector, and what each device really is.

The rules are those of the Level Zero specification and of Intel's compute runtime; no GPU has been asked.
They are followed forwards here, from hardware to list, while `launch.masks` goes from a place in the list
back to the hardware.
"""

import re
from types import SimpleNamespace

GPU, CPU = SimpleNamespace(name="gpu"), SimpleNamespace(name="cpu")
LEVEL_ZERO, OPENCL = SimpleNamespace(name="level_zero"), SimpleNamespace(name="opencl")


class SubDeviceError(Exception):
    pass


class Device:
    """A device, and the hardware it stands for: {(card, tile), ...}."""

    has_aspect_usm_device_allocations = True
    is_cpu = False

    def __init__(self, hardware, backend=LEVEL_ZERO, device_type=GPU, parts=()):
        self.hardware, self.backend, self.device_type, self.parts = hardware, backend, device_type, parts

    def create_sub_devices(self, partition):
        if partition != "next_partitionable" or len(self.parts) < 2:
            raise SubDeviceError
        return list(self.parts)

    def component_devices(self):
        return list(self.parts)


class Node:
    """Stands in for the module dpctl in one process of a node of so many cards.

    Args:
        env: the process's environment.
        tiles: of each card.
    """

    SyclSubDeviceCreationError = SubDeviceError

    def __init__(self, env, *, tiles=(2,) * 6):
        hierarchy = env.get("ZE_FLAT_DEVICE_HIERARCHY", "FLAT")
        mask = env.get("ZE_AFFINITY_MASK") or None
        cards = [[(card, tile) for tile in range(count)] for card, count in enumerate(tiles)]
        if hierarchy == "COMPOSITE":
            roots = [_card(_masked_card(mask, number, card)) for number, card in enumerate(cards)]
            roots = [root for root in roots if root is not None]
        else:
            entries = None if mask is None else mask.split(",")
            every = [tile for card in cards for tile in card]
            roots = [Device({tile}) for n, tile in enumerate(every) if entries is None or str(n) in entries]
        self._cards = []
        if hierarchy == "COMBINED":
            by_tile = {next(iter(root.hardware)): root for root in roots}
            self._cards = [
                Device(set(card), parts=[by_tile[tile] for tile in card])
                for card in cards
                if len(card) > 1 and all(tile in by_tile for tile in card)
            ]
        # OpenCL lists the GPUs a second time, and a CPU.
        everything = [Device(root.hardware, OPENCL) for root in roots] + roots + [Device(set(), OPENCL, CPU)]
        self._devices = _selected(everything, env.get("ONEAPI_DEVICE_SELECTOR", ""))
        self.by_name = {}
        for device in self._devices:
            kind = f"{device.backend.name}:{device.device_type.name}"
            number = sum(name.startswith(kind) for name in self.by_name)
            device.filter_string = f"{kind}:{number}"
            self.by_name[device.filter_string] = device

    def get_devices(self, backend, device_type):
        """Return everything, as dpctl does for names that it does not know: the caller has to look."""
        return list(self._devices)

    def get_composite_devices(self):
        return [card for card in self._cards if all(part in self._devices for part in card.parts)]

    def hardware(self, name):
        """Return what the tile of this name really is."""
        root, _, part = name.partition(".")
        device = self.by_name[root]
        return frozenset((device.parts[int(part)] if part else device).hardware)


def _masked_card(mask, number, card):
    """Return the tiles of a card that a mask leaves."""
    if mask is None:
        return card
    entries = mask.split(",")
    return card if str(number) in entries else [tile for tile in card if f"{number}.{tile[1]}" in entries]


def _card(tiles):
    parts = [Device({tile}) for tile in tiles]
    if len(parts) > 1:
        return Device(set(tiles), parts=parts)
    return parts[0] if parts else None


def _selected(devices, selector):
    """Choose by ONEAPI_DEVICE_SELECTOR: terms of kinds, numbers, or one sub-device."""
    if not selector:
        return devices
    chosen = []
    for term in selector.split(";"):
        backend, _, choice = term.partition(":")
        own = [device for device in devices if device.backend.name == backend]
        part = re.fullmatch(r"(\d+)\.(\d+)", choice)
        if part:
            chosen += [own[int(part[1])].parts[int(part[2])]]
        elif choice[:1].isdigit():
            chosen += [own[number] for number in sorted(map(int, choice.split(",")))]
        else:
            chosen += [device for device in own if device.device_type.name == choice]
    return chosen
