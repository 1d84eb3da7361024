"""The MPI transport keeps the contract. `programs/test_transport.py` runs this under mpiexec; by itself:

mpiexec -n 3 python -m mpi4py -m pytest --with-mpi tests/transport/under_mpi.py
"""

from collections.abc import Callable, Iterator

import pytest
from mpi4py import MPI

from sched.transport.base import Transport

from .contract import CONTRACT


@pytest.fixture(scope="module")
def end() -> Iterator[Transport]:
    from sched.transport.mpi import MpiTransport

    transport = MpiTransport()
    yield transport
    assert transport.close(30)


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("body", CONTRACT)
def test_contract(body: Callable[[Transport], None], end: Transport) -> None:
    body(end)
    MPI.COMM_WORLD.Barrier()  # a rank must not meet another's next test


@pytest.mark.mpi(min_size=2)
def test_the_users_communicator_is_untouched(end: Transport) -> None:
    right, left = (end.rank + 1) % end.size, (end.rank - 1) % end.size
    assert left == MPI.COMM_WORLD.sendrecv(end.rank, dest=right, source=left)
    assert end.receive() is None
