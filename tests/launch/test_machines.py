"""Machines as data: every file that is here, and what is said of one that is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from launch import machines, request, script
from launch.machines import Machine, MachineError
from launch.request import Request
from tests.launch.batch import execute

HERE = ["aurora", "local", "polaris", "slurm", "sunspot"]
WITH_JOBS = [name for name in HERE if name != "local"]

# All that a file must have.
SMALL = """
name = "Mine"
batch = "slurm"
device = "level_zero"
setup = "module load python"
launch = ["srun", "-n", "{total}"]
"""


def read(more: str = "", *, without: str = "", instead: str = "") -> Machine:
    """Read the small file with more at its end, without the line of some key, or with another one instead."""
    lines = [line for line in SMALL.strip().splitlines() if not without or not line.startswith(without)]
    return machines.read("\n".join([*lines, instead, more, ""]), "mine.toml")


def asked(machine: Machine, **more: object) -> Request:
    """Return a request without faults: of a machine whose tiles are not known one must say how many ranks."""
    ranks = None if machine.tiles else 4
    return Request("job.py", project="P", ranks=ranks, **more)  # type: ignore[arg-type]


# --- those that are here ---


def test_these_machines_are_here() -> None:
    assert machines.names() == HERE


@pytest.mark.parametrize("name", WITH_JOBS)
def test_a_job_with_defaults_has_no_fault(name: str) -> None:
    machine = machines.load(name)
    assert request.faults(asked(machine), machine, script.SYSTEMS[machine.batch]) == []


@pytest.mark.parametrize("name", WITH_JOBS)
def test_its_script_is_one_for_bash_and_shellcheck(name: str, tmp_path: Path) -> None:
    machine = machines.load(name)
    path = tmp_path / "script"
    path.write_text(script.render(asked(machine), machine))
    assert subprocess.run(["bash", "-n", path], capture_output=True, timeout=60, check=False).stderr == b""
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run([shellcheck, path], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""


@pytest.mark.parametrize("name", WITH_JOBS)
def test_its_script_runs_the_job_on_every_node(name: str, tmp_path: Path) -> None:
    machine = machines.load(name)
    ran = execute(tmp_path / "x", script.render(asked(machine, nodes=2), machine).encode(), ["x1", "x2"])
    assert ran.only.command == ["python", "-m", "sched", "run", "--device", machine.device, "job.py"]
    assert str(2 * (machine.tiles or 4)) in " ".join(ran.only.arguments).replace("=", " ").split()
    wanted = {key: value for key, value in machine.environment if "{" not in value}
    assert wanted == {key: ran.only.env.get(key) for key in wanted}
    assert ran.only.directory == str(tmp_path / "x" / "my project")
    assert (ran.status, ran.said) == (0, "")


@pytest.mark.parametrize("name", WITH_JOBS)
def test_it_says_that_nobody_has_tried_it_there(name: str) -> None:
    machine = machines.load(name)
    assert "never on" in machine.about
    assert "has run" in (Path(machines.__file__).parent / f"{name}.toml").read_text()


def test_on_aurora_each_tile_has_eight_cores_of_its_socket() -> None:
    aurora = machines.load("aurora")
    assert aurora.tiles == 12
    assert aurora.cores[5:7] == (((41, 48),), ((53, 60),))
    assert all(last - first == 7 for [(first, last)] in aurora.cores)


def test_on_polaris_the_first_gpu_is_beside_the_last_cores(tmp_path: Path) -> None:
    polaris = machines.load("polaris")
    ran = execute(tmp_path / "x", script.render(asked(polaris), polaris).encode(), ["x1"])
    assert "--cpu-bind=list:24-31:16-23:8-15:0-7" in ran.only.arguments
    assert ran.only.arguments[:4] == ["-n", "4", "--ppn", "4"]


def test_this_machine_has_no_batch_system() -> None:
    assert machines.load("local") == Machine("this machine", "none")


# --- one of a user's own ---


def test_a_file_of_ones_own_is_named_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(SMALL)
    assert (
        machines.load("mine.toml") == machines.load("./mine.toml") == machines.load(f"{tmp_path}/mine.toml")
    )
    assert machines.load("mine.toml").name == "Mine"


def test_what_is_left_out_is_not_known_and_not_checked() -> None:
    machine = read()
    assert (machine.tiles, machine.queues, machine.find("debug"), machine.filesystems) == (None, (), None, "")
    slurm = script.SYSTEMS["slurm"]
    assert request.faults(Request("job.py", nodes=5000, walltime="900h", ranks=5), machine, slurm) == []


def test_every_key_is_read() -> None:
    machine = read(
        """
        about = "Never tried."
        launcher = "pals"
        cores = ["1-4,11-14", "5"]
        queue = "main"
        filesystems = "home:data"
        directives = ["--gres=gpu:1"]
        needs_project = true
        from_home = false
        gone = ["old"]
        [environment]
        N = "{threads}"
        [notes]
        N = "Why."
        [routed]
        small = "main"
        [[queues]]
        name = "main"
        least = 2
        limits = [[4, "2h"], [8, "90m"]]
        shortest = "5m"
        by_request = true
        at_a_time = 3
        """,
        without="launch",
        instead='launch = ["mpiexec", "-f", "{hosts}"]',
    )
    assert machine == Machine(
        name="Mine",
        batch="slurm",
        about="Never tried.",
        device="level_zero",
        tiles=2,
        cores=(((1, 4), (11, 14)), ((5, 5),)),
        setup="module load python",
        launch=("mpiexec", "-f", "{hosts}"),
        launcher="pals",
        queue="main",
        filesystems="home:data",
        directives=("--gres=gpu:1",),
        environment=(("N", "{threads}"),),
        notes=(("N", "Why."),),
        needs_project=True,
        from_home=False,
        queues=(machines.Queue("main", 2, ((4, 7200), (8, 5400)), 300, True, 3),),
        routed=(("small", "main"),),
        gone=("old",),
    )


def test_all_that_may_stand_in_braces_is_filled_in(tmp_path: Path) -> None:
    machine = read(
        'cores = ["1-4", "5-8"]\n[environment]\nSTRANGE = \'a "b" $c `d` {threads} \\\'',
        without="launch",
        instead="""launch = ['mpiexec', '-a={nodes}', '--b={ranks}', '{total}', '--hostfile', '{hosts}',
            '{cores}', '$x"`\\{threads}', "it's"]""",
    )
    ran = execute(tmp_path / "x", script.render(Request("job.py"), machine).encode(), ["n1", "n2", "n3"])
    cut = ran.only.arguments.index("python")
    *before, _, cores, strange, plain = ran.only.arguments[:cut]
    assert before == ["-a=3", "--b=2", "6", "--hostfile"]
    assert (cores, strange, plain) == ("1-4:5-8", '$x"`\\4', "it's")
    assert ran.only.hosts == ["n1", "n2", "n3"]
    assert ran.only.env["STRANGE"] == 'a "b" $c `d` 4 \\'


# --- files that are wrong ---


def test_an_unknown_name_is_told_those_that_are_here() -> None:
    with pytest.raises(
        MachineError, match=r"^there is no machine 'arora': take one of aurora, local, "
    ) as told:
        machines.load("arora")
    assert "or name a file of your own, as in ./mine.toml (a copy of one in /" in str(told.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    gone, binary = tmp_path / "gone.toml", tmp_path / "binary.toml"
    with pytest.raises(MachineError, match=r"gone.toml' cannot be read \(No such file or directory\): name"):
        machines.load(str(gone))
    binary.write_bytes(b"\xff")
    with pytest.raises(MachineError, match=r"binary.toml' cannot be read \(it is no UTF-8\): name another"):
        machines.load(str(binary))
    with pytest.raises(MachineError, match=r"cannot be read \(Is a directory\): name another one$"):
        machines.load(f"{tmp_path}/")


@pytest.mark.parametrize("key", ["name", "batch", "device", "setup", "launch"])
def test_a_key_that_every_file_has_is_missed(key: str) -> None:
    with pytest.raises(MachineError, match=f"^mine.toml: {key} is missing: every machine's file has it$"):
        read(without=key)


def test_a_key_of_a_queue_is_missed() -> None:
    with pytest.raises(MachineError, match=r"^mine.toml: queues\[1\].limits is missing"):
        read('[[queues]]\nname = "a"\nleast = 1\nlimits = [[1, "1h"]]\n[[queues]]\nname = "b"\nleast = 1')


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("name = ", "is no TOML: "),
        ('modules = "x"', "modules is no key of a machine's file: there are name, batch, about, device"),
        ('filesystem = "x"', "filesystem is no key of a machine's file: did you mean filesystems?"),
        ('[[queues]]\nmost = 3\nname = "a"', "queues[0].most is no key of a machine's file: "),
        ('tiles = "4"', "tiles is '4', and should be a whole number from 1 to 1000000"),
        ("tiles = true", "tiles is True, and should be a whole number from 1 to 1000000"),
        ("tiles = 1_000_001", "tiles is 1000001, and should be a whole number from 1"),
        ("tiles = 0", "tiles is 0, and should be a whole number from 1 to 1000000"),
        ("queue = 3", "queue is 3, and should be a text"),
        ('queue = ""', "queue is '', and should be a text on one line"),
        ('queue = "a b"', "queue is 'a b', which has characters that do not belong there"),
        ('filesystems = "home,flare"', "filesystems is 'home,flare', which has characters that do not"),
        ('from_home = "no"', "from_home is 'no', and should be true or false"),
        ('launcher = "hydra"', "launcher is 'hydra': it can be pals"),
        ('launcher = "pals"', "launcher is 'pals', which is told the nodes: put {hosts} into launch"),
        ('directives = "-k doe"', "directives is '-k doe', and should be a list of texts of one line each"),
        ('directives = ["a\\n#PBS -q b"]', "directives is ['a\\n#PBS -q b'], and should be a list of texts"),
        ("gone = [1]", "gone is [1], and should be a list of texts of one line each"),
        ('cores = ["8-1"]', "cores[0] is '8-1', which is no list of cores: write them as 1-8 or 1-8,105-112"),
        ('cores = ["1-2", "x"]', "cores[1] is 'x', which is no list of cores"),
        ('tiles = 3\ncores = ["1"]', "tiles is 3, but cores has 1 entries: a tile has one each"),
        ("[environment]\nN = 1", "environment is {'N': 1}, and should be a table of texts of one line each"),
        ('[environment]\n"a b" = "1"', "environment.a b is no name of a variable: letters, digits and '_'"),
        ('[environment]\nN = "{nodes}"', "environment has {nodes}, which nobody fills in: take of {threads}"),
        ('[environment]\nN = "{threads}"', "environment has {threads}, but there is no key cores: say which"),
        ('[notes]\nN = "x"', "notes.N is about nothing here: name a variable of environment, or cores"),
        ("queues = [1]", "queues is [1], and should be a list of tables, each headed [[queues]]"),
        (
            '[[queues]]\nname = "a"\nlimits = [[1, 2]]',
            "queues[0].limits is [[1, 2]], and should be a list of",
        ),
        ('[[queues]]\nname = "a"\nlimits = "1h"', "queues[0].limits is '1h', and should be a list of"),
        ('[[queues]]\nname = "a"\nlimits = []', "queues[0].limits does not rise: write [nodes, time] pairs"),
        (
            '[[queues]]\nname = "a"\nlimits = [[9, "1h"], [2, "2h"]]',
            "queues[0].limits does not rise: write [nodes, time] pairs, as in",
        ),
        (
            '[[queues]]\nname = "a"\nlimits = [[9, "60"]]',
            "queues[0].limits has '60', which may mean minutes or seconds",
        ),
        (
            '[[queues]]\nname = "a"\nlimits = [[9, "1h"]]\nshortest = "soon"',
            "queues[0].shortest is no time: write minutes",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence_with_the_file_and_the_key(more: str, said: str) -> None:
    with pytest.raises(MachineError) as told:
        read(more)
    message = str(told.value).removeprefix("mine.toml: ").removeprefix("mine.toml ")
    assert message.startswith(said)
    assert str(told.value).startswith("mine.toml")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("key", "instead", "said"),
    [
        ("batch", 'batch = "lsf"', "batch is 'lsf': it can be pbs or slurm or none"),
        (
            "batch",
            'batch = "none"',
            "device has no meaning for a machine without a batch system: leave it away",
        ),
        (
            "setup",
            'setup = " "',
            "setup has no command, or carriage returns: write shell commands, or ':' for",
        ),
        ("launch", "launch = []", 'launch has no words: begin with the command, as in ["mpiexec", '),
        (
            "launch",
            'launch = ["srun", "{rank}"]',
            "launch has {rank}, which nobody fills in: take of {nodes}, ",
        ),
        (
            "launch",
            'launch = ["x", "{cores}"]',
            "launch has {cores}, but there is no key cores: say which lie",
        ),
        ("name", 'name = "a\\nb"', "name is 'a\\nb', and should be a text on one line"),
    ],
)
def test_so_is_a_key_that_every_file_has(key: str, instead: str, said: str) -> None:
    with pytest.raises(MachineError) as told:
        read(without=key, instead=instead)
    assert str(told.value).startswith(f"mine.toml: {said}")


def toml(value: Any) -> str:
    """Write a value as TOML does."""
    if isinstance(value, list):
        return f"[{', '.join(toml(each) for each in value)}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {toml(each)}' for key, each in value.items())} }}"
    return json.dumps(value)


TEXT = st.sampled_from(
    ["", "1-8", "8-1", "1h", "pals", "{cores}", "{threads}", "{", "a\nb", "A_1"]
) | st.text(
    st.characters(exclude_categories=("Cs",), max_codepoint=0xFF, exclude_characters="\x7f"), max_size=4
)
LEAF = st.booleans() | st.integers(-2, 10**20) | TEXT
VALUE = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=2), max_leaves=6
)
QUEUE = st.fixed_dictionaries(
    {"name": TEXT, "least": LEAF, "limits": st.just([[2, "1h"]]) | VALUE}, optional={"shortest": TEXT}
)
SOME = {
    "about": TEXT,
    "cores": st.lists(st.sampled_from(["1-8", "9", "1,3-4"]), max_size=3),
    "directives": st.lists(TEXT, max_size=2),
    "environment": st.dictionaries(st.just("A"), TEXT, max_size=1),
    "launch": st.lists(TEXT | st.just("{total}"), min_size=1, max_size=2),
    "queues": st.lists(QUEUE, max_size=1),
}


@settings(max_examples=150, deadline=None)
@given(
    st.fixed_dictionaries({}, optional=SOME),
    st.dictionaries(st.sampled_from([*Machine.__dataclass_fields__]), VALUE, max_size=1),
)
def test_whatever_a_file_holds_it_is_a_machine_or_that_one_sentence(
    likely: dict[str, Any], strange: dict[str, Any]
) -> None:
    facts = {"name": "M", "batch": "slurm", "device": "host", "setup": ":", "launch": ["srun"]}
    facts |= likely | strange
    text = "".join(f"{key} = {toml(value)}\n" for key, value in facts.items())
    said = None
    try:
        machine = machines.read(text, "mine.toml")
    except MachineError as error:
        said = str(error)
    if said is not None:
        assert said.startswith("mine.toml")
        assert "\n" not in said
    elif machine.batch != "none":
        assert request.faults(Request("job.py", ranks=7), machine, script.SYSTEMS[machine.batch]) is not None
        done = script.render(Request("job.py", ranks=machine.tiles or 1), machine)
        assert done.startswith("#!/bin/bash -l\n")
