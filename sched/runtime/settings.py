"""What is set about a run before it begins: by the command line, by variables, by `sched.local`."""

from dataclasses import dataclass

from sched.errors import RequestError

BUFFERS = ("auto", "host", "device")
"""What may be said with `--mpi-buffers`."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says about a run.

    Attributes:
        device: one of `backends.DEVICES`.
        tiles: how many each rank is to have; None: see `binding.choose`.
        depth: ready tasks given to a tile at a time.
        driver_only: give rank 0 no tile.
        oversubscribe: allow more ranks than tiles.
        quiet: do not say which tiles are used.
        tile_memory: bytes of values that a tile may hold; None: 90 % of its memory.
        check: look for mistakes of the user's that are costly to look for.
        stall: seconds after which a run that does not get on is ended; 0: never.
        keep_cores: leave it to the system on which cores a rank runs.
        mpi_buffers: one of `BUFFERS`: whether MPI is given tiles' own memory.

    Raises:
        RequestError: One of them cannot be.
    """

    device: str = "auto"
    tiles: int | None = None
    depth: int = 2
    driver_only: bool = False
    oversubscribe: bool = False
    quiet: bool = False
    tile_memory: int | None = None
    check: bool = False
    mpi_buffers: str = "auto"
    keep_cores: bool = False
    stall: float = 300.0

    def __post_init__(self) -> None:
        for name in ("tiles", "depth", "tile_memory"):
            number = getattr(self, name)
            if number is None and name != "depth":
                continue
            if isinstance(number, bool) or not isinstance(number, int):
                raise RequestError(f"{name}={number!r} is no whole number: give one, from 1")
            if number < 1:
                raise RequestError(f"{name}={number} is too few: at least 1 is needed")
        if self.mpi_buffers not in BUFFERS:
            raise RequestError(f"mpi_buffers={self.mpi_buffers!r} is none of {', '.join(BUFFERS)}")
