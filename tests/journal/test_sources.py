"""A key is the same in every run of the same code, and another when any line of it has changed."""

import functools
import importlib
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from sched.journal import sources
from sched.journal.keys import Keys
from sched.journal.sources import Sources, Unclear, imported

from .digesting import digest

CHECKOUT = Path(__file__).parents[2]

JOB = """
import dataclasses, enum, functools, sys, time
from tests.journal.digesting import digest
from sched.journal.keys import Keys
BEGUN = float(sys.argv[1])
import helper
import member
from package import part

NAMES = {"alpha", "beta", "gamma", "delta"}
SCALE = 2

class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"

@dataclasses.dataclass
class Settings:
    mode: Mode = Mode.FAST
    names: set = dataclasses.field(default_factory=lambda: set(NAMES))

def work(x, settings):
    import late
    return helper.twice(x) * SCALE + part.one() + late.more() if x in NAMES else settings.mode in {"a", "b"}

keys = Keys("host", BEGUN)
arguments = ((Settings(), frozenset(NAMES), {member.of_a_set}, functools.partial(part.one)), {"names": NAMES})
print(keys.key(digest(keys, work), digest(keys, arguments), "work").hex())
"""

FILES = {
    "job.py": JOB,
    "helper.py": "import deeper\n\ndef twice(x):\n    return 2 * deeper.same(x)\n",
    "deeper.py": "def same(x):\n    def inner():\n        from package.lazy import nothing\n    return x\n",
    "late.py": "def more():\n    return 1\n",
    "member.py": "def of_a_set():\n    pass\n",
    "unused.py": "1\n",
    "package/__init__.py": "",
    "package/part.py": "from . import sibling\n\ndef one():\n    return 1\n",
    "package/sibling.py": "",
    "package/lazy.py": "nothing = None\n",
    "package/unused.py": "",
}


def key(directory, *, seed="0", **environment):
    """Run the job in a directory; return the key of its task."""
    begun = time.time() + 1000  # the files were written just now
    done = subprocess.run(
        [sys.executable, "job.py", str(begun)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONHASHSEED": seed, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def lay_out(directory, **changed):
    for name, text in {**FILES, **changed}.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return key(lay_out(tmp_path_factory.mktemp("first")))


def test_the_same_job_has_the_same_key_in_another_run_and_another_place(first, tmp_path):
    lay_out(tmp_path)
    assert key(tmp_path, seed="1") == first
    assert key(tmp_path, seed="2") == first  # now the modules come from their .pyc files


@pytest.mark.parametrize("name", ["unused.py", "package/unused.py"])
def test_a_file_that_nobody_imports_is_not_in_it(first, tmp_path, name):
    assert key(lay_out(tmp_path, **{name: "2\n"})) == first


def test_what_else_stands_in_the_script_is_not_in_it(first, tmp_path):
    assert key(lay_out(tmp_path, **{"job.py": f"# a comment\nELSE = 3\n{JOB}\nprint(end='')\n"})) == first


@pytest.mark.parametrize("name", [name for name in FILES if "unused" not in name and name != "job.py"])
def test_any_module_that_the_task_may_come_to_run_is_in_it(first, tmp_path, name):
    assert key(lay_out(tmp_path, **{name: FILES[name] + "\nadded = 1\n"})) != first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SCALE = 2", "SCALE = 3"),
        ('"delta"}', '"epsilon"}'),
        ('FAST = "fast"', 'FAST = "quick"'),
        ('"b"}', '"c"}'),
    ],
)
def test_any_part_of_the_script_that_it_uses_is_in_it(first, tmp_path, old, new):
    assert JOB.count(old) == 1
    assert key(lay_out(tmp_path, **{"job.py": JOB.replace(old, new)})) != first


def test_a_file_that_changed_since_the_run_began_leaves_the_task_without_a_key(tmp_path, monkeypatch):
    lay_out(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    now = time.time()
    os.utime(tmp_path / "deeper.py", (now + 200, now + 200))
    with pytest.raises(Unclear, match=r"deeper\.py has changed since the run began"):
        Sources(begun=now + 100).state(["helper"])
    Sources(begun=now + 300).state(["helper"])


MENTIONS = {
    "function": "m.work",
    "class": "m.Class",
    "object": "m.Class()",
    "method": "m.Class().method",
    "enum": "m.Mode.FAST",
    "module": "m",
    "partial": "functools.partial(m.work, 1)",
    "in a list": "[m.work]",
    "in a set": "{m.work}",
    "in an object's state": "types.SimpleNamespace(x=m.Class())",
    "global": "script('def f(): return m.work', m=m)",
    "global function": "script('def f(): return work', work=m.work)",
    "global object": "script('def f(): return thing', thing=m.Class())",
    "closure": "(lambda work: lambda: work)(m.work)",
    "default": "lambda work=m.work: work",
    "base class": "type('Mine', (m.Class,), {'__module__': '__main__'})",
    "imported later": "script('def f():\\n    import mentioned')",
    "imported from later": "script('def f():\\n    def g():\\n        from mentioned import work')",
    "imported beside": "script('def f():\\n    from . import mentioned', __package__='pack')",
    "decorator": "m.decorated",
}


@pytest.mark.parametrize("how", MENTIONS)
def test_however_a_module_is_mentioned_it_is_seen(tmp_path, monkeypatch, how):
    text = (
        "import enum, functools\n\ndef work(x=None):\n    return x\n\n"
        "class Class:\n    def method(self):\n        pass\n\nclass Mode(enum.Enum):\n    FAST = 1\n\n"
        "@functools.lru_cache\ndef decorated(x):\n    pass\n"
    )
    (tmp_path / "pack").mkdir()
    for folder in (tmp_path, tmp_path / "pack"):
        (folder / "mentioned.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()

    def script(source, **known):
        space = {"__name__": "__main__", **known}
        exec(source, space)
        return space["f"]

    def run(begun):
        thing = eval(MENTIONS[how], {"m": m, "functools": functools, "types": types, "script": script})
        return digest(Keys("host", begun), thing)

    try:
        m = importlib.import_module("mentioned")
        run(time.time() + 1000)
        with pytest.raises(Unclear, match=r"mentioned\.py has changed"):
            run(time.time() - 1000)
    finally:
        for name in ("mentioned", "pack", "pack.mentioned"):
            sys.modules.pop(name, None)


def test_a_copy_that_keeps_an_old_date_counts_as_a_change(tmp_path, monkeypatch):
    lay_out(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    os.utime(tmp_path / "late.py", (1, 1))
    with pytest.raises(Unclear, match="late"):
        Sources(begun=time.time() - 60).state(["late"])


def test_pythons_own_modules_and_ours_cost_nothing():
    nothing = Sources(0).state([])
    assert Sources(0).state(["json", "builtins", "sys", "collections.abc", "sched.journal.keys"]) == nothing


def test_an_installed_package_is_the_list_of_its_files(monkeypatch):
    before = Sources(0).state(["numpy.linalg"])
    assert before == Sources(0).state(["numpy.linalg"]) != Sources(0).state([])

    class Newer:
        version = "99"

        def read_text(self, name):
            return "numpy/linalg/__init__.py,sha256=another,1\n" if name == "RECORD" else None

    monkeypatch.setattr(sources.metadata, "distributions", lambda: [Newer()])
    assert Sources(0).state(["numpy.linalg"]) != before


def test_what_no_package_has_installed_is_a_file_like_the_users(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "dropped.py").write_text("import late_too\n")
    (folder / "late_too.py").write_text("")
    monkeypatch.syspath_prepend(folder)
    later = time.time() + 1000
    before = Sources(later).state(["dropped"])
    assert before == Sources(later).state(["dropped"])
    (folder / "late_too.py").write_text("changed = 1\n")
    assert before != Sources(later).state(["dropped"])


def test_imports_are_found_wherever_they_stand():
    source = (
        b"import a.b, c\ndef f():\n    from .d import e\n    from .. import g\nif 0:\n    from h import *\n"
    )
    found = set(imported(source, "top.package"))
    assert found == {"a.b", "c", "h", "h.*", "top.package.d", "top.package.d.e", "top", "top.g"}


def test_a_source_that_cannot_be_parsed_imports_nothing_that_is_known():
    assert list(imported(b"def (", "")) == []
