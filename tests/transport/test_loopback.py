"""The loopback transport keeps the contract, at several sizes, with a thread for each rank."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from sched.errors import LaunchError
from sched.model import RankId
from sched.transport.base import Lane, Transport
from sched.transport.loopback import loopback

from .contract import CONTRACT


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("body", CONTRACT)
def test_contract(body: Callable[[Transport], None], size: int) -> None:
    with ThreadPoolExecutor(size) as threads:
        list(threads.map(body, loopback(size)))


def test_closing_drops_what_has_not_been_received() -> None:
    first, second = loopback(2)
    first.send(second.rank, Lane.CONTROL, b"late")
    assert second.close(0)
    assert second.receive() is None


def test_there_is_no_communicator_without_mpi() -> None:
    with pytest.raises(LaunchError, match=r"needs MPI.*mpiexec"):
        loopback()[0].group([RankId(0)])
