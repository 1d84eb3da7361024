"""Checks of devices: why there are none, why there are too many.

No variable that hides a device makes the runtime complain: it lists less. So a variable is judged by its
form, by the rules that `launch.masks` states, and by what there is without it, which `look` has tried.
"""

import os
import re
from collections.abc import Sequence

from sched.doctor.facts import Check, Device, Facts, Finding, Severity, error_if

_SELECTOR, _MASK, _HIERARCHY = "ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY"
_HIERARCHIES = ("FLAT", "COMPOSITE", "COMBINED")


def selector(facts: Facts) -> Finding | None:
    """The selector is in dpctl's grammar, or excludes all there is."""
    for term in facts.env.get(_SELECTOR, "").split(";"):
        term = term.strip()
        backend, colon, rest = term.lstrip("!").partition(":")
        if term and (not colon or ":" in rest):
            kind = rest.partition(":")[0] or "*"
            return Finding(
                _severity(facts),
                facts.said(_SELECTOR),
                f"{term!r} is no term of this variable, which are 'backend:devices'"
                + (" (it is a filter of dpctl's)" if ":" in rest else "")
                + f"; what is none selects nothing, without an error.{_hidden(facts, _SELECTOR)}",
                f"export {_SELECTOR}='{backend}:{kind}'",
            )
    hidden = facts.without.get(_SELECTOR)
    if not hidden:
        return None
    return Finding(
        _severity(facts),
        facts.said(_SELECTOR),
        f"It leaves no device that a run could take.{_hidden(facts, _SELECTOR)}",
        f"unset {_SELECTOR}  # or, on a GPU node, export {_SELECTOR}=level_zero:gpu",
    )


def mask(facts: Facts) -> Finding | None:
    """The mask is of the wrong form for the hierarchy, and hides GPUs."""
    value, hierarchy = facts.env.get(_MASK, ""), facts.env.get(_HIERARCHY, "")
    if value in ("", "default"):
        return None
    entries = value.split(",")
    numbers = [re.fullmatch(r"([0-9]+)(?:\.([0-9]+))?", entry) for entry in entries]
    flat = hierarchy != "COMPOSITE"
    mode = f"{_HIERARCHY}={hierarchy}" if hierarchy else f"{_HIERARCHY} unset, which means FLAT to the driver"
    if not all(numbers):
        bad = next(entry for entry, number in zip(entries, numbers, strict=True) if not number)
        why = f"{bad!r} is no device number, and the driver skips it without a word."
    elif flat and any(number and number[2] for number in numbers):
        tiles = ",".join(str(int(n[1]) * 2 + int(n[2])) if n[2] else n[1] for n in numbers if n)
        why = (
            f"With {mode}, tiles have plain numbers, and entries of the form card.tile (as "
            "gpu_tile_compact.sh "
            f"writes them) are skipped without a word; the same tiles would be {tiles}."
        )
    elif facts.without.get(_MASK) or (facts.cards and not facts.tiles):
        form = (
            "tiles (on Aurora 0 to 11)"
            if flat
            else "cards, or tiles as card.tile (on Aurora 0 to 5, 0.0 to 5.1)"
        )
        why = f"With {mode}, its numbers are of {form}, and one beyond the last is skipped without a word."
    else:
        return None
    return Finding(
        _severity(facts),
        facts.said(_MASK),
        why + _hidden(facts, _MASK),
        f"unset {_MASK}  # and start without a wrapper that sets it: ranks share out the tiles they see",
    )


def hierarchy(facts: Facts) -> Finding | None:
    """Cards, where tiles were meant."""
    value = facts.env.get(_HIERARCHY, "")
    remedy = f"export {_HIERARCHY}=FLAT"
    if value and value not in _HIERARCHIES:
        return Finding(
            Severity.WARNING,
            facts.said(_HIERARCHY),
            f"It is none of {', '.join(_HIERARCHIES)}, and drivers differ in what they make of it.",
            remedy,
        )
    if value != "COMPOSITE" or facts.env.get(_MASK):
        return None
    loaded = facts.env.get("LOADEDMODULES", "")
    if re.search(r"(^|:)frameworks(/|:|$)", loaded):
        why = "The frameworks module, which is loaded, is made for FLAT; something has changed it since."
    elif 0 < len(facts.tiles) < facts.ranks:
        why = (
            f"It shows {len(facts.tiles)} cards to {facts.ranks} ranks; their tiles are sub-devices then, "
            "which "
            "dpctl cannot name, and whose arrays DLPack cannot export."
        )
    else:
        return None
    return Finding(Severity.WARNING, facts.said(_HIERARCHY), why, remedy)


def icd(facts: Facts) -> Finding | None:
    """The OpenCL driver's path leads nowhere."""
    if facts.device == "level_zero":
        return None
    for name in ("OCL_ICD_FILENAMES", "OCL_ICD_VENDORS"):
        value = facts.env.get(name, "")
        why = ""
        if not value:
            continue
        if name == "OCL_ICD_FILENAMES":
            lost = [path for path in value.split(":") if "/" in path and not os.path.isfile(path)]
            if lost:
                why = f"There is no file {lost[0]}."
            elif "/" not in value and not _cpus(facts):
                why = "A bare name is looked for in the loader's own directories only."
        else:
            why = _wrong_vendors(value)
        if why:
            return Finding(
                _severity(facts),
                facts.said(name),
                f"{why} So the OpenCL CPU driver is not found, and the loader does not "
                f"complain.{_hidden(facts, name)}",
                f"unset {name}  # the driver that pip has installed is found without; or name "
                "libintelocl.so by "
                "its absolute path in OCL_ICD_FILENAMES",
            )
    return None


def _wrong_vendors(directory: str) -> str:
    if not os.path.isdir(directory):
        is_what = "a file" if os.path.exists(directory) else "not there"
        return f"{directory} is {is_what}, and must be a directory."
    for entry in sorted(os.listdir(directory)):
        if not entry.endswith(".icd"):
            continue
        try:
            with open(os.path.join(directory, entry)) as file:
                library = file.read().strip()
        except (OSError, ValueError):
            continue
        if "/" in library and not os.path.isfile(library):
            return f"Its {entry} names {library}, which does not exist."
    return ""


def others(facts: Facts) -> Finding | None:
    """Another variable hides devices."""
    known = (_SELECTOR, _MASK, "OCL_ICD_FILENAMES", "OCL_ICD_VENDORS")
    for name, devices in facts.without.items():
        if name not in known and devices:
            return Finding(
                _severity(facts),
                facts.said(name),
                f"It leaves no device that a run could take.{_hidden(facts, name)}",
                f"unset {name}",
            )
    return None


def driver(facts: Facts) -> Finding | None:
    """The node has GPUs, and Level Zero does not see them."""
    if not facts.cards or facts.tiles or facts.device == "cpu" or "devices" not in facts.sycl.answers:
        return None
    if any(facts.env.get(name) for name in (_SELECTOR, _MASK)):
        return None  # these are judged above
    seen = f"the node has {len(facts.cards)} GPUs ({', '.join(facts.cards[:6])}), and SYCL lists none of them"
    closed = [node for node, may in facts.render.items() if not may]
    if facts.sycl.text("loader"):
        why, remedy = f"The Level Zero loader is missing ({facts.sycl.text('loader')}).", "apt install libze1"
    elif facts.sycl.text("driver"):
        why = f"Level Zero has no driver for them ({facts.sycl.text('driver')})."
        remedy = "apt install libze-intel-gpu1  # on a cluster, load its oneAPI module"
    elif facts.sycl.answers.get("adapter") is False:
        why = "SYCL has not loaded its Level Zero adapter, libur_adapter_level_zero.so.0."
        remedy = "pip install --force-reinstall intel-cmplr-lib-ur  # of the version that intel-sycl-rt has"
    elif closed or not facts.render:
        why = f"You may not open {closed[0]}." if closed else "There is no /dev/dri/renderD* (a container?)."
        remedy = "sudo usermod -aG render $USER  # then log in again; for a container, --device /dev/dri"
    else:
        why, remedy = "Loader, driver and adapter are there.", "sycl-ls --verbose  # may say more"
    return Finding(error_if(facts.device != "cpu"), seen, why, remedy)


def twice(facts: Facts) -> Finding | None:
    """OpenCL lists the tiles a second time."""
    again = [device for device in facts.sycl.devices() if device.is_a("opencl", "gpu")]
    if not again or not facts.tiles:
        return None
    return Finding(
        Severity.WARNING,
        facts.said(_SELECTOR) if facts.env.get(_SELECTOR) else f"{_SELECTOR} is not set",
        f"{len(facts.tiles)} Level Zero devices are listed a second time by OpenCL, {len(again)}. sched "
        "counts "
        "them once, but code that numbers dpctl.get_devices() does not.",
        f"export {_SELECTOR}=level_zero:gpu",
    )


def no_usm(facts: Facts) -> Finding | None:
    """The device that dpnp takes by itself would end the process (Debian's pocl)."""
    devices = facts.sycl.devices()
    if not devices or devices[0].usm:
        return None
    first = devices[0]
    return Finding(
        error_if(not facts.usable or facts.sycl.ended),
        f"the first device, {first.filter} ({first.name}), has no unified shared memory",
        "dpnp takes the first device where none is named, and the first array there aborts Python. Debian's "
        "pocl "
        "is such a driver.",
        "sudo apt remove pocl-opencl-icd  # or name Intel's libintelocl.so in OCL_ICD_FILENAMES"
        + ("" if facts.usable else ", which `pip install intel-opencl-rt` brings"),
    )


def ended(facts: Facts) -> Finding | None:
    """Asking for devices has ended a process."""
    if not facts.sycl.ended:
        return None
    loader = facts.env.get("OCL_ICD_FILENAMES") or "those in /etc/OpenCL/vendors"
    return Finding(
        Severity.ERROR,
        f"a process that was {facts.sycl.stage or 'leaving'} {facts.sycl.ended}",
        "So would every rank. A driver is at fault, or one that does not fit this oneAPI; OpenCL loads "
        f"{loader}.",
        f"{_SELECTOR}=level_zero:gpu python -m sched doctor  # leaves out OpenCL's drivers; if that helps, "
        "export it",
    )


def broken(facts: Facts) -> Finding | None:
    """Dpctl cannot be imported or cannot list devices."""
    problem = facts.sycl.text("problem")
    if not problem or facts.sycl.answers.get("missing"):
        return None
    return Finding(
        error_if(facts.device != "auto" or facts.versions.get("dpctl")),
        f"dpctl does not work: {problem}",
        "So there is no SYCL device for Python.",
        "python -c 'import dpctl; print(dpctl.get_devices())'  # mend this first: reinstall it, or load the "
        "module "
        "that brings it",
    )


def kernel(facts: Facts) -> Finding | None:
    """Nothing can be computed on a device that is listed."""
    problem = facts.sycl.text("kernel")
    if not problem or ("dpnp" not in facts.versions and "No module named" in problem):
        return None  # that it is missing is said by `software`
    return Finding(
        Severity.ERROR,
        f"{facts.sycl.text('on')} is listed, and cannot compute: {problem}",
        "The parts of oneAPI may be of different releases, or the device is in trouble.",
        "pip list | grep -i 'dp\\|intel'  # dpctl, dpnp and all of intel-* must be of one release; else "
        "exclude the node",
    )


def nothing(facts: Facts) -> Finding:
    """There is no device, and nothing above says why."""
    why, remedy = "No Level Zero GPU is there (a login node, a laptop).", "go to a GPU node"
    if facts.device != "level_zero" and "intel-opencl-rt" in facts.versions:
        why += " The OpenCL CPU driver that pip has installed does not work here, and no other was found."
    elif facts.device != "level_zero":
        why += " There is no OpenCL CPU driver either."
        remedy = f"pip install intel-opencl-rt  # or {remedy}"
    return Finding(
        error_if("dpnp" in facts.versions or facts.device != "auto"),
        "there is no device that a run could take",
        why,
        f"{remedy}, or use NumPy: --device host",
    )


CHECKS: tuple[Check, ...] = (
    *(no_usm, ended, broken, selector, mask, icd, others, driver),
    *(hierarchy, kernel, twice),
)


def _severity(facts: Facts) -> Severity:
    """Tell how bad it is that devices are hidden: whether what is left is not what a job is started for."""
    return error_if(not facts.usable or (facts.cards and not facts.tiles and facts.device != "cpu"))


def _hidden(facts: Facts, name: str) -> str:
    devices = facts.without.get(name) or ()
    return f" Without it there {'is' if len(devices) == 1 else 'are'} {_listed(devices)}." if devices else ""


def _listed(devices: Sequence[Device]) -> str:
    first = f"{devices[0].filter} ({devices[0].name})"
    return first if len(devices) == 1 else f"{len(devices)} devices, the first {first}"


def _cpus(facts: Facts) -> bool:
    return any(device.is_a("opencl", "cpu") for device in facts.sycl.devices())
