"""What the script sees: `Scheduler`, an executor of the standard kind, and `local`."""

import concurrent.futures
import itertools
import operator
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sched.backends.base import Tile
from sched.errors import RequestError, UsageError
from sched.future import Future, bring, raise_first
from sched.model import Ref
from sched.runtime import driver, session, start
from sched.runtime.current import collect, keep, running
from sched.runtime.engine import Engine
from sched.runtime.ledger import Stats
from sched.runtime.orders import Options, Order, Owner
from sched.sizes import parse_size

TOGETHER = 32
"""How many values `map` asks for at a time, and at most how many calls it then submits."""


class Scheduler(concurrent.futures.Executor):
    """Runs calls on tiles.

    Under `sched run` it uses the run's tiles, else the local ones, in one process. Every instance uses the
    same; making one is cheap.

    Args:
        engine: for `sched.local`; leave it out.

    Raises:
        UsageError: Made inside a task.
        DeviceError: There is no device.
    """

    def __init__(self, *, engine: Engine | None = None) -> None:
        _check_script()
        self._owns = engine is not None
        self._engine = engine if engine is not None else session.engine()
        if self._engine.driver is None:
            raise UsageError("tasks are submitted by the script, on rank 0; this is another rank")
        self._owner = Owner()
        self._shut_down = False

    def __reduce__(self) -> Any:
        raise UsageError("a Scheduler stays in the script: it cannot be used or captured by a task")

    @property
    def tiles(self) -> int:
        """The number of tiles in the run."""
        return len(self._driver.ranks)

    def options(
        self,
        *,
        tile: int | None = None,
        near: Future | None = None,
        priority: int = 0,
        retries: int = 0,
        name: str | None = None,
        tiles: int = 1,
        memory: int | str = 0,
    ) -> "View":
        """Return a view of this scheduler whose calls have these options.

        Args:
            tile: run on this tile and no other.
            near: run on the tile where this future's value is, if it has room; waits until that is known.
            priority: higher goes first among tasks that wait for a tile.
            retries: how many times a call that raised is tried again, elsewhere if it can be.
            name: what errors call the task; its function's name if not given.
            tiles: how many tiles the task has to itself, at the same time. The function is called once on
                each of their ranks, all with the same arguments; `sched.current()` has its `tiles` there, and
                an MPI communicator `comm` of those ranks. The value is what the first of them returns.
            memory: bytes, or as "2 GiB": what the task allocates on its tile, its result included. Values
                that are not needed there now are spilled to the host's memory until so much is free.

        Raises:
            RequestError: There is no such tile, there are not so many or not so large ones, or `retries` is
                negative.
            TypeError: An option is of the wrong type.
        """
        if tile is not None:
            if isinstance(tile, bool) or not hasattr(tile, "__index__"):
                raise TypeError(f"tile={tile!r} is not a tile's number")
            tile = operator.index(tile)
        if near is not None:
            self._check_own(near)
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name={name!r} is not a string")
        for option, number in (("priority", priority), ("retries", retries), ("tiles", tiles)):
            if not isinstance(number, int) or isinstance(number, bool):
                raise TypeError(f"{option}={number!r} is not an integer")
        if retries < 0:
            raise RequestError(f"retries={retries} is not a number of tries")
        beside = None if near is None else near.ref
        chosen = Options(tile, beside, priority, retries, name, tiles, parse_size(memory, "memory"))
        self._driver.check(chosen)
        return View(self, chosen)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Schedule `fn(*args, **kwargs)` on a tile.

        Futures among the arguments, also inside containers and objects, stand for their values, which
        do not pass through the script. The other arguments are copied now. The function is copied when it
        is first submitted, and again if a name that it uses stands for another object since; what is
        changed in place, or in functions that it calls, is not noticed.

        Returns:
            Its future.

        Raises:
            RuntimeError: The scheduler was shut down.
            UsageError: The function captures a future or a scheduler, an argument is a future of other
                tiles, or it is a task that calls.
            Exception: Whatever pickling the function or an argument raises.
        """
        return self._submit(Options(), fn, args, kwargs)

    def submit_many(self, fn: Callable[..., Any], /, *iterables: Iterable[Any]) -> list[Future]:
        """Schedule `fn` once for each set of arguments, as `map` does, and return the futures.

        Raises:
            ValueError: The iterables are not of one length.
        """
        return self._submit_many(Options(), fn, zip(*iterables, strict=True))

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[Any]:
        """Yield the results of `fn` for each set of arguments, in order, and let each go when it is yielded.

        Args:
            timeout: seconds from now for all of it.
            chunksize: accepted for compatibility; calls travel in batches anyway.
            buffersize: how many calls may be ahead of what was yielded. The iterables are then read
                lazily, and may be endless. None: all of them are submitted now.

        Raises:
            ValueError: `chunksize` or `buffersize` is below 1.
            TimeoutError: From the iterator, when the time is over.
            Exception: From the iterator: whatever a call raised.
        """
        return self._map(Options(), fn, iterables, timeout, chunksize, buffersize)

    def put(self, value: Any, *, broadcast: bool = False) -> Future:
        """Place data ahead of time: copy a value to a tile, for tasks that will take it.

        Args:
            value: an array, or anything else that an argument may be.
            broadcast: bring it to every rank, from rank to rank as in a tree.

        Returns:
            A future of the value; dropping it frees the copies.

        Raises:
            Exception: Whatever pickling it raises.
        """
        return self._put(Options(), value, broadcast)

    def gather(self, values: Iterable[Any], *, to: "str | int | Tile" = "tile", stack: bool = False) -> Any:
        """Wait for values and bring them together, in order.

        What lies on one rank comes in one message.

        Args:
            values: futures of this scheduler, whose values may lie on any tiles; also arrays themselves.
            to: "tile": as arrays on the caller's own tile; "host": as NumPy arrays; a tile, or its number in
                the run: on that tile.
            stack: one array, with the values along a new first axis, instead of a list.

        Returns:
            The list or array; a future of it if `to` is a tile.

        Raises:
            RequestError: `to` is something else.
            TypeError: One of the values is neither a future nor an array.
            Exception: What the first of them that failed raised. Its notes say which have failed.
        """
        waiting = list(values)
        for item in waiting:
            if isinstance(item, concurrent.futures.Future) or not hasattr(item, "dtype"):
                self._check_own(item)
        if isinstance(to, Tile):
            to = to.id
        if hasattr(to, "__index__") and not isinstance(to, bool):
            return self.options(tile=operator.index(to), name="gather").submit(collect, waiting, stack)
        if to not in ("tile", "host"):
            raise RequestError(f"to={to!r} is neither 'tile' nor 'host' nor a tile")
        futures = [item for item in waiting if isinstance(item, Future)]
        raise_first(waiting)
        bring(self._engine, [future for future in futures if future.lies_elsewhere()], None)
        found = [item.result() if isinstance(item, Future) else item for item in waiting]
        packer, home = self._engine.packer, self._engine.home
        if to == "host" or home is None:
            import numpy

            found = [
                packer.to_numpy(value, computed=isinstance(item, Future))
                for value, item in zip(found, waiting, strict=True)
            ]
            return numpy.stack(found) if stack else found
        found = [packer.at_home(value, home) for value in found]
        return self._engine.backend.xp.stack(found) if stack else found

    def stats(self) -> Stats:
        """Return what lies on every tile (bytes now, at most, spilled), and what has been moved by which way.

        Counted is what the runtime has placed: values and copies of them. Every rank is asked.
        """
        return self._engine.stats()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls.

        Args:
            wait: return only when all of this scheduler's tasks have ended.
            cancel_futures: cancel those that have no tile yet.
        """
        self._shut_down = True
        if self._engine.closed:
            return
        if cancel_futures:
            self._engine.cancel_all(self._owner)
        if wait:
            self._engine.wait(lambda: not self._owner.waiting, None, lambda task: True)
            if self._owns:
                self._engine.close(0)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """Wait for all tasks; after an exception only for those that run; after Ctrl-C or exit for none."""
        self.shutdown(kind is None or issubclass(kind, Exception), cancel_futures=kind is not None)

    @property
    def _driver(self) -> driver.Driver:
        assert self._engine.driver is not None
        return self._engine.driver

    def _put(self, options: Options, value: Any, broadcast: bool) -> Future:
        if options.name is None:
            options = options._replace(name="put")
        future = self._submit(options, keep, (value,), {})
        if broadcast:
            self._engine.spread(future.ref)
        return future

    def _submit(self, options: Options, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future:
        self._check_open()
        return self._engine.submit([self._order(options, fn, args, kwargs)], self._make, self._owner)[0]  # type: ignore[return-value]

    def _submit_many(self, options: Options, fn: Any, calls: Iterable[tuple[Any, ...]]) -> list[Future]:
        self._check_open()
        held = list(calls)  # nobody else may refer to the futures among the arguments, and orders do not
        orders = [self._order(options, fn, args, {}) for args in held]
        return self._engine.submit(orders, self._make, self._owner)  # type: ignore[return-value]

    def _map(
        self,
        options: Options,
        fn: Any,
        iterables: tuple[Iterable[Any], ...],
        timeout: float | None,
        chunksize: int,
        buffersize: int | None,
    ) -> Iterator[Any]:
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if buffersize is not None and not isinstance(buffersize, int):
            raise TypeError("buffersize must be an integer or None")
        if buffersize is not None and buffersize < 1:
            raise ValueError("buffersize must be None or > 0")
        deadline = None if timeout is None else time.monotonic() + timeout
        calls = zip(*iterables, strict=False)
        waiting = deque(self._submit_many(options, fn, itertools.islice(calls, buffersize)))

        def left() -> float | None:
            return None if deadline is None else deadline - time.monotonic()

        def take() -> Any:
            if waiting[0].exception(left()) is None and waiting[0].lies_elsewhere():
                # One round trip for several, where each would take one.
                some = itertools.islice(waiting, TOGETHER)
                self._engine.want([future.ref for future in some if future.lies_elsewhere()])
            value = waiting[0].result(left())
            del waiting[0]
            room = 0 if buffersize is None else buffersize - len(waiting)
            if room and (room >= TOGETHER or 4 * room >= len(waiting)):
                waiting.extend(self._submit_many(options, fn, itertools.islice(calls, room)))
            self._engine.tidy()
            return value

        def results() -> Iterator[Any]:
            try:
                while waiting:
                    yield take()  # with no name: what is yielded belongs to the caller alone
            finally:
                # The garbage collector may be here, inside anything: so this only leaves word.
                self._engine.abandon([future.ref for future in waiting])
                waiting.clear()

        return results()

    def _order(self, options: Options, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Order:
        function = self._driver.functions.get(fn)
        arguments, inputs = self._engine.packer.pack_call(args, kwargs)
        inner = getattr(fn, "func", fn)  # of a partial
        name = options.name or getattr(inner, "__qualname__", None) or type(fn).__qualname__
        return Order(function, arguments, inputs, options, name)

    def _make(self, ref: Ref, released: "deque[Ref]", owner: Owner) -> Future:
        return Future(ref, released, owner, self._engine)

    def _check_open(self) -> None:
        _check_script()
        if self._shut_down or self._engine.closed:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _check_own(self, future: object) -> None:
        if not isinstance(future, Future) or future.packer is not self._engine.packer:
            raise TypeError(f"{future!r} is not a future of this scheduler")


class View:
    """A scheduler with options; see `Scheduler.options`."""

    def __init__(self, scheduler: Scheduler, options: Options) -> None:
        self._scheduler = scheduler
        self._options = options

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """See `Scheduler.submit`."""
        return self._scheduler._submit(self._options, fn, args, kwargs)

    def submit_many(self, fn: Callable[..., Any], /, *iterables: Iterable[Any]) -> list[Future]:
        """See `Scheduler.submit_many`."""
        return self._scheduler._submit_many(self._options, fn, zip(*iterables, strict=True))

    def put(self, value: Any, *, broadcast: bool = False) -> Future:
        """See `Scheduler.put`."""
        return self._scheduler._put(self._options, value, broadcast)

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[Any]:
        """See `Scheduler.map`."""
        return self._scheduler._map(self._options, fn, iterables, timeout, chunksize, buffersize)


def local(
    tiles: int | None = None,
    *,
    device: str = "auto",
    depth: int = 2,
    tile_memory: int | str | None = None,
    check: bool = False,
) -> Scheduler:
    """Return a scheduler with tiles of its own in this process, apart from any run.

    Args:
        tiles: how many. On `level_zero` at most what there is, else emulated ones: on `cpu` queues of the
            one device (1 if not given), on `host` threads (one for each core if not given).
        device: "auto", "level_zero", "cpu" or "host".
        depth: how many tasks whose inputs are there a tile is given at a time.
        tile_memory: bytes, or as "2 GiB": what values may take up on a tile; the others wait in the host's
            memory. 90 % of what it has, if not given.
        check: find out which task writes into its arguments; slower.

    Raises:
        RequestError: There cannot be so many tiles, or not so large ones, or there is no such kind of device.
        DeviceError: There is no such device.

    >>> with local(tiles=2, device="host") as s:
    ...     list(s.map(pow, [2, 3], [3, 2]))
    [8, 9]
    """
    _check_script()  # before there are threads to be left behind
    memory = None if tile_memory is None else parse_size(tile_memory, "tile_memory")
    settings = start.Settings(device=device, tiles=tiles, depth=depth, tile_memory=memory, check=check)
    return Scheduler(engine=session.own(start.local(settings)))


def _check_script() -> None:
    if running.get() is not None:
        raise UsageError(
            "a task cannot submit tasks: return what is needed, and submit the next tasks in the script"
        )
