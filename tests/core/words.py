"""A scheduler whose decisions read as sentences."""

from sched.core.actions import Free, Move, Run, Settle
from sched.core.events import (
    CancelRequested,
    Failed,
    Finished,
    Released,
    Spread,
    Submitted,
    TileClosed,
    TilesOpened,
    Wanted,
)
from sched.core.scheduler import Scheduler

BIG = 1 << 30


class Core:
    """A scheduler and what it has said, in words: named tuples of two types can be equal."""

    def __init__(self, tiles=4, *, ranks=None, depth=2, on_demand=(), places=None, budget=None):
        ranks = ranks or range(tiles)
        self.scheduler = Scheduler(ranks, depth=depth, on_demand=on_demand, places=places, budget=budget)
        self.said = []
        # Where each task runs: its tile, or the lead's; and all of its tiles.
        self.tile = {}
        self.tiles = {}
        self.next_task = 0

    def tell(self, event):
        said, first = [], set()
        for action in self.scheduler.handle(event):
            if isinstance(action, Run) and action.ranks:
                if action.task not in first:
                    first.add(action.task)
                    self.tile[action.task], self.tiles[action.task] = action.tile, ()
                self.tiles[action.task] += action.tiles
                tiles, ranks = ("+".join(map(str, ids)) for ids in (action.tiles, action.ranks))
                words = f"run {action.task} on {tiles} for {ranks}"
                said.append(words + " again" * action.attempt)
            elif isinstance(action, Run):
                self.tile[action.task], self.tiles[action.task] = action.tile, (action.tile,)
                said.append(f"run {action.task} on {action.tile}" + " again" * action.attempt)
            elif isinstance(action, Move):
                said.append(f"move {action.ref} from {action.source} to {action.target}")
            elif isinstance(action, Free):
                said.append(f"free {action.ref} on {action.rank}")
            elif isinstance(action, Settle):
                because = "" if action.cause is None else f" because of {action.cause}"
                said.append(f"{action.task} {action.outcome.value}{because}")
        self.said += said
        return said

    def submit(self, *inputs, **wishes):
        """Submit the next task."""
        task = self.next_task
        self.next_task += 1
        return self.tell(Submitted(task, inputs, **wishes))

    def finish(self, task, nbytes=0):
        return self.tell(Finished(task, nbytes))

    def fail(self, task, cause=None):
        return self.tell(Failed(task, cause))

    def cancel(self, task):
        return self.tell(CancelRequested(task))

    def release(self, task):
        return self.tell(Released(task))

    def want(self, task):
        return self.tell(Wanted(task))

    def spread(self, task):
        return self.tell(Spread(task))

    def open(self, tile):
        return self.tell(TilesOpened((tile,)))

    def close(self, tile):
        return self.tell(TileClosed(tile))

    def said_about(self, verb):
        return [words for words in self.said if words.startswith(verb)]

    def finish_all(self):
        """End every task in the order in which they were placed."""
        ended = set()
        while running := [task for task in self.tile if task not in ended]:
            ended.add(running[0])
            self.finish(running[0])
