"""`sched journal`: looking after what runs have recorded."""

import argparse
import json
import os
import time

import pytest

from sched.commands import journal
from sched.errors import LaunchError
from sched.journal import owner, segments, values
from sched.journal.store import Journal
from tests.journal.writing import key, quiet

DAYS = 86400.0


@pytest.fixture
def sched_journal(capsys):
    """Run `sched journal WORDS`; return the status, and what it says on both streams."""

    def run(*words):
        parser = argparse.ArgumentParser(prog="sched journal")
        journal.arguments(parser)
        status = journal.main(parser.parse_args([str(word) for word in words]))
        said = capsys.readouterr()
        return status, said.out.splitlines(), said.err.splitlines()

    return run


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A journal with a day-old task of one name, and two of now of another, one of them large."""
    directory = tmp_path / "the journal"
    made = Journal.open(directory, warn=quiet)
    with monkeypatch.context() as yesterday:
        then = time.time() - 1.5 * DAYS
        yesterday.setattr(segments.time, "time", lambda: then)
        made.record(key(1), b"one", (), "old")
    made.record(key(2), b"two", (), "new")
    made.record(key(3), b"", [bytes(values.LARGE)], "new")
    made.close()
    return directory


def test_it_lists_what_there_is_by_name(sched_journal, kept):
    status, out, err = sched_journal(kept)
    assert (status, err) == (0, [])
    table = [line.split() for line in out]
    assert table[0] == ["name", "tasks", "size", "oldest", "newest"]
    assert [row[:4] for row in table[1:]] == [
        ["new", "2", "1", "MiB"],
        ["old", "1", "3", "B"],
        ["(all)", "3", "1", "MiB"],
    ]


def test_an_empty_journal_is_a_table_too(sched_journal, tmp_path):
    Journal.open(tmp_path, warn=quiet).close()
    _, out, _ = sched_journal(tmp_path)
    assert out[-1].split() == ["(all)", "0", "0", "B", "-", "-"]


def test_a_name_cannot_move_the_cursor(sched_journal, tmp_path):
    made = Journal.open(tmp_path, warn=quiet)
    made.record(key(1), b"", (), "a\x1b[2J\nb")
    made.close()
    _, out, _ = sched_journal(tmp_path)
    assert out[1].startswith(r"a\x1b[2J\nb  ")


def test_name_and_older_choose_what_is_listed_and_what_is_pruned(sched_journal, kept):
    for words, left in ((["--name", "n*"], ["new"]), (["--older", "1"], ["old"]), (["--older", "2"], [])):
        _, out, _ = sched_journal(kept, *words)
        assert [line.split()[0] for line in out[1:-1]] == left
    _, out, _ = sched_journal(kept, "--prune", "--name", "*", "--older", "1")
    assert out[0].startswith("1 records and ")
    _, out, _ = sched_journal(kept)
    assert [line.split()[0] for line in out[1:-1]] == ["new"]


def test_prune_alone_keeps_all_that_is_of_use(sched_journal, kept):
    assert sched_journal(kept, "--prune") == (0, ["0 records and 0 bytes have gone"], [])
    assert json.loads("\n".join(sched_journal(kept, "--json")[1]))["tasks"][0]["count"] == 2


def test_verify_says_that_all_is_well_or_what_is_not(sched_journal, kept):
    assert sched_journal(kept, "--verify") == (0, ["every record is what was written"], [])
    [file] = (kept / "values").iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    status, out, _ = sched_journal(kept, "--verify")
    assert status == 1
    assert len(out) == 1
    assert out[0].endswith(f"task 'new': {file.name} is not what was written")
    [log] = kept.glob("*.log")
    log.write_bytes(log.read_bytes().replace(b"one", b"two"))
    status, _, err = sched_journal(kept, "--verify")
    assert status == 1
    assert err == [
        f"sched: journal {kept}: 1 damaged places were skipped; what was recorded there runs again"
    ]


def test_json_has_everything(sched_journal, kept):
    said = json.loads("\n".join(sched_journal(kept, "--json")[1]))
    assert said["directory"] == str(kept)
    assert said["warnings"] == []
    assert [(row["name"], row["count"], row["nbytes"]) for row in said["tasks"]] == [
        ("new", 2, 3 + values.LARGE),
        ("old", 1, 3),
    ]
    assert json.loads("\n".join(sched_journal(kept, "--verify", "--json")[1]))["problems"] == []
    assert json.loads("\n".join(sched_journal(kept, "--prune", "--json")[1]))["pruned"]["records"] == 0


def test_while_a_run_has_it_it_can_be_looked_at_and_not_changed(sched_journal, kept):
    running = Journal.open(kept, warn=quiet)
    running.record(key(4), b"four", (), "newest")
    status, out, _ = sched_journal(kept)
    assert status == 0
    assert out[-1].startswith(f"in use by process {os.getpid()} of ")
    assert any(line.startswith("newest ") for line in out)
    for word in ("--prune", "--release"):
        with pytest.raises(LaunchError, match="which runs"):
            sched_journal(kept, word)
    running.close()


def test_a_dead_run_is_released(sched_journal, kept):
    dead = owner.this_process("dead", {})._replace(host="x4100c0s0b0n0", boot="its")
    owner.take(kept, dead)
    with pytest.raises(LaunchError, match=r"`sched journal .* --release`"):
        Journal.open(kept, warn=quiet)
    status, out, _ = sched_journal(kept, "--release")
    assert status == 0
    assert "released; it was held by process" in out[0]
    Journal.open(kept, warn=quiet).close()


@pytest.mark.parametrize(
    "words", [["--older", "x"], ["--older", "-1"], ["--older", "nan"], ["--prune", "--verify"], []]
)
def test_what_makes_no_sense_is_refused(sched_journal, kept, words):
    with pytest.raises(SystemExit):
        sched_journal(*([kept, *words] if words else []))


def test_what_is_no_journal_is_refused(sched_journal, tmp_path):
    with pytest.raises(LaunchError, match="holds no journal"):
        sched_journal(tmp_path)
