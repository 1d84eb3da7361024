"""`python as_level_zero.py run job.py`: sched, with queues of the CPU device for Level Zero tiles.

`TILES` is how many each process sees; without it, and with ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE, they are the
CPU device's sub-devices, as a card's tiles would be. `MPI_SAYS` stands for what MPI says of device memory;
without it MPI is asked. With `TRIAL=die` rank 1 dies in the trial.
"""

import os
import signal
import sys

import dpctl

from sched import backends
from sched.backends import devices
from sched.cli import main
from sched.transport import mpi

find = backends.find
start = backends.start


def as_level_zero(device: str) -> backends.Found:
    [cpu] = find("cpu").filters
    if "TILES" in os.environ:
        names = [f"level_zero:gpu:{number}" for number in range(int(os.environ["TILES"]))]
    else:
        names = devices.tiles_of(dpctl, [dpctl.SyclDevice(cpu)])
    return backends.Found("level_zero", tuple(names), "pretended")


def on_the_cpu(found, filters, ids, rank):
    [cpu] = find("cpu").filters
    return start(found, [cpu if name.startswith("level_zero") else name for name in filters], ids, rank)


def die_in_the_trial(found, filters, ids, rank):
    backend = on_the_cpu(found, filters, ids, rank)
    if rank == 1:
        backend.from_host = lambda *_: os.kill(os.getpid(), signal.SIGSEGV)
    return backend


backends.find = as_level_zero
backends.start = on_the_cpu
if "MPI_SAYS" in os.environ:
    mpi.takes_device_memory = lambda: os.environ["MPI_SAYS"]
if os.environ.get("TRIAL") == "die":
    backends.start = die_in_the_trial
sys.exit(main())
