"""`sched run -n`: this very command once more, under the mpiexec that belongs to mpi4py's MPI."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from sched.errors import LaunchError
from sched.runtime import cores
from sched.runtime.start import mpi_library
from sched.siblings import mpiexec

_LIBRARY = re.compile(r"/\S*/lib(?:mpi|mpich)[^/\s]*\.so[^/\s]*$", re.MULTILINE)
_PATIENCE = 30.0  # seconds; from a file system that is busy


def run_again(ranks: int, arguments: Sequence[str]) -> NoReturn:
    """Become an mpiexec that starts ranks of this command, on this machine or as its job is laid out.

    What ends the mpiexec (its status, Ctrl-C, SIGTERM) is thereby between it and whoever started this.

    Args:
        ranks: how many.
        arguments: the command's, without the number of ranks.

    Raises:
        LaunchError: There is no mpi4py, or no mpiexec that fits it; the message says what to do.
    """
    library = mpi_library("sched run -n")
    path, version = _choose(library)
    env = mpiexec.environment(os.environ, version, ranks=ranks, cores=cores.count(), root=os.geteuid() == 0)
    command = [path, "-n", str(ranks), *_this_program(), *arguments]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(path, command, {**os.environ, **env})


def _choose(library: str) -> tuple[str, str]:
    """Return the mpiexec to use, and what it says of itself."""
    others = []
    for path in _candidates():
        version = _version(path)
        if version is None:
            continue
        if mpiexec.fits(version, library):
            return path, version
        others.append(f"{path} is {mpiexec.owner(version) or 'another MPI'}'s")
    remedy = (
        "Load the module that brings both, or run `pip install 'tilesched[mpich]'`; on a cluster with a "
        "launcher of another name use that, as in `srun -n 12 python -m sched run job.py`"
    )
    if others:
        raise LaunchError(f"no mpiexec fits mpi4py, which uses {library}: {', '.join(others)}. {remedy}")
    raise LaunchError(f"there is no mpiexec, on PATH or beside {library}. {remedy}")


def _candidates() -> Iterator[str]:
    """List mpiexecs: beside this Python, on PATH, beside the library."""
    seen = set()
    on_path = shutil.which("mpiexec")
    folders = [Path(sys.prefix, "bin"), *([Path(on_path).parent] if on_path else [])]
    for library in _LIBRARY.findall(_read("/proc/self/maps")):
        folders += [parent / "bin" for parent in Path(library).parents]
    for folder in folders:
        path = folder / "mpiexec"
        if path not in seen and os.access(path, os.X_OK):
            seen.add(path)
            yield str(path)


def _version(path: str) -> str | None:
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout


def _this_program() -> list[str]:
    """Return how this program was started, with Python's own options and without its arguments."""
    arguments = sys.argv[1:]
    words = sys.orig_argv[: len(sys.orig_argv) - len(arguments)]
    if len(words) < 2 or sys.orig_argv[len(words) :] != arguments:
        words = ["", "-m", "sched"]
    return [sys.executable, *words[1:]]


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
