"""Who has the journal: one run at a time, without locks, which parallel file systems lack or fake.

A run claims the journal by renaming a directory that holds its claim, a file with the run's name, to `owner`.
That works only where there is no `owner`, or an empty one, and it is whole from the start. Unlinking that one
file ends the claim, and can end no other. Rank 0 touches it every few seconds (`Claim.beat`).

Whether an owner still runs is certain on its own machine. From elsewhere it is told by its silence: a run
that was killed at its walltime must not keep the next one from beginning. Were that ever wrong, no result
would be: two runs write to different files, and the one that has lost its claim notices and stops writing.
"""

import contextlib
import getpass
import json
import os
import platform
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from sched.errors import LaunchError

FOLDER = "owner"

BEAT = 10.0
"""Seconds between signs of life."""

QUIET = 600.0
"""Seconds of silence after which an owner on another machine is taken for dead."""

QUIET_IN_JOB = 40.0
"""The same, within one batch job: there, one run follows another because a node has failed."""

_JOBS = ("PBS_JOBID", "SLURM_JOB_ID", "FLUX_JOB_ID", "LSB_JOBID", "COBALT_JOBID")


class Owner(NamedTuple):
    """A run, and the process of its rank 0.

    `born` is when the process began, in the system's ticks; `boot` names the machine as it has been since it
    was started, and `space` its set of process ids. They are empty where the system does not tell.
    """

    run: str
    user: str
    host: str
    pid: int
    born: str
    boot: str
    space: str
    job: str
    since: float

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        job = f", job {self.job}" if self.job else ""
        return f"process {self.pid} of {self.user or 'somebody'} on {self.host}{job}, since {when}"


def this_process(run: str, environment: Mapping[str, str]) -> Owner:
    """Describe this process as an owner."""
    user = ""
    with contextlib.suppress(Exception):  # containers have users without a name
        user = getpass.getuser()
    return Owner(
        run=run,
        user=user,
        host=platform.node(),
        pid=os.getpid(),
        born=_born(os.getpid()),
        boot=_boot(),
        space=_space(),
        job=next((environment[name] for name in _JOBS if environment.get(name)), ""),
        since=time.time(),
    )


class Claim:
    """This run's hold on a journal."""

    def __init__(self, directory: Path, me: Owner) -> None:
        self.owner = me
        self._folder = directory / FOLDER
        self._file = self._folder / f"{me.run}.json"
        self._beaten = time.monotonic()

    def beat(self) -> bool:
        """Give a sign of life if one is due; tell whether the journal is still this run's."""
        now = time.monotonic()
        if now - self._beaten < BEAT:
            return True
        self._beaten = now
        try:
            os.utime(self._file)
        except FileNotFoundError:
            return False
        except OSError:  # a full or failing disk is no reason to let go
            return True
        return True

    def release(self) -> None:
        """Let go of the journal."""
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)
            self._folder.rmdir()


def take(directory: Path, me: Owner, wait: Callable[[float], None] = time.sleep) -> Claim:
    """Claim a journal, also from a run that has died.

    Args:
        directory: the journal's, which exists.
        me: see `this_process`.
        wait: sleeps that many seconds; for an owner in the same batch job that may just have died.

    Raises:
        LaunchError: Another run has it; the message says which, and what to do.
        OSError: Nothing can be written there.
    """
    mine = directory / f"{FOLDER}.{me.run}"
    mine.mkdir()
    try:
        file = mine / f"{me.run}.json"
        file.write_text(json.dumps(me._asdict()))
        for _ in range(100):
            with contextlib.suppress(OSError):
                os.rename(mine, directory / FOLDER)
                return Claim(directory, me)
            found = read(directory)
            if found is None:
                continue  # it was let go meanwhile
            path, owner = found
            reason = _runs(path, owner, file, me, wait)
            if reason:
                raise LaunchError(_refusal(directory, owner, reason))
            path.unlink(missing_ok=True)
        raise LaunchError(
            f"journal {directory}: {FOLDER!r} in it is not what a run leaves there: delete that if no run "
            "has the journal"
        )
    finally:
        if mine.exists():
            (mine / f"{me.run}.json").unlink(missing_ok=True)
            mine.rmdir()


def read(directory: Path) -> tuple[Path, Owner | None] | None:
    """Return the claim on a journal, and whose it is if that can be read; None if nobody has it."""
    try:
        [path, *_] = sorted((directory / FOLDER).glob("*.json"))
    except (OSError, ValueError):
        return None
    try:
        return path, Owner(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return path, None


def release(directory: Path) -> str:
    """End a claim because the user says so; return a sentence on what was done.

    Raises:
        LaunchError: The owner certainly runs.
        OSError: The claim cannot be removed.
    """
    found = read(directory)
    if found is None:
        return f"journal {directory}: no run has it"
    path, owner = found
    if owner is not None and _is_alive(owner) is True:
        raise LaunchError(f"journal {directory}: it is in use by {owner}, which runs: end that first")
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (directory / FOLDER).rmdir()
    return f"journal {directory}: released; it was held by {owner or 'a run that left no word of itself'}"


def _runs(path: Path, owner: Owner | None, mine: Path, me: Owner, wait: Callable[[float], None]) -> str:
    """Say why an owner must be taken to be running; nothing if it is not."""
    alive = None if owner is None else _is_alive(owner)
    if alive is not None:
        return "which runs" if alive else ""
    together = owner is not None and bool(owner.job) and owner.job == me.job
    quiet = QUIET_IN_JOB if together else QUIET
    try:
        silence = _silence(path, mine)
        if together and silence < quiet:
            wait(quiet - silence)
            silence = _silence(path, mine)
    except FileNotFoundError:
        return ""
    if silence >= quiet:
        return ""
    return f"which gave a sign of life {max(silence, 0):.0f} s ago (it counts as dead after {quiet:.0f} s)"


def _refusal(directory: Path, owner: Owner | None, reason: str) -> str:
    return (
        f"journal {directory}: another run has it: {owner or 'one that left no word of itself'}, {reason}: "
        "wait for it to end, or give another --journal; if it is dead, say so with "
        f"`sched journal {shlex.quote(str(directory))} --release`"
    )


def _silence(path: Path, mine: Path) -> float:
    """Return for how many seconds an owner has given no sign of life, by the file system's clock."""
    os.utime(mine)
    return mine.stat().st_mtime - path.stat().st_mtime


def _is_alive(owner: Owner) -> bool | None:
    """Tell whether an owner's process exists; None if that cannot be told from here."""
    if owner.boot != _boot():
        # The same machine, started again since: nothing of before is left. "localhost" may be any machine.
        again = bool(owner.boot) and owner.host == platform.node() and not owner.host.startswith("localhost")
        return False if again else None
    if owner.space != _space() or owner.host != platform.node():
        return None
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        pass
    return owner.born == _born(owner.pid)  # or else its number is another process's now


def _born(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
