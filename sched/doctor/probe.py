"""The child's side: it asks a foreign library and says what it hears, a line of JSON for each answer.

A driver may abort the process, and a library of another MPI crash it when it is loaded. So each answer is
written before the next question, and each question is named before it is asked.
"""

import contextlib
import ctypes
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROOT = str(Path(__file__).parents[2])
_LEVEL_ZERO = {"loader": "libze_loader.so.1", "driver": "libze_intel_gpu.so.1"}


def command(question: str, *words: str) -> list[str]:
    """Return the command that asks; `question` is "sycl", "mpi" or "names"."""
    code = f"import sys; sys.path.insert(0, {_ROOT!r}); from sched.doctor import probe; probe.main()"
    if question == "names":  # must not have imported what it looks for, nor have our directory on its path
        code = _NAMES
    return [sys.executable, "-c", code, question, *words]


def main() -> None:
    """Answer the question that the command line names."""
    questions: dict[str, Callable[..., None]] = {"sycl": _ask_sycl, "mpi": _ask_mpi}
    questions[sys.argv[1]](*sys.argv[2:])
    _say(stage="")


def _say(**answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _ask_sycl(device: str, place: str) -> None:
    """List the devices, and compute something on one that a run with this `--device` would take.

    Args:
        device: as `--device`.
        place: the rank's number on its node, so that each takes another one; "" to compute nothing.
    """
    _say(stage="importing dpctl")
    from sched.backends import devices

    if device != "level_zero":
        devices.find_cpu_driver()
    try:
        # By name, here where it cannot harm: a run imports dpctl in `backends.sycl` and nowhere else.
        dpctl: Any = importlib.import_module("dpctl")
    except ImportError as error:
        _say(problem=f"{type(error).__name__}: {error}", missing=isinstance(error, ModuleNotFoundError))
        return
    _say(stage="listing the devices")
    try:
        found = [
            (d.filter_string, d.name, bool(d.has_aspect_usm_device_allocations)) for d in dpctl.get_devices()
        ]
    except Exception as error:
        _say(problem=f"{type(error).__name__}: {error}")
        return
    _say(devices=found)
    with contextlib.suppress(OSError):
        _say(adapter="libur_adapter_level_zero" in Path("/proc/self/maps").read_text())
    for name, library in _LEVEL_ZERO.items():
        try:
            ctypes.CDLL(library)
        except OSError as error:
            _say(**{name: str(error)})
    kinds = ("level_zero", "cpu") if device == "auto" else (device,)
    usable = [name for kind in kinds for name in devices.usable(dpctl, kind)]
    if place and usable:
        name = usable[int(place) % len(usable)]
        _say(stage=f"computing on {name}", on=name)
        _say(kernel=_computes(name))


def _computes(name: str) -> str:
    """Return what is wrong with the first computation on a device, "" if nothing."""
    try:
        dpnp: Any = importlib.import_module("dpnp")
        total = int(dpnp.asnumpy(dpnp.arange(1000, dtype="i4", device=name).sum()))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if total == 499_500 else f"the sum of 0 to 999 is {total} there"


def _ask_mpi() -> None:
    """Ask mpi4py which library it uses; MPI is not started."""
    _say(stage="loading MPI")
    try:
        from sched.transport.mpi import library
    except ImportError as error:
        _say(problem=f"{type(error).__name__}: {error}", missing=error.name == "mpi4py")
        return
    except Exception as error:  # RuntimeError: mpi4py found no library
        _say(problem=" ".join(str(error).split()))
        return
    _say(library=" ".join(library().split()))


# What `import sched` would find with this directory in front (as `python -m` has it), and without it.
_NAMES = """
import importlib.util, json, sys
def find():
    sys.modules.pop("sched", None)
    spec = importlib.util.find_spec("sched")
    return spec.origin or "" if spec else ""
here = find()
sys.path[:] = [entry for entry in sys.path if entry]
sys.path_importer_cache.clear()
print(json.dumps({"here": here, "elsewhere": find()}))
print(json.dumps({"stage": ""}))
"""
