"""The scheduler: one method, `handle(event) -> list[action]`.

Rules that hold after every event, and that the fuzzer checks:

* Every submitted task is settled exactly once, if its rank answers.
* Actions only depend on earlier ones (see `actions`).
* A value goes to a rank at most once, from a rank that has it or was told to expect it (see `fanout`).
* A value is freed everywhere as soon as the script cannot name it and no unfinished task takes it; then
  nothing of the task is remembered.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

from sched.core.actions import Action, Free, Move, Outcome, Run, Settle
from sched.core.events import (
    CancelRequested,
    Event,
    Failed,
    Finished,
    Released,
    Spread,
    Submitted,
    TileClosed,
    TilesOpened,
    Wanted,
)
from sched.core.fanout import Fanout
from sched.core.gangs import Gangs
from sched.core.graph import State, Task
from sched.core.policy import Policy
from sched.core.tiles import Tiles
from sched.core.window import Window
from sched.errors import ProtocolError
from sched.model import DRIVER, RankId, TaskId, TileId


class Scheduler:
    """Decide what runs where, what moves and what is freed.

    Args:
        ranks: the rank of each tile, in the order of tile ids.
        depth: how many ready tasks are given to a tile at a time, at least 1.
        on_demand: tiles that take tasks only between `TilesOpened` and the next task.
        places: the node and the card of each tile; None if all are on one node, and each rank is a card.
        budget: bytes for each tile, at least 1: see `window`. None if producers may run ahead at will.
    """

    def __init__(
        self,
        ranks: Sequence[RankId],
        *,
        depth: int = 2,
        on_demand: Collection[TileId] = (),
        places: Sequence[tuple[int, int]] | None = None,
        budget: int | None = None,
    ) -> None:
        self._ranks = tuple(ranks)
        self._tiles = Tiles(len(self._ranks), depth, on_demand, budgeted=budget is not None)
        self._policy = Policy(self._ranks, depth, self._tiles)
        self._fanout = Fanout(self._ranks)
        self._tasks: dict[TaskId, Task] = {}
        self._actions: list[Action] = []
        # Tasks that may have become placeable, and tiles that may have got room, in this event.
        self._risen: deque[Task] = deque()
        self._freed: deque[TileId] = deque()
        self._gangs = Gangs(self._ranks, places, self._tiles, self._freed.append)
        self._window = None if budget is None else Window(budget, self._tiles, self._policy)
        self._on: dict[type, Callable[[Any], None]] = {
            Submitted: self._submitted,
            Finished: self._finished,
            Failed: self._failed,
            CancelRequested: self._cancel_requested,
            Released: self._released,
            Wanted: self._wanted,
            Spread: self._spread,
            TilesOpened: self._tiles_opened,
            TileClosed: self._tile_closed,
        }

    def handle(self, event: Event) -> list[Action]:
        """Take in one event.

        Returns:
            The actions that follow from it, in their one order.

        Raises:
            ProtocolError: The event cannot have happened: a bug in the caller.
        """
        self._on[type(event)](event)
        self._place()
        actions, self._actions = self._actions, []
        return actions

    def __len__(self) -> int:
        """Count the tasks that are not forgotten yet."""
        return len(self._tasks)

    def state(self, task: TaskId) -> State | None:
        """Tell how far a task has come; None when it is forgotten."""
        found = self._tasks.get(task)
        return found.state if found else None

    def has_pinned(self, tile: TileId) -> bool:
        """Tell whether tasks wait for this tile that cannot do without it."""
        return self._policy.has_pinned(tile) or self._gangs.wait_for(tile)

    # -- events --------------------------------------------------------------------------------------

    def _submitted(self, event: Submitted) -> None:
        if event.task in self._tasks:
            raise ProtocolError(f"task {event.task} was submitted twice")
        if event.tile is not None and not 0 <= event.tile < len(self._ranks):
            raise ProtocolError(f"task {event.task} is pinned to tile {event.tile} of {len(self._ranks)}")
        if not 1 <= event.tiles <= len(self._ranks):
            raise ProtocolError(f"task {event.task} needs {event.tiles} tiles of {len(self._ranks)}")
        try:
            inputs = tuple([self._tasks[ref] for ref in event.inputs])
        except KeyError as missing:
            raise ProtocolError(f"task {event.task} takes the value {missing}, which is forgotten") from None
        near = self._tasks.get(event.near) if event.near is not None else None
        task = Task(event, inputs, near)
        self._tasks[task.id] = task
        broken = None
        for source in inputs:
            source.users += 1
            if not source.settled:
                source.consumers.append(task)
                task.unfinished += 1
                task.unplaced += not _stands(source)
            elif source.state is not State.FINISHED:
                broken = broken or source
            elif self._window is not None and source.users == 1:
                self._window.fill(source)
        if broken is not None:
            self._settle(task, State.FAILED, broken.id if broken.cause is None else broken.cause)
            return
        if near is not None and not near.settled and not _stands(near):
            near.followers.append(task)
            task.unplaced += 1
        self._risen.append(task)

    def _finished(self, event: Finished) -> None:
        task = self._running(event.task)
        stood = _stands(task)
        tile = self._leave(task)
        task.nbytes = event.nbytes
        task.state = State.FINISHED
        self._policy.pace.note(task.kind, event.seconds)
        if self._window is not None and task.users:
            self._window.fill(task)
        self._actions.append(Settle(task.id, Outcome.FINISHED))
        for consumer in task.consumers:
            if consumer.state is State.WAITING:
                consumer.unfinished -= 1
                consumer.unplaced -= not stood
                if not consumer.unplaced and (not consumer.unfinished or not stood):
                    self._risen.append(consumer)
            elif consumer.state is State.PLACED:
                if consumer.unfinished == 1:
                    assert consumer.home is not None
                    self._policy.matured(consumer.home)
                    self._freed.append(consumer.home)
                consumer.unfinished -= 1
        task.consumers.clear()
        self._let_follow(task)
        if task.wanted or task.spread:
            self._send_out(task)
        self._let_go_inputs(task)
        self._let_go(task)
        self._freed.append(tile)

    def _failed(self, event: Failed) -> None:
        task = self._running(event.task)
        tile = self._leave(task)
        if event.cause is None and task.attempt < task.retries:
            # What its rank remembers of this attempt goes first: the next may run anywhere.
            self._actions.append(Free(task.id, self._ranks[tile]))
            task.holders.clear()
            task.state, task.home, task.shunned = State.WAITING, None, tile
            task.attempt += 1
            # It raised, so its inputs are there; but it is ready only when their ranks have said so as well.
            if task.width > 1:
                self._gangs.add(task)
            elif task.ready and (again := self._policy.place_ready(task)) is not None:
                self._put(*again)
        else:
            self._settle(task, State.FAILED, event.cause)
        self._freed.append(tile)

    def _cancel_requested(self, event: CancelRequested) -> None:
        task = self._tasks.get(event.task)
        if task is not None and task.state is State.WAITING:
            self._settle(task, State.CANCELLED, None)

    def _released(self, event: Released) -> None:
        task = self._tasks.get(event.task)
        if task is None or not task.named:
            raise ProtocolError(f"the value {event.task} was released twice")
        task.named = False
        self._let_go(task)

    def _wanted(self, event: Wanted) -> None:
        task = self._tasks.get(event.task)
        if task is None:
            raise ProtocolError(f"the value {event.task} is wanted, but was released")
        task.wanted = True
        if task.state is State.FINISHED or _stands(task):
            self._send_out(task)

    def _spread(self, event: Spread) -> None:
        task = self._tasks.get(event.task)
        if task is None or not task.named:
            raise ProtocolError(f"the value {event.task} is to be spread, but was released")
        task.spread = True
        if task.state is State.FINISHED or _stands(task):
            self._send_out(task)

    def _tiles_opened(self, event: TilesOpened) -> None:
        for tile in event.tiles:
            self._check_on_demand(tile)
            if not self._gangs.holds(tile):
                self._tiles.open(tile)
                self._freed.append(tile)
        if self._gangs.lines:
            self._gangs.look()

    def _tile_closed(self, event: TileClosed) -> None:
        self._check_on_demand(event.tile)
        self._gangs.closed(event.tile)
        self._tiles.close(event.tile)

    def _check_on_demand(self, tile: TileId) -> None:
        if tile not in self._tiles.on_demand:
            raise ProtocolError(f"tile {tile} was opened or closed, but does not work on demand")

    # -- placing ---------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Put tasks on tiles until no task that rose has a tile with room, and no such tile a task."""
        while True:
            self._place_singles()
            if self._gangs.lines and (gang := self._gangs.next()) is not None:
                self._put(gang, gang.tiles[0])
                continue
            if self._window is not None and not self._freed:
                self._freed.extend(self._window.rest())
            if not self._freed:
                return

    def _place_singles(self) -> None:
        policy = self._policy
        while self._risen or self._freed:
            while self._freed:
                tile = self._freed.popleft()
                while (task := policy.pick(tile)) is not None:
                    if self._freed or task.shunned == tile:
                        self._put(task, policy.rather(task, tile))
                    else:
                        self._put(task, tile)
                    if task.home == tile:
                        for other in policy.along(task, tile):
                            self._put(other, tile)
                while (task := policy.pick_early(tile)) is not None:
                    self._put(task, tile)
            if self._risen:
                task = self._risen.popleft()
                if task.width > 1:
                    if task.ready:
                        self._gangs.add(task)
                elif task.ready:
                    found = policy.place_ready(task)
                    if found is not None:
                        self._put(*found)
                    elif task.shunned is not None:
                        self._freed.append(task.shunned)
                elif task.early:
                    tile_ahead = policy.place_early(task)
                    if tile_ahead is not None:
                        self._put(task, tile_ahead)

    def _put(self, task: Task, tile: TileId) -> None:
        rank = self._ranks[tile]
        for source in task.inputs:
            if rank not in source.holders:
                self._bring(source, rank)
        task.state, task.home = State.PLACED, tile
        if task.width > 1:
            self._run_on_all(task)
        else:
            self._policy.placed(task, tile)
            self._actions.append(Run(task.id, tile, task.attempt))
        task.holders.add(rank)
        if self._window is not None:
            self._window.placed(task)
        if task.firm:
            if task.wanted or task.spread:
                self._send_out(task)
            for consumer in task.consumers:
                consumer.unplaced -= 1
                if not consumer.unplaced:
                    self._risen.append(consumer)
            self._let_follow(task)

    def _run_on_all(self, gang: Task) -> None:
        shares: dict[RankId, list[TileId]] = {}
        for tile in gang.tiles:
            shares.setdefault(self._ranks[tile], []).append(tile)
        for source in gang.inputs:
            for rank in shares:
                self._bring(source, rank)
        ranks = tuple(shares)
        for share in shares.values():
            self._actions.append(Run(gang.id, share[0], gang.attempt, tuple(share), ranks))

    def _send_out(self, task: Task) -> None:
        if task.wanted:
            self._bring(task, DRIVER)
        if task.spread:
            for rank in dict.fromkeys(self._ranks):
                self._bring(task, rank)

    def _bring(self, task: Task, rank: RankId) -> None:
        if rank not in task.holders:
            task.holders.add(rank)
            assert task.home is not None
            source = self._fanout.sender(task, self._ranks[task.home], rank)
            self._actions.append(Move(task.id, source, rank))

    def _let_follow(self, task: Task) -> None:
        """Let tasks go on that only wished to know where this one is."""
        for follower in task.followers:
            if follower.state is State.WAITING:
                follower.unplaced -= 1
                if not follower.unplaced:
                    self._risen.append(follower)
        task.followers.clear()

    # -- ending ----------------------------------------------------------------------------------------

    def _running(self, task_id: TaskId) -> Task:
        task = self._tasks.get(task_id)
        if task is None or task.state is not State.PLACED:
            raise ProtocolError(f"task {task_id} ended, but was not running")
        return task

    def _leave(self, task: Task) -> TileId:
        assert task.home is not None
        if self._window is not None:
            self._window.left(task)
        if task.width > 1:
            self._gangs.left(task)
            self._freed.extend(task.tiles)
        else:
            self._policy.left(task, task.home)
        return task.home

    def _settle(self, first: Task, state: State, cause: TaskId | None) -> None:
        """End a task without a value, and with it the waiting tasks that take its value.

        Tasks that are placed already are told by the rank that should have sent the value.
        """
        todo = [(first, state, cause)]
        while todo:
            task, state, cause = todo.pop()
            if task.settled:
                continue
            task.state, task.cause = state, cause
            outcome = Outcome.CANCELLED if state is State.CANCELLED else Outcome.FAILED
            self._actions.append(Settle(task.id, outcome, cause))
            root = task.id if cause is None else cause
            todo += [(c, State.FAILED, root) for c in reversed(task.consumers) if c.state is State.WAITING]
            task.consumers.clear()
            self._let_follow(task)
            self._let_go_inputs(task)
            self._let_go(task)

    def _let_go_inputs(self, task: Task) -> None:
        inputs, task.inputs, task.near = task.inputs, (), None
        for source in inputs:
            source.users -= 1
            if self._window is not None and not source.users and source.state is State.FINISHED:
                tile = self._window.drain(source)
                if tile is not None:
                    self._freed.append(tile)
            self._let_go(source)

    def _let_go(self, task: Task) -> None:
        if task.settled and not task.named and not task.users:
            self._actions += [Free(task.id, rank) for rank in sorted(task.holders)]
            del self._tasks[task.id]


def _stands(task: Task) -> bool:
    """Whether the task has a place that it will keep."""
    return task.state is State.PLACED and task.firm
