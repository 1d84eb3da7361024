"""`python -m tests.journal.killing DIR SEED TIMES`: kill a run that records, many times; see what is left.

The child says after each record that it was made. It is killed when the parent has heard that of a number
which the seed decides, so while it is at the next ones. Afterwards every value that was said to be recorded
has to be there, at most one more, and each has to be the right one.
"""

import os
import random
import signal
import sys

from sched.journal import store, values
from sched.journal.store import Journal
from tests.journal.writing import Heard, key

store.LARGE = values.LARGE = 1 << 18
os.fsync = lambda file: None  # what the system has been given outlives a process anyhow


def value(number: int) -> bytes:
    """Return what the task of this number returns: a few bytes, or many, in the segment or in a file."""
    made = random.Random(number)
    return made.randbytes(made.choice((10, 100, 5_000, 50_000, 200_000, 300_000)))


def write(directory: str, first: int, say: int) -> None:
    """Record tasks until killed."""
    journal = Journal.open(directory, warn=Heard())
    number = first
    while True:
        assert journal.record(key(number), value(number), (), "task")
        journal.flush()
        os.write(say, b".")
        number += 1


def main(directory: str, seed: int, times: int) -> None:
    chance = random.Random(seed)
    known = 0
    torn = 0
    for _ in range(times):
        hear, say = os.pipe()
        child = os.fork()
        if not child:
            try:
                write(directory, known, say)
            finally:
                os._exit(1)
        os.close(say)
        said = 0
        for _ in range(chance.randint(0, 12)):
            assert os.read(hear, 1) == b".", "the child ended by itself"
            said += 1
        if chance.random() < 0.5:  # or else it is at the beginning of the next record, mostly
            for _ in range(chance.randint(0, 30_000)):
                pass
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while piece := os.read(hear, 1 << 16):
            said += len(piece)
        os.close(hear)
        heard = Heard()
        journal = Journal.open(directory, warn=heard)
        torn += any("not written completely" in sentence for sentence in heard)
        assert not any("damaged" in sentence or "lost" in sentence for sentence in heard), heard
        found = len(journal)
        for number in range(known, found):
            entry = journal.find(key(number))
            assert entry is not None, f"task {number} of {found} is missing"
            loaded = journal.load(entry)
            assert loaded is not None
            assert loaded[0] == value(number), f"task {number} has a wrong value"
        journal.close()
        assert known + said <= found <= known + said + 1, (
            f"{said} were recorded, and {found - known} are there"
        )
        known = found
    journal = Journal.open(directory, warn=Heard())
    for number in range(known):
        assert journal.load(journal.find(key(number)))[0] == value(number)
    journal.close()
    print(known, torn)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
