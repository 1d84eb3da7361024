"""The batch script, executed with stand-ins for `module`, `mpiexec` and `qsub`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from launch import machines
from launch.request import Request
from launch.script import render
from tests.launch.batch import Ran, execute

SCRIPT = Path(__file__).parents[2] / "aurora.pbs"
LINES = SCRIPT.read_text().splitlines()
DIRECTIVES = [line for line in LINES if line.startswith("#PBS")]

NODES = [f"x4109c{n}s0b0n0" for n in range(4)]
SHEPHERD = "x4109c1s0b0n0.hsn.cm.aurora.alcf.anl.gov: shepherd died from signal 9"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "a directory with spaces"


def run(root: Path, hosts: list[str], *does: str, edits: tuple[str, ...] = (), **env: str) -> Ran:
    """Run aurora.pbs with some of its lines edited: each edit is the new line, NAME=..."""
    lines = LINES.copy()
    for edit in edits:
        name = edit.partition("=")[0]
        [place] = [n for n, line in enumerate(lines) if line.startswith(f"{name}=")]
        lines[place] = edit
    return execute(root, "\n".join([*lines, ""]).encode(), hosts, does=does or ("exit 0",), env=env)


def test_it_is_what_sched_submit_writes() -> None:
    assert SCRIPT.read_text() == render(Request("job.py", project="PROJECT"), machines.load("aurora"))


@pytest.mark.parametrize(
    ("hosts", "ranks"),
    [
        pytest.param(["x1"], "12", id="one node"),
        pytest.param(["x1"] * 12, "12", id="one node, a line for each rank"),
        pytest.param(["x2", "x1"], "24", id="two nodes"),
        pytest.param(["x2"] * 12 + ["x1"] * 12, "24", id="two nodes, a line for each rank"),
        pytest.param(["x2", "x1"] * 12, "24", id="two nodes, by turns"),
    ],
)
def test_twelve_ranks_are_started_on_each_node(root: Path, hosts: list[str], ranks: str) -> None:
    ran = run(root, hosts)
    assert ran.only.arguments[:4] == ["-n", ranks, "--ppn", "12"]
    assert ran.only.hosts == list(dict.fromkeys(hosts)), "each once, the first one first"
    assert ran.only.command == ["python", "-m", "sched", "run", "--device", "level_zero", "job.py"]
    assert (ran.status, ran.said) == (0, "")


def test_the_job_starts_where_it_was_submitted_with_the_module_and_then_our_environment(root: Path) -> None:
    ran = run(root, ["x1"])
    assert ran.only.directory == str(root / "my project")
    assert ran.modules == "load frameworks"
    wanted = {
        "TMPDIR": "/tmp",
        "ZE_FLAT_DEVICE_HIERARCHY": "FLAT",
        "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
        "ONEAPI_DEVICE_SELECTOR": "level_zero:gpu",
        "OMP_NUM_THREADS": "8",
    }
    assert wanted == {name: ran.only.env.get(name) for name in wanted}
    assert "ZE_AFFINITY_MASK" not in ran.only.env


def test_a_users_own_variables_come_last(root: Path) -> None:
    ran = run(root, ["x1"], edits=("env=(OMP_NUM_THREADS=4 'TITLE=a b')",))
    assert (ran.only.env["OMP_NUM_THREADS"], ran.only.env["TITLE"]) == ("4", "a b")


@pytest.mark.parametrize("status", [0, 3, 75, 143])
def test_the_exit_status_is_the_jobs(root: Path, status: int) -> None:
    ran = run(root, ["x1"], f"exit {status}")
    assert (ran.status, ran.resubmitted) == (status, None)


def test_the_job_may_have_spaces_and_arguments(root: Path) -> None:
    ran = run(root, ["x1"], edits=('job=("my job.py" --title "a b" "*")',))
    assert ran.only.command[-4:] == ["my job.py", "--title", "a b", "*"]


def test_nothing_is_started_in_another_directory(root: Path) -> None:
    script = SCRIPT.read_text().replace('"$PBS_O_WORKDIR"', '"$PBS_O_WORKDIR/gone"')
    ran = execute(root, script.encode())
    assert (ran.status, ran.starts) == (1, [])


def test_each_rank_has_eight_cores_beside_its_tile(root: Path) -> None:
    option, _, groups = run(root, ["x1"]).only.arguments[6].partition("=list:")
    assert option == "--cpu-bind"
    assert groups == "1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100"


@pytest.mark.parametrize("spares", [0, 1])
def test_when_pbs_ends_the_job_mpiexec_is_waited_for_and_nothing_starts_again(
    root: Path, spares: int
) -> None:
    # PBS signals the whole session at once. Here mpiexec does it, and then takes its time.
    ends = f"trap : TERM; kill -TERM 0; echo '{SHEPHERD}'; exit 75"
    ran = run(root, NODES[:3], ends, edits=(f"SPARES={spares}", "RESUBMIT=1", "journal=."))
    assert (ran.status, len(ran.starts), ran.resubmitted) == (75, 1, None)
    assert ran.said == f"{SHEPHERD}\n", "its last words arrive"


# --- nodes that fail ---


def test_spare_nodes_are_kept_back(root: Path) -> None:
    ran = run(root, NODES, edits=("SPARES=1",))
    assert (ran.only.arguments[1], ran.only.hosts) == ("36", NODES[:3])


def test_a_node_that_has_failed_is_replaced(root: Path) -> None:
    ran = run(root, NODES[:3], f"echo '{SHEPHERD}' >&2; exit 1", "exit 0", edits=("SPARES=1",))
    assert [start.hosts for start in ran.starts] == [NODES[:2], [NODES[0], NODES[2]]]
    assert ran.status == 0
    assert SHEPHERD in ran.said
    assert "sched: node x4109c1s0b0n0 has failed (status 1); starting again without it\n" in ran.said


@pytest.mark.parametrize(
    "line",
    [
        SHEPHERD,
        "ping failed on x4109c1s0b0n0: Application 047a3c9f-fb41-4595-a2ad-4a4d0ec1b6c1 not found",
        "ping RPC timeout from x4109c1s0b0n0.hostmgmt2212.cm.aurora.alcf.anl.gov after 120s",
        "ping failed on x4109c0s0b0n0: No reply from x4109c1s0b0n0.hostmgmt2307.cm.aurora after 87s",
        "ping failed on x4109c0s0b0n0: Couldn't forward RPC ping(24c93b8c) to child x4109c1s0b0n0."
        "hostmgmt2707.cm.aurora.alcf.anl.gov: Resource temporarily unavailable",
    ],
)
def test_the_node_is_the_one_that_mpiexec_blames(root: Path, line: str) -> None:
    later = "x4109c0s0b0n0.hsn: shepherd died from signal 9"
    ran = run(root, NODES[:3], f'echo "{line}"; echo "{later}"; exit 1', "exit 0", edits=("SPARES=1",))
    assert [start.hosts for start in ran.starts][1:] == [[NODES[0], NODES[2]]]


def test_node_files_may_have_full_names(root: Path) -> None:
    full = [f"{node}.hsn.cm.aurora.alcf.anl.gov" for node in NODES]
    ran = run(root, full[:3], f"echo '{SHEPHERD}'; exit 1", "exit 0", edits=("SPARES=1",))
    assert [start.hosts for start in ran.starts][1:] == [[full[0], full[2]]]


@pytest.mark.parametrize(
    "does",
    [
        pytest.param("echo 'x4109c1s0b0n0: rank 3 died from signal 11'; exit 1", id="a task's fault"),
        pytest.param("echo 'Traceback'; exit 1", id="the job's fault"),
        pytest.param(f"echo '{SHEPHERD}'; exit 0", id="it ended well"),
        pytest.param("echo 'x9999c1s0b0n0: shepherd died from signal 9'; exit 1", id="another job's node"),
    ],
)
def test_what_is_not_a_nodes_fault_starts_nothing_again(root: Path, does: str) -> None:
    ran = run(root, NODES[:3], does, edits=("SPARES=1",))
    assert len(ran.starts) == 1
    assert ran.status == int(does[-1])


def test_without_a_journal_the_run_starts_anew_once(root: Path) -> None:
    does = [f"echo 'x4109c{n}s0b0n0: shepherd died from signal 9'; exit 9" for n in range(4)]
    ran = run(root, NODES, *does, edits=("SPARES=3",))
    assert ([start.hosts for start in ran.starts], ran.status) == ([[NODES[0]], [NODES[1]]], 9)


def test_with_a_journal_it_goes_on_while_there_are_spare_nodes(root: Path) -> None:
    does = [f"echo 'x4109c{n}s0b0n0: shepherd died from signal 9'; exit 9" for n in range(4)]
    ran = run(root, NODES, *does, edits=("SPARES=3", "journal=steps"))
    assert [start.hosts for start in ran.starts] == [[node] for node in NODES]


def test_spares_that_leave_no_node_are_an_error(root: Path) -> None:
    ran = run(root, ["x1"], edits=("SPARES=1",))
    assert (ran.status, ran.starts) == (2, [])
    assert ran.said == "sched: SPARES=1 leaves no node to run on: ask for more nodes\n"


# --- a job that stops in time ---


def test_a_job_with_more_to_do_goes_to_the_queue_again(root: Path) -> None:
    does = "mkdir steps; exit 75"
    ran = run(root, ["x1"], does, edits=("RESUBMIT=1", "journal=steps"), STALLS="1")
    assert (ran.status, ran.resubmitted) == (75, ["-v", "STALLS=0", str(ran.path)])


def test_two_attempts_without_progress_are_enough(root: Path) -> None:
    edits = ("RESUBMIT=1", "journal=steps")
    first = run(root / "1", ["x1"], "exit 75", edits=edits)
    assert first.resubmitted == ["-v", "STALLS=1", str(first.path)]
    second = run(root / "2", ["x1"], "exit 75", edits=edits, STALLS="1")
    assert (second.status, second.resubmitted) == (75, None)
    assert second.said == "sched: not resubmitted: the last two attempts added nothing to steps\n"


@pytest.mark.parametrize(
    ("journal", "env"), [("journal=", {}), ("journal=steps", {"PBS_ARRAY_INDEX": "3"})], ids=["none", "array"]
)
def test_what_cannot_go_on_is_not_resubmitted(root: Path, journal: str, env: dict[str, str]) -> None:
    ran = run(root, ["x1"], "exit 75", edits=("RESUBMIT=1", journal), **env)
    assert (ran.status, ran.resubmitted) == (75, None)
    assert ran.said == "sched: not resubmitted: that takes a journal, and a job that is no array\n"


@pytest.mark.parametrize("status", [0, 1, 143])
def test_no_other_end_resubmits(root: Path, status: int) -> None:
    ran = run(root, ["x1"], f"exit {status}", edits=("RESUBMIT=1", "journal=steps"))
    assert (ran.resubmitted, ran.said) == (None, "")


# --- what PBS reads ---


def test_the_directives_follow_the_first_line_without_a_break_and_a_command_ends_them() -> None:
    assert LINES[0] == "#!/bin/bash -l"
    assert LINES[1 : 1 + len(DIRECTIVES)] == DIRECTIVES
    assert LINES[1 + len(DIRECTIVES)] == 'cd "$PBS_O_WORKDIR" || exit 1'


def test_everything_aurora_demands_is_there_once() -> None:
    options = [line.removeprefix("#PBS ") for line in DIRECTIVES]
    keys = [re.split(r"[ =]", option.replace("-l ", ""))[0] for option in options]
    assert sorted(keys) == ["-A", "-N", "-j", "-k", "-q", "filesystems", "place", "select", "walltime"]
    assert {"-k doe", "-j oe", "-l place=scatter"} <= set(options)


def test_nodes_are_asked_for_whole_and_the_walltime_with_hours() -> None:
    assert "#PBS -l select=1" in DIRECTIVES
    [walltime] = [line for line in DIRECTIVES if "walltime" in line]
    assert re.fullmatch(r"#PBS -l walltime=\d\d:\d\d:\d\d", walltime)


def test_no_directive_has_a_comment_or_a_stray_character() -> None:
    assert not [line for line in DIRECTIVES if "#" in line[1:] or line != line.strip()]
    assert b"\r" not in SCRIPT.read_bytes()
    assert SCRIPT.read_text().isascii()


def test_it_gives_sched_run_only_options_that_it_has() -> None:
    from sched import cli

    options, unknown = cli._parser("run").parse_known_args(["run", "--device", "level_zero", "job.py"])
    assert (options.job, unknown) == ("job.py", [])
    assert "handed=()" in LINES


def test_it_says_that_it_has_not_been_on_the_machine() -> None:
    assert "never on Aurora itself" in SCRIPT.read_text()


def test_shellcheck_finds_nothing() -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run([shellcheck, str(SCRIPT)], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
