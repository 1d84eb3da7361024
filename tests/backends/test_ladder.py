"""How arrays move between the tiles of one process, how tiles are named, and how one hears of their end."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sched.backends import devices
from sched.backends.base import Rung
from sched.errors import DeviceError
from tests.backends.arrays import arrays, filled, same
from tests.backends.conftest import ROOT

pytestmark = pytest.mark.sycl

QUEUE, ALIAS, DEVICE, PROCESS = Rung.QUEUE, Rung.ALIAS, Rung.DEVICE, Rung.PROCESS


def address(array):
    return array.get_array()._pointer


# -- the ladder ----------------------------------------------------------------------------------------


def test_each_pair_of_tiles_has_its_rung(divided):
    rungs = [
        [divided.rebind(divided.from_host(np.ones(3), source), target)[1] for target in divided.tiles]
        for source in divided.tiles
    ]
    assert rungs == [
        [QUEUE, ALIAS, PROCESS, PROCESS],
        [ALIAS, QUEUE, PROCESS, PROCESS],
        [PROCESS, PROCESS, QUEUE, DEVICE],
        [PROCESS, PROCESS, DEVICE, QUEUE],
    ]


def test_on_its_own_queue_an_array_stays_the_same_object(backend):
    array = backend.from_host(np.ones(3), backend.tiles[1])
    assert backend.rebind(array, backend.tiles[1])[0] is array


def test_an_alias_is_the_same_memory(backend):
    base = backend.from_host(filled("f8", (6, 8)), backend.tiles[0])
    for array in (base, base[2:4, ::-2], base.T):
        alias, _ = backend.rebind(array, backend.tiles[1])
        assert address(alias) == address(array)
        assert alias.strides == array.strides
        assert backend.allocation(alias) == backend.allocation(base)


def test_a_copy_is_of_the_slice_and_not_of_all_that_it_is_a_view_of(divided):
    base = divided.from_host(np.zeros(1_000_000), divided.tiles[2])
    for target, rung in ((divided.tiles[3], DEVICE), (divided.tiles[0], PROCESS)):
        found, by = divided.rebind(base[10:14], target)
        assert (by, divided.allocation(found)[1]) == (rung, 32)


@settings(max_examples=40, deadline=None, database=None, derandomize=True)
@given(arrays(), st.integers(0, 3), st.integers(0, 3))
def test_any_array_is_the_same_on_any_tile(divided, array, source, target):
    host, view = array
    expected = view(host, np)
    moved, _ = divided.rebind(
        view(divided.from_host(host, divided.tiles[source]), divided.xp), divided.tiles[target]
    )
    assert moved.sycl_queue == divided.tiles[target].queue
    assert same(divided.xp.asnumpy(moved), expected)


@pytest.mark.parametrize("target", range(4))
@pytest.mark.parametrize("source", range(4))
def test_an_array_moves_when_the_kernels_that_make_it_have_ended(divided, long_work, source, target):
    for change in (lambda a: a, lambda a: a[1:4, ::-1]):
        array, expected = long_work(divided, divided.tiles[source], n=400)
        moved, _ = divided.rebind(change(array), divided.tiles[target])
        assert same(divided.to_host(moved), change(expected))


def test_what_arrives_mixes_with_arrays_of_the_tile(divided):
    for source in divided.tiles:
        array = divided.from_host(np.arange(5), source)
        for target in divided.tiles:
            total = divided.rebind(array, target)[0] + divided.xp.ones(5, dtype="i8", sycl_queue=target.queue)
            assert divided.xp.asnumpy(total).tolist() == [1, 2, 3, 4, 5]


def test_as_on_a_gpu_what_is_strided_is_copied_by_a_kernel_of_the_target(divided):
    # Only what is strided: the CPU device's driver hangs when it copies all of an array to a sub-device.
    from sched.backends.sycl import Sycl

    gpu = Sycl("level_zero", [f"{ROOT}.0", f"{ROOT}.1"], range(2), 0)
    host = filled("f8", (6, 8))
    array = gpu.from_host(host, gpu.tiles[0])[::2, ::-3]
    moved, rung = gpu.rebind(array, gpu.tiles[1])
    assert (rung, moved.sycl_queue == gpu.tiles[1].queue) == (DEVICE, True)
    assert same(gpu.to_host(moved), host[::2, ::-3])


def test_tiles_that_cannot_read_each_others_memory_copy_through_the_host(divided, monkeypatch):
    from sched.backends import sycl

    monkeypatch.setattr(sycl, "reaches", lambda device, other: False)
    array = divided.from_host(np.arange(5), divided.tiles[2])
    moved, rung = divided.rebind(array, divided.tiles[3])
    assert (rung, divided.to_host(moved).tolist()) == (PROCESS, [0, 1, 2, 3, 4])


# -- what is computed is not waited for ----------------------------------------------------------------


class Watched:
    """Stands in for an array or a queue, and counts the waits."""

    def __init__(self, of, waits):
        self._of, self._waits = of, waits

    def __getattr__(self, name):
        return getattr(self._of, name)

    def __eq__(self, other):
        return self._of == other

    __hash__ = None

    @property
    def sycl_queue(self):
        return Watched(self._of.sycl_queue, self._waits)

    def wait(self):
        self._waits.append(1)
        self._of.wait()


@pytest.mark.parametrize("computed", [False, True])
def test_the_source_is_waited_for_unless_it_is_computed(backend, computed):
    for move in (
        lambda array: backend.rebind(array, backend.tiles[1], computed=computed),
        lambda array: backend.to_host(array, computed=computed),
        lambda array: backend.export(array, computed=computed),
    ):
        waits = []
        move(Watched(backend.from_host(np.ones(3), backend.tiles[0]), waits))
        assert len(waits) == (not computed)


def test_on_a_queue_of_the_tasks_own_nobody_knows_what_is_computed(cpu):
    import dpctl

    waits = []
    array = cpu.xp.ones(3, sycl_queue=dpctl.SyclQueue(cpu.tiles[0].device))
    cpu.export(Watched(array, waits), computed=True)
    assert waits == [1]


# -- marks ---------------------------------------------------------------------------------------------


def test_a_mark_is_done_when_all_before_it_is_computed(backend, long_work):
    for tile in backend.tiles:
        long_work(backend, tile)
        mark = backend.mark(tile)
        backend.finish(tile)
        assert mark.done()
        assert mark.done()


def test_a_mark_comes_to_pass_though_nobody_waits(backend, long_work):
    array, expected = long_work(backend, backend.tiles[0], n=300)
    mark = backend.mark(backend.tiles[0])
    while not mark.done():
        pass
    assert same(backend.to_host(array, computed=True), expected)


# -- tiles ---------------------------------------------------------------------------------------------


def test_a_tile_is_named_as_it_was_asked_for(divided):
    assert [tile.filter for tile in divided.tiles] == [ROOT, ROOT, f"{ROOT}.0", f"{ROOT}.1"]
    assert len({hash(tile.queue) for tile in divided.tiles}) == 4
    root, _, first, second = [tile.device for tile in divided.tiles]
    assert first != second
    assert first.parent_device == second.parent_device == root


def test_sub_devices_are_made_once_so_that_arrays_of_two_runs_mix(divided):
    from sched.backends.sycl import Sycl

    again = Sycl("cpu", [f"{ROOT}.1", f"{ROOT}.1"], range(2), 0)
    array = divided.from_host(np.ones(3), divided.tiles[3])
    assert again.tiles[0].device == divided.tiles[3].device
    assert [again.rebind(array, tile)[1] for tile in again.tiles] == [ALIAS, ALIAS]


@pytest.mark.parametrize("number", ["99", "x", "-1", "", "0.0"])
def test_a_sub_device_that_is_not_there_is_a_clear_error(divided, number):
    from sched.backends.sycl import Sycl

    with pytest.raises(
        DeviceError, match=rf"'{ROOT}' has no sub-device '{number}': it has \d+, numbered from 0"
    ):
        Sycl("cpu", [f"{ROOT}.{number}"], range(1), 0)


@pytest.mark.parametrize("name", ["opencl:cpu:99", "opencl:cpu:99.0", "nonsense"])
def test_a_device_that_is_not_there_is_a_clear_error(cpu, name):
    from sched.backends.sycl import Sycl

    with pytest.raises(DeviceError, match=f"the device '{name}' cannot be opened"):
        Sycl("cpu", [name], range(1), 0)


class FakeDevice:
    def __init__(self, parent=None, peers=(), fp64=True, fp16=True):
        self.parent_device, self._peers = parent, peers
        self.has_aspect_fp64, self.has_aspect_fp16 = fp64, fp16

    def can_access_peer(self, other):
        return other in self._peers


def test_sub_devices_of_one_device_and_peers_reach_each_other():
    card, other = FakeDevice(), FakeDevice()
    assert devices.reaches(FakeDevice(parent=card), FakeDevice(parent=card))
    assert not devices.reaches(FakeDevice(parent=card), FakeDevice(parent=other))
    assert devices.reaches(FakeDevice(peers=[other]), other)
    assert not devices.reaches(card, other)


def test_the_aspect_that_a_dtype_needs_is_named():
    poor = FakeDevice(fp64=False, fp16=False)
    needs = {"f8": "fp64", "c16": "fp64", "f2": "fp16", "f4": None, "c8": None, "i8": None, "?": None}
    for dtype, aspect in needs.items():
        assert devices.lacking(np.dtype(dtype), poor) == aspect
        assert devices.lacking(np.dtype(dtype), FakeDevice()) is None


# -- allocations ---------------------------------------------------------------------------------------


def test_an_allocation_is_all_that_a_view_keeps_alive(backend):
    base = backend.xp.zeros((100, 10), dtype="f4", sycl_queue=backend.tiles[0].queue)
    for array in (base, base[3], base[::-1].T, base[5, 5]):
        assert backend.allocation(array) == (address(base), 4000)


def test_the_allocation_of_what_was_put_together_is_the_memory_it_came_in(backend):
    n = (3 << 20) // 8
    exported = backend.export(backend.from_host(np.zeros(n), backend.tiles[0]))
    memory = backend.room(8 * n, True)
    array = backend.restore(exported._replace(memory=memory), backend.tiles[1])
    where, nbytes = backend.allocation(array[7:9])
    assert where == memory.usm._pointer
    assert nbytes >= 8 * n


def test_the_allocation_of_an_exported_slice_is_its_whole_base(cpu):
    base = cpu.xp.zeros(1000, sycl_queue=cpu.tiles[0].queue)
    array = cpu.restore(cpu.export(base[10:20]), cpu.tiles[0])
    assert cpu.allocation(array) == cpu.allocation(base)
