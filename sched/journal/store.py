"""A journal as a run uses it: what is there, what it holds, and what is added.

Every record is handed to the system as it is made, so it outlives the process; `flush` sees from time to time
that it also outlives the machine. Where nothing can be written, the run is told so once, and goes on without.
"""

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sched.errors import LaunchError
from sched.journal import owner, records, segments, values
from sched.journal.directory import new_run, read_format, scan_all, sentences, sync_directory, write_format
from sched.journal.segments import Tally, Writer
from sched.journal.values import LARGE

SYNC_SECONDS = 1.0
SYNC_BYTES = 64 << 20
"""What a machine that fails may cost: results of so many seconds, or so many bytes, for each rank."""

_OPEN = 64
"""Segments that are held open to be read."""

_OFFSET_BITS = 48

_LOST = (OSError, values.Damaged, records.NotOurs, records.Newer)

Warn = Callable[[str], None]


class Entry(NamedTuple):
    """A task's value on disk; can be sent to any rank.

    Attributes:
        key: of the task.
        segment, offset: where its record is.
        nbytes: of the value.
        large: whether it has a file of its own.
    """

    key: bytes
    segment: str
    offset: int
    nbytes: int = 0
    large: bool = False


class Journal:
    """One rank's view of a journal. One thread at a time may use it.

    Only rank 0 opens it, and so knows which tasks are finished; the other ranks `join`, which does not touch
    the disk until they read or record something.

    Attributes:
        directory: where it is.
        run: the name of this run, for `join` on the other ranks.
    """

    def __init__(self, directory: Path, rank: int, run: str, warn: Warn) -> None:
        self.directory = directory
        self.run = run
        self._rank = rank
        self._warn = warn
        self._writes = True
        self._writer: Writer | None = None
        self._claim: owner.Claim | None = None
        self._index: dict[bytes, int] = {}
        self._segments: list[str] = []
        self._files: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._count = 0
        self._synced = time.monotonic()
        self._new_values = False
        self._lost = False

    @classmethod
    def open(
        cls, directory: str | os.PathLike[str], *, warn: Warn, wait: Callable[[float], None] = time.sleep
    ) -> "Journal":
        """Take a journal for this run, and find out what it holds; make it if there is none.

        Args:
            directory: where it is.
            warn: is told, in a sentence, what is skipped and what does not work.
            wait: sleeps that many seconds.

        Raises:
            LaunchError: It cannot be made, it is no directory, or another run has it.
        """
        path = Path(directory).absolute()
        run = new_run()
        self = cls(path, 0, run, warn)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LaunchError(
                f"journal {path}: it cannot be made ({error.strerror}): give --journal a directory that you "
                "may write to"
            ) from None
        if not self._knows_format():
            return self
        try:
            self._claim = owner.take(path, owner.this_process(run, os.environ), wait)
            write_format(path)
        except OSError as error:
            self._give_up(error)
        try:
            self._read()
        except BaseException:
            self.close()
            raise
        return self

    @classmethod
    def join(
        cls, directory: str | os.PathLike[str], rank: int, run: str, *, writes: bool = True, warn: Warn
    ) -> "Journal":
        """Take part, on another rank, in what rank 0 has opened.

        Args:
            directory: as rank 0 has it (`directory`).
            rank: this one, not 0.
            run: as rank 0 has it.
            writes: as rank 0 has it.
            warn: see `open`.
        """
        self = cls(Path(directory), rank, run, warn)
        self._writes = writes
        return self

    def __len__(self) -> int:
        """How many tasks it held when it was opened."""
        return len(self._index)

    @property
    def writes(self) -> bool:
        """Whether it records anything (still)."""
        return self._writes

    def find(self, key: bytes) -> Entry | None:
        """Look a task up among those that were finished when the journal was opened.

        Returns:
            None if it is not among them; also if its record is not what was written, or its file has not the
            right size. What is in a file is only checked when it is loaded.
        """
        place = self._index.get(key)
        if place is None:
            return None
        entry = Entry(key, self._segments[place >> _OFFSET_BITS], place & ((1 << _OFFSET_BITS) - 1))
        try:
            parts = self._parts(entry)
            values.look(self.directory, parts)
        except _LOST as error:
            self._lose(entry, error)
            return None
        return entry._replace(nbytes=parts.nbytes, large=parts.file is not None)

    def load(self, entry: Entry) -> tuple[bytes, list[memoryview]] | None:
        """Return a value: its header and its buffers; on any rank.

        Returns:
            None if it is not what was written, or cannot be read: then the task has to run.
        """
        try:
            return values.load(self.directory, self._parts(entry))
        except _LOST as error:
            self._lose(entry, error)
            return None

    def record(self, key: bytes, header: bytes, buffers: Sequence[Any], name: str) -> bool:
        """Record a finished task. When this returns, the record outlives the process.

        Args:
            key: of the task (`keys.py`), 32 bytes.
            header: the pickle of its value.
            buffers: what belongs to it: host memory, which is written as it is. A single array's own buffer
                (with its shape and dtype) makes a file that `numpy.load` can read.
            name: of the task, for people.

        Returns:
            Whether it is recorded. After a first failure, of which the user is told, nothing is any more.
        """
        if not self._writes:
            return False
        parts = values.split(header, buffers)
        try:
            if sum(part.nbytes for part in parts) < LARGE:
                kind, payload = values.in_place(parts)
            else:
                folder = self.directory / values.FOLDER
                folder.mkdir(exist_ok=True)
                stem = f"{key.hex()[:16]}.{self.run}.{self._rank}-{self._count}"
                kind, payload = values.apart(folder, stem, parts, buffers)
                self._new_values = True
            if self._writer is None:
                name_of_it = segments.segment_name(self.run, self._rank)
                self._writer = Writer(self.directory / name_of_it)
            text = name.encode("utf-8", "backslashreplace")[: records.NAME_BYTES]
            self._writer.append(kind, key, text, payload)
        except OSError as error:
            self._give_up(error)
            return False
        self._count += 1
        if self._writer.unsynced > SYNC_BYTES:
            self.flush(now=True)
        return True

    def flush(self, *, now: bool = False) -> None:
        """Do what is due: call it about once a second, and whenever there is nothing else to do.

        Args:
            now: see at once that all that was recorded outlives the machine.
        """
        if self._claim is not None and not self._claim.beat():
            self._claim, self._writes = None, False
            self._warn(
                f"journal {self.directory}: another run has taken it, because it was told that this one was "
                "dead: nothing more is recorded"
            )
        moment = time.monotonic()
        if self._writer is None or (moment - self._synced < SYNC_SECONDS and not now):
            return
        self._synced = moment
        try:
            if self._new_values:
                sync_directory(self.directory / values.FOLDER)
                self._new_values = False
            if self._writer.unsynced:
                self._writer.sync()
                sync_directory(self.directory)
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Write what is left, and let go of the journal. It may be called more than once."""
        self.flush(now=True)
        self._writes = False
        for file, _ in self._files.values():
            os.close(file)
        self._files.clear()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    def _read(self) -> None:
        tally = Tally()
        number = -1
        for segment, record in scan_all(self.directory, tally):
            if number < 0 or self._segments[number] != segment:
                self._segments.append(segment)
                number += 1
            self._index[record.head.key] = (number << _OFFSET_BITS) | record.offset
        for sentence in sentences(self.directory, tally):
            self._warn(sentence)

    def _parts(self, entry: Entry) -> values.Parts:
        """Read a record, every byte of which is checked. Raises one of `_LOST`."""
        file, seed = self._file(entry.segment)
        found = segments.read_at(file, entry.offset, seed)
        if found is None or found[0].key != entry.key:
            raise values.Damaged(f"a record of {entry.segment} is not what was written")
        return values.read(found[0].kind, found[1])

    def _lose(self, entry: Entry, error: Exception) -> None:
        if not self._lost:
            reason = str(error) or f"{entry.segment} is not what was written"
            self._warn(f"journal {self.directory}: a value cannot be read, so its task runs again: {reason}")
        self._lost = True

    def _file(self, segment: str) -> tuple[int, int]:
        """Return a segment, open, and where its checksums begin."""
        found = self._files.get(segment)
        if found is not None:
            self._files.move_to_end(segment)
            return found
        file = os.open(self.directory / segment, os.O_RDONLY)
        try:
            found = file, records.read_segment_head(os.pread(file, records.SEGMENT_HEAD, 0))
        except BaseException:
            os.close(file)
            raise
        self._files[segment] = found
        if len(self._files) > _OPEN:
            _, (oldest, _) = self._files.popitem(last=False)
            os.close(oldest)
        return found

    def _knows_format(self) -> bool:
        """Read which format the journal has; with a newer one, do nothing in this run."""
        version = read_format(self.directory)
        if version <= records.VERSION:
            return True
        self._writes = False
        self._warn(
            f"journal {self.directory}: it has format {version}, and this sched reads formats up to "
            f"{records.VERSION}: the run goes on without it; use a newer sched, or another --journal"
        )
        return False

    def _give_up(self, error: OSError) -> None:
        if not self._writes:
            return
        self._writes = False
        self._warn(
            f"journal {self.directory}: rank {self._rank} cannot write to it ({error.strerror or error}): "
            "the run goes on, and what this rank finishes from now on is not recorded"
        )
