"""`python broken_start.py run job.py`: sched, with an engine that cannot be made on rank 0."""

import sys

from sched.cli import main
from sched.runtime import start

whole = start.Engine


def engine(transport, *arguments, **others):
    if transport.rank == 0:
        raise NameError("something is missing")
    return whole(transport, *arguments, **others)


start.Engine = engine
sys.exit(main())
