"""The nouns: what was seen of a machine, and what is wrong with it."""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sched.siblings import ranks


class Severity(enum.Enum):
    """How bad a finding is, worst first."""

    ERROR = "error"  # a job would not run
    WARNING = "warning"  # it would, slowly, or not as was meant
    NOTE = "note"  # it matters to some jobs


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong.

    Attributes:
        severity: how bad it is.
        seen: what was seen, with the variable and its value.
        why: what comes of it, one or two sentences.
        remedy: what to do, a command where there is one.
    """

    severity: Severity
    seen: str
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Device:
    """A device as SYCL lists it.

    Attributes:
        filter: its filter string, as in "level_zero:gpu:0".
        name: its own name.
        usm: whether it has unified shared memory, without which dpnp ends the process.
    """

    filter: str
    name: str
    usm: bool = True

    def is_a(self, backend: str, kind: str) -> bool:
        return self.filter.startswith(f"{backend}:{kind}:")


@dataclass(frozen=True, slots=True)
class Probed:
    """What a child has said, as far as it came.

    Attributes:
        answers: by name; see `probe`.
        stage: what it was at when it ended, for people; "" if it came to its end.
        ended: how it ended, as in "was ended by SIGSEGV"; "" if it came to its end.
    """

    answers: Mapping[str, object] = field(default_factory=dict)
    stage: str = ""
    ended: str = ""

    def text(self, name: str) -> str:
        answer = self.answers.get(name)
        return answer if isinstance(answer, str) else ""

    def devices(self) -> list[Device]:
        listed = self.answers.get("devices")
        return [Device(*entry) for entry in listed] if isinstance(listed, list) else []


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory of this node.

    Attributes:
        path: as the variable has it.
        exists: whether it is there.
        writable: whether this user may write there.
        total: bytes of its file system.
        free: bytes of that which are free.
    """

    path: str
    exists: bool = True
    writable: bool = True
    total: int = 1 << 40
    free: int = 1 << 39


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one process has seen. The defaults are those of a machine in good order, without a GPU.

    Attributes:
        env: the environment.
        device: what `--device` says, one of `backends.DEVICES`.
        world: what the launcher says of this rank.
        parent: the name of the program that has started this one.
        python: Python's version.
        start_method: how `multiprocessing` starts processes; "" if it is not known.
        versions: of distributions, by name; those that are not installed are missing.
        cards: PCI addresses of Intel's discrete GPUs in this node.
        render: of each /dev/dri/renderD*, whether this user may open it.
        sycl: the child that was asked for devices.
        without: for each variable that may hide devices, those that there are when it is unset. Filled only
            if something is missing.
        mpi: the child that was asked for MPI.
        mpiexec: the path of the first mpiexec on PATH, else of the one beside this Python; "" if there is
            none.
        mpiexec_says: what it answers to `--version`.
        cores: how many cores this process may use.
        bound: whether the launcher has bound it to cores of its own.
        tmp: the directory for temporary files.
        shm: /dev/shm.
        files: pairs of a situation and the file that `import sched` finds in it.
        own: the file that it should find.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    device: str = "auto"
    world: ranks.World = field(default_factory=lambda: ranks.World(None, None, None, None, None))
    parent: str = "bash"
    python: tuple[int, int] = (3, 12)
    start_method: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    cards: Sequence[str] = ()
    render: Mapping[str, bool] = field(default_factory=dict)
    sycl: Probed = field(default_factory=Probed)
    without: Mapping[str, Sequence[Device]] = field(default_factory=dict)
    mpi: Probed = field(default_factory=Probed)
    mpiexec: str = ""
    mpiexec_says: str = ""
    cores: int = 1
    bound: bool = False
    tmp: Directory = field(default_factory=lambda: Directory("/tmp"))
    shm: Directory = field(default_factory=lambda: Directory("/dev/shm"))
    files: Sequence[tuple[str, str]] = ()
    own: str = ""

    @property
    def ranks(self) -> int:
        """How many ranks there are on this node, at least; 1 without a launcher."""
        return self.world.local_size or (self.world.local_rank or 0) + 1

    @property
    def launched(self) -> bool:
        """Whether this is one of several ranks."""
        return self.world.launcher is not None and self.world.size != 1

    @property
    def usable(self) -> list[Device]:
        """The devices that a run with this `--device` could take."""
        kinds = {"level_zero": [("level_zero", "gpu")], "cpu": [("opencl", "cpu")]}.get(
            self.device, [("level_zero", "gpu"), ("opencl", "cpu")]
        )
        return [
            device
            for device in self.sycl.devices()
            if device.usm and any(device.is_a(backend, kind) for backend, kind in kinds)
        ]

    @property
    def tiles(self) -> list[Device]:
        """The Level Zero GPUs, which are cards with COMPOSITE."""
        return [device for device in self.sycl.devices() if device.is_a("level_zero", "gpu")]

    def said(self, name: str) -> str:
        """Return NAME='value', as a shell would take it."""
        return f"{name}={self.env.get(name, '')!r}"


Check = Callable[[Facts], Finding | None]


def error_if(condition: object) -> Severity:
    """Return ERROR or WARNING."""
    return Severity.ERROR if condition else Severity.WARNING
