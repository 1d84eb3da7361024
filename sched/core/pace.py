"""How long tasks take, and with that how many short ones a tile is given in one turn.

A tile takes a few ready tasks: one that runs, and the next (see `policy`). If they last microseconds, it has
run out of them before the driver hears of the first. So tasks that are known to be short are given to it in
*turns* of several, which count as one: as many as last `TURN` together, by what tasks of their kind have
lasted so far, and no more than `MOST`.

Of tasks that any tile may take, a tile is given several only while more than one for each tile wait: so the
last of them are spread out.
"""

TURN = 0.0005
"""Seconds. Long beside the way to the driver and back; short enough for what else comes to wait."""

MOST = 32
"""Tasks. The longest turn, whatever they last."""

_FORGETS = 0.9


class Pace:
    """What tasks of each kind have lasted: the longest, which is forgotten little by little."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    def note(self, kind: int, seconds: float) -> None:
        """Take in how long a task took; 0 if that is not known."""
        if seconds > 0:
            self._seconds[kind] = max(seconds, _FORGETS * self._seconds.get(kind, 0.0))

    def of(self, kind: int) -> float:
        """Return how long the next may take: far more than a turn, if there is nothing to go by."""
        return self._seconds.get(kind, 1e9)
