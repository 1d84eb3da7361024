"""Who writes into values: found out by checksums, in a run with `--check`."""

from collections.abc import Iterable

from sched.backends.base import Backend, Tile
from sched.errors import UsageError
from sched.runtime.contents import checksum
from sched.runtime.store import Slot


def verify(slots: Iterable[Slot], tile: Tile, backend: Backend, name: str, *, after: bool) -> None:
    """See whether the values that a task takes are what they were when they were made, or had come.

    Args:
        slots: of the values.
        tile: where the task runs.
        name: the task's.
        after: whether it has run by now.

    Raises:
        UsageError: One has changed.
    """
    for slot in slots:
        place = tile.id if tile.id in slot.values else next(iter(slot.values), None)
        if place not in slot.values:
            continue
        found = checksum(slot.values[place], backend)
        if found == slot.sums.get(place):
            continue
        slot.sums[place] = found  # whoever comes next is not to blame
        who = f"the value of {slot.name or 'a task'} (task {slot.ref})"
        if after:
            raise UsageError(
                f"{name} has written into its argument, {who}: arguments are read-only, since other "
                "tasks take the same ones; let it write into a copy (x = x.copy())"
            )
        raise UsageError(
            f"{who} has changed since it was made, and before {name} took it: the task that made it has "
            "kept the array and written to it again; let it return a copy (x.copy())"
        )
