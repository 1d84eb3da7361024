"""`python as_level_zero.py run job.py`: sched, with queues of the CPU device for Level Zero tiles.

`TILES` is how many each process sees. `MPI_SAYS` stands for what MPI says of device memory; without it MPI is
asked. With `TRIAL=die` rank 1 dies in the trial.
"""

import os
import signal
import sys

from sched import backends
from sched.cli import main
from sched.transport import mpi

find = backends.find
start = backends.start


def as_level_zero(device: str) -> backends.Found:
    return backends.Found("level_zero", find("cpu").filters[:1] * int(os.environ["TILES"]), "pretended")


def die_in_the_trial(found, filters, ids, rank):
    backend = start(found, filters, ids, rank)
    if rank == 1:
        backend.from_host = lambda *_: os.kill(os.getpid(), signal.SIGSEGV)
    return backend


backends.find = as_level_zero
if "MPI_SAYS" in os.environ:
    mpi.takes_device_memory = lambda: os.environ["MPI_SAYS"]
if os.environ.get("TRIAL") == "die":
    backends.start = die_in_the_trial
sys.exit(main())
