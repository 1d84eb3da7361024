"""A journal as a person looks after it: what it holds, whether it is whole, and what can go.

To look changes nothing, and can be done while a run has the journal; to prune takes it as a run does. A
segment that loses records is written anew beside itself, and then takes its own place; the files of values go
last. So pruning may be killed at any moment too.
"""

import contextlib
import os
import secrets
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from sched.errors import LaunchError
from sched.journal import owner, records, segments, values
from sched.journal.directory import read_format, scan_all, sync_directory
from sched.journal.segments import Record, Tally, Writer


class Held(NamedTuple):
    """A task's value in a journal: in which record it is, and in which file, if it has one.

    `nbytes` are those of the value. `time` is when it was recorded, in seconds since 1970.
    """

    key: bytes
    name: str
    time: float
    nbytes: int
    segment: str
    offset: int
    file: str | None


class Pruned(NamedTuple):
    """What has gone: records, whether they were of use or not, and bytes on the disk."""

    records: int
    nbytes: int


def check(directory: Path) -> None:
    """See whether there is a journal that this sched can read.

    Raises:
        LaunchError: There is not.
    """
    version = read_format(directory) if directory.is_dir() else 0
    if not version:
        raise LaunchError(f"{directory} holds no journal: give the directory that a run had as its --journal")
    if version > records.VERSION:
        raise LaunchError(
            f"journal {directory}: it has format {version}, and this sched reads formats up to "
            f"{records.VERSION}: use a newer sched"
        )


def contents(directory: Path, tally: Tally) -> dict[bytes, Held]:
    """Return what a journal holds, by key: what a run would find there.

    Raises:
        LaunchError: The directory cannot be read.
    """
    held = {}
    for segment, record in scan_all(directory, tally):
        found = _held(directory, segment, record)
        if found is not None:
            held[found.key] = found
    return held


def verify(directory: Path, tally: Tally) -> Iterator[str]:
    """Check every byte; yield a sentence for each value that is not what was written.

    Raises:
        LaunchError: The directory cannot be read.
    """
    for segment, record in scan_all(directory, tally):
        name = record.name.decode("utf-8", "replace")
        try:
            payload = _payload(directory, segment, record)
            if payload is None:
                raise values.Damaged("the record is not what was written")
            values.verify(directory, values.read(record.head.kind, payload))
        except (OSError, values.Damaged) as error:
            yield f"{segment}, byte {record.offset}, task {name!r}: {error}"


def prune(directory: Path, keep: Callable[[Held], bool]) -> Pruned:
    """Remove what is not to be kept, and everything that is of no use: damaged, replaced or left behind.

    What another sched wrote, in a newer format, and what cannot be read, stays.

    Raises:
        LaunchError: A run has the journal, or it cannot be read.
        OSError: It cannot be written to; what has not gone by then is still there, and whole.
    """
    run = f"prune-{secrets.token_hex(4)}"
    claim = owner.take(directory, owner.this_process(run, os.environ))
    try:
        return _prune(directory, keep)
    finally:
        claim.release()


def _prune(directory: Path, keep: Callable[[Held], bool]) -> Pruned:
    tally = Tally()
    kept: dict[str, list[int]] = defaultdict(list)
    files = set()
    for held in contents(directory, tally).values():
        if keep(held):
            kept[held.segment].append(held.offset)
            files.add(held.file)
    before = _nbytes(directory)
    gone = 0
    for name in sorted(os.listdir(directory)):
        path = directory / name
        if segments.is_segment(name):
            found = Tally()
            useless = sum(1 for _ in segments.scan(path, found)) - len(kept[name])
            if found.foreign or found.newer or found.unreadable:
                continue
            if not kept[name]:
                path.unlink()
            elif useless or found.torn or found.damaged:
                _rewrite(path, kept[name])
            gone += useless
        elif name.endswith(values.UNFINISHED):
            path.unlink()
        elif name.startswith(f"{owner.FOLDER}."):
            shutil.rmtree(path, ignore_errors=True)
    sync_directory(directory)
    if not (tally.newer or tally.unreadable):  # their files cannot be told from those that nobody needs
        with contextlib.suppress(FileNotFoundError):
            for file in sorted(set(os.listdir(directory / values.FOLDER)) - files):
                (directory / values.FOLDER / file).unlink()
    return Pruned(gone, before - _nbytes(directory))


def _rewrite(path: Path, offsets: list[int]) -> None:
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}{values.UNFINISHED}")
    writer = Writer(unfinished)
    try:
        with path.open("rb", buffering=0) as file:
            number = file.fileno()
            seed = records.read_segment_head(os.pread(number, records.SEGMENT_HEAD, 0))
            for offset in offsets:
                found = segments.read_at(number, offset, seed)
                if found is not None:
                    head, payload = found
                    name = os.pread(number, head.name_nbytes, offset + records.RECORD_HEAD)
                    writer.append(head.kind, head.key, name, payload, head.time)
        writer.sync()
        os.rename(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    finally:
        writer.close()


def _held(directory: Path, segment: str, record: Record) -> Held | None:
    payload = _payload(directory, segment, record)
    try:
        parts = values.read(record.head.kind, payload) if payload is not None else None
    except values.Damaged:
        parts = None
    if parts is None:
        return None
    name = record.name.decode("utf-8", "replace")
    file = parts.file.name if parts.file else None
    return Held(record.head.key, name, record.head.time, parts.nbytes, segment, record.offset, file)


def _payload(directory: Path, segment: str, record: Record) -> bytes | None:
    """Return a record's payload, also if it was too large to be passed; None if it is damaged."""
    if record.payload or not record.head.nbytes:
        return record.payload
    try:
        with (directory / segment).open("rb", buffering=0) as file:
            seed = records.read_segment_head(os.pread(file.fileno(), records.SEGMENT_HEAD, 0))
            found = segments.read_at(file.fileno(), record.offset, seed)
    except OSError:
        return None
    return None if found is None else found[1]


def _nbytes(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total
