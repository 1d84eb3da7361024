"""Everything that ranks say to each other, on one page.

Messages travel in batches: one pickle for all that a rank has to say to another, with large buffers
beside it. Named tuples, because they are small on the wire and quick to make.
"""

import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

from sched.model import RankId, Ref, TaskId, TileId
from sched.transport.base import Buffer

IN_BAND = 4096
"""Bytes. A smaller buffer is copied into the pickle: a message of its own would cost more."""


class Packed(NamedTuple):
    """A pickled object: the pickle, and the large buffers that belong to it."""

    header: bytes
    buffers: tuple[Any, ...] = ()


class Fault(NamedTuple):
    """Why there is no value: the exception if it can travel, and in any case what it said.

    `story` is the traceback as text, headed by where it happened.
    """

    task_name: str
    type_name: str
    message: str
    story: str
    exception: bytes | None


# -- from the driver to a rank ---------------------------------------------------------------------


class Define(NamedTuple):
    """This is the function with that number. It comes before the first task that calls it."""

    function: int
    code: Packed


class Forget(NamedTuple):
    """No task will call this function any more."""

    function: int


class Assign(NamedTuple):
    """Make this call, as soon as its inputs are here."""

    task: TaskId
    tile: TileId
    function: int
    arguments: Packed
    inputs: tuple[Ref, ...]
    attempt: int
    name: str


class Send(NamedTuple):
    """Send this value to that rank, as soon as it is here."""

    ref: Ref
    target: RankId


class Expect(NamedTuple):
    """This value will come from another rank."""

    ref: Ref


class Drop(NamedTuple):
    """Forget this value; also if it has not come yet."""

    ref: Ref


class Stop(NamedTuple):
    """Start no call any more, and end."""


# -- from a rank to the driver ---------------------------------------------------------------------


class Done(NamedTuple):
    """The call returned. A small plain value comes along (`value`), the rest stays where it is."""

    task: TaskId
    nbytes: int
    value: Packed | None


class Broke(NamedTuple):
    """The call raised, or (`cause`) was not made because that task has no value."""

    task: TaskId
    cause: TaskId | None
    fault: Fault


# -- from a rank to a rank -------------------------------------------------------------------------


class Value(NamedTuple):
    """The value that was to be sent, or why there is none (`cause`: the task that has none)."""

    ref: Ref
    packed: Packed | None
    cause: TaskId | None = None
    fault: Fault | None = None


ToRank = Define | Forget | Assign | Send | Expect | Drop | Stop
ToDriver = Done | Broke


def encode(batch: Sequence[Any]) -> tuple[bytes, list[Buffer]]:
    """Turn messages into bytes and the large buffers beside them."""
    buffers: list[Buffer] = []

    def aside(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < IN_BAND:
            return True
        buffers.append(view)
        return False

    return pickle.dumps(batch, protocol=5, buffer_callback=aside), buffers


def decode(data: Buffer, buffers: Sequence[Buffer]) -> list[Any]:
    """Turn them back. The buffers are used, not copied."""
    return pickle.loads(data, buffers=buffers)  # type: ignore[no-any-return]
