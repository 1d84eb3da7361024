"""What the script has asked for, as the driver keeps it: calls, their options, their futures."""

import concurrent.futures
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sched.core.actions import Outcome
from sched.model import RankId, Ref, TaskId
from sched.runtime.functions import Function
from sched.runtime.messages import Done, Fault, Packed
from sched.runtime.packing import Handle

_PENDING, _RUNNING, _FINISHED = "PENDING", "RUNNING", "FINISHED"
_making = threading.RLock()


class Future(Handle, concurrent.futures.Future[Any]):
    """The driver's side of a future: the task it names, and where to say that nobody names it any more.

    A standard future has a condition and two lists of those who wait. Here they are made when somebody first
    needs them (`__getattr__`), because most futures are only asked for their result, and there are very many.
    Until then a lock that all share guards the state.
    """

    def __init__(self, ref: Ref, released: "deque[Ref]", owner: "Owner") -> None:
        self._state = _PENDING
        self._result = None
        self._exception = None
        self.ref = ref
        self._released = released
        self._owner = owner
        # Why it has no value: the name of the task that failed first, and its fault if it was not cancelled.
        self.blame: tuple[str, Fault | None] | None = None

    def __getattr__(self, name: str) -> Any:
        if name == "_condition":
            made: Any = threading.Condition()
        elif name == "_done_callbacks":
            made = []
        elif name == "_waiters":
            made = self._make_waiters()
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with _making:
            return self.__dict__.setdefault(name, made)

    def _make_waiters(self) -> list[Any]:
        return []

    @property
    def ended(self) -> bool:
        """Whether the task has ended, in whatever way."""
        return self._state not in (_PENDING, _RUNNING)

    def set_running_or_notify_cancel(self) -> bool:
        with _making:
            if "_condition" not in self.__dict__ and self._state == _PENDING:
                self._state = _RUNNING
                return True
        return super().set_running_or_notify_cancel()

    def set_result(self, result: Any) -> None:
        if not self._finish_quietly(result, None):
            super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        if not self._finish_quietly(None, exception):
            super().set_exception(exception)

    def note_cancelled(self) -> None:
        """Enter that it was cancelled, and tell everybody who waits."""
        with self._condition:
            self._state = _PENDING  # also if the task has been running, and waits to be tried again
        super().cancel()
        self.set_running_or_notify_cancel()

    def _finish_quietly(self, result: Any, exception: BaseException | None) -> bool:
        """Enter how it ended if nobody can be waiting for it: for that a condition would have been made."""
        with _making:
            if "_condition" in self.__dict__ or self.ended:
                return False
            self._result, self._exception = result, exception
            self._state = _FINISHED
        self._owner.waiting.discard(self.ref)
        return True

    def _invoke_callbacks(self) -> None:
        """See that whoever counts tasks knows before a callback asks; and that none ends a thread of ours."""
        self._owner.waiting.discard(self.ref)
        try:
            super()._invoke_callbacks()  # type: ignore[misc]
        except BaseException:  # SystemExit and its like; the others are logged there
            traceback.print_exc()

    def __del__(self) -> None:
        # May run in any thread at any moment, so it only leaves word; the engine does the rest.
        self._released.append(self.ref)


Make = Callable[[Ref, "deque[Ref]", "Owner"], Future]
"""Makes a future of the kind that the script sees."""


class Options(NamedTuple):
    """How a task is to be run; see `client.Scheduler.options`."""

    tile: int | None = None
    near: Ref | None = None
    priority: int = 0
    retries: int = 0
    name: str | None = None
    tiles: int = 1
    memory: int = 0


class Order(NamedTuple):
    """One call as the script asked for it, packed."""

    function: Function
    arguments: Packed
    inputs: tuple[Ref, ...]
    options: Options
    name: str


class Ending(NamedTuple):
    """What a future is to be told: a small value, an exception, or neither (the value lies on a tile).

    The exception is made without the lock: the user's own code runs when it is unpickled.
    """

    future: Future
    owner: "Owner"
    outcome: Outcome
    small: Packed | None
    make_error: Callable[[], BaseException] | None


class Record:
    __slots__ = ("future", "order", "owner", "parts")

    def __init__(self, order: Order, future: Future, owner: "Owner") -> None:
        self.order = order
        self.future = future
        self.owner = owner
        self.parts: Parts | None = None


class Parts:
    """How far a task on several ranks has come.

    Attributes:
        ranks: all of them; the value of the first counts.
        ready: how many have what it takes.
        gone: whether they have been told to begin, or not to.
        left: how many have not ended.
        done: what the first has said, if its call returned.
        fault: of the rank that failed first, and `cause`: the task whose value was missing, if that was why.
    """

    __slots__ = ("cause", "done", "fault", "gone", "left", "ranks", "ready")

    def __init__(self, ranks: Sequence[RankId]) -> None:
        self.ranks = tuple(ranks)
        self.ready = 0
        self.gone = False
        self.left = len(ranks)
        self.done: Done | None = None
        self.fault: Fault | None = None
        self.cause: TaskId | None = None


class Owner:
    """What one `Scheduler` of the script still waits for: tasks whose futures have not been told."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: set[Ref] = set()
