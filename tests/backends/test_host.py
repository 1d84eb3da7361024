"""The backend of NumPy arrays."""

import numpy as np
import pytest
from hypothesis import given, settings

from sched.backends.base import Rung
from sched.backends.host import Host
from tests.backends.arrays import arrays, filled, same

MIB = 1 << 20


@pytest.fixture(scope="module")
def host():
    return Host(range(3, 5), 1)


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(arrays())
def test_any_array_is_taken_apart_and_put_together(host, array):
    array, view = array
    expected = view(array, np)
    exported = host.export(expected)
    memory = host.room(memoryview(exported.memory).nbytes, False)
    memory[:] = exported.memory
    assert same(host.restore(exported._replace(memory=memory), host.tiles[0]), expected)


@pytest.mark.parametrize("order", ["C", "F"])
def test_contiguous_memory_is_not_copied(host, order):
    array = filled("f8", (3, 4), order)
    exported = host.export(array)
    assert exported.order == order
    assert np.shares_memory(host.restore(exported, None), array)


def test_nothing_moves_within_a_rank(host):
    array = np.zeros(3)
    found, rung = host.rebind(array, host.tiles[1], computed=True)
    assert found is array
    assert rung is Rung.QUEUE
    assert host.mark(host.tiles[0]) is None
    assert not host.is_array(array)


def test_an_allocation_is_all_that_a_view_keeps_alive(host):
    base = np.zeros((100, 10))
    for array in (base, base[3], base[::-1].T, base[2:][1:][::-2]):
        assert host.allocation(array) == (base.ctypes.data, 8000)


def test_the_allocation_of_an_array_over_lent_memory_is_that_memory(host):
    memory = host.room(2 * MIB, False)
    array = np.frombuffer(memory, "f8")[5:9]
    assert host.allocation(array) == (np.frombuffer(memory, "u1").ctypes.data, 2 * MIB)


def test_memory_that_nobody_uses_any_more_is_lent_again(host):
    first = np.frombuffer(host.room(2 * MIB, True), "u1").ctypes.data
    assert np.frombuffer(host.room(2 * MIB, False), "u1").ctypes.data == first
