"""What the README shows, runs."""

import doctest
import re
import runpy
from pathlib import Path

import numpy
import pytest

import sched
from sched.runtime import session

README = Path(__file__).parents[1] / "README.md"


def programs() -> list[str]:
    """List its programs: a job, and the port of a loop."""
    found = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(found) == 2
    return found


def test_its_sessions_are_true() -> None:
    failed, tried = doctest.testfile(str(README), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried > 5
    assert failed == 0


def test_its_job_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job, _ = programs()
    (tmp_path / "job.py").write_text(job)
    monkeypatch.setenv("SCHED_DEVICE", "host")
    runpy.run_path(str(tmp_path / "job.py"), run_name="__main__")
    session.engine().close(0)
    assert "(48, 100000)" in capsys.readouterr().out


def test_its_port_of_a_loop_over_devices_is_right() -> None:
    _, port = programs()
    with sched.local(tiles=3, device="host") as s:
        names = {
            "s": s,
            "xp": numpy,
            "f": numpy.sum,
            "chunks": [[1, 2], [3], [4, 5, 6]],
            "__name__": "__main__",
        }
        exec(port, names)
        assert [part.result() for part in names["parts"]] == [3, 3, 15]


def test_the_doctests_of_the_package_are_true() -> None:
    from sched import client

    assert doctest.testmod(client).failed == 0
    assert sched.local.__doc__ in client.local.__doc__  # the one that users see


def test_its_files_exist() -> None:
    for path in re.findall(r"`((?:examples|benchmarks|tools)/[\w./]*)`|\]\((\w+\.md)\)", README.read_text()):
        assert (README.parent / next(filter(None, path))).exists(), path
