"""Reads a table of TOML by its keys, and refuses what is wrong in one sentence with the file and the key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NoReturn

MOST = 1_000_000
"""More of anything no machine has; a slip of the keyboard is found, and not counted up to."""


class MachineError(ValueError):
    """No machine can be had from this name or file; the message says why, and what to write instead."""


class Table:
    """A table, each of whose keys is asked for by what it should hold.

    A default that is not given means that the key must be there.

    Args:
        facts: what TOML has read.
        path: of the file, for messages.
        known: all keys that there may be.
        prefix: where in the file the table is: "queues[2]."; empty at its top.

    Raises:
        MachineError: There is a key that nobody knows.
    """

    def __init__(self, facts: Mapping[str, Any], path: str, known: Iterable[str], prefix: str = "") -> None:
        self._facts = facts
        self._path = path
        self._prefix = prefix
        names = list(known)
        for key in facts:
            if key not in names:
                near = difflib.get_close_matches(key, names, n=1)
                meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
                self.refuse(key, f"is no key of a machine's file: {meant}")

    def refuse(self, key: str, why: str) -> NoReturn:
        """Raise the error that a key is wrong."""
        raise MachineError(f"{self._path}: {self._prefix}{key} {why}")

    def only(self, keys: Collection[str], what: str) -> None:
        """Refuse all keys but some."""
        for key in self._facts:
            if key not in keys:
                self.refuse(key, f"has no meaning for {what}: leave it away")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text of any number of lines."""
        value = self._get(key, default)
        if not isinstance(value, str) or "\0" in value:
            self._mistyped(key, 'a text, as in "debug"', value)
        return value

    def line(self, key: str, default: str | None = None) -> str:
        """Return a text on one line that is not empty, unless that is the default."""
        value = self.text(key, default)
        if key in self._facts and not (value and value.isprintable()):
            self._mistyped(key, "a text on one line", value)
        return value

    def word(self, key: str, form: re.Pattern[str], default: str | None = None) -> str:
        """Return a text of a certain form."""
        value = self.line(key, default)
        if key in self._facts and not form.fullmatch(value):
            self.refuse(key, f"is {value!r}, which has characters that do not belong there")
        return value

    def choice(self, key: str, among: Collection[str], default: str | None = None) -> str:
        """Return one of some words."""
        value = self.text(key, default)
        if key in self._facts and value not in among:
            self.refuse(key, f"is {value!r}: it can be {' or '.join(among)}")
        return value

    def number(self, key: str, default: int | None) -> int | None:
        """Return a whole number from 1 to `MOST`."""
        if key not in self._facts:
            return default
        value = self._facts[key]
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
            self._mistyped(key, f"a whole number from 1 to {MOST}", value)
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return a yes or no."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            self._mistyped(key, "true or false", value)
        return value

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return a list of texts, each on one line."""
        value = self._get(key, default)
        if not isinstance(value, list | tuple) or not all(_line(each) for each in value):
            self._mistyped(key, 'a list of texts of one line each, as in ["a", "b"]', value)
        return tuple(value)

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """Return a table of texts, each on one line, in its order; empty if it is not there."""
        value = self._get(key, {})
        if not isinstance(value, dict) or not all(_line(each) for each in value.values()):
            self._mistyped(key, 'a table of texts of one line each, as in NAME = "value"', value)
        return tuple(value.items())

    def limits(self, key: str) -> tuple[tuple[int, str], ...]:
        """Return a list of pairs of a whole number from 1 and a text."""
        value = self._get(key, None)
        pairs: list[tuple[int, str]] = []
        for pair in value if isinstance(value, list) else [None]:
            match pair:
                case [int(number), str(text)] if number >= 1 and not isinstance(number, bool):
                    pairs.append((number, text))
                case _:
                    self._mistyped(key, 'a list of [nodes, time] pairs, as in [[2, "1h"]]', value)
        return tuple(pairs)

    def tables(self, key: str, known: Iterable[str]) -> list[Table]:
        """Return a list of tables; empty if it is not there."""
        value = self._get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self._mistyped(key, f"a list of tables, each headed [[{key}]]", value)
        return [Table(each, self._path, known, f"{key}[{n}].") for n, each in enumerate(value)]

    def _get(self, key: str, default: Any) -> Any:
        if key not in self._facts and default is None:
            self.refuse(key, "is missing: every machine's file has it")
        return self._facts.get(key, default)

    def _mistyped(self, key: str, wanted: str, value: object) -> NoReturn:
        self.refuse(key, f"is {value!r}, and should be {wanted}")


def _line(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()
