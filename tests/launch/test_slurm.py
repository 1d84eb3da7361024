"""What is asked of Slurm: its directives, its answers, and that all comes through to the job unchanged.

The answers are those of Slurm 22.05.8.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from launch import machines, request, script, slurm
from launch.request import Request
from tests.launch.batch import execute
from tests.launch.texts import ANY, NAMES

MACHINE = machines.load("slurm")
GOOD = Request("job.py", ranks=8)


def faults(**changed: object) -> list[str]:
    return request.faults(replace(GOOD, **changed), MACHINE, slurm)  # type: ignore[arg-type]


def rendered(**changed: object) -> list[str]:
    return script.render(replace(GOOD, **changed), MACHINE).splitlines()  # type: ignore[arg-type]


# --- what is asked for ---


def test_a_good_request_has_no_fault() -> None:
    assert faults() == []
    assert faults(project="a-1", queue="pvc9", nodes=300, walltime="48h", after="any:12", array="0-9%2") == []
    assert faults(after="12_3", output="/scratch/x/logs", name="a.b-c_1", env=("A=b c",)) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"ranks": None},
            "--ranks-per-node is needed: how many tiles a node of a cluster with Slurm has is not",
        ),
        ({"queue": "a b"}, "--queue 'a b' is no name of a queue: `sinfo` lists them"),
        ({"name": "a/b"}, "--name 'a/b' is no name for Slurm"),
        (
            {"filesystems": "home"},
            "--filesystems: a cluster with Slurm is not told what a job reads: leave it",
        ),
        ({"after": "12.vm"}, "--after '12.vm' is no job: give its id as sbatch printed it"),
        ({"output": "logs%j"}, "--output 'logs%j' has characters that Slurm reads in its own way"),
        (
            {"spares": 1},
            "--spares 1: how a node that has failed is told on a cluster with Slurm is not known",
        ),
        ({"walltime": "45"}, "--walltime 45 may mean minutes or seconds"),
        ({"array": "9"}, "--array '9' is no range"),
        ({"setup": ""}, "--setup has no command: leave it away for ':'"),
    ],
)
def test_a_fault_is_one_sentence_with_its_remedy(changed: dict[str, object], said: str) -> None:
    [fault] = faults(**changed)
    assert fault.startswith(said)


def test_what_nobody_asked_for_is_left_to_slurm() -> None:
    lines = rendered()
    assert lines[1 : lines.index('cd "$SLURM_SUBMIT_DIR" || exit 1')] == [
        "#SBATCH --nodes=1",
        "#SBATCH --ntasks-per-node=8",
        "#SBATCH --time=00:30:00",
        "#SBATCH --job-name=job",
        "#SBATCH --output=%x.o%j",
        "#SBATCH --exclusive",
    ]


def test_every_option_has_its_directive() -> None:
    lines = rendered(
        project="P", queue="pvc", nodes=4, walltime="50h", name="n", output="logs/", after="7", array="0-9%2"
    )
    assert lines[1 : lines.index('cd "$SLURM_SUBMIT_DIR" || exit 1')] == [
        "#SBATCH --account=P",
        "#SBATCH --partition=pvc",
        "#SBATCH --nodes=4",
        "#SBATCH --ntasks-per-node=8",
        "#SBATCH --time=50:00:00",
        "#SBATCH --job-name=n",
        "#SBATCH --output=logs/%x.o%A.%a",
        "#SBATCH --exclusive",
        "#SBATCH --dependency=afterok:7",
        "#SBATCH --array=0-9%2",
    ]


# --- the script ---


@pytest.mark.parametrize("status", [0, 3, 75, 143])
def test_srun_starts_the_ranks_and_its_status_is_the_jobs(tmp_path: Path, status: int) -> None:
    text = script.render(replace(GOOD, nodes=2), MACHINE)
    ran = execute(tmp_path / "x", text.encode(), ["n1", "n2"], does=[f"exit {status}"])
    assert ran.only.arguments[:4] == ["--nodes=2", "--ntasks=16", "--ntasks-per-node=8", "--cpu-bind=none"]
    assert (ran.status, ran.resubmitted, ran.said) == (status, None, "")


def test_a_job_without_nodes_says_so(tmp_path: Path) -> None:
    ran = execute(tmp_path / "x", script.render(GOOD, MACHINE).encode(), [])
    assert (ran.status, ran.starts) == (2, [])
    assert ran.said == "sched: the batch system names no node to run on\n"


@settings(max_examples=40, deadline=None)
@given(
    job=ANY.filter(bool),
    args=st.lists(ANY, max_size=4),
    run=st.lists(ANY, max_size=2),
    env=st.dictionaries(NAMES, ANY, max_size=4),
)
def test_whatever_the_user_gives_comes_through_unchanged(
    job: str, args: list[str], run: list[str], env: dict[str, str]
) -> None:
    asked = Request(
        job, tuple(args), ranks=2, run=tuple(run), env=tuple(f"{name}={value}" for name, value in env.items())
    )
    text = script.render(asked, MACHINE)
    with tempfile.TemporaryDirectory() as folder:
        ran = execute(Path(folder, "x"), text.encode(), ["n1", "n2"])
    path = f"./{job}" if job.startswith("-") else job  # an option, for whoever reads it
    assert ran.only.command == ["python", "-m", "sched", "run", "--device", "level_zero", *run, path, *args]
    assert env == {name: ran.only.env.get(name) for name in env}
    assert (ran.status, ran.said) == (0, "")
    # And Slurm finds nothing in it that it was not to find.
    assert "\r" not in text
    assert [line for line in text.split("\n") if line.startswith("#SBATCH")] == text.split("\n")[1:7]


# --- what it answers ---


@pytest.mark.parametrize(
    ("printed", "job"),
    [
        ("Submitted batch job 12\n", "12"),
        ("welcome\nSubmitted batch job 12 on cluster pvc\n", "12"),
        ("12\n", None),
        ("", None),
    ],
)
def test_the_id_is_found_in_its_sentence(printed: str, job: str | None) -> None:
    assert slurm.job_id(printed) == job


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("Invalid partition name specified", "no such partition: `sinfo` lists them"),
        ("Invalid job array specification", "write --array FIRST-LAST"),
        ("Invalid account or account/partition combination specified", "say --project"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "longer than the partition"),
        ("Requested node configuration is not available", "--ranks-per-node"),
        ("Invalid generic resource (gres) specification", "calls its GPUs otherwise"),
        ("Unable to contact slurm controller (connect failure)", "does not answer"),
    ],
)
def test_each_refusal_has_its_remedy(message: str, remedy: str) -> None:
    said = slurm.refused(f"sbatch: error: Batch job submission failed: {message}\n", 1)
    assert said is not None
    assert remedy in said


def test_of_an_unknown_refusal_nothing_is_claimed() -> None:
    assert slurm.refused("sbatch: error: the moon is in the wrong house", 1) is None


UNKNOWN = (1, "", "slurm_load_jobs error: Invalid job id specified")


@pytest.mark.parametrize(
    ("after", "answer", "said"),
    [
        (
            "99",
            UNKNOWN,
            "Slurm knows no job 99 (any more), and would start the new one at once: `squeue --me`",
        ),
        ("8_7", (0, "", ""), "Slurm knows no job 8_7 (any more), and would start the new one at once"),
        (
            "any:9",
            (-1, "", "squeue did not answer in 60 s"),
            "squeue does not say whether there is such a job",
        ),
        ("7", (0, "CANCELLED\n", ""), "that job has ended (CANCELLED), and Slurm would let the new one wait"),
        ("8", (0, "COMPLETED\nFAILED\n", ""), "that job has ended (FAILED), and Slurm would let the new one"),
        ("notok:2", (0, "COMPLETED\n", ""), "that job has ended well, and Slurm would let the new one wait"),
    ],
)
def test_a_job_that_none_should_come_after(after: str, answer: tuple[int, str, str], said: str) -> None:
    why = slurm.unfit(replace(GOOD, after=after), *answer)
    assert why is not None
    assert why.startswith(said)


@pytest.mark.parametrize(
    ("after", "states"),
    [
        ("7", "RUNNING\n"),
        ("7", "PENDING\n"),
        ("ok:2", "COMPLETED\n"),
        ("any:7", "CANCELLED\n"),
        ("notok:7", "FAILED\n"),
        ("8", "COMPLETED\nRUNNING\n"),
        ("notok:8", "COMPLETED\nFAILED\n"),
    ],
)
def test_a_job_that_one_may_come_after(after: str, states: str) -> None:
    assert slurm.unfit(replace(GOOD, after=after), 0, states, "") is None
