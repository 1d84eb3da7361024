"""Arrays taken apart, carried over a wire, and put together again."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sched.errors import DeviceError, ProtocolError
from tests.backends.arrays import DTYPES, arrays, filled, same
from tests.backends.wire import Wire, across, run

pytestmark = pytest.mark.sycl

quickly = settings(max_examples=60, deadline=None, database=None, derandomize=True)
MIB = 1 << 20


def address(array):
    return array.get_array()._pointer


# -- any array -----------------------------------------------------------------------------------------


@quickly
@given(arrays(), st.sampled_from([1, 3, 7, 64, 1000]), st.integers(0, 1), st.integers(0, 1))
def test_any_array_arrives_as_it_was(opencl, array, piece, source, target):
    host, view = array
    expected = view(host, np)
    for backend in opencl.all:
        sent = view(backend.from_host(host, backend.tiles[source]), backend.xp)
        exported = across(backend, backend.export(sent), max(piece, expected.nbytes // 20 + 1))
        found = backend.restore(exported, backend.tiles[target])
        assert found.sycl_queue == backend.tiles[target].queue
        assert same(backend.xp.asnumpy(found), expected)
        assert same(np.asarray(backend.restore(exported, None)), expected)


@quickly
@given(arrays(), st.integers(0, 1))
def test_any_array_comes_to_the_host_and_back(opencl, array, tile):
    host, view = array
    expected = view(host, np)
    for backend in opencl.all:
        there = backend.from_host(expected, backend.tiles[tile])
        assert there.sycl_queue == backend.tiles[tile].queue
        assert same(backend.xp.asnumpy(there), expected)
        assert same(backend.to_host(view(backend.from_host(host, backend.tiles[tile]), backend.xp)), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_contiguous_array_of_each_dtype_keeps_its_order(backend, dtype, order):
    host = filled(dtype, (5, 7), order)
    exported = backend.export(backend.from_host(host, backend.tiles[0]))
    assert (exported.dtype, exported.shape, exported.order) == (host.dtype.str, (5, 7), order)
    found = backend.restore(across(backend, exported, 13), backend.tiles[0])
    assert found.flags.f_contiguous == (order == "F")
    assert same(backend.xp.asnumpy(found), host)


def test_an_array_of_numpys_that_is_read_only_comes_to_a_tile(backend):
    host = filled("f8", (3, 4))
    host.flags.writeable = False
    for array in (host, host.T, host[::2, ::-1], host[1, 2]):
        assert same(backend.xp.asnumpy(backend.from_host(array, backend.tiles[1])), np.asarray(array))


def test_arrays_of_sub_devices_arrive_on_sub_devices(divided):
    host = filled("f4", (6, 4))
    for source in divided.tiles:
        for target in divided.tiles:
            sent = divided.from_host(host, source)[::-2, 1:]
            found = divided.restore(across(divided, divided.export(sent), 9), target)
            assert found.sycl_queue == target.queue
            assert same(divided.xp.asnumpy(found), host[::-2, 1:])


def test_ordinary_memory_is_copied_to_the_tile(backend):
    host = filled("c8", (3, 4), "F")
    exported = backend.export(backend.from_host(host, backend.tiles[0]))
    exported = exported._replace(memory=bytearray(host.tobytes(order="F")))
    for tile in backend.tiles:
        found = backend.restore(exported, tile)
        exported.memory[:] = exported.memory
        assert found.sycl_queue == tile.queue
        assert same(backend.xp.asnumpy(found), host)
    assert same(backend.restore(exported, None), host)


# -- nothing is copied that need not be ----------------------------------------------------------------


def test_what_is_exported_is_the_arrays_own_memory(cpu):
    base = cpu.xp.zeros((8, 9), dtype="f8", sycl_queue=cpu.tiles[1].queue)
    for array in (base, base[2:5], base.T, base[3], base[3, 4], base[::-1][3:4], base[2:5].T):
        exported = cpu.export(array)
        assert exported.memory.usm._pointer == address(array)
        assert exported.memory.nbytes == array.size * 8
        room = exported.memory.space(0, array.size * 8)
        assert np.frombuffer(room, "f8").__array_interface__["data"][0] == address(array)


def test_a_slice_of_a_large_array_exports_the_slice(backend):
    base = backend.xp.arange(1_000_000, sycl_queue=backend.tiles[0].queue)
    for array, nbytes in ((base[10:14], 32), (base[::-250_000], 32)):
        memory = backend.export(array).memory
        assert (memory.nbytes, memory.usm.nbytes) == (nbytes, nbytes)


def test_what_arrived_is_the_array(backend):
    memory = backend.room(80, True)
    exported = backend.export(backend.from_host(np.arange(10.0), backend.tiles[0]))._replace(memory=memory)
    assert address(backend.restore(exported, backend.tiles[0])) == memory.usm._pointer
    # The other tile is another queue of the same device and context.
    assert address(backend.restore(exported, backend.tiles[1])) == memory.usm._pointer


def test_what_is_exported_lives_as_long_as_that(backend):
    host = np.arange(100_000.0)
    exported = backend.export(backend.from_host(host, backend.tiles[0]))
    gc.collect()
    others = [backend.from_host(np.zeros(100_000), backend.tiles[0]) for _ in range(4)]
    found = backend.restore(across(backend, exported, 1 << 18), backend.tiles[0])
    del exported, others
    assert same(backend.xp.asnumpy(found), host)


def test_an_export_waits_for_the_kernels_that_make_the_array(backend, long_work):
    for tile in backend.tiles:
        for change in (lambda a: a, lambda a: a[::-2].T):
            array, expected = long_work(backend, tile)
            exported = across(backend, backend.export(change(array)), MIB)
            assert same(np.asarray(backend.restore(exported, None)), change(expected))


# -- staging -------------------------------------------------------------------------------------------


@pytest.fixture
def staged(opencl):
    """A backend of its own, as its slots are counted."""
    from sched.backends.sycl import Sycl

    return Sycl("level_zero", ["opencl:cpu:0"], range(1), 0)


@pytest.fixture
def small_slots(monkeypatch):
    monkeypatch.setattr("sched.backends.usm.SLOT", 1024)


def export(backend, host):
    return backend.export(backend.from_host(host, backend.tiles[0]))


def test_many_values_at_once_share_few_slots_and_all_arrive(staged, small_slots):
    hosts = [filled("f8", (1000 + i,)) * i for i in range(12)]
    sent = [export(staged, host) for host in hosts]
    come = [one._replace(memory=staged.room(one.memory.nbytes, True)) for one in sent]
    run(*[Wire(a.memory, b.memory, 1024) for a, b in zip(sent, come, strict=True)])
    for host, one in zip(hosts, come, strict=True):
        assert same(staged.xp.asnumpy(staged.restore(one, staged.tiles[0])), host)


def test_one_value_can_be_sent_to_several_ranks_at_a_time(staged, small_slots):
    host = filled("f8", (2000,))
    sent = export(staged, host)
    come = [sent._replace(memory=staged.room(sent.memory.nbytes, True)) for _ in range(3)]
    run(*[Wire(sent.memory, one.memory, 1000) for one in come])
    for one in come:
        assert same(staged.xp.asnumpy(staged.restore(one, staged.tiles[0])), host)


def test_a_message_to_a_rank_that_is_away_holds_up_no_other(staged, small_slots):
    host = filled("f8", (5000,))
    sent = export(staged, host)
    stuck = Wire(sent.memory, staged.room(host.nbytes, True), 1024)
    while not stuck.read:
        stuck.send()
    others = [sent.memory.again(), export(staged, host).memory]
    run(*[Wire(memory, staged.room(host.nbytes, True), 1024) for memory in others])


def test_what_arrives_never_waits_for_what_leaves(staged, small_slots):
    host = filled("f8", (5000,))
    leaving = [Wire(export(staged, host).memory, staged.room(host.nbytes, True), 1024) for _ in range(3)]
    while not all(wire.read for wire in leaving):
        for wire in leaving:
            wire.send()
    from sched.backends.usm import Span

    run(Wire(Span(memoryview(bytes(host.nbytes)), None), staged.room(host.nbytes, True), 1024))


def test_slots_are_used_again(staged, small_slots):
    made = []
    port = staged._port(staged.tiles[0].queue)
    make = port.new_slot
    port.new_slot = lambda: made.append(1) or make()
    for _ in range(5):
        across(staged, export(staged, filled("f8", (5000,))), 1024)
    assert len(made) <= 4


def test_where_the_queue_may_not_be_touched_nothing_moves(staged):
    host = filled("f8", (5000,))
    sent, room = export(staged, host), staged.room(host.nbytes, True)
    wire = Wire(sent.memory, room, host.nbytes)
    staged.may_touch = lambda: False
    assert sent.memory.read(0, host.nbytes) is None
    assert room.space(0, host.nbytes) is None
    staged.may_touch = lambda: True
    while not wire.read:
        wire.send()
    space = room.space(0, host.nbytes)
    space[:] = wire.read[0][1]
    staged.may_touch = lambda: False
    assert not room.landed(0, host.nbytes)
    staged.may_touch = lambda: True
    assert room.landed(0, host.nbytes)
    found = staged.restore(sent._replace(memory=room), staged.tiles[0])
    assert same(staged.xp.asnumpy(found), host)


def test_a_piece_that_no_slot_can_hold_is_a_bug_of_ours(staged, small_slots):
    with pytest.raises(ProtocolError, match=r"a piece of 1025 bytes .* a slot has 1024"):
        export(staged, filled("f8", (5000,))).memory.read(0, 1025)


# -- memory that is used again -------------------------------------------------------------------------


def test_memory_of_values_that_are_gone_is_lent_warm(staged):
    first = staged.room(3 * MIB, True).usm._pointer
    assert staged.room(3 * MIB - 8, True).usm._pointer == first


def test_memory_that_any_array_uses_is_lent_to_nobody(backend):
    n = 3 * MIB // 8
    exported = backend.export(backend.from_host(np.zeros(n), backend.tiles[0]))
    memory = backend.room(3 * MIB, True)
    there = memory.usm._pointer
    array = backend.restore(exported._replace(memory=memory), backend.tiles[1])[5:9]
    del memory
    gc.collect()
    others = [backend.room(3 * MIB, True) for _ in range(3)]
    assert there not in [other.usm._pointer for other in others]
    del array
    assert backend.room(3 * MIB, True).usm._pointer == there


def test_memory_that_a_kernel_still_reads_is_lent_to_nobody(cpu, long_work):
    tile, n = cpu.tiles[0], MIB
    late, _ = long_work(cpu, tile)
    array = cpu.from_host(np.arange(n), tile)
    there = address(array)
    # dpnp lets the kernels of a queue run one after the other, so this one reads after the long one.
    total = cpu.xp.cumsum(array + late[0, 0] * 0)
    read = cpu.xp.cumsum(array)
    del array
    gc.collect()
    others = [cpu.from_host(np.full(n, -1), tile) for _ in range(3)]
    assert same(cpu.xp.asnumpy(total), np.cumsum(np.arange(n)))
    assert same(cpu.xp.asnumpy(read), np.cumsum(np.arange(n)))
    cpu.finish(tile)
    # When all of it is over, it is lent again.
    others += [cpu.from_host(np.zeros(n, "i8"), tile) for _ in range(4)]
    assert there in [address(other) for other in others]


# -- what cannot be ------------------------------------------------------------------------------------


def test_a_dtype_that_the_device_lacks_is_a_clear_error(cpu, monkeypatch):
    from sched.backends import sycl

    exported = across(cpu, export(cpu, np.ones(3)), 8)
    monkeypatch.setattr(sycl, "lacking", lambda dtype, device: "fp64" if dtype.char == "d" else None)
    for fails in (
        lambda: cpu.restore(exported, cpu.tiles[1]),
        lambda: cpu.from_host(np.ones(3), cpu.tiles[1]),
    ):
        with pytest.raises(
            DeviceError, match=r"dtype float64 cannot come to tile 1: .* has no fp64; convert"
        ):
            fails()


def test_a_rank_without_tiles_receives_into_the_hosts_memory(opencl):
    from sched.backends.sycl import Sycl

    none = Sycl("cpu", [], range(0), 0)
    exported = across(none, export(opencl.cpu, filled("i4", (3, 5), "F")), 7)
    assert same(none.restore(exported, None), filled("i4", (3, 5), "F"))
