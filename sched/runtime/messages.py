"""Everything that ranks say to each other, on one page.

Messages travel in batches: one pickle for all that a rank has to say to another, with large buffers
beside it. Named tuples, because they are small on the wire and quick to make.
"""

import pickle
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sched.model import RankId, Ref, TaskId, TileId
from sched.runtime.ledger import Stats
from sched.transport.base import Buffer

IN_BAND = 4096
"""Bytes. A smaller buffer is copied into the pickle: a message of its own would cost more."""


class Packed(NamedTuple):
    """A pickled object: the pickle, and what belongs to it and is too large to be in it.

    `buffers` are ordinary memory. `memories` are arrays of a tile (`transport.base.Memory`, or ordinary
    memory where there was no room on the tile).
    """

    header: bytes
    buffers: tuple[Any, ...] = ()
    memories: tuple[Any, ...] = ()

    @property
    def nbytes(self) -> int:
        """How large it is in all."""
        return len(self.header) + sum(map(size, self.buffers)) + sum(map(size, self.memories))


def size(memory: Any) -> int:
    """Return the bytes of a buffer, or of memory of a tile."""
    found: int = memory.nbytes if hasattr(memory, "nbytes") else memoryview(memory).nbytes
    return found


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
    """Make this call, as soon as its inputs are here.

    `memory` is how many bytes it says it needs beside its inputs. `tiles` are all of this rank's tiles that
    the task has, if it has several; `ranks` are all of its ranks, if it runs on several: each makes the call,
    and the value is that of the first.
    """

    task: TaskId
    tile: TileId
    function: int
    arguments: Packed
    inputs: tuple[Ref, ...]
    attempt: int
    name: str
    memory: int = 0
    tiles: tuple[TileId, ...] = ()
    ranks: tuple[RankId, ...] = ()


class Go(NamedTuple):
    """All ranks of a task have what it takes: make the call. Or do not, because of the fault of one."""

    task: TaskId
    fault: Fault | None
    cause: TaskId | None


class Conclude(NamedTuple):
    """All ranks of a task have ended; the value that waits here is good, unless there is a fault."""

    task: TaskId
    fault: Fault | None


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


class Ask(NamedTuple):
    """Say what lies on your tiles, and what you have moved."""

    number: int


class Stop(NamedTuple):
    """Start no call any more, and end."""


# -- from a rank to the driver ---------------------------------------------------------------------


class Done(NamedTuple):
    """The call returned, after `seconds`. A small plain value comes along; the rest stays where it is."""

    task: TaskId
    nbytes: int
    value: Packed | None
    seconds: float = 0.0


class Broke(NamedTuple):
    """The call raised, or (`cause`) was not made because that task has no value."""

    task: TaskId
    cause: TaskId | None
    fault: Fault


class Ready(NamedTuple):
    """One rank of a task that runs on several has all that it takes, and waits for `Go`."""

    task: TaskId


class Part(NamedTuple):
    """One rank of a task that runs on several has ended, and it is not the first of them."""

    task: TaskId
    fault: Fault | None
    cause: TaskId | None


class Answer(NamedTuple):
    """What was asked for."""

    number: int
    stats: Stats


# -- from a rank to a rank -------------------------------------------------------------------------


class Value(NamedTuple):
    """The value that was to be sent, or why there is none (`cause`: the task that has none)."""

    ref: Ref
    name: str
    packed: Packed | None
    cause: TaskId | None = None
    fault: Fault | None = None


ToRank = Define | Forget | Assign | Go | Conclude | Send | Expect | Drop | Ask | Stop
ToDriver = Done | Broke | Ready | Part | Answer


def encode(batch: Sequence[Any]) -> tuple[bytes, list[Any]]:
    """Turn messages into bytes, and what is too large for those: first buffers, then memory of tiles."""
    buffers: list[Any] = []
    memories: list[Any] = []

    def aside(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < IN_BAND:
            return True
        buffers.append(view)
        return False

    if type(batch[0]) is Value:
        batch = [_without_memories(value, memories) for value in batch]
    data = pickle.dumps(batch, protocol=5, buffer_callback=aside)
    return data, buffers + memories


def decode(data: Buffer, buffers: Sequence[Any]) -> list[Any]:
    """Turn them back. The buffers are used, not copied."""
    left = iter(buffers)
    batch: list[Any] = pickle.loads(data, buffers=left)
    if type(batch[0]) is Value:
        return [_with_memories(value, left) for value in batch]
    return batch


def _without_memories(value: Value, memories: list[Any]) -> Value:
    packed = value.packed
    if packed is None or not (packed.buffers or packed.memories):
        return value
    # Each message on its own terms: where it is staged, a rank that is slow must not hold up the others.
    memories += [memory.again() if hasattr(memory, "again") else memory for memory in packed.memories]
    # What has arrived is passed on: by itself a memoryview would not be pickled.
    buffers = tuple([b if type(b) is pickle.PickleBuffer else pickle.PickleBuffer(b) for b in packed.buffers])
    return value._replace(packed=Packed(packed.header, buffers, (None,) * len(packed.memories)))


def _with_memories(value: Value, left: Iterator[Any]) -> Value:
    packed = value.packed
    if packed is None or not packed.memories:
        return value
    return value._replace(packed=packed._replace(memories=tuple([next(left) for _ in packed.memories])))
