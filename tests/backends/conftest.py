"""Backends of the OpenCL CPU device, skipped where there is none."""

from types import SimpleNamespace

import numpy as np
import pytest

from sched import backends
from sched.errors import DeviceError

ROOT = "opencl:cpu:0"
LAYOUT = [ROOT, ROOT, f"{ROOT}.0", f"{ROOT}.1"]
"""Two queues of one device, and two sub-devices in a context of their own."""


@pytest.fixture(scope="session")
def opencl():
    """What the CPU device stands for: itself, also staged, and a tile whose memory the host does not see."""
    try:
        backends.find("cpu")
    except DeviceError as error:
        pytest.skip(str(error))
    from sched.backends.sycl import Sycl

    cpu, staged, level_zero = (Sycl(kind, [ROOT, ROOT], range(2), 0) for kind in ("cpu", "cpu", "level_zero"))
    staged.direct = False
    return SimpleNamespace(cpu=cpu, level_zero=level_zero, all=(cpu, staged, level_zero))


@pytest.fixture
def cpu(opencl):
    return opencl.cpu


@pytest.fixture(params=["cpu", "level_zero"])
def backend(request, opencl):
    return getattr(opencl, request.param)


@pytest.fixture(scope="session")
def divided(opencl):
    """Four tiles in two contexts; needs a CPU device with two compute units."""
    from sched.backends.sycl import Sycl

    try:
        return Sycl("cpu", LAYOUT, range(4), 0)
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture
def long_work():
    """Submits a kernel that runs for long to a queue; what is made of its value has to wait for it."""

    def submit(backend, tile, n=600):
        xp = backend.xp
        ones = xp.ones((n, n), dtype="i8", sycl_queue=tile.queue)
        return xp.matmul(ones, xp.matmul(ones, ones)), np.full((n, n), n * n)

    return submit
