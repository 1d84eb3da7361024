"""The nouns that every layer shares: ids, and nothing that holds data.

A task is one call and has one value, so a task's id also names its value: that use is called a *ref*.
All ids are plain integers, counted from 0 by rank 0; `NewType` keeps them apart for the type checker
and costs nothing when the program runs.
"""

from typing import NewType, NoReturn

TaskId = NewType("TaskId", int)
TileId = NewType("TileId", int)
RankId = NewType("RankId", int)

Ref = TaskId

DRIVER = RankId(0)
"""The rank that runs the user's script, and with it the core."""


def assert_never(value: NoReturn) -> NoReturn:
    """Close a union for the type checker (`typing.assert_never` came with Python 3.11)."""
    raise AssertionError(f"cannot happen: {value!r}")
