"""Whether MPI is given the memory of tiles, or copies in the host's memory.

An MPI that is handed a device pointer and does not know such pointers does not refuse: it crashes, or sends
something else. So on a GPU it is believed only if it says that it takes them *and* a trial succeeds, on
every rank, before anything of the user's has run. **No trial has been made on a Level Zero GPU yet**; on the
OpenCL CPU device, whose memory is the host's, `--mpi-buffers device` makes one.

The trial sends arrays around a ring of the ranks that have tiles, by the very path that values take. If a
process dies of it, a child that it has started before says so and what to do.
"""

import contextlib
import enum
import os
import platform
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sched.backends.base import Backend, Exported
from sched.errors import LaunchError, RequestError
from sched.model import RankId
from sched.runtime.meeting import CannotBegin, by_text
from sched.runtime.relief import Backoff
from sched.transport.base import Lane, Message, Transport

if TYPE_CHECKING:
    import numpy

    from sched.transport.mpi import MpiTransport

SIZES = (1, 4_096, 65_537, (1 << 20) + 1, 64 << 20)
"""Bytes. They cross the limits at which an MPI changes its way: eager messages, a mapped copy (4 KiB in
MPICH), handles between processes (1 MiB), pipelines; one bug report is about 64 MiB alone. All are under
way together, since another is about a mixture of sizes."""

LIMIT = 60.0
"""Seconds for the trial. Thousands of ranks make their first connections in it."""

WATCHED = 16
"""Ranks that start a child. When one rank dies the launcher ends the others, so that these speak for all."""

_REMEDY = "start the run with --mpi-buffers host"


class Way(enum.Enum):
    """How values leave a tile for another rank."""

    POINTERS = "by device pointers"
    STAGED = "staged through the host"
    TRIAL = "by device pointers, if a trial succeeds"


def plan(asked: str, kind: str, words: Sequence[str | None], library: str) -> Way:
    """Choose a way, without any trial.

    Args:
        asked: one of `settings.BUFFERS`.
        kind: of the backend: "level_zero", "cpu" or "host".
        words: for each rank with tiles, how MPI says that it takes Level Zero memory, None if it does not.
        library: what MPI calls itself.

    Raises:
        RequestError: Device pointers were asked for, and MPI does not say that it takes them.
    """
    if kind == "host":  # the memory of NumPy's arrays is what any MPI takes
        return Way.POINTERS
    if asked == "host":
        return Way.STAGED
    if kind == "cpu":  # all of its memory is the host's
        return Way.TRIAL if asked == "device" else Way.POINTERS
    if all(words):
        return Way.TRIAL
    if asked == "device":
        raise RequestError(
            f"--mpi-buffers device: this MPI ({' '.join(library.split())}) does not say that it takes Level "
            "Zero memory (its mpi_memory_alloc_kinds name no level_zero, MPIX_Query_ze_support() is not 1): "
            "use an MPI that does (MPICH and Intel MPI must have it switched on, by MPIR_CVAR_ENABLE_GPU=1 "
            f"or I_MPI_OFFLOAD=1), or {_REMEDY}"
        )
    return Way.STAGED


def settle(
    asked: str,
    transport: "MpiTransport",
    backend: Backend,
    ring: Sequence[RankId],
    tell: Callable[[str], None],
) -> Way:
    """Decide how values leave the tiles of this run, and set the backend and the transport to it. Collective.

    Args:
        asked: one of `settings.BUFFERS`.
        transport: this rank's end, before anything was sent.
        backend: this rank's tiles.
        ring: the ranks that have tiles.
        tell: says on rank 0 what people should know.

    Raises:
        CannotBegin: Device pointers were asked for and cannot be had, or the trial has not ended.
    """
    from sched.transport.mpi import library, takes_device_memory

    words = transport.allgather(takes_device_memory() if backend.kind == "level_zero" else None)
    try:
        way = plan(asked, backend.kind, [words[rank] for rank in ring], library())
    except RequestError as error:  # on all ranks: they know the same
        raise CannotBegin([str(error)]) from None
    transport.room = backend.room
    if way is Way.TRIAL:
        failures = _agreed_trial(transport, backend, ring)
        first = next(filter(None, failures), None)
        if first is not None and asked == "device":
            raise CannotBegin([f"{problem}: {_REMEDY}" for problem in by_text(failures)])
        if first is not None:
            tell(f"values between ranks are staged through the host, because a trial failed: {first}")
        way = Way.POINTERS if first is None else Way.STAGED
    backend.direct = way is Way.POINTERS
    if way is Way.STAGED:
        from sched.backends.sycl import staging_piece

        transport.piece = staging_piece
    return way


def _agreed_trial(transport: "MpiTransport", backend: Backend, ring: Sequence[RankId]) -> list[str | None]:
    """Make the trial; return by rank what was wrong. Collective.

    Raises:
        CannotBegin: It has not ended on some rank.
    """
    failure, stuck = None, False
    backend.direct = True
    if transport.rank in ring:
        try:
            failure = trial(transport, backend, ring)
        except Exception as raised:  # whatever a GPU, its driver or MPI comes up with
            failure, stuck = str(raised) or type(raised).__name__, True
    results = transport.allgather((failure, stuck))
    failures = [failure for failure, _ in results]
    if any(stuck for _, stuck in results):  # what is still under way would come into the run
        raise CannotBegin(by_text(failures), stuck=True)
    return failures


def trial(
    transport: Transport,
    backend: Backend,
    ring: Sequence[RankId],
    *,
    sizes: Sequence[int] = SIZES,
    limit: float = LIMIT,
) -> str | None:
    """Send arrays to the next rank of a ring and look at what the previous one has sent.

    Every rank of the ring calls it, and no other message may be under way.

    Args:
        transport: this rank's end; with `backend.room` as its `room`.
        backend: has a tile, and exports its own memory.
        ring: the ranks that take part, this one among them. Neighbours are mostly of one node; the last of
            a node is the neighbour of the next one's first.
        sizes: of the arrays, in bytes.
        limit: seconds.

    Returns:
        What was wrong, in one sentence; None if nothing.

    Raises:
        LaunchError: Something is still under way after `limit` seconds. The transport is of no use then.
    """
    place = ring.index(transport.rank)
    target, source = ring[(place + 1) % len(ring)], ring[place - 1]
    post = _Post(transport, time.monotonic() + limit)
    wrong = None
    with _watched(transport, limit):
        for number, nbytes in enumerate(sizes):
            array = backend.from_host(_pattern(transport.rank, number, nbytes), backend.tiles[0])
            transport.send(target, Lane.VALUES, _VALUE, [backend.export(array).memory])
        for number, nbytes in enumerate(sizes):
            message = post.next(_VALUE, source)
            if not _arrived(message, _pattern(source, number, nbytes), backend):
                wrong = wrong or (
                    f"{nbytes} bytes from rank {source} were not what it had sent, when MPI was given device "
                    "pointers"
                )
        # What this rank has sent may need it until it has arrived.
        transport.send(source, Lane.VALUES, _THANKS)
        post.next(_THANKS, target)
    return wrong


_VALUE, _THANKS = b"value", b"thanks"


class _Post:
    """Messages of two kinds, each asked for when its turn comes."""

    def __init__(self, transport: Transport, deadline: float) -> None:
        self._transport, self._deadline = transport, deadline
        self._waiting: dict[bytes, deque[Message]] = {_VALUE: deque(), _THANKS: deque()}

    def next(self, kind: bytes, source: RankId) -> Message:
        """Return the next of a kind, which only this source sends.

        Raises:
            LaunchError: It has not come in time.
        """
        backoff = Backoff()
        while not self._waiting[kind]:
            message = self._transport.receive()
            if message is not None:
                self._waiting[bytes(message.data)].append(message)
            elif time.monotonic() > self._deadline:
                raise LaunchError(
                    f"rank {self._transport.rank} has waited in vain for rank {source} in the trial of "
                    f"giving device pointers to MPI: {_REMEDY}"
                )
            else:
                backoff.pause(time.sleep, self._transport.is_moving())
        return self._waiting[kind].popleft()


def _pattern(rank: int, number: int, nbytes: int) -> "numpy.ndarray[Any, Any]":
    import numpy

    # Never 0, as fresh memory is; and the period divides no power of two, so that pieces that are lost,
    # swapped or shifted are seen.
    period = (numpy.arange(251) + 7 * rank + number) % 251 + 1
    return numpy.resize(period.astype(numpy.uint8), nbytes)


def _arrived(message: Message, pattern: Any, backend: Backend) -> bool:
    import numpy

    exported = Exported(message.buffers[0], pattern.dtype.str, pattern.shape, "C")
    array = backend.restore(exported, backend.tiles[0])
    return numpy.array_equal(backend.to_host(array), pattern)


@contextmanager
def _watched(transport: Transport, limit: float) -> Iterator[None]:
    """See that somebody says what happened if this process dies inside, or never comes back."""
    rank = f"rank {transport.rank} on {platform.node()}"
    about = "the trial of giving device pointers to MPI"
    child = None
    if transport.rank < WATCHED:
        child = _child(f"sched: {rank} ended inside {about}. Unless another reason is shown: {_REMEDY}")

    def give_up() -> None:
        os.write(2, f"sched: {rank} hangs inside {about}: {_REMEDY}\n".encode())
        release()
        transport.abort(2)

    def release() -> None:
        if child is not None and child.stdin is not None:
            with contextlib.suppress(OSError):
                child.stdin.write(b"ok\n")
                child.stdin.close()
            child.wait(10)

    # Later than the limit, which is looked at between the calls of MPI: it is for one that does not return.
    timer = threading.Timer(limit + 10, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        release()


def _child(words: str) -> "subprocess.Popen[bytes] | None":
    """Start a process that says this unless it is told that all is well before the pipe to it is closed.

    It is made by vfork and exec: MPI's registered memory and SYCL's threads do not survive a fork.
    """
    with contextlib.suppress(OSError):
        return subprocess.Popen(
            ["/bin/sh", "-c", 'read ok || echo "$1" >&2', "sh", words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # what ends this process's group must not end the one that tells of it
        )
    return None
