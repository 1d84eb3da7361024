"""`sched submit`, with a stand-in for PBS that answers as a real one did."""

from __future__ import annotations

import argparse
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sched.commands import submit
from tests.commands.fake_pbs import DOWN, FINISHED, GONE, FakePBS, job

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def pbs(tmp_path, monkeypatch):
    """A login node, and a user in a directory of the project's with a job in it."""
    fake = FakePBS(tmp_path / "pbs")
    for name, value in fake.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(submit, "PAUSE", 0.0)
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SCHED_PROJECT", "Climate")
    monkeypatch.delenv("SCHED_MACHINE", raising=False)
    monkeypatch.chdir(project)
    Path("job.py").write_text("print(1)\n")
    return fake


def sched_submit(*words):
    """Run `sched submit WORDS`; return the exit status."""
    parser = argparse.ArgumentParser(prog="sched submit")
    submit.arguments(parser)
    run = argparse.ArgumentParser(prog="sched run")
    run.add_argument("--tiles", type=int)
    run.add_argument("--driver-only", action="store_true")
    run.add_argument("--tile-memory")
    run.add_argument("job")
    run.add_argument("args", nargs=argparse.REMAINDER)
    own, arguments = submit.split(words)
    options = parser.parse_args(own)
    options.args = arguments
    options.run_parser = run
    return submit.main(options)


def test_it_shows_the_script_and_submits_what_it_shows(pbs, capfd):
    assert sched_submit("job.py", "--nodes", "2", "--name", "two", "--", "--steps", "a b") == 0
    shown = capfd.readouterr()
    assert shown.out == "1.vm\n", "the id, for id=$(sched submit ...)"
    assert pbs.script == shown.err.encode()
    assert pbs.arguments == 0, "all options are in the script"
    assert b"#PBS -A Climate\n#PBS -q debug\n#PBS -l select=2\n" in pbs.script
    assert b"\njob=(job.py --steps 'a b')\n" in pbs.script
    assert pbs.asked == []


def test_a_dry_run_prints_the_script_and_nothing_else(pbs, capfd):
    assert sched_submit("job.py", "--dry-run", "--project", "PROJECT") == 0
    assert capfd.readouterr() == ((CHECKOUT / "aurora.pbs").read_text(), "")
    assert pbs.script is None


def test_a_dry_run_needs_no_pbs(pbs, monkeypatch, capfd):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(Path.cwd()))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert sched_submit("job.py", "--dry-run", "--after", "12.vm") == 0
    assert "#PBS -W depend=afterok:12.vm\n" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "own", "arguments"),
    [
        ("job.py --nodes 2 -- -x --nodes 3", "job.py --nodes 2", "-x --nodes 3"),
        ("job.py -- a -- b", "job.py", "a -- b"),
        ("--nodes 2 job.py", "--nodes 2 job.py", ""),
    ],
)
def test_what_follows_the_first_two_dashes_is_the_jobs(words, own, arguments):
    assert submit.split(words.split()) == (own.split(), arguments.split())


def test_options_of_sched_run_are_handed_on(pbs):
    assert sched_submit("job.py", "--run=--driver-only --tile-memory '40 GiB'") == 0
    assert b"\noptions=(--device level_zero --driver-only --tile-memory '40 GiB')\n" in pbs.script


def test_commands_that_bring_python_may_be_in_a_file(pbs):
    Path("setup.sh").write_text("module load other\n. venv/bin/activate\n")
    assert sched_submit("job.py", "--setup", "setup.sh") == 0
    assert b"\nmodule load other\n. venv/bin/activate\njob=(" in pbs.script


# --- refused before PBS is asked ---


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gone.py"], "the job 'gone.py' does not exist: name a Python script, as seen from this directory"),
        (["."], "the job '.' is no file that you can read: name a Python script"),
        (["job.py", "--project", ""], "no project is named, whose hours are spent"),
        (["job.py", "--walltime", "45"], "--walltime 45 may mean minutes or seconds"),
        (["job.py", "--journal", "x"], "--journal is for later: `sched run` keeps no journal yet"),
        (
            ["job.py", "--output", "logs"],
            "--output 'logs' is no directory, and PBS would take the job and never",
        ),
        (
            ["job.py", "--run=--tils 3"],
            "--run: `sched run` has no option --tils: `sched run --help` lists them",
        ),
        (
            ["job.py", "--run=--tiles x"],
            "--run: `sched run` would not begin: argument --tiles: 'x' is no whole number",
        ),
        (["job.py", "--run=other.py"], "--run: `sched run` has no option other.py"),
        (["job.py", "--run=--tile-memory '4"], '--run "--tile-memory \'4" is no list of options'),
        (["job.py", "--setup", "mine.sh"], "--setup 'mine.sh' is no file: name one that there is"),
        (["job.py", "--setup", "/gone/mine"], "--setup '/gone/mine' is no file"),
        (
            ["job.py", "--setup", "if true"],
            "--setup: the commands that bring Python are no shell commands as they stand: bash: line",
        ),
    ],
)
def test_a_fault_is_said_and_nothing_is_submitted(pbs, capfd, words, said):
    assert sched_submit(*words) == 2
    out, err = capfd.readouterr()
    assert err.startswith(f"sched: {said}")
    assert (out, err.count("sched: "), pbs.script) == ("", 1, None)


def test_all_faults_are_said_at_once(pbs, capfd):
    assert sched_submit("gone.py", "--nodes", "9", "--output", "logs", "--journal", "x") == 2
    assert [line.split(" ")[1] for line in capfd.readouterr().err.splitlines()] == [
        "--queue",
        "the",
        "--journal",
        "--output",
    ]


def test_jobs_are_not_submitted_from_home(pbs, monkeypatch, capfd):
    monkeypatch.setenv("HOME", str(Path.cwd()))
    assert sched_submit("job.py") == 2
    assert capfd.readouterr().err.startswith("sched: this is your home directory, where jobs must not run")


def test_root_is_told_before_pbs_tells_it(pbs, monkeypatch, capfd):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert sched_submit("job.py") == 2
    assert capfd.readouterr().err.startswith("sched: PBS runs no jobs of root (Bad UID for job execution)")


def test_a_directory_that_the_user_cannot_write_is_told(pbs, monkeypatch, capfd):
    here = str(Path.cwd())
    can = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != here and can(path, mode))
    assert sched_submit("job.py") == 2
    assert capfd.readouterr().err.startswith(f"sched: this directory, {here}, is not yours to write")


def test_a_machine_without_qsub_offers_the_dry_run(pbs, monkeypatch, capfd):
    (pbs.bin / "qsub").chmod(stat.S_IRUSR)
    assert sched_submit("job.py") == 2
    assert capfd.readouterr().err.startswith(
        "sched: this machine has no qsub: submit on a login node of Aurora"
    )


def test_an_unknown_queue_is_left_to_pbs(pbs, capfd):
    assert sched_submit("job.py", "--queue", "R1234", "--nodes", "99") == 0
    assert capfd.readouterr().err.startswith(
        "sched: --queue R1234 is not known here, so its limits are not checked\n#!/bin/bash -l\n"
    )


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (GONE, "--after any:1.vm: PBS knows no job 1.vm, and would delete the new one without a word"),
        (FINISHED, "--after any:1.vm: that job has already ended: submit without --after"),
        (DOWN, "--after any:1.vm: qstat does not say whether there is such a job: Connection refused"),
    ],
)
def test_a_job_to_come_after_is_looked_for_first(pbs, capfd, answer, said):
    pbs.answers(answer)
    assert sched_submit("job.py", "--after", "any:1.vm") == 2
    assert capfd.readouterr().err.startswith(f"sched: {said}")
    assert pbs.asked == ["-f -w 1.vm"]


def test_a_job_may_come_after_one_that_runs(pbs):
    pbs.answers(job("R"))
    assert sched_submit("job.py", "--after", "1.vm") == 0
    assert b"\n#PBS -W depend=afterok:1.vm\n" in pbs.script


# --- refused by PBS ---


@pytest.mark.parametrize(
    ("code", "message", "remedy"),
    [
        (188, "qsub: Job violates queue and/or server resource limits\n", ": the nodes or the walltime"),
        (38, "qsub: would exceed queue generic's per-user limit\n", ": you have as many jobs in this queue"),
        (99, "qsub: the moon is in the wrong house\n", "\n"),
    ],
)
def test_what_qsub_says_is_kept_with_its_exit_status(pbs, capfd, code, message, remedy):
    pbs.refuses(code, message)
    assert sched_submit("job.py") == code
    out, err = capfd.readouterr()
    assert out == ""
    assert f"{message}sched: qsub refused the job (status {code}){remedy}" in err


# --- waited for ---


def test_a_job_is_followed_with_its_output_to_its_end(pbs, capfd):
    pbs.answers(
        job("Q"),
        "printf 'step 1\\n' >job.o1\n" + job("R", exec_host="x1/0*208"),
        "printf 'step 2\\n' >>job.o1\n" + job("R", exec_host="x1/0*208"),
        FINISHED,
        job("F", Exit_status=3),
    )
    assert sched_submit("job.py", "--wait") == 3
    out, err = capfd.readouterr()
    assert out == "1.vm\nstep 1\nstep 2\n"
    assert err.encode().removeprefix(pbs.script).decode().splitlines() == [
        "sched: job 1.vm waits in the queue",
        "sched: job 1.vm runs on x1",
        "sched: job 1.vm ended with status 3",
    ]
    assert pbs.asked[-2:] == ["-f -w 1.vm", "-x -f -w 1.vm"]


def test_its_output_is_found_in_another_directory(pbs, capfd):
    Path("logs").mkdir()
    Path("logs/1.vm.OU").write_text("there\n")
    pbs.answers(FINISHED, job("F", Exit_status=0))
    assert sched_submit("job.py", "--wait", "--output", "logs") == 0
    assert capfd.readouterr().out == "1.vm\nthere\n"


def test_the_elements_of_an_array_count_and_not_the_array(pbs, capfd):
    pbs.gives("48[].vm")
    elements = "".join(
        f"Job Id: {element}\n    job_state = {state}\n    Exit_status = {code}\n\n"
        for element, state, code in (("48[].vm", "F", 0), ("48[0].vm", "X", 0), ("48[1].vm", "X", 7))
    )
    pbs.answers(
        job("B").replace("1.vm", "48[].vm"),
        FINISHED,
        job("F", Exit_status=0).replace("1.vm", "48[].vm"),
        f"cat <<'END'\n{elements}END\n",
    )
    assert sched_submit("job.py", "--array", "0-1", "--wait") == 7
    assert capfd.readouterr().err.endswith(
        "sched: job 48[1].vm ended with status 7\n"
        "sched: job 48[].vm has ended: 2 elements, 1 of them not well\n"
    )
    assert pbs.asked[-1] == "-x -t -f -w 48[].vm"


def test_ctrl_c_leaves_the_job_alone(pbs, monkeypatch, capfd):
    pbs.answers(job("R"))

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(submit, "time", SimpleNamespace(sleep=interrupted))
    assert sched_submit("job.py", "--wait") == 130
    assert capfd.readouterr().err.endswith(
        "sched: job 1.vm goes on without being waited for: `qstat 1.vm` shows it, `qdel 1.vm` deletes it\n"
    )
    assert not pbs.deleted


def test_an_id_that_cannot_be_read_is_not_waited_for(pbs, capfd):
    pbs.gives("welcome to the machine")
    assert sched_submit("job.py", "--wait") == 0
    out, err = capfd.readouterr()
    assert out == "welcome to the machine\n"
    assert err.endswith(
        "sched: qsub has not said the job's id, so it cannot be waited for: `qstat -u $USER` shows it\n"
    )


# --- where it is called from ---


def test_a_launch_py_beside_the_job_is_not_ours(tmp_path):
    (tmp_path / "launch.py").write_text("raise SystemExit('the wrong one')\n")
    look = "print(load('pbs').__file__, 'launch' in sys.modules)"
    code = f"import sys\nfrom sched.siblings import load\n{look}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == ([str(CHECKOUT / "launch" / "pbs.py"), "False"], "")
