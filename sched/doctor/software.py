"""Checks of Python and of what is installed."""

import os
import re

from sched.doctor.facts import Check, Facts, Finding, Severity, error_if

_PAIRS = "dpctl 0.21 goes with dpnp 0.19 and oneAPI 2025.3, dpctl 0.22 with dpnp 0.20 and oneAPI 2026"


def names(facts: Facts) -> Finding | None:
    """`import sched` finds CPython's module, or a file of somebody's."""
    wrong = [(where, file) for where, file in facts.files if file and not _same(file, facts.own)]
    if not wrong:
        return None
    where, file = wrong[0]
    if re.search(r"/python3\.[0-9]+/sched\.py$", file):
        return Finding(
            Severity.WARNING,
            f"in {where}, `import sched` finds CPython's own module, {file}",
            "The package is not installed in this Python, and PYTHONPATH does not name it, so such a job "
            "has no "
            "sched.Scheduler.",
            "pip install tilesched  # or, from the checkout, `pip install .`",
        )
    return Finding(
        Severity.WARNING,
        f"in {where}, `import sched` finds {file}",
        "That file comes before this package on Python's path, and is run or imported in its place.",
        f"rename {file}, or start with `python -P -m sched` (Python 3.11 and newer) or from another "
        "directory",
    )


def numpy(facts: Facts) -> Finding | None:
    """NumPy is missing or old."""
    return _requirement(facts, "numpy", "NumPy", (1, 26), "Every kind of tile needs it.")


def cloudpickle(facts: Facts) -> Finding | None:
    """Cloudpickle is missing or old."""
    why = "It carries functions of the script to other ranks."
    return _requirement(facts, "cloudpickle", "cloudpickle", (3, 0), why)


def _requirement(facts: Facts, name: str, shown: str, least: tuple[int, int], why: str) -> Finding | None:
    version = facts.versions.get(name)
    wanted = ".".join(map(str, least))
    remedy = f"pip install '{name}>={wanted}'"
    if version is None:
        return Finding(Severity.ERROR, f"{shown} is not installed", why, remedy)
    if _number(version) >= least:
        return None
    return Finding(
        Severity.WARNING,
        f"{shown} {version} is installed",
        f"{why} Versions before {wanted} have not been tried.",
        remedy,
    )


def missing(facts: Facts) -> Finding | None:
    """Dpctl or dpnp is not installed."""
    lacking = [name for name in ("dpctl", "dpnp") if name not in facts.versions]
    if facts.device == "host" or not lacking or facts.sycl.answers.get("devices"):
        # Devices and no metadata: a module that somebody has built by hand.
        return None
    return Finding(
        error_if(facts.device != "auto" or facts.cards),
        f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not installed",
        "So there is no SYCL device for Python, and tiles are threads with NumPy.",
        "pip install 'tilesched[sycl]'  # on a cluster, load the module that brings them (Aurora: "
        "frameworks); "
        "or say --device host",
    )


def old(facts: Facts) -> Finding | None:
    """Dpctl or dpnp is older than what has been tried."""
    least = {"dpctl": (0, 21), "dpnp": (0, 19)}
    found = [f"{n} {facts.versions[n]}" for n in least if _number(facts.versions.get(n, "99.0")) < least[n]]
    if not found:
        return None
    return Finding(
        Severity.WARNING,
        f"{' and '.join(found)} {'is' if len(found) == 1 else 'are'} installed",
        "Nothing before dpctl 0.21 and dpnp 0.19 has been tried.",
        "pip install 'dpctl>=0.21' 'dpnp>=0.19'  # on Aurora, load frameworks/2025.3.1 or newer",
    )


def mixed(facts: Facts) -> Finding | None:
    """Dpctl, dpnp and the oneAPI runtime are of different releases."""
    dpctl, dpnp, runtime = (facts.versions.get(name) for name in ("dpctl", "dpnp", "intel-sycl-rt"))
    found = [f"{name} {facts.versions.get(name)}" for name in ("dpctl", "dpnp")]
    if dpctl is None:
        return None
    if dpnp is None or _number(dpctl)[1] - _number(dpnp)[1] == 2:
        needed = {(0, 21): 2025, (0, 22): 2026}.get(_number(dpctl))
        if runtime is None or needed is None or _number(runtime)[0] == needed:
            return None
        found = [f"dpctl {dpctl}", f"intel-sycl-rt {runtime}"]
    return Finding(
        Severity.ERROR,
        f"{' with '.join(found)}",
        f"They are of different releases: {_PAIRS}.",
        "pip install --upgrade --force-reinstall dpctl dpnp  # in a fresh environment, not over a module's",
    )


def forks(facts: Facts) -> Finding | None:
    """`multiprocessing` forks."""
    if facts.start_method != "fork" or facts.device == "host" or not facts.usable:
        return None
    return Finding(
        Severity.NOTE,
        f"multiprocessing starts processes by fork (Python {facts.python[0]}.{facts.python[1]})",
        "A child that is forked after a kernel has run, or after MPI has started, hangs or loses data. This "
        "matters if the job uses multiprocessing.",
        "multiprocessing.set_start_method('spawn')  # at the top of the job",
    )


CHECKS: tuple[Check, ...] = (names, numpy, cloudpickle, missing, mixed, old)
LATE: tuple[Check, ...] = (forks,)


def _number(version: str) -> tuple[int, int]:
    numbers = [int(number) for number in re.findall("[0-9]+", version)[:2]]
    return (numbers[0] if numbers else 0, numbers[1] if len(numbers) > 1 else 0)


def _same(file: str, other: str) -> bool:
    return os.path.realpath(file) == os.path.realpath(other)
