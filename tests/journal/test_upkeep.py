"""To look at a journal changes nothing; to prune it removes what was meant, and what is of no use."""

import os

import pytest

from sched.errors import LaunchError
from sched.journal import records, upkeep, values
from sched.journal.segments import Tally
from sched.journal.store import Journal

from .writing import Heard, held, key, quiet, run

LARGE = b"v" * values.LARGE


def contents(directory):
    """Return the names, and the sizes of values, of what a journal holds, by the tasks' numbers."""
    found = upkeep.contents(directory, Tally())
    return {n: (found[key(n)].name, found[key(n)].nbytes) for n in range(20) if key(n) in found}


def on_disk(directory):
    return {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


class Killed(BaseException):
    """Stands for the end of a process."""


class Killer:
    """Ends whoever makes more than so many of the calls that it watches."""

    def __init__(self, steps):
        self.left = steps

    def before(self, function):
        def watched(*args, **kwargs):
            if not self.left:
                raise Killed
            self.left -= 1
            return function(*args, **kwargs)

        return watched


@pytest.fixture
def journal(tmp_path):
    """A journal of two runs, of which the second has replaced one value of the first."""
    run(tmp_path, (1, b"one"), (2, LARGE), name="first")
    run(tmp_path, (3, b"three"), (2, b"2"), (4, LARGE + b"more"), (5, b"5" * 100_000), name="second")
    return tmp_path


def test_it_holds_the_last_value_of_each_task(journal):
    before = on_disk(journal)
    size = len(LARGE)
    assert contents(journal) == {
        1: ("first", 3),
        2: ("second", 1),
        3: ("second", 5),
        4: ("second", size + 4),
        5: ("second", 100_000),
    }
    assert on_disk(journal) == before


def test_an_untouched_journal_has_no_problems(journal):
    tally = Tally()
    assert list(upkeep.verify(journal, tally)) == []
    assert tally == Tally()


def test_every_kind_of_damage_is_found(journal):
    [*_, log] = sorted(journal.glob("*.log"))
    log.write_bytes(log.read_bytes().replace(b"5" * 100, b"5" * 99 + b"6", 1).replace(b"three", b"tree!"))
    for file in (journal / "values").iterdir():
        file.write_bytes(file.read_bytes().replace(b"v", b"w", 1))
    tally = Tally()
    problems = list(upkeep.verify(journal, tally))
    assert len(problems) == 3
    assert sum("task 'first'" in problem for problem in problems) == 1
    assert tally.damaged == 1


def test_pruning_nothing_removes_what_is_of_no_use(journal):
    expected = contents(journal)
    (journal / "values" / f"left.npy{values.UNFINISHED}").write_bytes(b"by a run that was killed")
    (journal / "values" / "orphan.npy").write_bytes(b"without a record")
    (journal / "owner.killed").mkdir()
    (journal / "owner.killed" / "killed.json").write_text("{}")
    before = on_disk(journal)
    pruned = upkeep.prune(journal, lambda item: True)
    assert pruned.records == 1  # what was replaced
    assert pruned.nbytes == sum(map(len, before.values())) - sum(map(len, on_disk(journal).values()))
    assert pruned.nbytes > len(LARGE)
    assert contents(journal) == expected
    assert len(list((journal / "values").iterdir())) == 1
    assert held(journal, range(20)) == {
        1: b"one",
        2: b"2",
        3: b"three",
        4: LARGE + b"more",
        5: b"5" * 100_000,
    }
    assert upkeep.prune(journal, lambda item: True) == (0, 0)


def test_what_is_not_kept_goes_with_its_file(journal):
    times = {item.key: item.time for item in upkeep.contents(journal, Tally()).values()}
    upkeep.prune(journal, lambda item: item.name == "second" and item.nbytes < 200_000)
    assert sorted(contents(journal)) == [2, 3, 5]
    assert {
        item.key: item.time for item in upkeep.contents(journal, Tally()).values()
    }.items() <= times.items()
    assert list((journal / "values").iterdir()) == []
    assert len(list(journal.glob("*.log"))) == 1


def test_what_was_damaged_or_torn_goes_and_is_not_told_of_again(journal):
    for log in journal.glob("*.log"):
        log.write_bytes(log.read_bytes().replace(b"three", b"tree!")[:-1])
    heard = Heard()
    held(journal, range(20), heard)
    assert len(heard) == 2
    upkeep.prune(journal, lambda item: True)
    assert sorted(held(journal, range(20))) == [1, 2, 4]


def test_a_newer_format_is_not_pruned_and_keeps_its_files(journal, monkeypatch):
    with monkeypatch.context() as later:
        later.setattr(records, "VERSION", records.VERSION + 1)
        run(journal, (7, LARGE))
        (journal / "format").write_text("sched journal 1\n")
    before = on_disk(journal)
    upkeep.prune(journal, lambda item: False)
    left = on_disk(journal)
    newest = max(before, key=lambda path: path.name if path.suffix == ".log" else "")
    assert left[newest] == before[newest]
    assert len([path for path in left if path.suffix == ".pickle"]) == 3
    with monkeypatch.context() as later:
        later.setattr(records, "VERSION", records.VERSION + 1)
        assert held(journal, range(20)) == {7: LARGE}


def test_a_journal_that_a_run_has_is_not_pruned(journal):
    running = Journal.open(journal, warn=quiet)
    before = on_disk(journal)
    with pytest.raises(LaunchError, match="another run has it"):
        upkeep.prune(journal, lambda item: False)
    assert on_disk(journal) == before
    running.close()


def test_killed_while_it_prunes_nothing_is_lost_that_was_to_be_kept(journal, monkeypatch):
    def keep(item):
        return item.name == "second" and item.nbytes < 200_000

    steps = 0
    while True:
        killer = Killer(steps)
        with monkeypatch.context() as patch:
            for module, name in ((os, "rename"), (upkeep.Path, "unlink"), (os, "fsync")):
                patch.setattr(module, name, killer.before(getattr(module, name)))
            try:
                upkeep.prune(journal, keep)
                break
            except Killed:
                pass
        (claim,) = [*(journal / "owner").glob("*.json")] or [None]
        if claim is not None:
            claim.unlink()  # as if the process had died
        assert {2, 3, 5} <= set(held(journal, range(20)))
        steps += 1
    assert steps > 4
    assert sorted(held(journal, range(20))) == [2, 3, 5]
    assert list((journal / "values").iterdir()) == []


@pytest.mark.parametrize("make", ["missing", "empty", "file"])
def test_what_is_no_journal_is_refused(tmp_path, make):
    path = tmp_path / "journal"
    if make == "empty":
        path.mkdir()
    elif make == "file":
        path.write_text("")
    with pytest.raises(
        LaunchError, match="holds no journal: give the directory that a run had as its --journal"
    ):
        upkeep.check(path)


def test_a_journal_of_a_newer_format_is_refused(journal):
    (journal / "format").write_text("sched journal 2\n")
    with pytest.raises(LaunchError, match="it has format 2, and this sched reads formats up to 1"):
        upkeep.check(journal)
