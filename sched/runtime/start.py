"""How a run begins: find the devices, bind this rank to its tile, bring the ranks together.

The order matters. Variables are set before anything reads them; the device is chosen from the launcher's
own variables before MPI starts, so that nothing ever looks at another rank's tile; and only then do the
ranks compare what they have, so that what is wrong on any of them is said once, on rank 0.
"""

import dataclasses
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sched import backends
from sched.backends.base import settle_at
from sched.errors import DeviceError, LaunchError, RequestError, SchedError
from sched.model import DRIVER, RankId
from sched.runtime.engine import Engine
from sched.runtime.exchange import say as say
from sched.siblings import binding, environment, ranks
from sched.transport.loopback import loopback

if TYPE_CHECKING:
    from sched.transport.mpi import MpiTransport

_NO_TILE = "--driver-only leaves no tile in a run of one rank: start at least 2"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says about a run."""

    device: str = "auto"
    tiles: int | None = None
    depth: int = 2
    driver_only: bool = False
    oversubscribe: bool = False
    quiet: bool = False


def local(settings: Settings, *, announce: Callable[[str], None] | None = None) -> Engine:
    """Start a run of one rank, with every tile that this process sees.

    Raises:
        RequestError: There cannot be so many tiles.
        DeviceError: There is no such device.
    """
    if settings.driver_only:
        raise RequestError(_NO_TILE)
    for name, number in (("tiles", settings.tiles), ("depth", settings.depth)):
        if number is not None and number < 1:
            raise RequestError(f"{name}={number} is too few: at least 1 is needed")
    # Tiles of NumPy are threads and share the cores; those of the CPU device work one after the other.
    found = _find(settings, (settings.tiles or _cores()) if settings.device == "host" else 1)
    filters = list(found.filters)
    if found.kind == "level_zero":
        if not filters:
            raise DeviceError(binding.no_level_zero(os.environ))
        if settings.tiles is not None and settings.tiles > len(filters):
            raise RequestError(f"{settings.tiles} tiles were asked for, and this process sees {len(filters)}")
        filters = filters[: settings.tiles]
    else:
        # Emulated tiles: as many as are wanted on the one device.
        default = _cores() if found.kind == "host" else 1
        filters = filters[:1] * (settings.tiles or default)
    backend = backends.start(found, filters, range(len(filters)), DRIVER)
    engine = Engine(loopback()[0], backend, [DRIVER] * len(filters), depth=settings.depth)
    if announce is not None:
        announce(f"{_amount(len(filters))} on {_named(found, backend.tiles[0].name)} in one process")
    return engine


def parallel(settings: Settings, world: ranks.World, announce: Callable[[str], None]) -> Engine | None:
    """Start this rank of a run under a launcher. Collective.

    Returns:
        The engine; or None, after the reason was printed on rank 0, if no rank can begin.
    """
    hello: _Hello
    found, index = None, None
    try:
        found = _find(settings, _sharers(world))
        driver_only = settings.driver_only and world.rank == 0
        if not driver_only:
            index = _choose(settings, world, found)
        tile = "" if index is None else _identity(found, index)
        hello = _Hello(platform.node(), world.local_rank, 0, tile, len(found.filters), found.kind, None)
    except (SchedError, binding.BindingError) as error:
        hello = _Hello(platform.node(), world.local_rank, 0, "", 0, "", str(error))
    transport = _connect(world)
    hello = dataclasses.replace(hello, shared_rank=transport.shared_rank)
    everyone: list[_Hello] = transport.allgather(hello)
    if _tell(_problems(everyone, settings, found), transport, announce):
        return None
    assert found is not None
    owners = [RankId(rank) for rank, other in enumerate(everyone) if other.tile]
    if not owners and _tell([_NO_TILE], transport, announce):
        return None
    mine = [tile for tile, rank in enumerate(owners) if rank == transport.rank]
    ids = range(mine[0], mine[0] + 1) if mine else range(0)
    filters = [] if index is None else [found.filters[index]]
    backend: backends.Backend | None = None
    failure: str | None = None
    try:
        backend = backends.start(found, filters, ids, transport.rank)
    except Exception as raised:  # a GPU that is listed and broken, a library that cannot be loaded
        failure = f"{type(raised).__name__}: {raised}"
    if _tell(_by_text(transport.allgather(failure)), transport, announce):
        return None
    assert backend is not None
    name = backend.tiles[0].name if backend.tiles else ""
    engine = Engine(transport, backend, owners if transport.rank == DRIVER else None, depth=settings.depth)
    settle_at(engine.home)
    if transport.rank == DRIVER and not settings.quiet:
        announce(f"{_amount(len(owners))} on {_named(found, name)} in {transport.size} ranks")
    return engine


@dataclass(frozen=True, slots=True)
class _Hello:
    """What ranks tell each other first. `tile` is the same for two ranks only if their tile is the same."""

    host: str
    local_rank: int | None
    shared_rank: int
    tile: str
    visible: int
    kind: str
    error: str | None


def _choose(settings: Settings, world: ranks.World, found: backends.Found) -> int:
    if found.kind == "level_zero" and not found.filters:
        raise DeviceError(binding.no_level_zero(os.environ))
    shared = found.kind != "level_zero"
    return binding.choose(len(found.filters), world, shared=shared, oversubscribe=settings.oversubscribe)


def _identity(found: backends.Found, index: int) -> str:
    # A mask renumbers what it leaves, so the number says something only together with the mask.
    mask = os.environ.get("ZE_AFFINITY_MASK", "")
    return f"{found.filters[index]} (ZE_AFFINITY_MASK={mask})" if mask else found.filters[index]


def _problems(everyone: "list[_Hello]", settings: Settings, found: backends.Found | None) -> list[str]:
    errors = _by_text([hello.error for hello in everyone])
    if errors:
        return errors
    kinds = {hello.kind for hello in everyone}
    if len(kinds) > 1:
        where = ", ".join(
            f"{kind} on {next(h.host for h in everyone if h.kind == kind)}" for kind in sorted(kinds)
        )
        return [f"ranks found different kinds of device ({where}): say which is meant with --device"]
    assert found is not None
    reports = [
        binding.RankReport(rank, h.host, h.local_rank, h.shared_rank, h.tile, h.visible)
        for rank, h in enumerate(everyone)
        if h.tile
    ]
    shared = found.kind != "level_zero"
    return binding.check(reports, shared=shared, oversubscribe=settings.oversubscribe)


def _by_text(errors: Sequence[str | None]) -> list[str]:
    """Say each error once, and which ranks have it."""
    ranks_with: dict[str, list[int]] = {}
    for rank, error in enumerate(errors):
        if error is not None:
            ranks_with.setdefault(error, []).append(rank)
    return [f"{_ranks(ranks)} cannot begin: {error}" for error, ranks in ranks_with.items()]


def _tell(problems: list[str], transport: "MpiTransport", announce: Callable[[str], None]) -> bool:
    """End the run if there are problems, which rank 0 prints. Collective."""
    if not problems:
        return False
    if transport.rank == DRIVER:
        for problem in problems:
            announce(problem)
    transport.close(5.0)
    return True


def _connect(world: ranks.World) -> "MpiTransport":
    try:
        from sched.transport.mpi import MpiTransport, library
    except ImportError as error:
        raise LaunchError(
            f"this run was started by {world.launcher} and needs mpi4py ({error}): load the module "
            "that brings it, or run `pip install 'tilesched[mpich]'`"
        ) from error
    except RuntimeError as error:  # mpi4py found no MPI library
        raise LaunchError(f"mpi4py cannot start: {error}") from error
    mixed = environment.mixed(world, library())
    if mixed is not None:
        raise LaunchError(mixed)
    transport = MpiTransport()
    clash = environment.clashes(world, transport.size)
    if clash is not None:
        raise LaunchError(f"{clash} (mpi4py uses {library()})")
    return transport


def _find(settings: Settings, local_size: int) -> backends.Found:
    """Look for devices, with the environment that they and the array libraries should find."""

    def prepare(device: str) -> None:
        env = environment.defaults(os.environ, device=device, cores=_cores(), local_size=local_size)
        os.environ.update(env)

    prepare(settings.device)  # before the first device query
    found = backends.find(settings.device)
    prepare(found.kind)  # what depends on its answer
    return found


def _cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _sharers(world: ranks.World) -> int:
    """Count the ranks that share this process's cores: 1 if the launcher has bound it to cores of its own."""
    bound = os.sched_getaffinity(0) != os.sched_getaffinity(os.getppid())  # and not the whole container
    return 1 if bound else (world.local_size or world.size or 1)


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"{len(ranks)} ranks (the first is {ranks[0]})"


def _amount(tiles: int) -> str:
    return "1 tile" if tiles == 1 else f"{tiles} tiles"


def _named(found: backends.Found, name: str) -> str:
    device = {"level_zero": "Level Zero", "cpu": "the CPU device", "host": "the host (NumPy)"}[found.kind]
    return f"{device}{f' ({name})' if name and found.kind != 'host' else ''}: {found.why},"
