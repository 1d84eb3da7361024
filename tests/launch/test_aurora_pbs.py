"""The batch script, executed with stand-ins for `module` and `mpiexec`."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "aurora.pbs"
LINES = SCRIPT.read_text().splitlines()
DIRECTIVES = [line for line in LINES if line.startswith("#PBS")]

# The real one leaves a selector that lists every tile twice; base modules set COMPOSITE. Reading a variable
# that is unset is what modules do, and what `set -u` must not see.
MODULE = """() { echo "$*" >>"$RECORD/module"
  export ONEAPI_DEVICE_SELECTOR='opencl:gpu;level_zero:gpu' ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE
  : "$NEVER_SET_ANYWHERE"
}"""
MPIEXEC = """#!/bin/bash
printf '%s\\0' "$@" >"$RECORD/arguments"
env -0 >"$RECORD/environment"
pwd >"$RECORD/directory"
exit "$STATUS"
"""


@dataclass(frozen=True)
class Ran:
    status: int
    arguments: list[str]
    env: dict[str, str]
    directory: str
    modules: str


def execute(root: Path, hosts: list[str], *, status: int = 0, script: str | None = None) -> Ran:
    """Run the script as PBS would: in the home directory, with a node file, knowing where qsub was called."""
    home, submitted, record, commands = (root / name for name in ("home", "my project", "record", "bin"))
    for folder in (home, submitted, record, commands):
        folder.mkdir()
    (commands / "mpiexec").write_text(MPIEXEC)
    (commands / "mpiexec").chmod(0o755)
    copy = root / "1.vm.SC"
    copy.write_text(script or SCRIPT.read_text())
    nodefile = root / "48[2].vm"  # of an array job: brackets, which a shell takes for a pattern
    nodefile.write_text("".join(f"{host}\n" for host in hosts))
    done = subprocess.run(
        ["bash", str(copy)],
        cwd=home,
        env={
            "PATH": f"{commands}:/usr/bin:/bin",
            "HOME": str(home),
            "BASH_FUNC_module%%": MODULE,
            "RECORD": str(record),
            "STATUS": str(status),
            "PBS_O_WORKDIR": str(submitted),
            "PBS_NODEFILE": str(nodefile),
            "PBS_JOBID": "48[2].vm",
            "TMPDIR": "/var/tmp/pbs.48[2].vm",
            "OMP_NUM_THREADS": "208",
        },
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stderr == ""
    return Ran(
        status=done.returncode,
        arguments=(record / "arguments").read_text().split("\0")[:-1],
        env=dict(entry.split("=", 1) for entry in (record / "environment").read_text().split("\0") if entry),
        directory=(record / "directory").read_text().strip(),
        modules=(record / "module").read_text().strip(),
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "a directory with spaces"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("hosts", "ranks"),
    [
        pytest.param(["x1"], "12", id="one node"),
        pytest.param(["x1"] * 12, "12", id="one node, a line for each rank"),
        pytest.param(["x1", "x2"], "24", id="two nodes"),
        pytest.param(["x1"] * 12 + ["x2"] * 12, "24", id="two nodes, a line for each rank"),
        pytest.param(["x1", "x2"] * 12, "24", id="two nodes, by turns"),
    ],
)
def test_twelve_ranks_are_started_on_each_node(root: Path, hosts: list[str], ranks: str) -> None:
    ran = execute(root, hosts)
    assert ran.arguments[:4] == ["-n", ranks, "--ppn", "12"]
    assert ran.arguments[5:] == ["python", "-m", "sched", "run", "--device", "level_zero", "job.py"]
    assert ran.status == 0


def test_the_job_starts_where_it_was_submitted_with_the_module_and_then_our_environment(root: Path) -> None:
    ran = execute(root, ["x1"])
    assert ran.directory == str(root / "my project")
    assert ran.modules == "load frameworks"
    wanted = {
        "TMPDIR": "/tmp",
        "ZE_FLAT_DEVICE_HIERARCHY": "FLAT",
        "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
        "ONEAPI_DEVICE_SELECTOR": "level_zero:gpu",
        "OMP_NUM_THREADS": "8",
    }
    assert wanted == {name: ran.env.get(name) for name in wanted}
    assert "ZE_AFFINITY_MASK" not in ran.env


@pytest.mark.parametrize("status", [0, 3, 143])
def test_the_exit_status_is_the_jobs(root: Path, status: int) -> None:
    assert execute(root, ["x1"], status=status).status == status


def test_the_job_may_have_spaces_and_arguments(root: Path) -> None:
    script = SCRIPT.read_text().replace("job=(job.py)", 'job=("my job.py" --title "a b" "*")', 1)
    assert execute(root, ["x1"], script=script).arguments[-4:] == ["my job.py", "--title", "a b", "*"]


def test_nothing_is_started_in_another_directory(root: Path) -> None:
    script = SCRIPT.read_text().replace('"$PBS_O_WORKDIR"', '"$PBS_O_WORKDIR/gone" 2>/dev/null')
    with pytest.raises(FileNotFoundError, match="arguments"):
        execute(root, ["x1"], script=script)


def test_each_rank_has_eight_cores_beside_its_tile(root: Path) -> None:
    option, _, groups = execute(root, ["x1"]).arguments[4].partition("=list:")
    assert option == "--cpu-bind"
    cores = [range(int(first), int(last) + 1) for first, last in (g.split("-") for g in groups.split(":"))]
    assert [len(group) for group in cores] == [8] * 12
    assert len(set().union(*cores)) == 96
    assert all(1 <= core <= 51 for group in cores[:6] for core in group), "the first socket, less core 0"
    assert all(53 <= core <= 103 for group in cores[6:] for core in group), "the second, less core 52"


# --- what PBS reads ---


def test_the_directives_follow_the_first_line_without_a_break_and_a_command_ends_them() -> None:
    assert LINES[0] == "#!/bin/bash -l"
    assert LINES[1 : 1 + len(DIRECTIVES)] == DIRECTIVES
    assert LINES[1 + len(DIRECTIVES)] == "job=(job.py)"


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


def test_it_says_that_it_has_not_been_on_the_machine() -> None:
    assert "never on Aurora itself" in SCRIPT.read_text()


def test_shellcheck_finds_nothing() -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run([shellcheck, str(SCRIPT)], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
