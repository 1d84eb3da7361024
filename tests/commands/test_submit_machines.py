"""`sched submit --machine`: other machines than Aurora. The stand-in for sbatch answers as Slurm 22.05.8."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sched.siblings import load
from tests.commands.test_submit import sched_submit

SBATCH = """#!/bin/bash
cat >"$FAKE/script"
env >"$FAKE/environment"
[[ -e $FAKE/refusal ]] && cat "$FAKE/refusal" >&2 && exit 1
echo "Submitted batch job 12"
"""

SQUEUE = """#!/bin/bash
echo "$*" >>"$FAKE/asked"
[[ "${@: -1}" == 99 ]] && echo 'slurm_load_jobs error: Invalid job id specified' >&2 && exit 1
echo RUNNING
"""

MINE = """
name = "Mine"
batch = "slurm"
device = "host"
tiles = 4
setup = "module load python"
launch = ["srun", "-n", "{total}"]
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A login node with Slurm, and a user in a directory with a job in it."""
    folder, project = tmp_path / "fake", tmp_path / "project"
    for path in (folder, project):
        path.mkdir()
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("FAKE", str(folder))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name in ("SCHED_MACHINE", "SCHED_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(project)
    Path("job.py").write_text("print(1)\n")
    Path("mine.toml").write_text(MINE)
    return folder


# --- Slurm ---


def test_sbatch_gets_the_script_that_is_shown_and_the_id_alone_is_printed(fake, capfd):
    assert sched_submit("job.py", "--machine", "mine.toml", "--nodes", "2", "--", "a b") == 0
    shown = capfd.readouterr()
    assert shown.out == "12\n", "for id=$(sched submit ...)"
    script = (fake / "script").read_text()
    assert shown.err == f"{script}Submitted batch job 12\n"
    assert script.startswith("#!/bin/bash -l\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n")
    assert "\njob=(job.py 'a b')\n" in script


def test_the_machine_may_be_named_by_a_variable(fake, monkeypatch, capfd):
    monkeypatch.setenv("SCHED_MACHINE", "./mine.toml")
    assert sched_submit("job.py", "--dry-run") == 0
    assert "# A batch job on Mine: " in capfd.readouterr().out


def test_variables_do_not_change_what_the_script_says_but_what_it_does_not(fake, monkeypatch):
    for name in ("SBATCH_PARTITION", "SBATCH_ACCOUNT", "SBATCH_TIMELIMIT"):
        monkeypatch.setenv(name, "other")
    assert sched_submit("job.py", "--machine", "mine.toml", "--queue", "debug") == 0
    told = dict(line.partition("=")[::2] for line in (fake / "environment").read_text().splitlines())
    assert {name for name in told if name.startswith("SBATCH_")} == {"SBATCH_ACCOUNT"}


def test_what_sbatch_says_is_kept_with_its_exit_status(fake, capfd):
    refusal = "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
    (fake / "refusal").write_text(refusal)
    assert sched_submit("job.py", "--machine", "mine.toml", "--queue", "nosuch") == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert f"{refusal}sched: sbatch refused the job (status 1): no such partition: `sinfo` lists them" in err


def test_waiting_is_for_pbs(fake, capfd):
    assert sched_submit("job.py", "--machine", "mine.toml", "--wait") == 2
    assert capfd.readouterr().err == (
        "sched: --wait follows jobs of PBS only, so far: submit without it, and look with `squeue --me`\n"
    )


def test_a_job_to_come_after_is_looked_for_first(fake, capfd):
    assert sched_submit("job.py", "--machine", "mine.toml", "--after", "any:99") == 2
    assert capfd.readouterr().err.startswith("sched: --after any:99: Slurm knows no job 99 (any more), and")
    assert sched_submit("job.py", "--machine", "mine.toml", "--after", "any:98") == 0
    assert "#SBATCH --dependency=afterany:98\n" in (fake / "script").read_text()
    asked = "--noheader --states=all --format=%T --jobs"
    assert (fake / "asked").read_text().splitlines() == [f"{asked} 99", f"{asked} 98"]


def test_slurm_takes_jobs_of_root_and_from_home_unless_its_file_says_otherwise(fake, monkeypatch, capfd):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("HOME", str(Path.cwd()))
    assert sched_submit("job.py", "--machine", "mine.toml") == 0
    Path("mine.toml").write_text(MINE + "from_home = false\n")
    capfd.readouterr()
    assert sched_submit("job.py", "--machine", "mine.toml") == 2
    assert capfd.readouterr().err.startswith("sched: this is your home directory, where jobs must not run")


def test_a_machine_without_sbatch_offers_the_dry_run(fake, capfd):
    (fake / "sbatch").unlink()
    assert sched_submit("job.py", "--machine", "mine.toml") == 2
    assert capfd.readouterr().err.startswith(
        "sched: this machine has no sbatch: submit on a login node of Mine, or look at the script with --dry"
    )


def test_where_tiles_are_not_known_somebody_must_say_how_many_ranks(fake, capfd):
    assert sched_submit("job.py", "--machine", "slurm") == 2
    assert capfd.readouterr().err.startswith("sched: --ranks-per-node is needed: how many tiles a node of a")
    assert sched_submit("job.py", "--machine", "slurm", "--ranks-per-node", "8", "--dry-run") == 0
    assert "\n#SBATCH --ntasks-per-node=8\n" in capfd.readouterr().out


# --- machines on which nothing can be submitted ---


def test_this_machine_runs_a_job_at_once(fake, capfd):
    Path("my job.py").touch()
    for more in ([], ["--dry-run"]):
        assert sched_submit("my job.py", "--machine", "local", *more) == 2
        assert capfd.readouterr() == (
            "",
            "sched: --machine local: this machine has no batch system: run the job at once, with "
            "`sched run -n N 'my job.py'` for N ranks\n",
        )


def test_tiles_that_sched_run_does_not_have_are_told_now_and_not_in_the_job(fake, capfd):
    Path("mine.toml").write_text(MINE.replace('"host"', '"abacus"'))
    assert sched_submit("job.py", "--machine", "mine.toml") == 2
    assert capfd.readouterr().err.startswith(
        "sched: --machine mine.toml: `sched run` would not begin: argument --device: invalid choice: 'abacus'"
    )


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (
            "arora",
            "--machine: there is no machine 'arora': take one of aurora, local, polaris, slurm, sunspot,",
        ),
        (
            "./gone.toml",
            "--machine: the machine file './gone.toml' cannot be read (No such file or directory)",
        ),
        ("wrong.toml", "--machine: wrong.toml: modules is no key of a machine's file: "),
    ],
)
def test_a_machine_that_is_none_is_one_sentence(fake, capfd, machine, said):
    Path("wrong.toml").write_text(MINE + 'modules = "x"\n')
    assert sched_submit("job.py", "--machine", machine) == 2
    out, err = capfd.readouterr()
    assert err.startswith(f"sched: {said}")
    assert (out, err.count("\n")) == ("", 1)


def test_a_setup_that_is_no_shell_command_is_the_machines_fault(fake, capfd):
    Path("mine.toml").write_text(MINE.replace("module load python", "if true"))
    assert sched_submit("job.py", "--machine", "mine.toml") == 2
    assert capfd.readouterr().err.startswith(
        "sched: --machine mine.toml: the commands that bring Python are no shell commands as they stand: bash"
    )


def test_modules_of_launch_are_loaded_once():
    assert load("script").Machine is load("machines").Machine
