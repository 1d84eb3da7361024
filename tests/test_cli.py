"""What the command line takes, and what it says to what it does not."""

import pytest

from sched import cli
from sched.commands import run
from sched.runtime import session


def settings(*words):
    """Return the settings that `sched run WORDS job.py` comes to."""
    return run._settings(cli._parser("run").parse_args(["run", *words, "job.py"]))


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("SCHED_DEVICE", "SCHED_TILES", "SCHED_TILE_MEMORY"):
        monkeypatch.delenv(name, raising=False)


def test_without_options_all_is_left_to_what_is_found():
    found = settings()
    assert (found.device, found.tiles, found.tile_memory) == ("auto", None, None)
    assert (found.check, found.mpi_buffers) == (False, "auto")


def test_every_setting_has_an_option():
    found = settings(
        *("--device", "cpu", "--tiles", "3", "--depth", "4", "--tile-memory", "2 GiB"),
        *("--mpi-buffers", "host", "--driver-only", "--oversubscribe", "--quiet", "--check"),
    )
    assert (found.device, found.tiles, found.depth, found.tile_memory) == ("cpu", 3, 4, 2 << 30)
    assert (found.driver_only, found.oversubscribe, found.quiet, found.check) == (True,) * 4
    assert found.mpi_buffers == "host"


def test_variables_say_what_options_would(monkeypatch):
    monkeypatch.setenv("SCHED_DEVICE", "host")
    monkeypatch.setenv("SCHED_TILE_MEMORY", "500M")
    monkeypatch.setenv("SCHED_TILES", "3")
    assert (settings().device, settings().tile_memory) == ("host", 500_000_000)
    assert settings("--tile-memory", "7").tile_memory == 7
    outside = session._settings()
    assert (outside.device, outside.tiles, outside.tile_memory) == ("host", 3, 500_000_000)


@pytest.mark.parametrize(("name", "value"), [("SCHED_TILES", "many"), ("SCHED_TILE_MEMORY", "2 Gigs")])
def test_a_variable_that_cannot_be_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"^{name}={value!r} is "):
        session._settings()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tils", "3"], "unrecognized arguments: --tils (did you mean --tiles?)"),
        (["--mpi-bufers=host"], "unrecognized arguments: --mpi-bufers=host (did you mean --mpi-buffers?)"),
        (["--zzz"], "unrecognized arguments: --zzz\n"),
        (["--tiles", "x"], "argument --tiles: 'x' is no whole number"),
        (["--tiles", "0"], "argument --tiles: 0 is not at least 1"),
        (["--tile-memory", "2 Gigs"], "argument --tile-memory: size='2 Gigs' is no amount of memory"),
        (["--mpi-buffers", "gpu"], "argument --mpi-buffers: invalid choice: 'gpu'"),
    ],
)
def test_what_is_no_option_is_answered_with_what_is(capsys, words, said):
    with pytest.raises(SystemExit) as caught:
        cli.main(["run", *words, "job.py"])
    assert caught.value.code == cli.CANNOT_BEGIN
    assert said in capsys.readouterr().err


def test_arguments_of_the_job_are_its_own():
    options, unknown = cli._parser("run").parse_known_args(
        ["run", "--tiles", "2", "job.py", "--zzz", "--tiles", "x"]
    )
    assert (options.args, unknown) == (["--zzz", "--tiles", "x"], [])
