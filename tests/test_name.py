"""Once installed, `import sched` means this project; and who wants CPython's module does not notice.

Every check is a program of its own, run by a fresh environment's Python from an empty directory. The tools of
the present environment (pytest, cloudpickle, numpy) can be imported there, but come last on its `sys.path`.
"""

import ast
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from dataclasses import dataclass
from os import environ
from pathlib import Path
from typing import Literal

import pytest
from build import ProjectBuilder

ROOT = Path(__file__).parent.parent
VERSION = "tilesched 0.1.0"
STANDARD = Path(sysconfig.get_path("stdlib"))
WHERE = "import sched; print(sched.__file__)"


@dataclass(frozen=True)
class Installed:
    """A virtual environment with tilesched in it.

    Attributes:
        bin: its programs.
        site: its site-packages.
        package: the directory that `import sched` has to find.
        cwd: an empty directory.
    """

    bin: Path
    site: Path
    package: Path
    cwd: Path

    def run(self, program: str, *arguments: str | Path, cwd: Path | None = None) -> str:
        """Run one of its programs, which has to succeed, and return all that it printed."""
        done = subprocess.run(
            [self.bin / program, *arguments],
            cwd=cwd or self.cwd,
            env={name: value for name, value in environ.items() if not name.startswith(("PYTHON", "PYTEST"))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{program} {arguments} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout.strip()

    def python(self, source: str, *flags: str) -> str:
        return self.run("python", *flags, "-c", source)

    def pip(self, *arguments: str | Path) -> None:
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.bin / "python")
        subprocess.run([*pip, *arguments], check=True, timeout=100)


Kind = Literal["wheel", "editable"]
Install = Callable[[Kind], Installed]


@pytest.fixture(scope="session")
def install(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Make a new environment with the project installed in it; each kind of wheel is built once."""
    wheels: dict[Kind, str] = {}

    def make(kind: Kind) -> Installed:
        if kind not in wheels:
            wheels[kind] = ProjectBuilder(ROOT).build(kind, tmp_path_factory.mktemp("wheels"))
        top = tmp_path_factory.mktemp(kind)
        venv.create(top, symlinks=True)
        (site,) = top.glob("lib/python*/site-packages")
        cwd = top / "empty"
        cwd.mkdir()
        installed = Installed(top / "bin", site, (site if kind == "wheel" else ROOT) / "sched", cwd)
        installed.pip("install", "--quiet", "--no-index", "--no-deps", wheels[kind])
        tools = (path for path in sys.path if path.endswith("-packages"))
        (site / "zz-tools.pth").write_text("\n".join(tools))
        return installed

    return make


@pytest.fixture(scope="session", params=["wheel", "editable"])
def installed(request: pytest.FixtureRequest, install: Install) -> Installed:
    return install(request.param)


@pytest.fixture(scope="session")
def from_wheel(install: Install) -> Installed:
    return install("wheel")


class TestImportFindsThisProject:
    @pytest.mark.parametrize("flag", ["-B", "-I", "-E", "-P"])
    def test_whatever_the_flags_of_python(self, installed: Installed, flag: str) -> None:
        if flag == "-P" and sys.version_info < (3, 11):
            pytest.skip("-P came with Python 3.11")
        assert installed.python(WHERE, flag) == str(installed.package / "__init__.py")

    def test_as_a_program(self, installed: Installed) -> None:
        assert installed.run("python", "-m", "sched", "--version") == VERSION
        assert installed.run("sched", "--version") == VERSION

    def test_under_pytest(self, installed: Installed, tmp_path: Path) -> None:
        test = tmp_path / "test_sched.py"
        expected = str(installed.package / "__init__.py")
        test.write_text(f"import sched\ndef test_it():\n    assert sched.__file__ == {expected!r}\n")
        assert "1 passed" in installed.run("python", "-m", "pytest", test, cwd=tmp_path)

    def test_even_if_something_imported_cpythons_before(self, install: Install) -> None:
        installed = install("wheel")
        (installed.site / "earlier.pth").write_text("import sched\n")
        assert installed.python(WHERE) == str(installed.package / "__init__.py")

    def test_once(self, installed: Installed) -> None:
        again = "import sys, _tilesched_name as n; n.take_over(); print(sys.meta_path.count(n.SchedFinder))"
        assert installed.python(again) == "1"

    def test_from_a_checkout_that_is_not_installed(self, install: Install) -> None:
        installed = install("wheel")
        installed.pip("uninstall", "--yes", "--quiet", "tilesched")
        assert installed.run("python", "-m", "sched", "--version", cwd=ROOT) == VERSION

    def test_but_a_module_in_front_of_the_standard_library_wins_as_ever(
        self, installed: Installed, tmp_path: Path
    ) -> None:
        (tmp_path / "sched.py").touch()
        (tmp_path / "job.py").write_text(WHERE)
        assert installed.run("python", tmp_path / "job.py") == str(tmp_path / "sched.py")

    def test_and_a_directory_of_that_name_is_nothing(self, installed: Installed, tmp_path: Path) -> None:
        (tmp_path / "sched").mkdir()
        (tmp_path / "job.py").write_text(WHERE)
        assert installed.run("python", tmp_path / "job.py") == str(installed.package / "__init__.py")


class TestThePriceIsSmall:
    def test_a_start_of_python_imports_one_module_more(self, install: Install) -> None:
        installed = install("wheel")
        loaded = "import sys; print(*sorted(sys.modules), sep='\\n')"
        after = installed.python(loaded)
        installed.pip("uninstall", "--yes", "--quiet", "tilesched")
        assert set(after.split()) - set(installed.python(loaded).split()) == {"_tilesched_name"}

    def test_import_sched_imports_nothing_else(self, installed: Installed) -> None:
        program = "import sys; before = set(sys.modules); import sched; print(*set(sys.modules) - before)"
        assert installed.python(program) == "sched"

    def test_no_other_standard_module_is_touched(self, installed: Installed) -> None:
        program = (
            "import sys; from _tilesched_name import SchedFinder\n"
            "print(*filter(SchedFinder.find_spec, sys.stdlib_module_names))"
        )
        assert installed.python(program) == "sched"


class TestWhatIsGoneIsGone:
    @pytest.mark.parametrize("kind", ["wheel", "editable"])
    def test_uninstalled(self, install: Install, kind: Kind) -> None:
        installed = install(kind)
        installed.python("import sched.cli")  # leaves bytecode behind
        installed.pip("uninstall", "--yes", "--quiet", "tilesched")
        assert installed.python(WHERE) == str(STANDARD / "sched.py")
        assert [path.name for path in installed.site.iterdir() if "sched" in path.name] == []

    @pytest.mark.parametrize("lost", ["_tilesched_name.py", "sched", "sched/__init__.py"])
    def test_half_an_install_is_silent(self, install: Install, lost: str) -> None:
        installed = install("wheel")
        (installed.site / lost).rename(installed.site / "elsewhere")
        assert installed.python(WHERE) == str(STANDARD / "sched.py")

    def test_so_is_a_broken_one(self, install: Install) -> None:
        installed = install("wheel")
        (installed.site / "_tilesched_name.py").write_text("import sys; raise RuntimeError")
        assert installed.python(WHERE) == str(STANDARD / "sched.py")


class TestWhoWantsCPythonsModuleDoesNotNotice:
    def test_the_documented_example(self, from_wheel: Installed) -> None:
        example = """if True:
            import sched
            clock = [0]
            def sleep(seconds):
                clock[0] += seconds
            s = sched.scheduler(lambda: clock[0], sleep)
            def print_time(a='default'):
                print(clock[0], a)
            s.enter(10, 1, print_time)
            s.enter(5, 2, print_time, argument=('positional',))
            s.enter(5, 1, print_time, kwargs={'a': 'keyword'})
            s.enterabs(20, 10, print_time, argument=('first enterabs',))
            s.enterabs(20, 5, print_time, argument=('second enterabs',))
            s.run()
        """
        expected = ["5 keyword", "5 positional", "10 default", "20 second enterabs", "20 first enterabs"]
        assert from_wheel.python(example).splitlines() == expected

    def test_its_own_tests(self, installed: Installed) -> None:
        suites = {STANDARD / "test", Path(f"/usr/lib/python{sys.version_info[0]}.{sys.version_info[1]}/test")}
        tests = [suite / "test_sched.py" for suite in suites if (suite / "test_sched.py").exists()]
        if not tests:
            pytest.skip("this Python comes without its own tests")
        for test in tests:
            program = f"import runpy, sched; sched.__path__; runpy.run_path({str(test)!r}, None, '__main__')"
            assert installed.python(program).endswith("OK")

    def test_star_import(self, from_wheel: Installed) -> None:
        program = "from sched import *; import sched; print(scheduler is sched.scheduler, 'xp' in globals())"
        assert from_wheel.python(program) == "True False"

    @pytest.mark.parametrize("flags", [("-I", "-S"), ("-S", "-I"), ("-I", "-I")])
    def test_events_are_pickled_for_one_and_read_by_the_other(
        self, from_wheel: Installed, flags: tuple[str, str]
    ) -> None:
        """With -S nothing is taken over: that is CPython's module."""
        write, read = flags
        made = "sched.Event(1.5, 2, 3, print, (), {})"
        pickled = from_wheel.python(f"import pickle, sched; print(pickle.dumps({made}).hex())", write)
        program = f"import pickle, sched; print(pickle.loads(bytes.fromhex({pickled!r})) == {made})"
        assert from_wheel.python(program, read) == "True"


class TestPublicNames:
    def test_each_can_be_loaded(self, from_wheel: Installed) -> None:
        program = "import sched; print(*(n for n in sched.__all__ if getattr(sched, n).__name__ != n))"
        assert from_wheel.python(program) == ""

    def test_each_is_listed_before_it_is_loaded(self, from_wheel: Installed) -> None:
        program = "import sched; print(*{*sched.__all__, 'xp', '__version__'} - {*dir(sched)})"
        assert from_wheel.python(program) == ""

    def test_each_is_known_to_type_checkers(self) -> None:
        source = ast.parse((ROOT / "sched/__init__.py").read_text())
        imports = [node for node in ast.walk(source) if isinstance(node, ast.ImportFrom)]
        declared = {
            name.asname: str(node.module).removeprefix("sched.")
            for node in imports
            for name in node.names
            if name.asname
        }
        (home,) = (
            ast.literal_eval(node.value)
            for node in source.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOME"
        )
        assert declared == home

    def test_a_misspelt_one_is_an_attribute_error(self, from_wheel: Installed) -> None:
        program = "import sched\ntry: sched.Shceduler\nexcept AttributeError as error: print(error)"
        assert from_wheel.python(program) == "module 'sched' has no attribute 'Shceduler'"

    def test_no_submodule_has_the_name_of_one(self, from_wheel: Installed) -> None:
        """Importing it would cover the public name."""
        submodules = "{m.name for m in pkgutil.iter_modules(sched.__path__)}"
        program = f"import sched, pkgutil; print({submodules} & {{*dir(sched)}})"
        assert from_wheel.python(program) == "set()"

    def test_xp_is_asked_for_at_each_access(self, from_wheel: Installed) -> None:
        program = "import sched, sched.ambient as a; a.xp = iter('12').__next__; print(sched.xp, sched.xp)"
        assert from_wheel.python(program) == "1 2"

    def test_a_function_that_refers_to_the_package_can_travel(self, from_wheel: Installed) -> None:
        program = "import cloudpickle as c, sched; print(c.loads(c.dumps(lambda: sched))() is sched)"
        assert from_wheel.python(program) == "True"
