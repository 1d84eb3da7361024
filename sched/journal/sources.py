"""What the code is that a pickle names: a function of another module is pickled as its name alone.

For a module of the user's it is the module's file, and, the same way, every module that this imports
anywhere; for an installed package it is the list of its files with their checksums (its RECORD), or its
version; for Python's own modules, Python's version, which is in every key. So a key changes with any line of
any file that a function may come to run, also one that it does not run: that costs a run, and the opposite
would be a wrong result.

What is imported under a name that is only made at run time is not seen; `version=` is for that.
"""

import ast
import hashlib
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

_INSTALLED = frozenset({"site-packages", "dist-packages"})
_OURS = Path(__file__).parents[1]


class Unclear(Exception):
    """It cannot be told what the work is, so there is no key for it; the message says why, for a person."""


class _Module(NamedTuple):
    """What is known of a module: what its state is, and which modules it imports."""

    state: bytes
    imports: tuple[str, ...] = ()


class Sources:
    """The code of modules, as it was when the run began.

    Args:
        begun: when that was, in seconds since 1970. A file that has changed since may not be what was loaded.
    """

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self._modules: dict[str, _Module] = {}
        self._packages: dict[str, list[bytes]] | None = None
        self._states: dict[frozenset[str], bytes] = {}

    def state(self, names: Iterable[str]) -> bytes:
        """Return a digest of the code of these modules, and of all that they import.

        Raises:
            Unclear: A file has changed since the run began, or cannot be read.
        """
        wanted = frozenset(names)
        found = self._states.get(wanted)
        if found is None:
            found = self._states[wanted] = self._find_state(wanted)
        return found

    def _find_state(self, names: frozenset[str]) -> bytes:
        seen: dict[str, bytes] = {}
        waiting = [*names]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            module = self._modules.get(name)
            if module is None:
                module = self._modules[name] = self._look(name)
            seen[name] = module.state
            waiting += module.imports
            parent = name.rpartition(".")[0]
            if parent:  # it is imported first
                waiting.append(parent)
        digest = hashlib.blake2b(digest_size=32)
        for name in sorted(seen):
            if seen[name]:
                text = name.encode("utf-8", "surrogatepass")
                digest.update(b"%d:%b%d:%b" % (len(text), text, len(seen[name]), seen[name]))
        return digest.digest()

    def _look(self, name: str) -> _Module:
        spec = _spec(name)
        if spec is None:
            return _Module(b"")
        if not spec.has_location or spec.origin is None:  # built in, frozen, or a folder without __init__.py
            return _Module(b"")
        path = Path(spec.origin)
        if path.is_relative_to(_OURS):
            return _Module(b"")
        if _INSTALLED.intersection(path.parts):
            package = self._package(name.partition(".")[0])
            if package:
                return _Module(package)
        elif _is_pythons(path):
            return _Module(b"")
        content = self._read(path)
        here = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
        imports = tuple(dict.fromkeys(imported(content, here))) if path.suffix == ".py" else ()
        return _Module(hashlib.blake2b(content, digest_size=32).digest(), imports)

    def _read(self, path: Path) -> bytes:
        try:
            content = path.read_bytes()
            status = path.stat()
        except OSError as error:
            raise Unclear(f"{path} cannot be read ({error.strerror})") from None
        if max(status.st_mtime, status.st_ctime) > self._begun:
            raise Unclear(f"{path} has changed since the run began")
        return content

    def _package(self, top: str) -> bytes:
        """Return a digest of the installed packages that have a module of this name; nothing if none has."""
        if self._packages is None:
            self._packages = _installed()
        return b"".join(self._packages.get(top, ()))


def _installed() -> dict[str, list[bytes]]:
    """Return, for each top-level module, digests of the lists of files of the packages that have it."""
    found: dict[str, set[bytes]] = {}
    for package in metadata.distributions():
        record = package.read_text("RECORD") or ""
        names = (package.read_text("top_level.txt") or "").split()
        digest = hashlib.blake2b((record or package.version).encode(), digest_size=32).digest()
        for name in {*names, *map(_top, record.splitlines())}:
            found.setdefault(name, set()).add(digest)
    return {name: sorted(digests) for name, digests in found.items()}


def _top(line: str) -> str:
    """Return the module of a line of a RECORD, such as `numpy/version.py,sha256=...` or `six.py,...`."""
    return line.partition(",")[0].partition("/")[0].partition(".")[0]


def imported(content: bytes, package: str) -> Iterator[str]:
    """Yield the names of what a module's source imports, anywhere in it; some may be no modules.

    Args:
        content: the source.
        package: the one that relative imports begin from.
    """
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = above(package, node.level, node.module or "")
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def above(package: str, level: int, name: str) -> str:
    """Return the whole name of what is imported as `name`, with that many dots before it, in a package."""
    if not level:
        return name
    parents = package.split(".")
    parents = parents[: len(parents) - level + 1]
    return ".".join([*parents, name] if name else parents)


def _spec(name: str) -> importlib.machinery.ModuleSpec | None:
    """Find a module without importing it; None if there is none."""
    module = sys.modules.get(name)
    if module is not None:
        spec = getattr(module, "__spec__", None)
        if isinstance(spec, importlib.machinery.ModuleSpec):
            return spec
        file = getattr(module, "__file__", None)  # made by hand
        return importlib.util.spec_from_file_location(name, file) if isinstance(file, str) else None
    parent = name.rpartition(".")[0]
    try:
        if not parent:
            return importlib.util.find_spec(name)
        above = _spec(parent)
        if above is None or above.submodule_search_locations is None:
            return None
        return importlib.machinery.PathFinder.find_spec(name, list(above.submodule_search_locations))
    except (ImportError, ValueError, AttributeError):
        return None


def _is_pythons(path: Path) -> bool:
    return any(
        path.is_relative_to(os.path.realpath(sysconfig.get_path(name)))
        or path.is_relative_to(sysconfig.get_path(name))
        for name in ("stdlib", "platstdlib")
    )
