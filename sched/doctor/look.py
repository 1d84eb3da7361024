"""Gathers the facts about this process and its node. Nothing here can fail, end the process or hang it."""

import contextlib
import dataclasses
import importlib.metadata
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sched
from sched.doctor import hardware, probe
from sched.doctor.facts import Device, Directory, Facts, Probed
from sched.runtime import cores
from sched.siblings import ranks

LIMIT = 100.0
"""Seconds for a child. The first import from a busy file system may take most of it."""

HIDING = (
    "ONEAPI_DEVICE_SELECTOR",
    "ZE_AFFINITY_MASK",
    "OCL_ICD_FILENAMES",
    "OCL_ICD_VENDORS",
    "SYCL_CONFIG_FILE_NAME",
    "SYCL_DEVICE_ALLOWLIST",
    "UR_ADAPTERS_FORCE_LOAD",
    "UR_ADAPTERS_SEARCH_PATH",
)
"""Variables that can leave a process without devices."""

_DISTRIBUTIONS = (
    *("numpy", "cloudpickle", "dpctl", "dpnp", "mpi4py"),
    *("intel-sycl-rt", "intel-opencl-rt", "intel-cmplr-lib-ur"),
)


def look(device: str, world: ranks.World) -> Facts:
    """Gather what the checks need; children that have to be asked run at the same time.

    Args:
        device: as for `sched run`.
        world: what the launcher says of this rank.
    """
    with ThreadPoolExecutor(3) as pool:
        asked = pool.submit(ask, "sycl", device, str(world.local_rank or 0)) if device != "host" else None
        mpi, names = pool.submit(ask, "mpi"), pool.submit(ask, "names")
        mpiexec = _mpiexec() if world.launcher is None else ""
        says = _version(mpiexec) if mpiexec else ""
    sycl = asked.result() if asked else Probed()
    cards = [card.address for card in hardware.cards() if card.discrete]
    here, elsewhere = names.result().text("here"), names.result().text("elsewhere")
    facts = Facts(
        env=dict(os.environ),
        device=device,
        world=world,
        parent=_parent(),
        python=sys.version_info[:2],
        start_method=_start_method(),
        versions=_versions(),
        cards=cards,
        render={str(node): os.access(node, os.R_OK | os.W_OK) for node in Path("/dev/dri").glob("renderD*")},
        sycl=sycl,
        mpi=mpi.result(),
        mpiexec=mpiexec,
        mpiexec_says=says,
        cores=cores.count(),
        bound=cores.bound(),
        tmp=_directory(os.environ.get("TMPDIR") or tempfile.gettempdir()),
        shm=_directory("/dev/shm"),
        files=(
            ("`python -m sched` in this directory", here),
            ("`python job.py` of another directory", elsewhere),
        ),
        own=sched.__file__ or "",
    )
    missing = device != "host" and (not facts.usable or (cards and not facts.tiles and device != "cpu"))
    if not missing:
        return facts
    return dataclasses.replace(facts, without=_seek(device))


def ask(question: str, *words: str, env: Mapping[str, str] | None = None, limit: float = LIMIT) -> Probed:
    """Have a child ask; see `probe`."""
    answers: dict[str, object] = {}
    ended = ""
    try:
        done = subprocess.run(
            probe.command(question, *words),
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
        out, status, said = done.stdout, done.returncode, done.stderr
        if status:
            ended = f"was ended by {_signal(-status)}" if status < 0 else f"ended with status {status}"
    except subprocess.TimeoutExpired as late:
        out, said = _text(late.stdout), _text(late.stderr)
        ended = f"had not answered after {limit:.0f} s"
    except OSError as error:
        return Probed({}, f"starting {sys.executable}", f"could not be started ({error.strerror})")
    for line in out.splitlines():
        with contextlib.suppress(ValueError):
            answer = json.loads(line)
            answers.update(answer if isinstance(answer, dict) else {})
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if ended and lines:  # what aborts says why at once, and a traceback at its end
        ended += f" ({lines[0 if ' SIG' in ended else -1][:200]})"
    stage = answers.pop("stage", "starting")
    return Probed(answers, str(stage), ended)


def _seek(device: str) -> dict[str, list[Device]]:
    """List the devices that there are without each variable that may hide some."""
    found = {}
    for name in HIDING:
        if os.environ.get(name):
            env = {key: value for key, value in os.environ.items() if key != name}
            found[name] = ask("sycl", device, "", env=env).devices()
    return found


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _text(output: object) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else str(output or "")


def _versions() -> dict[str, str]:
    found = {}
    for name in _DISTRIBUTIONS:
        with contextlib.suppress(Exception):  # also metadata that somebody has broken
            found[name] = importlib.metadata.version(name)
    return found


def _mpiexec() -> str:
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    return shutil.which("mpiexec") or (beside if os.access(beside, os.X_OK) else "")


def _version(mpiexec: str) -> str:
    """Return what an mpiexec says of itself."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            [mpiexec, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=15,
            check=False,
        )
        return " ".join((done.stdout + done.stderr).split())[:500]
    return ""


def _parent() -> str:
    try:
        return Path(f"/proc/{os.getppid()}/comm").read_text().strip()
    except OSError:
        return ""


def _start_method() -> str:
    """Tell how `multiprocessing` would start a process, without choosing for the job."""
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def _directory(path: str) -> Directory:
    try:
        size = os.statvfs(path)
    except OSError:
        return Directory(path, exists=False, writable=False, total=0, free=0)
    return Directory(
        path,
        exists=os.path.isdir(path),
        writable=os.access(path, os.W_OK | os.X_OK),
        total=size.f_blocks * size.f_frsize,
        free=size.f_bavail * size.f_frsize,
    )
