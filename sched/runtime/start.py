"""How a run begins: find the devices, bring the ranks together, share out the tiles.

The order matters. Variables are set before anything reads them; devices are listed before MPI starts, and
none is opened before the ranks have told each other where they are and what they see; and only then does
each take its tiles, so that what is wrong on any of them is said once, on rank 0.
"""

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sched import backends
from sched.backends.base import settle_at
from sched.errors import LaunchError, RequestError, SchedError
from sched.model import DRIVER, RankId
from sched.runtime import cores, selftest
from sched.runtime.engine import BUG, Engine
from sched.runtime.exchange import say as say
from sched.runtime.meeting import CannotBegin, Hello, agree, meet, places, sharing, take
from sched.runtime.settings import Settings as Settings
from sched.siblings import binding, cores as dealing, environment, masks, ranks
from sched.sizes import show_size
from sched.transport.loopback import loopback

if TYPE_CHECKING:
    from sched.transport.mpi import MpiTransport

_NO_TILE = "--driver-only leaves no tile in a run of one rank: start at least 2"
_CANNOT_BEGIN = 2  # exit status
_SPOKEN = 0.5  # seconds in which a launcher reads what was said; MPICH's drops the rest when a rank aborts

Blocks = list[list[tuple[int, ...]]]
"""The cores that are dealt out to each tile, by card and tile; see `launch.cores`."""


def local(settings: Settings, *, announce: Callable[[str], None] | None = None) -> Engine:
    """Start a run of one rank, with every tile that this process sees.

    Raises:
        RequestError: There cannot be so many tiles, or not so much memory.
        DeviceError: There is no such device.
    """
    if settings.driver_only:
        raise RequestError(_NO_TILE)
    # Tiles of NumPy are threads and share the cores; those of the CPU device work one after the other.
    found = _find(settings, (settings.tiles or cores.count()) if settings.device == "host" else 1, [])
    if found.kind == "host" and settings.tiles is None:
        settings = replace(settings, tiles=cores.count())
    try:
        taken = take(found, settings)
    except binding.BindingError as error:
        raise RequestError(str(error)) from None
    backend = backends.start(found, [found.filters[tile.index] for tile in taken], range(len(taken)), DRIVER)
    engine = Engine(
        loopback()[0],
        backend,
        [DRIVER] * len(taken),
        depth=settings.depth,
        limit=_limit(settings, backend, sharing([taken])),
        check=settings.check,
        stall=settings.stall,
        places=[(0, tile.card or 0) for tile in taken],
    )
    if announce is not None:
        announce(f"{_amount(len(taken))} on {_named(found, backend.tiles[0].name)} in one process")
    return engine


def parallel(settings: Settings, world: ranks.World, announce: Callable[[str], None]) -> Engine | None:
    """Start this rank of a run under a launcher. Collective.

    Returns:
        The engine; or None, after the reason was printed on rank 0, if no rank can begin.
    """
    found, error = None, None
    blocks = _to_deal(settings)
    try:
        threads = (settings.tiles or 1) if settings.device == "host" else 1
        found = _find(settings, _sharers(world) * threads, blocks)
    except (SchedError, binding.BindingError) as raised:
        error = str(raised)
    transport = _connect(world)

    try:
        return _begin(settings, world, transport, found, error, blocks, announce)
    except CannotBegin as reason:
        if transport.rank == DRIVER:
            for problem in reason.problems:
                announce(problem)
        if reason.stuck or not transport.close(5.0):
            transport.abort(_CANNOT_BEGIN)
        return None
    except BaseException:  # the others wait for this rank, and would for ever
        traceback.print_exc()
        announce(
            f"rank {transport.rank} could not begin, by a bug in sched or a missing part of it: see above"
        )
        time.sleep(_SPOKEN)
        transport.abort(BUG)


def _begin(
    settings: Settings,
    world: ranks.World,
    transport: "MpiTransport",
    found: backends.Found | None,
    error: str | None,
    blocks: Blocks,
    announce: Callable[[str], None],
) -> Engine:
    """Bring this rank and the others together. Collective.

    Raises:
        CannotBegin: Some rank cannot; raised on all of them.
    """

    def tell(words: str) -> None:
        if transport.rank == DRIVER:
            announce(words)

    everyone = meet(settings, world, transport, found, error)
    assert found is not None
    owners = [RankId(rank) for rank, other in enumerate(everyone) for _ in other.taken]
    if not owners:
        raise CannotBegin([_NO_TILE])
    bound = _bind(found, everyone[transport.rank], blocks)
    backend = _open(transport, found, everyone)
    limit = _agreed_limit(settings, transport, backend, everyone)
    way = selftest.settle(settings.mpi_buffers, transport, backend, sorted(set(owners)), tell)
    engine = Engine(
        transport,
        backend,
        owners if transport.rank == DRIVER else None,
        depth=settings.depth,
        limit=limit,
        check=settings.check,
        stall=settings.stall,
        places=places(everyone) if transport.rank == DRIVER else None,
    )
    settle_at(engine.home)
    if not settings.quiet:
        device = _named(found, backend.tiles[0].name if backend.tiles else "")
        values = "" if found.kind == "host" else f", values between ranks {way.value}"
        beside = f" with {bound} cores each" if bound else ""
        tell(f"{_amount(len(owners))} on {device} in {transport.size} ranks{beside}{values}")
    return engine


def _open(transport: "MpiTransport", found: backends.Found, everyone: list[Hello]) -> backends.Backend:
    """Open this rank's tiles. Collective.

    Raises:
        CannotBegin: Some rank cannot open its own.
    """
    first = sum(len(other.taken) for other in everyone[: transport.rank])
    taken = everyone[transport.rank].taken
    backend: backends.Backend | None = None
    failure: str | None = None
    try:
        filters = [found.filters[tile.index] for tile in taken]
        backend = backends.start(found, filters, range(first, first + len(taken)), transport.rank)
    except Exception as raised:  # a GPU that is listed and broken, a library that cannot be loaded
        failure = f"{type(raised).__name__}: {raised}"
    agree(transport, failure)
    assert backend is not None
    return backend


def _agreed_limit(
    settings: Settings, transport: "MpiTransport", backend: backends.Backend, everyone: list[Hello]
) -> int:
    """Return the bytes that every tile of the run may hold: the least of all ranks'. Collective.

    Raises:
        CannotBegin: More was asked for than some tile has.
    """
    limit, failure = None, None
    own = binding.short_host(everyone[transport.rank].host)
    if backend.tiles:
        node = [other.taken for other in everyone if binding.short_host(other.host) == own]
        try:
            limit = _limit(settings, backend, sharing(node))
        except RequestError as error:
            failure = str(error)
    agree(transport, failure)
    limits: list[int | None] = transport.allgather(limit)
    return min(other for other in limits if other is not None)


def _limit(settings: Settings, backend: backends.Backend, tiles: int) -> int:
    """Return the bytes that each of this rank's tiles may hold, if so many of them are on one device.

    Raises:
        RequestError: More was asked for than the device has.
    """
    memory = min(tile.nbytes for tile in backend.tiles) or _memory_of_host()
    if settings.tile_memory is None:
        return max(1, memory * 9 // 10 // tiles)
    if settings.tile_memory > memory:
        raise RequestError(
            f"{show_size(settings.tile_memory)} for a tile (--tile-memory) is more than its device has, "
            f"{show_size(memory)}: ask for less"
        )
    return settings.tile_memory


def mpi_library(what: str) -> str:
    """Return what mpi4py's MPI library calls itself, without starting it.

    Args:
        what: needs it.

    Raises:
        LaunchError: There is no mpi4py, or it finds no library.
    """
    try:
        from sched.transport.mpi import library
    except ImportError as error:
        raise LaunchError(
            f"{what} needs mpi4py ({error}): load the module that brings it, or run `pip install "
            "'tilesched[mpich]'`"
        ) from error
    except RuntimeError as error:  # mpi4py found no MPI library
        raise LaunchError(f"mpi4py cannot start: {error}") from error
    return library()


def _connect(world: ranks.World) -> "MpiTransport":
    library = mpi_library(f"this run was started by {world.launcher} and")
    from sched.transport.mpi import MpiTransport

    mixed = environment.mixed(world, library)
    if mixed is not None:
        raise LaunchError(mixed)
    transport = MpiTransport()
    clash = environment.clashes(world, transport.size)
    if clash is not None:
        raise LaunchError(f"{clash} (mpi4py uses {library})")
    return transport


def _find(settings: Settings, local_size: int, blocks: Blocks) -> backends.Found:
    """Look for devices, with the environment that they and the array libraries should find."""
    shared = sum(len(block) for card in blocks for block in card) or cores.count()

    def prepare(device: str) -> None:
        env = environment.defaults(os.environ, device=device, cores=shared, local_size=local_size)
        os.environ.update(env)

    prepare(settings.device)  # before the first device query
    found = backends.find(settings.device)
    prepare(found.kind)  # what depends on its answer
    return found


def _to_deal(settings: Settings) -> Blocks:
    """Deal out the node's cores to its GPUs' tiles, if these may be meant and nobody else has done it."""
    if settings.keep_cores or settings.device not in ("auto", "level_zero") or cores.bound():
        return []
    return dealing.to_deal(cores.read(), os.sched_getaffinity(0), os.environ)


def _bind(found: backends.Found, own: Hello, blocks: Blocks) -> int:
    """Bind this rank to the cores beside its tiles; return how many they are, 0 if nothing was changed."""
    if found.kind != "level_zero" or not blocks:
        return 0
    names = [tile.name for tile in own.taken]
    beside = dealing.beside(names, blocks, composite=masks.is_composite(os.environ))
    if beside:
        cores.bind(beside)
    return len(beside)


def _memory_of_host() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _sharers(world: ranks.World) -> int:
    """Count the ranks that share this process's cores: 1 if the launcher has bound it to cores of its own."""
    return 1 if cores.bound() else (world.local_size or world.size or 1)


def _amount(tiles: int) -> str:
    return "1 tile" if tiles == 1 else f"{tiles} tiles"


def _named(found: backends.Found, name: str) -> str:
    device = {"level_zero": "Level Zero", "cpu": "the CPU device", "host": "the host (NumPy)"}[found.kind]
    return f"{device}{f' ({name})' if name and found.kind != 'host' else ''}: {found.why},"
