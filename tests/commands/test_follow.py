"""Following a batch job, with PBS's answers as data."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from sched.commands import follow
from sched.commands.follow import Answer, Output

GONE = Answer(153, "", "qstat: Unknown Job Id 1.vm")
DOWN = Answer(255, "", "Connection refused")
SILENT = Answer(-1, "", "qstat did not answer in 60 s")


def job(state, **facts):
    lines = ["Job Id: 1.vm", f"    job_state = {state}", *(f"    {name} = {facts[name]}" for name in facts)]
    return Answer(0, "\n".join(lines) + "\n", "")


def follows(*answers, path=Path("nowhere")):
    """Follow job 1.vm through these answers; return its exit status, what was said and what was copied."""
    said = []
    copied = io.BytesIO()
    rest = iter(answers)
    status = follow.follow(
        "1.vm", Output(path, copied), pause=lambda: None, say=said.append, asked=lambda _: next(rest)
    )
    assert list(rest) == [], "it went on asking until the end"
    return status, said, copied.getvalue()


def test_each_state_is_said_once():
    status, said, _ = follows(job("Q"), job("Q"), job("R"), job("R"), job("E"), job("F", Exit_status=0))
    assert said == [f"job 1.vm {words}" for words in ("waits in the queue", "runs", "ends", "ended well")]
    assert status == 0


def test_a_server_that_is_down_for_a_while_is_no_end():
    status, said, _ = follows(job("R"), DOWN, SILENT, DOWN, job("R"), DOWN, job("F", Exit_status=0))
    assert said == [
        "job 1.vm runs",
        "PBS does not answer (Connection refused); asking again",
        "PBS answers again",
        "PBS does not answer (Connection refused); asking again",
        "PBS answers again",
        "job 1.vm ended well",
    ]
    assert status == 0


def test_a_server_that_stays_down_is_given_up(monkeypatch):
    monkeypatch.setattr(follow, "PATIENCE", 3)
    status, said, _ = follows(job("R"), *[DOWN] * 4)
    assert status == 1
    assert (
        said[-1]
        == "PBS does not answer any more: Connection refused. Job 1.vm may still run: ask `qstat 1.vm`"
    )


def test_an_answer_without_a_job_is_no_answer():
    _, said, _ = follows(Answer(0, "", ""), job("F", Exit_status=0))
    assert said[0] == "PBS does not answer (qstat ended with 0); asking again"


def test_without_history_a_job_that_ran_has_ended_somehow(tmp_path):
    path = tmp_path / "job.o1"
    status, said, _ = follows(job("R"), GONE, path=path)
    assert status == 1
    assert said[-1] == (
        f"job 1.vm has ended, and PBS keeps no history here, so its exit status is not known: see {path}"
    )


def test_a_quick_job_is_known_by_its_output(tmp_path):
    path = tmp_path / "job.o1"
    path.write_text("done\n")
    status, said, copied = follows(job("Q"), GONE, path=path)
    assert (status, copied) == (1, b"done\n")
    assert said[-1].startswith("job 1.vm has ended, and PBS keeps no history here")


def test_a_job_that_vanishes_from_the_queue_was_dropped():
    status, said, _ = follows(job("Q"), GONE)
    assert status == 1
    assert said[-1].startswith(
        "PBS has dropped job 1.vm without running it: its nodes or its walltime are outside"
    )


@pytest.mark.parametrize(
    ("facts", "status", "said"),
    [
        ({"Exit_status": -29}, 1, "was ended by PBS at the end of its walltime (Exit_status -29)"),
        ({"Exit_status": 271}, 143, "was deleted by qdel, or ended by SIGTERM (Exit_status 271)"),
        (
            {},
            1,
            "was deleted before it ran: by qdel; or by PBS, since the job it was to come after is unknown",
        ),
    ],
)
def test_how_it_ended_is_said_in_words(facts, status, said):
    found, words, _ = follows(job("F", **facts))
    assert found == status
    assert words[-1].startswith(f"job 1.vm {said}")


def test_why_it_never_runs_is_said_when_it_is_known_and_then_waited_on():
    never = job("Q", comment="Can Never Run: Not enough total nodes available")
    _, said, _ = follows(job("Q"), never, never, job("R"), job("F", Exit_status=0))
    assert [line for line in said if "Can Never Run" in line] == [
        "job 1.vm waits: Can Never Run: Not enough total nodes available. Unless that is a file system that "
        "is "
        "down, delete it and ask for less"
    ]


def test_a_node_that_failed_under_it_is_named(tmp_path):
    path = tmp_path / "job.o1"
    path.write_text("x4109c1s0b0n0.hsn.cm.aurora.alcf.anl.gov: shepherd died from signal 9\n")
    _, said, _ = follows(job("F", Exit_status=1), path=path)
    assert said[-1] == "node x4109c1s0b0n0 failed under it: with --spares 1 another one takes its place"


def test_output_is_copied_as_it_grows_and_once(tmp_path):
    path = tmp_path / "job.o1"
    copied = io.BytesIO()
    output = Output(path, copied)
    output.copy()
    for text in (b"one\n", b"tw", b"", b"o\xff\n"):
        with path.open("ab") as file:
            file.write(text)
        output.copy()
    assert copied.getvalue() == b"one\ntwo\xff\n"
    assert output.last == "one\ntwo\ufffd\n"


def test_a_command_that_is_not_there_is_an_answer_too(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert follow.ask("qstat", "1.vm").err == "qstat cannot be started: No such file or directory"
