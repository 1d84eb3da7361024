"""Segments: the one file to which a rank appends in a run, and how all of them are read."""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sched.journal import records
from sched.journal.records import APART, IN_PLACE, MAGIC, RECORD_HEAD, SEGMENT_HEAD, Head
from sched.journal.values import write_all

READ_AHEAD = 1 << 22
"""Bytes that are read at a time."""

CHECKED = 1 << 16
"""Bytes of a payload that is checked as it is passed; a larger one is checked when it is read."""

_NAME = re.compile(r"rank-(\d+)\.(.+)\.log")


def segment_name(run: str, rank: int) -> str:
    """Return the name of a rank's segment."""
    return f"rank-{rank:05}.{run}.log"


def is_segment(name: str) -> bool:
    """Tell whether a file's name is that of a segment."""
    return _NAME.fullmatch(name) is not None


def age(name: str) -> tuple[str, int]:
    """Return what sorts the names of segments by their runs, and then by rank."""
    match = _NAME.fullmatch(name)
    assert match is not None
    return match[2], int(match[1])


@dataclass(slots=True)
class Tally:
    """What was skipped while a journal was read.

    Attributes:
        torn: segments whose last record was not written completely, as when a run is killed.
        damaged: places where there was a record once, or where its payload is not what was written.
        gone: records whose value's file is not there.
        newer, foreign, unreadable: names of files.
    """

    torn: int = 0
    damaged: int = 0
    gone: int = 0
    newer: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


class Record(NamedTuple):
    """A record as it is found. `payload` is empty if it is too large to be passed (`head.nbytes` is not)."""

    offset: int
    head: Head
    name: bytes
    payload: bytes


class Writer:
    """Append records to a new segment.

    Raises:
        OSError: It cannot be made, or there is one of this name.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        salt = os.urandom(16)
        self._seed = records.seed(salt)
        self._end = 0
        self._append(records.segment_head(salt))
        self.unsynced = SEGMENT_HEAD

    def append(self, kind: int, key: bytes, name: bytes, payload: bytes, at: float | None = None) -> None:
        """Append a record; when this returns, it outlives the process.

        Raises:
            OSError: It cannot be written; then nothing of it is in the segment, or its end is torn.
        """
        stamp = time.time() if at is None else at
        record = records.encode(kind, key, name, stamp, payload, self._seed)
        self._append(record)
        self.unsynced += len(record)

    def sync(self) -> None:
        """See that all of it outlives the machine. Raises OSError."""
        if self.unsynced:
            os.fsync(self._file)
            self.unsynced = 0

    def close(self) -> None:
        """Close it, without `sync`."""
        os.close(self._file)

    def _append(self, data: bytes) -> None:
        try:
            write_all(self._file, data)
        except OSError:
            os.ftruncate(self._file, self._end)
            raise
        self._end += len(data)


def scan(path: Path, tally: Tally) -> Iterator[Record]:
    """Yield the whole records of a segment, in order; count the others. It never fails."""
    try:
        with path.open("rb", buffering=0) as file:
            yield from _scan(file.fileno(), path.name, tally)
    except OSError:
        tally.unreadable.append(path.name)


def read_at(file: int, offset: int, seed: int) -> tuple[Head, bytes] | None:
    """Return the record at this place, and its payload; None if it is damaged. Raises OSError."""
    data = os.pread(file, CHECKED, offset)
    head = records.read_head(data, 0, seed)
    if head is None:
        return None
    start = RECORD_HEAD + head.name_nbytes
    while len(data) < start + head.nbytes:
        more = os.pread(file, start + head.nbytes - len(data), offset + len(data))
        if not more:
            return None
        data += more
    payload = data[start : start + head.nbytes]
    return (head, payload) if records.is_whole(payload, head, seed) else None


def _scan(file: int, name: str, tally: Tally) -> Iterator[Record]:
    size = os.fstat(file).st_size
    data, base = os.pread(file, min(READ_AHEAD, size), 0), 0
    try:
        seed = records.read_segment_head(data)
    except records.Newer:
        tally.newer.append(name)
        return
    except records.NotOurs:
        if size >= SEGMENT_HEAD:
            tally.foreign.append(name)
        elif size:
            tally.torn += 1
        return
    at = SEGMENT_HEAD
    while at < size:
        if at - base + RECORD_HEAD + records.NAME_BYTES + CHECKED > len(data) and base + len(data) < size:
            data, base = os.pread(file, min(READ_AHEAD, size - at), at), at
        head = records.read_head(data, at - base, seed)
        if head is None:
            following = _next(file, at + 1, size, seed)
            if following is None:
                if _is_cut(data, at - base):
                    tally.torn += 1
                else:
                    tally.damaged += 1
                return
            tally.damaged += 1
            at = following
            continue
        start = at + RECORD_HEAD + head.name_nbytes
        end = start + head.nbytes
        if end > size:
            tally.torn += 1
            return
        payload = data[start - base : end - base] if head.nbytes <= CHECKED else b""
        if (payload or not head.nbytes) and not records.is_whole(payload, head, seed):
            tally.damaged += 1
        elif head.kind not in (IN_PLACE, APART):
            if name not in tally.newer:
                tally.newer.append(name)
        else:
            yield Record(at, head, data[at - base + RECORD_HEAD : start - base], payload)
        at = end


def _is_cut(data: bytes, at: int) -> bool:
    """Tell whether what is left looks like the beginning of a record."""
    left = data[at : at + RECORD_HEAD]
    if not MAGIC.startswith(left[: len(MAGIC)]):
        return False
    if len(left) < RECORD_HEAD:
        return True
    return len(data) - at < RECORD_HEAD + int.from_bytes(left[6:8], "little")


def _next(file: int, at: int, size: int, seed: int) -> int | None:
    """Find the next place at which there is the head of a record."""
    while at < size:
        data = os.pread(file, min(READ_AHEAD, size - at), at)
        found = data.find(MAGIC)
        while found >= 0:
            left = len(data) - found
            if left < RECORD_HEAD + records.NAME_BYTES and at + len(data) < size and found:
                break  # it may go on beyond what was read
            if records.read_head(data, found, seed) is not None:
                return at + found
            found = data.find(MAGIC, found + 1)
        if found > 0:
            at += found
        elif len(data) < len(MAGIC) or at + len(data) >= size:
            return None
        else:
            at += len(data) - len(MAGIC) + 1
    return None
