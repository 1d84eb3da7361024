"""A task as the core sees it: what it takes, what takes it, how far it has come, where its value lies."""

import enum

from sched.core.events import Submitted
from sched.model import RankId, TaskId, TileId


class State(enum.IntEnum):
    """Where a task is on its one way through the core; a retry alone goes back."""

    WAITING = 0
    PLACED = 1
    FINISHED = 2
    FAILED = 3
    CANCELLED = 4


_NOBODY: list[RankId] = []
"""Few values are sent anywhere: a list for each would cost more than all that is done with it."""


class Task:
    """One call and its value.

    `unplaced` counts the inputs (and the `near` task) whose tile is not known yet, `unfinished` the
    inputs whose value is not there yet. At `unplaced == 0` the task may be placed *ahead*: its
    inputs will come to it without another word. At `unfinished == 0` it is *ready*.
    """

    __slots__ = (
        "attempt",
        "cause",
        "consumers",
        "followers",
        "holders",
        "home",
        "id",
        "inputs",
        "key",
        "kind",
        "led",
        "named",
        "nbytes",
        "near",
        "pin",
        "retries",
        "senders",
        "sent_on",
        "shunned",
        "spread",
        "state",
        "tiles",
        "turn",
        "unfinished",
        "unplaced",
        "users",
        "wanted",
        "width",
    )

    def __init__(self, event: Submitted, inputs: tuple["Task", ...], near: "Task | None") -> None:
        self.id: TaskId = event.task
        self.inputs = inputs
        self.near = near
        self.pin: TileId | None = event.tile
        self.key = (-event.priority, event.task)
        self.retries = event.retries
        self.attempt = 0
        self.state = State.WAITING
        self.cause: TaskId | None = None
        self.unplaced = 0
        self.unfinished = 0
        self.consumers: list[Task] = []
        self.followers: list[Task] = []
        # How many tiles it needs at the same time; and, if several, which it has.
        self.width = event.tiles
        self.kind = event.kind
        # How many tasks of its turn have not ended, shared by all of them; None if it is alone in it.
        self.turn: list[int] | None = None
        self.tiles: tuple[TileId, ...] = ()
        self.home: TileId | None = None
        # Whether its tile has taken one of its consumers ahead.
        self.led = False
        # Where it raised: it is tried again there only if no other tile has room.
        self.shunned: TileId | None = None
        # The value: where copies are or are going, and who still needs it.
        self.holders: set[RankId] = set()
        # Who sends it on, in the order in which they get it, and how many copies they have been told to send.
        self.senders: list[RankId] = _NOBODY
        self.sent_on = 0
        self.nbytes = 0
        self.users = 0
        self.named = True
        self.wanted = False
        self.spread = False

    @property
    def settled(self) -> bool:
        return self.state >= State.FINISHED

    @property
    def ready(self) -> bool:
        """Whether it waits for nothing but a tile."""
        return self.state is State.WAITING and self.unplaced == 0 and self.unfinished == 0

    @property
    def early(self) -> bool:
        """Whether it may be placed ahead of its inputs."""
        return self.state is State.WAITING and self.unplaced == 0 and self.unfinished > 0

    @property
    def firm(self) -> bool:
        """Whether it will stay where it is placed: a task that may be retried can move."""
        return self.attempt >= self.retries
