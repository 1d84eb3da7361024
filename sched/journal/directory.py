"""What is where in a journal's directory.

    format                 the version of all this
    owner/                 the claim of the run that has it (`owner.py`)
    rank-RANK.RUN.log      segments (`segments.py`)
    values/                large values, a file each (`values.py`)

Other files there are left alone: people will have a journal where their job is.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from sched.errors import LaunchError
from sched.journal import owner, records, segments, values
from sched.journal.segments import Tally

FORMAT = "format"


def read_format(directory: Path) -> int:
    """Return the version of a journal's format; 0 if it says nothing, as a new one does.

    Raises:
        LaunchError: It is no journal: there is a file of that name that says something else.
    """
    try:
        text = (directory / FORMAT).read_bytes()[:100]
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise LaunchError(
            f"journal {directory}: it cannot be read ({error.strerror}): give --journal a directory that you "
            "may read and write"
        ) from None
    words = text.split()
    if words[:2] == [b"sched", b"journal"] and len(words) > 2 and words[2].isdigit():
        return int(words[2])
    raise LaunchError(
        f"journal {directory}: there is a file {FORMAT!r} that is not a journal's: give --journal another "
        "directory"
    )


def scan_all(directory: Path, tally: Tally) -> Iterator[tuple[str, segments.Record]]:
    """Yield all whole records, of older runs first, each with its segment; count what is skipped.

    A record whose value's file is not there is skipped; whether the file is what was written is seen when it
    is read.

    Raises:
        LaunchError: The directory cannot be read.
    """
    try:
        names = os.listdir(directory)
    except OSError as error:
        raise LaunchError(f"journal {directory}: it cannot be read ({error.strerror})") from None
    apart: frozenset[str] = frozenset()
    with contextlib.suppress(OSError):  # there may be none
        apart = frozenset(os.listdir(directory / values.FOLDER))
    ours = {name for name in names if segments.is_segment(name)}
    own = (FORMAT, values.FOLDER, owner.FOLDER)
    tally.foreign += sorted(n for n in names if n not in own and n not in ours and not _is_passing(n))
    for segment in sorted(ours, key=segments.age):
        for record in segments.scan(directory / segment, tally):
            if record.head.kind == records.APART and record.payload:
                try:
                    file = values.read(records.APART, record.payload).file
                except values.Damaged:
                    tally.damaged += 1
                    continue
                if file is None or file.name not in apart:
                    tally.gone += 1
                    continue
            yield segment, record


def sentences(directory: Path, tally: Tally) -> Iterator[str]:
    """Say what was skipped, one sentence for each kind."""
    where = f"journal {directory}: "
    if tally.torn:
        yield f"{where}{tally.torn} of its files end in a record that was not written completely (skipped)"
    if tally.damaged:
        yield f"{where}{tally.damaged} damaged places were skipped; what was recorded there runs again"
    if tally.gone:
        yield f"{where}{tally.gone} values have lost their files; their tasks run again"
    for names, what in (
        (tally.unreadable, "cannot be read, and are skipped: see to their permissions"),
        (tally.newer, "hold records of a newer format, which are skipped: use a newer sched"),
        (tally.foreign, "are not its own, and are left alone"),
    ):
        if names:
            shown = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
            yield f"{where}{len(names)} files there {what}: {shown}"


def new_run() -> str:
    """Name a run such that later ones sort later, and no other has that name."""
    seconds, micros = divmod(time.time_ns() // 1000, 1_000_000)
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(seconds))
    return f"{moment}.{micros:06}-{secrets.token_hex(4)}"


def _is_passing(name: str) -> bool:
    """Whether a run that was killed may have left this as it took the journal."""
    return name.startswith(f"{owner.FOLDER}.") or name.endswith(values.UNFINISHED)


def write_format(directory: Path) -> None:
    path = directory / FORMAT
    if path.exists():
        return
    unfinished = directory / f"{FORMAT}.{secrets.token_hex(4)}{values.UNFINISHED}"
    unfinished.write_text(f"sched journal {records.VERSION}\n")
    os.rename(unfinished, path)


def sync_directory(path: Path) -> None:
    """See that the names in a directory outlive the machine, where the file system knows how."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
