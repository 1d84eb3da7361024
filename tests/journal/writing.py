"""Journals and segments made for tests."""

import hashlib
from pathlib import Path

from sched.journal import segments, values
from sched.journal.segments import Tally
from sched.journal.store import Journal


def key(number: int) -> bytes:
    """Return the key of a task that is known by a number."""
    return hashlib.blake2b(number.to_bytes(8, "little"), digest_size=32).digest()


class Heard(list):
    """Collects what the user is told."""

    def __call__(self, sentence: str) -> None:
        self.append(sentence)


def quiet(sentence: str) -> None:
    raise AssertionError(f"the user was told: {sentence}")


def run(directory: Path, *parts: tuple[int, bytes], rank: int = 0, name: str = "task") -> None:
    """Let a run record tasks, given by their numbers and values, and end."""
    with_it = Journal.open(directory, warn=quiet)
    journal = Journal.join(directory, rank, with_it.run, warn=quiet) if rank else with_it
    for number, value in parts:
        assert journal.record(key(number), value, (), name)
    journal.close()
    with_it.close()


def held(directory: Path, numbers: range, warn=quiet) -> dict[int, bytes]:
    """Return the numbers that a new run finds in a journal, and their values."""
    journal = Journal.open(directory, warn=warn)
    try:
        found = {number: journal.find(key(number)) for number in numbers}
        loaded = {number: journal.load(entry) for number, entry in found.items() if entry is not None}
        return {number: value[0] for number, value in loaded.items() if value is not None}
    finally:
        journal.close()


def segment(path: Path, payloads: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Write a segment with these as values of tasks 0, 1, ...; return the keys and payloads in it."""
    writer = segments.Writer(path)
    made = []
    for number, payload in enumerate(payloads):
        kind, whole = values.in_place(values.split(payload, ()))
        writer.append(kind, key(number), f"task {number}".encode(), whole)
        made.append((key(number), whole))
    writer.close()
    return made


def scanned(path: Path) -> tuple[list[tuple[bytes, bytes]], Tally]:
    """Return the keys and payloads that are found in a segment, and what was skipped."""
    tally = Tally()
    return [(r.head.key, r.payload) for r in segments.scan(path, tally)], tally
