"""`python command.py doctor ...`: a command as `sched doctor ...` has it.

`TILES=3` has the CPU device stand for three Level Zero tiles of a node. `TRIAL=die` has the process die when
a tile is opened; `LIMIT` is how long a trial may take, in seconds; and `THREADS=single` starts MPI before
anything else, without thread support.
"""

import argparse
import dataclasses
import importlib
import os
import signal
import sys

if os.environ.get("THREADS") == "single":
    import mpi4py

    mpi4py.rc.thread_level = "single"
    from mpi4py import MPI as MPI

from sched import backends
from sched.commands import doctor
from sched.errors import SchedError

find, start = backends.find, backends.start


def pretend(device):
    names = [f"level_zero:gpu:{number}" for number in range(int(os.environ["TILES"]))]
    return backends.Found("level_zero", tuple(names), "pretended")


def on_the_cpu(found, filters, ids, rank):
    [cpu] = find("cpu").filters
    backend = start(found, [cpu] * len(filters), ids, rank)
    named = zip(backend.tiles, filters, strict=True)
    backend.tiles = tuple(dataclasses.replace(tile, filter=name) for tile, name in named)
    return backend


def die(*_):
    os.kill(os.getpid(), signal.SIGSEGV)


doctor.LIMIT = float(os.environ.get("LIMIT", doctor.LIMIT))
if "TILES" in os.environ:
    backends.find, backends.start = pretend, on_the_cpu
if os.environ.get("TRIAL") == "die":
    backends.start = die
command = importlib.import_module(f"sched.commands.{sys.argv[1]}")
parser = argparse.ArgumentParser(prog=f"sched {sys.argv[1]}")
command.arguments(parser)
try:
    status = command.main(parser.parse_args(sys.argv[2:]))
except SchedError as error:
    from sched.runtime.start import say

    say(str(error))
    status = 2
sys.exit(status)
