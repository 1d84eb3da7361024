"""No decision costs more because there are more tiles, or more tasks that wait.

Lines are counted, not seconds: the same on every machine, and exact.
"""

import sys

import pytest

from sched.core import scheduler
from sched.core.actions import Run
from sched.core.events import CancelRequested, Failed, Finished, Released, Submitted, TileClosed, TilesOpened
from sched.core.scheduler import Scheduler

CORE = scheduler.__file__.removesuffix("scheduler.py")


def lines_of(call):
    """Count the lines of the core that a call runs; each step of a generator is one."""
    count = 0

    def tracer(frame, event, argument):
        nonlocal count
        if not frame.f_code.co_filename.startswith(CORE):
            return None
        count += event == "line"
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


class Counted:
    """A scheduler whose ranks end every task at once, in order; it knows the dearest event so far."""

    def __init__(self, tiles, *, on_demand=(), budget=None):
        self.scheduler = Scheduler(range(tiles), on_demand=on_demand, budget=budget)
        self.running = []
        self.most = {}

    def tell(self, event):
        def handle():
            actions = self.scheduler.handle(event)
            self.running += [action.task for action in actions if isinstance(action, Run)]

        kind = type(event).__name__
        self.most[kind] = max(self.most.get(kind, 0), lines_of(handle))

    def finish_all(self):
        for task in self.running:
            self.tell(Finished(task, 1000))


def spread(tiles):
    """Four independent tasks for each tile, of which half wait."""
    core = Counted(tiles)
    for task in range(4 * tiles):
        core.tell(Submitted(task))
    core.finish_all()
    return core.most


def stencil(tiles):
    core = Counted(tiles)
    for i in range(2 * tiles):
        core.tell(Submitted(i))
    for i in range(2 * tiles):
        core.tell(Submitted(2 * tiles + i, tuple(range(max(0, i - 1), min(2 * tiles, i + 2)))))
        core.tell(Released(i))
    core.finish_all()
    return core.most


def tries(tiles):
    """Every tile is full of tasks that raise once; half of those that wait are cancelled."""
    core = Counted(tiles)
    for task in range(4 * tiles):
        core.tell(Submitted(task, retries=1))
    for task in range(2 * tiles, 4 * tiles, 2):
        core.tell(CancelRequested(task))
    for task in core.running[: 2 * tiles]:
        core.tell(Failed(task))
    return core.most


def on_demand(tiles):
    core = Counted(tiles, on_demand=range(tiles))
    for task in range(2 * tiles):
        core.tell(Submitted(task))
    for tile in range(tiles):
        core.tell(TilesOpened((tile,)))
        core.tell(TileClosed(tile))
    return core.most


def producers(tiles):
    """Every tile is over its budget; half of the producers wait, and a consumer of each runs or waits."""
    core = Counted(tiles, budget=1000)
    for task in range(4 * tiles):
        core.tell(Submitted(task))
    for task in range(2 * tiles):
        core.tell(Submitted(4 * tiles + task, (task,)))
    for task in core.running[: 2 * tiles]:
        core.tell(Finished(task, 1000))
    for task in core.running[2 * tiles : 4 * tiles]:
        core.tell(Finished(task, 1000))
    return core.most


def gang(tiles):
    """A gang collects and then runs, while all tiles have their work; its choice of tiles is not counted."""
    core = Counted(tiles)
    for task in range(4 * tiles):
        core.tell(Submitted(task))
    core.scheduler.handle(Submitted(4 * tiles, tiles=6))
    for task in core.running[: 2 * tiles - 1]:
        core.tell(Finished(task, 1000))
    return core.most


@pytest.mark.parametrize("story", [spread, stencil, tries, on_demand, producers, gang])
def test_the_dearest_event_of_each_kind_is_as_dear_on_12_tiles_as_on_1200(story):
    assert story(12) == story(1200)


def test_a_burst_of_work_costs_a_burst():
    """One event may place many tasks: then it costs so much for each, and no more."""

    def lines_per_task(tiles):
        core = Counted(tiles)
        core.tell(Submitted(0, retries=1))
        for task in range(1, tiles + 1):
            core.tell(Submitted(task, (0,)))
        core.tell(Finished(0, 1000))
        return core.most["Finished"] / tiles

    assert lines_per_task(1200) <= lines_per_task(12)


def test_an_input_more_costs_an_input_more():
    def lines_per_input(count):
        core = Counted(count)
        for task in range(count):
            core.tell(Submitted(task))
        core.most.clear()
        core.tell(Submitted(count, tuple(range(count))))
        return core.most["Submitted"] / count

    assert lines_per_input(400) <= lines_per_input(40)
