"""Hold tasks back and hear of them from the test, so that no test has to sleep.

Whatever a task is given is a copy. These are not: they are pickled as their number, and all tiles of these
tests are in the one process, so what a task finds under that number is the thing itself.
"""

import itertools
import threading
import weakref

PATIENCE = 30.0
"""Seconds after which a test fails rather than waits on."""

_numbers = itertools.count()
_all: "weakref.WeakValueDictionary[int, Shared]" = weakref.WeakValueDictionary()


def _find(number):
    return _all[number]


class Shared:
    """Something of the test's own that tasks may be given, or capture."""

    def __init__(self):
        self._number = next(_numbers)
        _all[self._number] = self

    def __reduce__(self):
        return _find, (self._number,)


class Gate(Shared):
    """Holds tasks until it is opened, at the latest at the end of its `with`."""

    def __init__(self):
        super().__init__()
        self._open = threading.Event()
        self._waiting = threading.Semaphore(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open()

    def hold(self, value=None, *_):
        """Wait until it is open, and return the value: for tasks."""
        self._waiting.release()
        if not self._open.wait(PATIENCE):
            raise TimeoutError("nobody opened the gate")
        return value

    def wait_for(self, tasks=1):
        """Return when that many more tasks have come to it."""
        for _ in range(tasks):
            assert self._waiting.acquire(timeout=PATIENCE), "no task came to the gate"

    def open(self):
        self._open.set()


class Notes(Shared):
    """A list that tasks write to."""

    def __init__(self):
        super().__init__()
        self.all = []

    def add(self, note):
        self.all.append(note)
