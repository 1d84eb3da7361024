"""What the script has asked for, as the driver keeps it: calls, their options, their futures."""

import concurrent.futures
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sched.core.actions import Outcome
from sched.model import RankId, Ref
from sched.runtime.functions import Function
from sched.runtime.messages import Broke, Done, Fault, Packed
from sched.runtime.packing import Handle


class Future(Handle, concurrent.futures.Future[Any]):
    """The driver's side of a future: the task it names, and where to say that nobody names it any more."""

    def __init__(self, ref: Ref, released: "deque[Ref]") -> None:
        super().__init__()
        self.ref = ref
        self._released = released
        # Why it has no value: the name of the task that failed first, and its fault if it was not cancelled.
        self.blame: tuple[str, Fault | None] | None = None
        self.before_callbacks: Callable[[], None] | None = None

    def _invoke_callbacks(self) -> None:
        """See that whoever counts tasks knows before a callback asks; and that none ends a thread of ours."""
        if self.before_callbacks is not None:
            self.before_callbacks()
            self.before_callbacks = None
        try:
            super()._invoke_callbacks()  # type: ignore[misc]
        except BaseException:  # SystemExit and its like; the others are logged there
            traceback.print_exc()

    def note_cancelled(self) -> None:
        """Enter that it was cancelled, and tell everybody who waits."""
        with self._condition:
            self._state = "PENDING"  # also if the task has been running, and waits to be tried again
        super().cancel()
        self.set_running_or_notify_cancel()

    def __del__(self) -> None:
        # May run in any thread at any moment, so it only leaves word; the engine does the rest.
        self._released.append(self.ref)


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
        lead: the rank whose value counts.
        left: how many ranks have not ended.
        report: what the lead has said.
        fault: of the rank that failed first.
    """

    __slots__ = ("fault", "lead", "left", "report")

    def __init__(self, ranks: Sequence[RankId]) -> None:
        self.lead, self.left = ranks[0], len(ranks)
        self.report: Done | Broke | None = None
        self.fault: Fault | None = None


class Owner:
    """Counts what one `Scheduler` of the script still waits for."""

    __slots__ = ("outstanding",)

    def __init__(self) -> None:
        self.outstanding = 0
