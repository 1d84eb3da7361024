"""What is asked of PBS: how it is checked, and that it comes through to the job unchanged."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from launch import machines, pbs, request, script, walltime
from launch.request import Request
from tests.launch.batch import execute
from tests.launch.texts import ANY, NAMES

AURORA = machines.load("aurora")
GOOD = Request("job.py", project="Climate_2")


def faults(**changed: object) -> list[str]:
    return request.faults(replace(GOOD, **changed), AURORA, pbs)  # type: ignore[arg-type]


def rendered(**changed: object) -> list[str]:
    return script.render(replace(GOOD, **changed), AURORA).splitlines()  # type: ignore[arg-type]


# --- the walltime ---


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("30:00", "00:30:00"),
        ("90:00", "01:30:00"),
        ("1:30:00", "01:30:00"),
        ("01:30:00", "01:30:00"),
        ("90m", "01:30:00"),
        ("2h", "02:00:00"),
        ("1h30m", "01:30:00"),
        ("600s", "00:10:00"),
        (" 30:00 ", "00:30:00"),
        ("168:00:00", "168:00:00"),
    ],
)
def test_a_walltime_has_many_forms(text: str, clock: str) -> None:
    assert walltime.clock(walltime.seconds(text)) == clock


def test_a_bare_number_may_mean_anything() -> None:
    with pytest.raises(
        ValueError, match=r"^may mean minutes or seconds: write 45m or 45:00 for minutes, 45s for seconds$"
    ):
        walltime.seconds("45")


@pytest.mark.parametrize(
    "text", ["", "5min", "1:60", "1:60:00", "-30:00", "30:00:00:00", "1.5h", "m", "30:0", "1h 30m", "\u0663h"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is no time: write minutes and seconds"):
        walltime.seconds(text)


@given(st.integers(0, 10**6))
def test_what_is_written_is_read_back(time: int) -> None:
    assert walltime.seconds(walltime.clock(time)) == time


# --- what PBS would refuse, or lose ---


def test_a_good_request_has_no_fault() -> None:
    assert faults() == []
    assert faults(name="a.b-c_1", filesystems="home:flare:daos_user_fs", env=("A=", "_b1=x=y")) == []
    assert faults(after="any:12.aurora-pbs-0001.host", array="0-9%2", output="/lus/flare/x_1/logs/") == []
    assert faults(after="48[].vm", array="1-9:2", setup=":", ranks=6) == []


@pytest.mark.parametrize(
    ("queue", "nodes", "walltime"),
    [
        ("debug", 1, "5:00"),
        ("debug", 2, "1:00:00"),
        ("debug-scaling", 256, "1h"),
        ("capacity", 16, "168h"),
        ("prod", 1024, "12h"),
        ("prod", 1025, "18h"),
        ("prod", 10624, "24h"),
        ("visualization", 32, "1:00"),
        ("R123456", 77, "100h"),
    ],
)
def test_a_queue_takes_what_its_table_says(queue: str, nodes: int, walltime: str) -> None:
    assert faults(queue=queue, nodes=nodes, walltime=walltime) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"queue": "debug", "nodes": 3},
            "--queue debug takes 1 to 2 nodes, not 3: take --queue capacity (up to 168 h) or --queue "
            "debug-scaling (up to 1 h)",
        ),
        (
            {"queue": "debug", "nodes": 2, "spares": 1},
            "--queue debug takes 1 to 2 nodes, not 3 with 1 to spare: take",
        ),
        (
            {"queue": "prod", "nodes": 100},
            "--queue prod takes 256 to 10624 nodes, not 100: take --queue debug-scaling (up to 1 h)",
        ),
        (
            {"queue": "capacity", "nodes": 17},
            "--queue capacity takes 1 to 16 nodes, not 17: take --queue debug-scaling (up to 1 h)",
        ),
        (
            {"queue": "prod", "nodes": 20000},
            "--queue prod takes 256 to 10624 nodes, not 20000, and no other queue takes so many",
        ),
        (
            {"queue": "debug", "walltime": "61m"},
            "--walltime 61m is 01:01:00, and --queue debug takes 01:00:00 or less for 1 node",
        ),
        (
            {"queue": "prod", "nodes": 1024, "walltime": "18h"},
            "--walltime 18h is 18:00:00, and --queue prod takes 12:00:00 or less for 1024 nodes",
        ),
        (
            {"walltime": "1:30"},
            "--walltime 1:30 is 00:01:30, and --queue debug takes 00:05:00 or more; with hours it has two",
        ),
        ({"walltime": "45"}, "--walltime 45 may mean"),
        ({"walltime": "4 5"}, "--walltime '4 5' is no time: write minutes and seconds"),
        ({"queue": "small"}, "--queue small takes no jobs itself: say --queue prod, which passes them on"),
        ({"queue": "backfill-large"}, "--queue backfill-large takes no jobs itself"),
        ({"queue": "tiny"}, "--queue tiny is not on Aurora any more: `qstat -Q` lists those that are"),
        ({"queue": "EarlyAppAccess"}, "--queue EarlyAppAccess is not on Aurora any more"),
        ({"queue": "de bug"}, "--queue 'de bug' is no name of a queue: `qstat -Q` lists them"),
        ({"project": ""}, "no project is named, whose hours are spent: say --project, or set SCHED_PROJECT"),
        ({"project": "a b"}, "--project 'a b' is no name of a project"),
        ({"project": "x\n#PBS -q prod"}, "--project 'x\\n#PBS -q prod' is no name of a project"),
        ({"name": "a job"}, "--name 'a job' is no name for PBS"),
        ({"name": "a/b"}, "--name 'a/b' is no name for PBS"),
        ({"name": "-x"}, "--name '-x' is no name for PBS"),
        ({"name": "x" * 231}, "--name has 231 characters: shorten it to 230"),
        ({"filesystems": "home,flare"}, "--filesystems 'home,flare' is no list of file systems: put colons"),
        (
            {"ranks": 5},
            "--ranks-per-node 5 cannot share a node's 12 tiles evenly: take one of 1, 2, 3, 4, 6, 12",
        ),
        ({"ranks": 24}, "--ranks-per-node 24 cannot share a node's 12 tiles evenly"),
        ({"env": ("PATH",)}, "--env 'PATH' sets no variable: write NAME=VALUE"),
        ({"env": ("A=1", "1A=2")}, "--env '1A=2' sets no variable"),
        ({"env": ("A-B=2",)}, "--env 'A-B=2' sets no variable"),
        ({"setup": " \n"}, "--setup has no command"),
        ({"setup": "module load x\r\n"}, "--setup has carriage returns, which shells do not take"),
        ({"after": "yesterday"}, "--after 'yesterday' is no job: give its id as qsub printed it"),
        ({"after": "afterok:12"}, "--after 'afterok:12' is no job"),
        ({"output": "my logs"}, "--output 'my logs' has characters that PBS reads in its own way"),
        ({"output": "logs%j"}, "--output 'logs%j' has characters that PBS reads in its own way"),
        ({"output": "host:/logs"}, "--output 'host:/logs' has characters that PBS reads in its own way"),
        ({"array": "9"}, "--array '9' is no range: write FIRST-LAST, or FIRST-LAST%AT_A_TIME, as in 0-9%2"),
        ({"array": "9-0"}, "--array '9-0' is no range"),
        ({"array": "0-9%0"}, "--array '0-9%0' is no range"),
        (
            {"array": "0-99", "queue": "prod", "nodes": 256},
            "--array 0-99 has 100 elements, and in --queue prod none of them starts while more than 10 may: "
            "write 0-99%10",
        ),
    ],
)
def test_a_fault_is_one_sentence_with_its_remedy(changed: dict[str, object], said: str) -> None:
    [fault] = faults(**changed)
    assert fault.startswith(said)


def test_a_queue_that_is_by_request_is_proposed_to_nobody() -> None:
    [fault] = faults(queue="debug", nodes=3)
    assert "visualization" not in fault


def test_all_faults_are_said_at_once() -> None:
    found = faults(project="", queue="debug", nodes=9, walltime="2h", name="a b", array="x")
    assert [re.split(r" '| [0-9a-z]", fault)[0] for fault in found] == [
        "no",
        "--name",
        "--queue",
        "--walltime",
        "--array",
    ]


@pytest.mark.parametrize("array", ["0-99%10", "0-9", "0-99:10"])
def test_an_array_in_prod_may_have_ten_elements_at_a_time(array: str) -> None:
    assert faults(array=array, queue="prod", nodes=256) == []


# --- the script ---


@pytest.mark.parametrize(
    ("job", "name"),
    [
        ("job.py", "job"),
        ("a/b/my job.v2.py", "my_job_v2"),
        ("-x.py", "x"),
        ("\u00e9.py", "_"),
        (".py", "sched"),
    ],
)
def test_without_a_name_it_is_the_scripts(job: str, name: str) -> None:
    assert Request(job).job_name == name
    assert f"#PBS -N {name}" in rendered(job=job)


def test_every_option_has_its_directive() -> None:
    lines = rendered(
        queue="capacity",
        nodes=4,
        spares=2,
        walltime="2h",
        after="12.vm",
        array="0-9%2",
        output="logs",
        name="n",
    )
    assert lines[1 : lines.index('cd "$PBS_O_WORKDIR" || exit 1')] == [
        "#PBS -A Climate_2",
        "#PBS -q capacity",
        "#PBS -l select=6",
        "#PBS -l walltime=02:00:00",
        "#PBS -l filesystems=home:flare",
        "#PBS -l place=scatter",
        "#PBS -k doe",
        "#PBS -N n",
        "#PBS -j oe",
        "#PBS -o logs/",
        "#PBS -W depend=afterok:12.vm",
        "#PBS -J 0-9%2",
        "#PBS -r y",
    ]
    assert "SPARES=2" in lines


@pytest.mark.parametrize(("after", "depend"), [("any:1.vm", "afterany:1.vm"), ("notok:1", "afternotok:1")])
def test_it_may_come_after_another_job_however_that_ends(after: str, depend: str) -> None:
    assert f"#PBS -W depend={depend}" in rendered(after=after)


@pytest.mark.parametrize(
    ("ranks", "threads", "cores"),
    [
        (6, 16, "1-16:17-32:33-48:53-68:69-84:85-100"),
        (4, 24, "1-24:25-48:53-76:77-100"),
        (3, 32, "1-32:33-48,53-68:69-100"),
        (1, 96, "1-48,53-100"),
    ],
)
def test_fewer_ranks_have_the_cores_of_more_tiles(ranks: int, threads: int, cores: str) -> None:
    lines = rendered(ranks=ranks)
    assert {f"ranks={ranks}", f"export OMP_NUM_THREADS={threads}", f"cores={cores}"} <= set(lines)


def test_the_commands_that_bring_python_take_the_place_of_the_module(tmp_path: Path) -> None:
    setup = "module load other\nexport PATH=$PATH:/more # mine\nif true; then\n  module load last\nfi\n"
    ran = execute(tmp_path / "x", script.render(replace(GOOD, setup=setup), AURORA).encode())
    assert ran.modules.split("\n") == ["load other", "load last"]
    assert ran.only.env["PATH"].endswith(":/more")


@settings(max_examples=60, deadline=None)
@given(
    job=ANY.filter(bool),
    args=st.lists(ANY, max_size=4),
    run=st.lists(ANY, max_size=2),
    env=st.dictionaries(NAMES, ANY, max_size=4),
    spares=st.integers(0, 1),
)
def test_whatever_the_user_gives_comes_through_unchanged(
    job: str, args: list[str], run: list[str], env: dict[str, str], spares: int
) -> None:
    asked = Request(
        job,
        tuple(args),
        project="P",
        run=tuple(run),
        env=tuple(f"{name}={value}" for name, value in env.items()),
        spares=spares,
    )
    text = script.render(asked, AURORA)
    with tempfile.TemporaryDirectory() as folder:
        ran = execute(Path(folder, "x"), text.encode(), ["x1", "x2"])
    path = f"./{job}" if job.startswith("-") else job  # an option, for whoever reads it
    assert ran.only.command == ["python", "-m", "sched", "run", "--device", "level_zero", *run, path, *args]
    assert env == {name: ran.only.env.get(name) for name in env}
    assert (ran.status, ran.said) == (0, "")
    # And PBS finds nothing in it that it was not to find.
    assert "\r" not in text
    assert [line for line in text.split("\n") if line.startswith("#PBS")] == text.split("\n")[1:10]


def test_arguments_that_are_no_text_come_through_too(tmp_path: Path) -> None:
    strange = os.fsdecode(b"\xff\xfe ' \\")
    ran = execute(tmp_path / "x", script.render(replace(GOOD, args=(strange,)), AURORA).encode())
    assert ran.only.command[-1] == strange
