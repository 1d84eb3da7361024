"""What a run records, the next run finds; and what cannot be recorded or read ends no run."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sched.errors import LaunchError
from sched.journal import owner, records, segments, store, values
from sched.journal.store import Journal

from .writing import Heard, held, key, quiet, run

CHECKOUT = Path(__file__).parents[2]


def logs(directory):
    """Return the segments of a journal, by rank and run."""
    return sorted(directory.glob("rank-*.log"))


def test_what_a_run_recorded_the_next_one_finds(tmp_path):
    run(tmp_path / "journal", (1, b"one"), (2, b"two"))
    assert held(tmp_path / "journal", range(4)) == {1: b"one", 2: b"two"}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.binary(max_size=99), st.lists(st.binary(max_size=99), max_size=3))
    ),
    st.sampled_from([1, 60, 1 << 20]),
)
def test_the_last_value_of_each_task_counts_whatever_its_size(recorded, large):
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "LARGE", large)
        patch.setattr(values, "LARGE", large)
        journal = Journal.open(name, warn=quiet)
        for number, header, buffers in recorded:
            assert journal.record(key(number), header, buffers, "task")
        journal.close()
        journal = Journal.open(name, warn=quiet)
        expected = {number: (header, buffers) for number, header, buffers in recorded}
        assert len(journal) == len(expected)
        for number, (header, buffers) in expected.items():
            found, rest = journal.load(journal.find(key(number)))
            assert (found, [bytes(part) for part in rest]) == (header, buffers)
        journal.close()


def test_every_rank_records_in_a_file_of_its_own_and_reads_those_of_all(tmp_path):
    first = Journal.open(tmp_path, warn=quiet)
    ranks = [first, *(Journal.join(tmp_path, rank, first.run, warn=quiet) for rank in (1, 2))]
    for rank, journal in enumerate(ranks):
        journal.record(key(rank), b"of rank %d" % rank, (), "task")
    assert [path.name for path in logs(tmp_path)] == [f"rank-0000{rank}.{first.run}.log" for rank in range(3)]
    for journal in reversed(ranks):
        journal.close()
    second = Journal.open(tmp_path, warn=quiet)
    reader = Journal.join(tmp_path, 5, second.run, warn=quiet)
    assert [reader.load(second.find(key(rank)))[0] for rank in range(3)] == [
        b"of rank 0",
        b"of rank 1",
        b"of rank 2",
    ]
    reader.close()
    second.close()


def test_a_rank_that_records_nothing_leaves_nothing(tmp_path):
    journal = Journal.open(tmp_path, warn=quiet)
    Journal.join(tmp_path, 1, journal.run, warn=quiet).close()
    journal.close()
    assert sorted(os.listdir(tmp_path)) == ["format"]


def test_small_values_share_a_file_and_large_ones_have_their_own(tmp_path):
    journal = Journal.open(tmp_path, warn=quiet)
    for number in range(100):
        journal.record(key(number), b"small", (), "task")
    array = np.arange(values.LARGE // 8, dtype=float)
    journal.record(key(100), b"header", [array], "task")
    journal.close()
    assert len(logs(tmp_path)) == 1
    [file] = (tmp_path / "values").iterdir()
    assert np.array_equal(np.load(file), array)
    journal = Journal.open(tmp_path, warn=quiet)
    header, [buffer] = journal.load(journal.find(key(100)))
    assert header == b"header"
    assert np.array_equal(np.frombuffer(buffer), array)
    journal.close()


def test_a_later_run_adds_and_never_touches_what_is_there(tmp_path):
    run(tmp_path, (1, b"one"))
    before = {path: path.read_bytes() for path in logs(tmp_path)}
    run(tmp_path, (2, b"two"))
    assert before.items() <= {path: path.read_bytes() for path in logs(tmp_path)}.items()
    assert held(tmp_path, range(3)) == {1: b"one", 2: b"two"}


@pytest.mark.parametrize("name", ["with space", "new\nline", "ünï→code", "-dash", "*[glob]"])
def test_any_path_will_do(tmp_path, name):
    run(tmp_path / name, (1, b"one"))
    assert held(tmp_path / name, range(2)) == {1: b"one"}


@pytest.mark.parametrize("name", ["", "a\nb\0", "\ud800", "ü" * 5000])
def test_any_task_name_will_do(tmp_path, name):
    run(tmp_path, (1, b"one"), (2, b"two"), name=name)
    assert held(tmp_path, range(3)) == {1: b"one", 2: b"two"}


def test_files_that_are_not_the_journals_are_left_alone_and_named_once(tmp_path):
    run(tmp_path, (1, b"one"))
    (tmp_path / "job.py").write_text("print()")
    (tmp_path / "rank-00009.then.log").write_text("not what the name says, although it is long")
    heard = Heard()
    assert held(tmp_path, range(2), heard) == {1: b"one"}
    assert [sentence.partition(": ")[2] for sentence in heard] == [
        "2 files there are not its own, and are left alone: 'job.py', 'rank-00009.then.log'"
    ]
    assert (tmp_path / "job.py").exists()


def test_a_torn_record_is_told_of_and_its_task_runs_again(tmp_path):
    run(tmp_path, (1, b"one"), (2, b"two"))
    [path] = logs(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    heard = Heard()
    assert held(tmp_path, range(3), heard) == {1: b"one"}
    assert len(heard) == 1
    assert "1 of its files end in a record that was not written completely" in heard[0]


def test_a_value_without_its_file_is_not_found(tmp_path):
    run(tmp_path, (1, b"one" * values.LARGE), (2, b"two"))
    [file] = (tmp_path / "values").iterdir()
    file.unlink()
    heard = Heard()
    assert held(tmp_path, range(3), heard) == {2: b"two"}
    assert "1 values have lost their files" in heard[0]


def test_what_is_damaged_after_it_was_found_is_not_loaded(tmp_path):
    run(tmp_path, (1, b"one"), (2, b"t" * values.LARGE), (3, b"3" * (segments.CHECKED + 1)))
    heard = Heard()
    journal = Journal.open(tmp_path, warn=heard)
    entries = [journal.find(key(number)) for number in (1, 2, 3)]
    [log], [file] = logs(tmp_path), (tmp_path / "values").iterdir()
    file.write_bytes(file.read_bytes().replace(b"t", b"x", 1))
    log.write_bytes(log.read_bytes().replace(b"one", b"two").replace(b"3" * 100, b"4" * 100, 1))
    assert [journal.load(entry) for entry in entries] == [None, None, None]
    assert len(heard) == 1
    assert heard[0].endswith(f"its task runs again: a record of {log.name} is not what was written")
    journal.close()


def test_what_is_damaged_before_it_is_looked_up_is_not_found(tmp_path):
    run(tmp_path, (1, b"one"), (2, b"t" * values.LARGE), (3, b"3" * (segments.CHECKED + 1)))
    heard = Heard()
    journal = Journal.open(tmp_path, warn=heard)
    assert len(journal) == 3
    [log], [file] = logs(tmp_path), (tmp_path / "values").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    log.write_bytes(log.read_bytes().replace(b"one", b"two").replace(b"3" * 100, b"4" * 100, 1))
    assert [journal.find(key(number)) for number in (1, 2, 3)] == [None, None, None]
    assert len(heard) == 1
    journal.close()


def test_an_entry_says_how_large_its_value_is(tmp_path):
    run(tmp_path, (1, b"one"), (2, b"t" * values.LARGE))
    journal = Journal.open(tmp_path, warn=quiet)
    found = [journal.find(key(number)) for number in (1, 2)]
    assert [(entry.nbytes, entry.large) for entry in found] == [(3, False), (values.LARGE, True)]
    journal.close()


def test_a_rank_joins_without_writing_where_rank_0_does_not(tmp_path):
    run(tmp_path, (1, b"one"))
    journal = Journal.open(tmp_path, warn=quiet)
    reader = Journal.join(tmp_path, 1, journal.run, writes=False, warn=quiet)
    assert reader.load(journal.find(key(1))) == (b"one", [])
    assert not reader.record(key(2), b"two", (), "task")
    reader.close()
    journal.close()


def test_an_entry_of_another_task_is_not_loaded(tmp_path):
    run(tmp_path, (1, b"one"), (2, b"two"))
    heard = Heard()
    journal = Journal.open(tmp_path, warn=heard)
    assert journal.load(journal.find(key(1))._replace(key=key(2))) is None
    assert len(heard) == 1
    journal.close()


def test_a_journal_of_a_newer_format_is_neither_read_nor_written(tmp_path):
    run(tmp_path, (1, b"one"))
    (tmp_path / "format").write_text(f"sched journal {records.VERSION + 1}\n")
    before = sorted(os.listdir(tmp_path))
    heard = Heard()
    journal = Journal.open(tmp_path, warn=heard)
    assert journal.find(key(1)) is None
    assert not journal.record(key(2), b"two", (), "task")
    journal.flush(now=True)
    journal.close()
    assert sorted(os.listdir(tmp_path)) == before
    assert len(heard) == 1
    assert "the run goes on without it; use a newer sched, or another --journal" in heard[0]


def test_a_directory_with_another_programs_format_is_refused(tmp_path):
    (tmp_path / "format").write_text("A4\n")
    with pytest.raises(
        LaunchError, match="'format' that is not a journal's: give --journal another directory"
    ):
        Journal.open(tmp_path, warn=quiet)


def test_a_journal_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        LaunchError, match=r"cannot be made .*: give --journal a directory that you may write to"
    ):
        Journal.open(tmp_path / "file", warn=quiet)


def test_where_nothing_can_be_written_the_run_goes_on_with_what_there_is(tmp_path, monkeypatch):
    run(tmp_path, (1, b"one"))

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(owner, "take", refuse)  # root may write even where nobody may
    heard = Heard()
    journal = Journal.open(tmp_path, warn=heard)
    assert journal.load(journal.find(key(1)))[0] == b"one"
    assert not journal.record(key(2), b"two", (), "task")
    assert not journal.writes
    journal.close()
    assert len(heard) == 1
    assert heard[0].endswith(
        "rank 0 cannot write to it (Read-only file system): the run goes on, and what this rank finishes "
        "from now on is not recorded"
    )


FULL = """
import resource, sys
from sched.journal.store import Journal
from tests.journal.writing import Heard, key
heard = Heard()
journal = Journal.open(sys.argv[1], warn=heard)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
size = int(sys.argv[2])
done = [journal.record(key(n), bytes([n]) * size, (), "task") for n in range(100)]
journal.close()
assert done == sorted(done, reverse=True), done
print(sum(done), len(heard), heard[0])
"""


@pytest.mark.parametrize("size", [3000, values.LARGE])
def test_a_full_disk_is_told_once_and_costs_what_came_later(tmp_path, size):
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path / "j", str(size)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    recorded, told, sentence = done.stdout.split(maxsplit=2)
    assert told == "1"
    assert "cannot write to it (File too large): the run goes on" in sentence
    assert recorded == ("32" if size == 3000 else "0")
    assert held(tmp_path / "j", range(100)) == {n: bytes([n]) * size for n in range(int(recorded))}
    assert not list((tmp_path / "j").rglob(f"*{values.UNFINISHED}"))


def test_it_is_synced_once_a_second_at_most_and_at_the_end(tmp_path, monkeypatch):
    now, synced = [100.0], []
    monkeypatch.setattr(store.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(segments.Writer, "sync", lambda self: synced.append(now[0]))
    journal = Journal.open(tmp_path, warn=quiet)
    for _ in range(24):
        now[0] += 0.125
        journal.record(key(1), b"one", (), "task")
        journal.flush()
    assert synced == [101, 102, 103]
    monkeypatch.setattr(store, "SYNC_BYTES", 1000)
    journal.record(key(2), b"2" * 1000, (), "task")
    assert len(synced) == 4
    journal.close()
    assert len(synced) == 5


def test_closed_it_records_nothing_and_may_be_closed_again(tmp_path):
    journal = Journal.open(tmp_path, warn=quiet)
    journal.close()
    journal.close()
    assert not journal.record(key(1), b"one", (), "task")
    assert held(tmp_path, range(2)) == {}
