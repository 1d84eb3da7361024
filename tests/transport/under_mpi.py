"""The MPI transport keeps the contract. `programs/test_transport.py` runs this under mpiexec; by itself:

mpiexec -n 3 python -m mpi4py -m pytest --with-mpi tests/transport/under_mpi.py
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from mpi4py import MPI

from sched.errors import LaunchError
from sched.model import RankId
from sched.transport.base import Lane, Transport

from .contract import CONTRACT, neighbours
from .tiles import Staged, Stock

pytestmark = pytest.mark.mpi(min_size=2)


@pytest.fixture(scope="module")
def end() -> Iterator[Transport]:
    from sched.transport.mpi import MpiTransport

    transport = MpiTransport()
    yield transport
    assert transport.close(30)


@pytest.fixture
def another_end() -> Transport:
    """One that the test closes."""
    from sched.transport.mpi import MpiTransport

    return MpiTransport(piece=100)


@pytest.fixture
def pumped_end(end: Transport) -> Iterator[Transport]:
    """One at which another thread pumps all the time, as a rank's does while a task runs."""
    over = threading.Event()

    def pump() -> None:
        while not over.is_set():
            assert end.receive() is None

    with ThreadPoolExecutor(1) as threads:
        pumping = threads.submit(pump)
        yield end
        over.set()
        pumping.result()
    MPI.COMM_WORLD.Barrier()


@pytest.mark.parametrize("body", CONTRACT)
def test_contract(body: Callable[[Transport], None], end: Transport) -> None:
    body(end)
    MPI.COMM_WORLD.Barrier()  # a rank must not meet another's next test


def test_the_users_communicator_is_untouched(end: Transport) -> None:
    right, left = (end.rank + 1) % end.size, (end.rank - 1) % end.size
    assert left == MPI.COMM_WORLD.sendrecv(end.rank, dest=right, source=left)
    assert end.receive() is None


class _Full(Staged):
    """Memory that never takes what has landed."""

    def landed(self, start: int, stop: int) -> bool:
        return False


def test_closing_ends_what_has_been_announced_although_nobody_takes_it(another_end: Transport) -> None:
    _, after = neighbours(another_end)
    stock = Stock(1)
    another_end.room = lambda nbytes, tile: _Full(bytes(nbytes), stock) if tile else bytearray(nbytes)
    memories = [Staged(bytes(1_000), Stock(), refusals=20) for _ in range(3)]
    for memory in memories:
        another_end.send(after, Lane.VALUES, b"unwanted", [memory, bytes(100_000)])
    while stock.free:
        assert another_end.receive() is None
    assert another_end.close(30)
    assert all(memory.has_left for memory in memories)


def test_closing_does_not_wait_for_ever_for_memory_that_cannot_be_read(another_end: Transport) -> None:
    _, after = neighbours(another_end)
    memory = Staged(bytes(1_000), Stock(0))
    another_end.send(after, Lane.VALUES, b"stuck", [memory])
    assert not another_end.close(0.1)
    MPI.COMM_WORLD.Barrier()
    memory.stock.free = 1
    assert another_end.close(30)


def test_groups_of_ranks_compute_together_while_the_rest_goes_on(pumped_end: Transport) -> None:
    size, rank = pumped_end.size, pumped_end.rank
    evens_and_odds = [list(range(0, size, 2)), list(range(1, size, 2))]
    chain = [[first + 1, first] for first in range(size - 1)]
    for ranks in [*evens_and_odds, *chain, list(reversed(range(size))), [rank]]:
        if rank in ranks:
            comm = pumped_end.group([RankId(r) for r in ranks])
            assert ranks.index(rank) == comm.rank
            assert sum(ranks) == comm.allreduce(rank)
            comm.Free()


def test_threads_may_use_a_group_each_at_a_time(pumped_end: Transport) -> None:
    everyone = [RankId(r) for r in range(pumped_end.size)]
    groups = [pumped_end.group(everyone) for _ in range(2)]

    def work(comm: MPI.Intracomm, number: int) -> int:
        try:
            return int(comm.allreduce(number))
        finally:
            comm.Free()

    with ThreadPoolExecutor(2) as threads:
        sums = list(threads.map(work, groups, [1, 2]))
    assert [pumped_end.size, 2 * pumped_end.size] == sums


def test_a_group_needs_threads(end: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MPI, "Query_thread", lambda: MPI.THREAD_SERIALIZED)
    with pytest.raises(LaunchError, match="MPI_THREAD_MULTIPLE"):
        end.group([end.rank])
