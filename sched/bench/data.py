"""How fast a task's argument comes to another rank, beside plain MPI, in the same run.

`sched bench data` runs this file as a job, between two tiles of two ranks. For each size it takes turns, so
that a noisy machine hits all alike:

* *raw*: `Send` and `Recv` of NumPy arrays, into memory that was used before; half of a round trip;
* *task*: from when a value lies on the first tile, and a task that takes it is submitted to the second, until
  the small result of that task is back. Where the value is small this is what dispatching a task costs;
* *pickled*: mpi4py's `send` and `recv` of the array, by way of NumPy since a dpnp array cannot be pickled;
  half of a round trip.

Every byte that arrives is compared with what was sent, outside the timing.

On the CPU device the ways do not send from the same kind of memory: NumPy asks for huge pages and dpnp does
not. Where Linux gives them to those who ask, MPI reads 64 MiB from one core to another in 3.7 ms out of huge
pages, and in 11 ms out of small ones. With NUMPY_MADVISE_HUGEPAGE=0 all are small.
"""

import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import sched
from sched.sizes import show_size

ROUNDS = 50
"""How often a small size is sent in one repetition."""

PORTION = 4 << 20
"""Bytes that are sent in one repetition, if `ROUNDS` are not reached before, or one value is larger."""


class Times(NamedTuple):
    """Seconds that one way of sending took."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, samples: list[float]) -> "Times":
        return cls(statistics.median(samples), min(samples), max(samples))

    def __str__(self) -> str:
        unit, factor = _unit(self.median, (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)))
        median, least, most = (f"{seconds / factor:.3g}" for seconds in self)
        return f"{median} {unit} ({least}..{most})"


# -- tasks -------------------------------------------------------------------------------------------------


def meet() -> tuple[tuple[int, int], str]:
    """Return the tiles of a task on two ranks, in the order of its communicator, and what MPI this is."""
    from sched.transport.mpi import library

    task = sched.current()
    first, second = task.comm.allgather(task.tile)
    return (first, second), " ".join(library().split())


def raw(nbytes: int, seed: int, rounds: int) -> list[float]:
    """Time MPI alone: the task on two ranks."""
    import numpy

    comm = sched.current().comm
    other = 1 - comm.rank
    sent, came = pattern(nbytes, seed), numpy.zeros(nbytes, numpy.uint8)
    took = list(_halves(comm, rounds, lambda: comm.Send(sent, other), lambda: comm.Recv(came, other)))
    compare(came, nbytes, seed, "MPI")
    return took


def pickled(nbytes: int, seed: int, rounds: int) -> list[float]:
    """Time mpi4py's own way with objects: the task on two ranks."""
    task = sched.current()
    other = 1 - task.comm.rank
    sent = came = on_tile(pattern(nbytes, seed))

    def send() -> None:
        task.comm.send(to_numpy(sent), other)

    def receive() -> None:
        nonlocal came
        came = on_tile(task.comm.recv(source=other))

    took = list(_halves(task.comm, rounds, send, receive))
    compare(to_numpy(came), nbytes, seed, "mpi4py")
    return took


def make(nbytes: int, seed: int) -> Any:
    """Make a value that no rank has seen yet."""
    return on_tile(pattern(nbytes, seed))


def wake() -> None:
    """Do nothing."""


def take(value: Any) -> int:
    """Have the value."""
    return int(value.nbytes)


def check(value: Any, nbytes: int, seed: int) -> None:
    """See whether the value is right."""
    compare(to_numpy(value), nbytes, seed, "sched")


def _halves(
    comm: Any, rounds: int, send: Callable[[], object], receive: Callable[[], object]
) -> Iterator[float]:
    """Send there and back, once more than is timed; yield half of the seconds of each time."""
    for number in range(rounds + 1):
        comm.Barrier()
        begun = time.perf_counter()
        for act in (send, receive) if comm.rank == 0 else (receive, send):
            act()
        if number:
            yield (time.perf_counter() - begun) / 2


def pattern(nbytes: int, seed: int) -> Any:
    """Return bytes of which no eight are like others: nothing can come to a wrong place unnoticed."""
    import numpy

    words = numpy.arange(seed, seed - (-nbytes // 8), dtype=numpy.uint64)
    words *= numpy.uint64(0x9E3779B97F4A7C15)
    return words.view(numpy.uint8)[:nbytes]


def compare(came: Any, nbytes: int, seed: int, way: str) -> None:
    """Raise RuntimeError if these are not the bytes that were sent."""
    import numpy

    if not numpy.array_equal(came, pattern(nbytes, seed)):
        raise RuntimeError(f"{nbytes} bytes that were sent by {way} did not arrive as they were: report it")


def on_tile(array: Any) -> Any:
    """Return an array of the task's tile with the value of a NumPy array, when it is there."""
    task = sched.current()
    made = task.asarray(array)
    if task.queue is not None:
        task.queue.wait()
    return made


def to_numpy(array: Any) -> Any:
    """Return an array of the task's tile as one of NumPy."""
    return array.asnumpy() if hasattr(array, "asnumpy") else array


# -- the script --------------------------------------------------------------------------------------------


def main(sizes: list[int], repeat: int, file: IO[str] | None) -> None:
    """Measure, print a row for each size, and write all of it to a file as JSON.

    Args:
        sizes: in bytes.
        repeat: how many times each is measured.
        file: where the JSON goes, if anywhere.

    Raises:
        RuntimeError: Something did not arrive as it was sent.
    """
    with sched.Scheduler() as s:
        both = s.options(tile=0, tiles=2)
        pair, library = both.submit(meet).result()
        # From the script's rank to the other. A tile of the script's own rank may work only while the script
        # waits (dpnp), and then takes a call a little later than it could: that would be in the figure. The
        # other rank does nothing but wait for a value and take it, as any two ranks without a script do.
        source, target = (s.options(tile=tile) for tile in pair)
        tile = sched.tiles()[0]
        print(f"tile {pair[0]} to tile {pair[1]} of {s.tiles} ({tile.filter}: {tile.name}); {library}")
        print("median (least..most) of the times, and the speed that the median is")
        heads = " ".join(f"{way:>26} {'':9}" for way in ("raw MPI", "argument of a task", "pickled"))
        print(f"{'size':>8} {heads} {'task/raw':>8}  moved by", flush=True)

        def argument(nbytes: int, seed: int) -> float:
            value = source.submit(make, nbytes, seed)
            if (error := value.exception()) is not None:  # waits, and brings no value to the script
                raise error
            # A rank that has had nothing to do looks for messages every millisecond. Those of the other two
            # ways are awake as well, since they meet in a barrier.
            target.submit(wake).result()
            begun = time.perf_counter()
            target.submit(take, value).result()
            took = time.perf_counter() - begun
            target.submit(check, value, nbytes, seed).result()
            return took

        rows = []
        for nbytes in sizes:
            rounds = max(1, min(ROUNDS, PORTION // nbytes))
            samples: dict[str, list[float]] = {"raw": [], "task": [], "pickled": []}
            argument(nbytes, 0)  # functions travel, and memory is used for the first time
            before = s.stats().moves
            for seed in range(1, repeat + 1):
                samples["raw"] += both.submit(raw, nbytes, seed, rounds).result()
                samples["task"] += [argument(nbytes, seed + i) for i in range(rounds)]
                samples["pickled"] += both.submit(pickled, nbytes, seed, rounds).result()
            times = {way: Times.of(seconds) for way, seconds in samples.items()}
            ratio = times["raw"].median / times["task"].median
            moves = _since(before, s.stats().moves)
            rows.append(
                {
                    "nbytes": nbytes,
                    "samples": repeat * rounds,
                    "ratio": ratio,
                    "moves": {rung: move._asdict() for rung, move in moves.items()},
                    **{way: each._asdict() for way, each in times.items()},
                }
            )
            shown = " ".join(f"{each!s:>26} {_speed(nbytes, each.median):>9}" for each in times.values())
            print(f"{show_size(nbytes):>8} {shown} {ratio:8.3f}  {_ways(moves)}", flush=True)
    if file is not None:
        json.dump(
            {
                "device": tile.filter,
                "name": tile.name,
                "mpi": library,
                "from_tile": pair[0],
                "to_tile": pair[1],
                "unit": "s",
                "rows": rows,
            },
            file,
            indent=1,
        )


def _since(before: Any, after: Any) -> dict[str, Any]:
    """Return what was moved between two reports."""
    moves = {}
    for rung, now in after.items():
        then = before.get(rung, now._replace(times=0, nbytes=0, seconds=0.0))
        if now.times > then.times:
            differences = (new - old for new, old in zip(now, then, strict=True))
            moves[rung] = type(now)(*differences)
    return moves


def _ways(moves: dict[str, Any]) -> str:
    """Show by which rungs something was moved, and how fast where that is known."""
    shown = []
    for rung, move in moves.items():
        shown.append(f"{rung} {_speed(move.nbytes, move.seconds)}" if move.seconds else rung)
    return ", ".join(shown)


def _speed(nbytes: int, seconds: float) -> str:
    unit, factor = _unit(nbytes / seconds, (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)))
    return f"{nbytes / seconds / factor:.3g} {unit}"


def _unit(amount: float, units: tuple[tuple[str, float], ...]) -> tuple[str, float]:
    """Return the largest unit that fits in, else the smallest."""
    return next((unit for unit in units if amount >= unit[1]), units[-1])


def _opened(path: str) -> "contextlib.AbstractContextManager[IO[str] | None]":
    if not path:
        return contextlib.nullcontext()
    try:
        return open(path, "w")
    except OSError as error:
        raise SystemExit(
            f"sched: the file {path!r} cannot be written: {error.strerror}; give another to --json"
        ) from None


if __name__ == "__main__":  # `sched.cli.bench` has checked what it passes on
    _sizes, _repeat, _path = sys.argv[1:]
    with _opened(_path) as _file:
        main([int(size) for size in _sizes.split(",")], int(_repeat), _file)
