"""Whether MPI is given device pointers: the decision, and the trial that has to precede it."""

import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from sched import backends
from sched.backends.host import Host
from sched.errors import LaunchError, RequestError
from sched.model import RankId
from sched.runtime import selftest
from sched.runtime.meeting import CannotBegin
from sched.runtime.selftest import Way, plan, trial
from sched.transport.loopback import loopback

SIZES = (1, 251, 4_096, 70_001)


# --- the decision ---


@pytest.mark.parametrize(
    ("asked", "kind", "words", "way"),
    [
        # a GPU's memory is given away only on MPI's word, of all ranks, and after a trial
        ("auto", "level_zero", ["yes", "yes"], Way.TRIAL),
        ("auto", "level_zero", ["yes", None], Way.STAGED),
        ("auto", "level_zero", [None, None], Way.STAGED),
        ("device", "level_zero", ["yes", "yes"], Way.TRIAL),
        ("host", "level_zero", ["yes", "yes"], Way.STAGED),
        # that of the CPU device is the host's
        ("auto", "cpu", [None], Way.POINTERS),
        ("host", "cpu", [None], Way.STAGED),
        ("device", "cpu", [None], Way.TRIAL),
        # and NumPy's is nothing else
        ("auto", "host", [None], Way.POINTERS),
        ("host", "host", [None], Way.POINTERS),
        ("device", "host", [None], Way.POINTERS),
    ],
)
def test_the_way_follows_from_what_was_asked_and_what_mpi_says(asked, kind, words, way):
    assert plan(asked, kind, words, "MPICH") is way


@pytest.mark.parametrize("words", [[None, None], ["yes", None]])
def test_device_pointers_without_mpis_word_are_refused(words):
    with pytest.raises(RequestError, match=r"this MPI \(Some MPI 5\) does not say .*--mpi-buffers host"):
        plan("device", "level_zero", words, "Some  MPI\t5")


@pytest.mark.parametrize(
    ("kinds", "word"),
    [
        (
            "system,mpi,level_zero,level_zero:device",
            "mpi_memory_alloc_kinds=system,mpi,level_zero,level_zero:device",
        ),
        ("mpi, level_zero:device", "mpi_memory_alloc_kinds=mpi, level_zero:device"),
        ("mpi,system,cuda:device", None),
        (None, None),
    ],
)
def test_mpis_word_is_the_kinds_of_memory_that_it_names(monkeypatch, kinds, word):
    pytest.importorskip("mpi4py")
    from sched.transport import mpi

    world = SimpleNamespace(Get_info=lambda: SimpleNamespace(Get=lambda name: kinds))
    # The library beside it is Python's own here, which has no MPIX_Query_ze_support.
    monkeypatch.setattr(mpi, "MPI", SimpleNamespace(COMM_WORLD=world, __file__=None))
    assert mpi.takes_device_memory() == word


# --- the trial ---


class Damaging(Host):
    """A backend whose arrays do not come back as they were."""

    def __init__(self, ids, rank, damage):
        super().__init__(ids, rank)
        self._damage = damage

    def restore(self, exported, tile):
        return self._damage(super().restore(exported, tile).copy())


def ring(size, backend=Host, **options):
    """Make the trial with so many ranks; return what each of them found, or raised."""
    ends = loopback(size)
    members = [RankId(rank) for rank in range(size)]

    def run(end):
        tiles = backend(range(end.rank, end.rank + 1), end.rank)
        end.room = tiles.room
        try:
            return trial(end, tiles, members, sizes=SIZES, **options)
        except LaunchError as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, ends))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_ring_of_ranks_finds_nothing_wrong(size):
    assert ring(size) == [None] * size


@pytest.mark.sycl
@pytest.mark.parametrize("direct", [True, False])
def test_the_cpu_device_passes_with_its_own_memory_and_with_copies(direct):
    found = backends.find("cpu")
    backend = backends.start(found, list(found.filters[:1]), range(1), RankId(0))
    backend.direct = direct
    [end] = loopback(1)
    end.room = backend.room
    end.piece = 10_000
    assert trial(end, backend, [RankId(0)], sizes=SIZES) is None


def flip_last(array):
    array[-1] ^= 1
    return array


def swap_halves(array):
    half = len(array) // 2
    array[:half], array[half : 2 * half] = array[half : 2 * half].copy(), array[:half].copy()
    return array


@pytest.mark.parametrize(
    ("damage", "nbytes"), [(flip_last, 1), (swap_halves, 251), (lambda array: array * 0, 1)]
)
def test_bytes_that_change_on_the_way_are_noticed(damage, nbytes):
    found = ring(2, lambda ids, rank: Damaging(ids, rank, damage))
    for rank, sentence in enumerate(found):
        assert sentence.startswith(f"{nbytes} bytes from rank {1 - rank} were not what it had sent, ")


def test_the_patterns_of_two_sizes_and_of_two_ranks_differ():
    shown = [bytes(selftest._pattern(rank, number, 300)) for rank in range(4) for number in range(5)]
    assert len(set(shown)) == len(shown)


def test_what_does_not_arrive_in_time_is_an_error_with_a_remedy():
    end = loopback(2)[0]
    with pytest.raises(LaunchError, match=r"rank 0 has waited in vain for rank 1 .*--mpi-buffers host"):
        trial(end, Host(range(1), RankId(0)), [RankId(0), RankId(1)], sizes=SIZES, limit=0)


def die_inside(statement):
    """Run a statement of a process inside what watches over the trial."""
    program = textwrap.dedent(f"""
        import os, signal
        from sched.runtime import selftest
        from sched.transport.loopback import loopback
        [end] = loopback()
        with selftest._watched(end, LIMIT):
            {statement}
        print("came through")
    """).replace("LIMIT", "-10" if "pause" in statement else "30")
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("death", ["os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_process_that_dies_of_the_trial_is_survived_by_the_reason(death):
    end = die_inside(death)
    assert end.returncode in (3, -signal.SIGKILL)
    [line] = end.stderr.splitlines()
    assert line.startswith("sched: rank 0 on ")
    assert line.endswith("start the run with --mpi-buffers host")


def test_a_trial_that_never_returns_is_ended_with_the_reason():
    end = die_inside("signal.pause()")
    assert end.returncode == 2
    [line] = end.stderr.splitlines()
    assert "hangs inside the trial" in line


def test_a_process_that_lives_hears_nothing():
    end = die_inside("pass")
    assert (end.returncode, end.stdout, end.stderr) == (0, "came through\n", "")


# --- what all ranks make of it ---


class Wire:
    """A transport that is alone and can only be set."""

    rank, size, room, piece = RankId(0), 1, None, None

    def allgather(self, item):
        return [item]


@pytest.fixture
def settled(monkeypatch):
    """Settle the way of a run with a GPU whose trial ends like this; return all that came of it."""
    pytest.importorskip("mpi4py")
    from sched.transport import mpi

    def settled(asked, outcome, word="yes"):
        def end(*_):
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(selftest, "trial", end)
        monkeypatch.setattr(mpi, "takes_device_memory", lambda: word)
        backend, wire, told = Host(range(1), RankId(0)), Wire(), []
        backend.kind = "level_zero"
        way = selftest.settle(asked, wire, backend, [RankId(0)], told.append)
        return way, backend.direct, wire.piece is not None, told

    return settled


def test_a_trial_that_succeeds_gives_device_pointers(settled):
    assert settled("auto", None) == (Way.POINTERS, True, False, [])
    assert settled("device", None) == (Way.POINTERS, True, False, [])


@pytest.mark.sycl
def test_auto_falls_back_to_staging_and_says_why(settled):
    told = ["values between ranks are staged through the host, because a trial failed: wrong bytes"]
    assert settled("auto", "wrong bytes") == (Way.STAGED, False, True, told)


@pytest.mark.sycl
@pytest.mark.parametrize(("asked", "word"), [("auto", None), ("host", "yes")])
def test_without_mpis_word_and_on_demand_values_are_staged_without_a_trial(settled, asked, word):
    assert settled(asked, AssertionError("no trial was due"), word) == (Way.STAGED, False, True, [])


@pytest.mark.parametrize(
    ("asked", "outcome", "stuck", "said"),
    [
        ("device", "wrong bytes", False, "wrong bytes: start the run with --mpi-buffers host"),
        ("device", LaunchError("late"), True, "late"),
        ("auto", OSError("device lost"), True, "device lost"),
    ],
)
def test_a_run_that_cannot_go_on_ends_with_the_reason(settled, asked, outcome, stuck, said):
    with pytest.raises(CannotBegin) as caught:
        settled(asked, outcome)
    assert caught.value.problems == [f"rank 0 cannot begin: {said}"]
    assert caught.value.stuck is stuck
