"""One run has a journal at a time; one that has died is recognised, as far as that can be known."""

import json
import os
import subprocess
import sys

import pytest

from sched.errors import LaunchError
from sched.journal import owner
from sched.journal.store import Journal

from .writing import Heard, key, quiet

MACHINE = owner.this_process("me", {"PBS_JOBID": "4711.aurora"})
GONE = 2**22 + 1  # above what Linux gives to a process


def no_wait(seconds):
    raise AssertionError(f"it waits for {seconds} s")


def claimed(directory, *, silent=0.0, **differences):
    """Have a journal held by a run that is like this process, with differences."""
    other = MACHINE._replace(run="other", user="ada", **differences)
    claim = owner.take(directory, other, no_wait)
    touch(directory, silent)
    return claim


def touch(directory, ago=0.0):
    [file] = (directory / owner.FOLDER).iterdir()
    moment = file.stat().st_mtime - ago
    os.utime(file, (moment, moment))


def test_two_runs_at_once_are_refused_and_the_second_is_told_who_and_what_to_do(tmp_path):
    first = Journal.open(tmp_path / "a b", warn=quiet)
    with pytest.raises(LaunchError) as refused:
        Journal.open(tmp_path / "a b", warn=quiet, wait=no_wait)
    said = str(refused.value)
    assert f"another run has it: process {os.getpid()} of " in said
    assert "which runs: wait for it to end, or give another --journal; if it is dead, say so with " in said
    assert said.endswith(f"`sched journal '{tmp_path / 'a b'}' --release`")
    first.close()
    Journal.open(tmp_path / "a b", warn=quiet, wait=no_wait).close()


BEGIN = """
import os, sys
from pathlib import Path
from sched.errors import LaunchError
from sched.journal import owner
me = owner.this_process(sys.argv[2], {})
sys.stdin.read()  # until all are to begin
try:
    owner.take(Path(sys.argv[1]), me)
    print("taken", flush=True)
except LaunchError:
    print("refused", flush=True)
os.read(int(sys.argv[3]), 1)  # until all have tried
"""


def test_of_many_runs_that_begin_together_one_gets_it(tmp_path):
    hold, end = os.pipe()
    several = [
        subprocess.Popen(
            [sys.executable, "-c", BEGIN, tmp_path, f"run{number}", str(hold)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[hold],
            text=True,
        )
        for number in range(4)
    ]
    for process in several:
        process.stdin.close()
    said = sorted(process.stdout.readline().strip() for process in several)
    os.close(end)
    os.close(hold)
    for process in several:
        process.stdout.close()
        process.wait(30)
    assert said == ["refused", "refused", "refused", "taken"]


def test_a_dead_process_of_this_machine_is_no_owner(tmp_path):
    claimed(tmp_path, pid=GONE)
    owner.take(tmp_path, MACHINE, no_wait)
    assert owner.read(tmp_path)[1] == MACHINE


def test_a_process_that_has_got_the_number_of_a_dead_one_is_no_owner(tmp_path):
    claimed(tmp_path, born="1")
    owner.take(tmp_path, MACHINE, no_wait)


def test_after_the_machine_was_started_again_no_owner_is_left(tmp_path):
    claimed(tmp_path, boot="an earlier one")
    if MACHINE.host.startswith("localhost"):
        pytest.skip("this machine has no name of its own")
    owner.take(tmp_path, MACHINE, no_wait)


@pytest.mark.parametrize(
    "elsewhere",
    [{"host": "x4100c0s0b0n0", "boot": "its"}, {"space": "pid:[1]"}, {"host": "localhost", "boot": "any"}],
    ids=["host", "container", "nameless"],
)
def test_an_owner_elsewhere_counts_as_dead_after_a_long_silence(tmp_path, elsewhere):
    claimed(tmp_path, job="1.aurora", silent=owner.QUIET - 60, **elsewhere)
    with pytest.raises(LaunchError, match=r"sign of life 5\d\d s ago \(it counts as dead after 600 s\)"):
        owner.take(tmp_path, MACHINE, no_wait)
    touch(tmp_path, 61)
    owner.take(tmp_path, MACHINE, no_wait)


def test_in_one_batch_job_the_next_run_waits_a_little_for_the_last_to_be_dead(tmp_path):
    claimed(tmp_path, host="x4100c0s0b0n0", boot="its", silent=15)
    waited = []

    def wait(seconds):
        waited.append(round(seconds))
        touch(tmp_path, owner.QUIET_IN_JOB - 15)

    owner.take(tmp_path, MACHINE, wait)
    assert waited == [owner.QUIET_IN_JOB - 15]


def test_in_one_batch_job_a_run_that_gives_a_sign_of_life_is_not_disturbed(tmp_path):
    claimed(tmp_path, host="x4100c0s0b0n0", boot="its", silent=15)
    with pytest.raises(
        LaunchError, match=r"x4100c0s0b0n0, job 4711\.aurora, since .*counts as dead after 40 s"
    ):
        owner.take(tmp_path, MACHINE, lambda seconds: touch(tmp_path, -seconds))


def test_an_owner_that_left_no_word_of_itself_is_waited_for(tmp_path):
    claimed(tmp_path)
    [file] = (tmp_path / owner.FOLDER).iterdir()
    file.write_text("{")
    with pytest.raises(LaunchError, match="one that left no word of itself"):
        owner.take(tmp_path, MACHINE, no_wait)
    touch(tmp_path, 601)
    owner.take(tmp_path, MACHINE, no_wait)


def test_a_refused_run_leaves_nothing(tmp_path):
    claimed(tmp_path)
    with pytest.raises(LaunchError):
        owner.take(tmp_path, MACHINE, no_wait)
    assert os.listdir(tmp_path) == [owner.FOLDER]
    assert os.listdir(tmp_path / owner.FOLDER) == ["other.json"]


def test_something_else_of_that_name_is_not_taken_for_a_claim(tmp_path):
    (tmp_path / owner.FOLDER).write_text("")
    with pytest.raises(LaunchError, match="delete that if no run has the journal"):
        owner.take(tmp_path, MACHINE, no_wait)


def test_signs_of_life_are_given_now_and_then(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(owner.time, "monotonic", lambda: now[0])
    claim = claimed(tmp_path, silent=1000)
    [file] = (tmp_path / owner.FOLDER).iterdir()
    old = file.stat().st_mtime
    for now[0] in (0.0, owner.BEAT - 1):
        assert claim.beat()
        assert file.stat().st_mtime == old
    now[0] = owner.BEAT
    assert claim.beat()
    assert file.stat().st_mtime > old


def test_a_run_that_has_lost_its_journal_stops_writing(tmp_path, monkeypatch):
    monkeypatch.setattr(owner, "BEAT", 0.0)
    heard = Heard()
    journal = Journal.open(tmp_path, warn=heard)
    [file] = (tmp_path / owner.FOLDER).iterdir()
    file.unlink()
    owner.take(tmp_path, MACHINE, no_wait)
    journal.flush()
    assert not journal.record(key(1), b"one", (), "task")
    journal.close()
    assert [sentence.rpartition(": ")[2] for sentence in heard] == ["nothing more is recorded"]
    assert owner.read(tmp_path)[1] == MACHINE


def test_the_user_can_release_it_from_a_dead_run_and_not_from_a_living_one(tmp_path):
    assert owner.release(tmp_path).endswith("no run has it")
    claim = claimed(tmp_path)
    with pytest.raises(LaunchError, match="which runs: end that first"):
        owner.release(tmp_path)
    claim.release()
    claimed(tmp_path, host="x4100c0s0b0n0", boot="its")
    assert "held by process" in owner.release(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_claim_says_who_it_is(tmp_path):
    claimed(tmp_path)
    [file] = (tmp_path / owner.FOLDER).iterdir()
    said = json.loads(file.read_text())
    assert (said["user"], said["job"], said["pid"]) == ("ada", "4711.aurora", os.getpid())
