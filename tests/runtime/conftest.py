"""A run of one kind of tile or another; and a store without a run."""

import pytest

from tests.runtime.place import Place
from tests.runtime.ranks import Run


@pytest.fixture(params=["host", pytest.param("cpu", marks=pytest.mark.sycl)])
def start(request):
    """Start a run with so many tiles on each rank.

    With NumPy they are in several ranks of one process. With dpnp they are as many tiles of the CPU device in
    one rank, for several threads of a process must not use dpnp. `tests/programs/test_values.py` has both in
    real ranks.
    """
    if request.param == "host":
        return Run
    from sched import backends

    found = backends.find("cpu")

    def several(ids, rank):
        return backends.start(found, found.filters[:1] * len(ids), ids, rank)

    return lambda *tiles, **settings: Run(sum(tiles), backend=several, **settings)


@pytest.fixture
def place():
    """A store; in the end everything is dropped from it, and nothing must be left."""
    made = Place()
    yield made
    made.drop_all()
