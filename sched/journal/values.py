"""A value as a record holds it: the parts of its pickle, in the record or in a file of its own.

The parts are the pickle (`header`) and the large buffers that belong to it, as `runtime.messages.Packed` has
them. A file has the extension that says how else it can be read: `.npy` if there is one buffer (an array of
NumPy's format, which `numpy.load` reads), `.pickle` if there is none, and otherwise `.parts`: the buffers one
after the other. It gets its name when it is whole and on the disk.
"""

import os
import pickle
import struct
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sched.journal.records import APART, IN_PLACE

LARGE = 1 << 20
"""Bytes from which a value has a file of its own: parallel file systems do badly with many small files."""

FOLDER = "values"
UNFINISHED = ".unfinished"
"""What ends the name of a file that is being written."""

_CHUNK = 1 << 26
_COUNT = struct.Struct("<I")
_APART = struct.Struct("<QIBH")


class File(NamedTuple):
    """A value's file: its name, its size and checksum, and how many of the parts are not in it (0 or 1)."""

    name: str
    nbytes: int
    crc: int
    first: int


class Parts(NamedTuple):
    """The lengths of a value's parts; those that the record holds itself; and where the others are."""

    lengths: tuple[int, ...]
    inside: memoryview
    file: File | None

    @property
    def nbytes(self) -> int:
        """The bytes of the value."""
        return sum(self.lengths)


class Damaged(ValueError):
    """A value is not what was written; the message says what is wrong, for a person."""


def split(header: bytes, buffers: Sequence[Any]) -> list[memoryview]:
    """Return a value's parts as plain bytes, without copying them."""
    return [memoryview(header), *(pickle.PickleBuffer(buffer).raw() for buffer in buffers)]


def in_place(parts: Sequence[memoryview]) -> tuple[int, bytes]:
    """Return the kind and the payload of a record that holds the value itself."""
    return IN_PLACE, b"".join((_lengths(parts), *parts))


def apart(folder: Path, stem: str, parts: Sequence[memoryview], buffers: Sequence[Any]) -> tuple[int, bytes]:
    """Write a value to a file; return the kind and the payload of the record that names it.

    Raises:
        OSError: It cannot be written.
    """
    first = int(len(parts) > 1 and len(parts[0]) < LARGE)  # what says what the bytes are stays in the record
    prefix = b""
    if first and len(buffers) == 1:
        suffix, prefix = ".npy", npy_head(buffers[0])
    else:
        suffix = ".parts" if len(parts) > 1 else ".pickle"
    name = f"{stem}{suffix}"
    path, unfinished = folder / name, folder / f"{name}{UNFINISHED}"
    try:
        nbytes, crc = _write(unfinished, [memoryview(prefix), *parts[first:]])
        os.rename(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    where = _APART.pack(nbytes, crc, first, len(name)) + name.encode("ascii")
    return APART, b"".join((_lengths(parts), where, *parts[:first]))


def read(kind: int, payload: bytes) -> Parts:
    """Read a payload whose checksum is right.

    Raises:
        Damaged: It makes no sense all the same: it was written by something else.
    """
    try:
        [count] = _COUNT.unpack_from(payload)
        lengths = struct.unpack_from(f"<{count}Q", payload, _COUNT.size)
        at = _COUNT.size + 8 * count
        file, inside = None, lengths
        if kind == APART:
            nbytes, crc, first, name_nbytes = _APART.unpack_from(payload, at)
            at += _APART.size
            name = payload[at : at + name_nbytes].decode("ascii")
            at += name_nbytes
            file, inside = File(name, nbytes, crc, first), lengths[:first]
    except (struct.error, UnicodeDecodeError):
        raise Damaged("the record makes no sense") from None
    if not lengths or sum(inside) != len(payload) - at or (file and "/" in file.name):
        raise Damaged("the record makes no sense")
    return Parts(lengths, memoryview(payload)[at:], file)


def load(directory: Path, parts: Parts) -> tuple[bytes, list[memoryview]]:
    """Return a value's header and buffers.

    Raises:
        Damaged: Its file is not what was written.
        OSError: Its file cannot be read.
    """
    found = _cut(parts.inside, parts.lengths if parts.file is None else parts.lengths[: parts.file.first])
    if parts.file is not None:
        lengths = parts.lengths[parts.file.first :]
        data = _read(directory / FOLDER / parts.file.name, parts.file)
        found += _cut(data[len(data) - sum(lengths) :], lengths)
    return bytes(found[0]), found[1:]


def look(directory: Path, parts: Parts) -> None:
    """See whether a value's file is there, and has the right size. Raises as `load` does."""
    if parts.file is not None:
        status = os.stat(directory / FOLDER / parts.file.name)
        if status.st_size != parts.file.nbytes:
            raise Damaged(f"{parts.file.name} has not the size that was written")


def verify(directory: Path, parts: Parts) -> None:
    """See whether a value's file is what was written. Raises as `load` does."""
    if parts.file is not None:
        room = memoryview(bytearray(min(_CHUNK, parts.file.nbytes)))
        _check(directory / FOLDER / parts.file.name, parts.file, lambda at: room)


def npy_head(buffer: Any) -> bytes:
    """Return what NumPy's format has before the bytes of an array (numpy.lib.format, version 1.0).

    A buffer of which only the bytes are known becomes an array of bytes.
    """
    view = memoryview(buffer)
    code = (view.format or "B").lstrip("@=")
    letter = {"?": "b", "Z": "c"}.get(code[0]) or next(
        kind
        for kind, codes in (("i", "bhilq"), ("u", "BHILQ"), ("f", "efd"), ("V", code))
        if code[0] in codes
    )
    order = "|" if view.itemsize == 1 else "<" if sys.byteorder == "little" else ">"
    descr, shape = f"{order}{letter}{view.itemsize}", view.shape
    if letter == "V" or code not in (*"?bBhHiIlLqQefd", "Zf", "Zd"):
        descr, shape = "|u1", (view.nbytes,)
    fortran = bool(view.f_contiguous and not view.c_contiguous)
    text = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape!r}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin1")


def _lengths(parts: Sequence[memoryview]) -> bytes:
    return struct.pack(f"<I{len(parts)}Q", len(parts), *[part.nbytes for part in parts])


def _cut(data: memoryview, lengths: Sequence[int]) -> list[memoryview]:
    found, at = [], 0
    for length in lengths:
        found.append(data[at : at + length])
        at += length
    return found


def write_all(file: int, data: bytes | memoryview) -> None:
    """Write all of it; the system may take less at a time."""
    view = memoryview(data)
    while view.nbytes:
        view = view[os.write(file, view[:_CHUNK]) :]


def _write(path: Path, pieces: Sequence[memoryview]) -> tuple[int, int]:
    nbytes = crc = 0
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        for piece in pieces:
            for at in range(0, piece.nbytes, _CHUNK):  # what the checksum has just read is in the cache
                chunk = piece[at : at + _CHUNK]
                crc = zlib.crc32(chunk, crc)
                write_all(file, chunk)
            nbytes += piece.nbytes
        os.fsync(file)
    finally:
        os.close(file)
    return nbytes, crc


def _read(path: Path, expected: File) -> memoryview:
    data = memoryview(bytearray(expected.nbytes))
    _check(path, expected, lambda at: data[at : at + _CHUNK])
    return data


def _check(path: Path, expected: File, room: Callable[[int], memoryview]) -> None:
    """Read a file, piece by piece into the room that there is, and see that it is what was written."""
    at = crc = 0
    with path.open("rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size != expected.nbytes:
            raise Damaged(f"{path.name} has not the size that was written")
        while at < expected.nbytes:
            piece = room(at)
            count = file.readinto(piece)
            if not count:
                raise Damaged(f"{path.name} has not the size that was written")
            crc = zlib.crc32(piece[:count], crc)
            at += count
    if crc != expected.crc:
        raise Damaged(f"{path.name} is not what was written")
