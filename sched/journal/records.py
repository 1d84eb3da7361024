"""The bytes of a segment: a head, and records, each of which tells for itself whether it is whole.

    segment = magic, version, salt, checksum | record | record | ...
    record  = magic, kind, lengths, key, time, checksums | name of the task | payload

All numbers are little-endian. Checksums (CRC-32) begin with the segment's own salt, so a piece of another
segment, also one that is inside a value, is no record here.
"""

import struct
import zlib
from typing import NamedTuple

VERSION = 1
"""Of the format. What has a higher one is left alone, and never written to."""

IN_PLACE = 1
APART = 2
"""Kinds of records: the value is in the payload, or the payload says in which file it is."""

KEY_BYTES = 32
NAME_BYTES = 1000
"""Bytes of a task's name that are kept, for people; the key is of the whole of it."""

MAGIC = b"\xa7jr1"
_SEGMENT = struct.Struct("<8sHxx16sI")
_SEGMENT_MAGIC = b"schedjrn"
_RECORD = struct.Struct(f"<4sBxHII{KEY_BYTES}sdI")

SEGMENT_HEAD = _SEGMENT.size
RECORD_HEAD = _RECORD.size


class Head(NamedTuple):
    """What a record says before its name and payload. `time` is in seconds since 1970."""

    kind: int
    name_nbytes: int
    nbytes: int
    crc: int
    key: bytes
    time: float


class NotOurs(ValueError):
    """These bytes are no segment."""


class Newer(ValueError):
    """This is a segment of a format that came later."""


def segment_head(salt: bytes) -> bytes:
    """Return the first bytes of a segment; `salt` has 16 bytes, which no other segment has."""
    head = _SEGMENT.pack(_SEGMENT_MAGIC, VERSION, salt, 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head))


def read_segment_head(data: bytes) -> int:
    """Return where the checksums of this segment's records begin.

    Raises:
        NotOurs: It is no segment, or was not written completely.
        Newer: It has a format that came later.
    """
    if len(data) < SEGMENT_HEAD or not data.startswith(_SEGMENT_MAGIC):
        raise NotOurs
    _, version, salt, crc = _SEGMENT.unpack_from(data)
    if crc != zlib.crc32(data[: SEGMENT_HEAD - 4]):
        raise NotOurs
    if version > VERSION:
        raise Newer
    return seed(salt)


def seed(salt: bytes) -> int:
    """Return the checksum with which those of a segment's records begin."""
    return zlib.crc32(salt)


def encode(kind: int, key: bytes, name: bytes, time: float, payload: bytes, seed: int) -> bytes:
    """Return a whole record; `name` has at most NAME_BYTES.

    Raises:
        ValueError: The key has not 32 bytes.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
    crc = zlib.crc32(payload, seed)
    head = _RECORD.pack(MAGIC, kind, len(name), len(payload), crc, key, time, 0)[:-4]
    return b"".join((head, struct.pack("<I", zlib.crc32(name, zlib.crc32(head, seed))), name, payload))


def read_head(data: bytes, at: int, seed: int) -> Head | None:
    """Return the head of the record at this place; None if there is none, or it or its name is damaged."""
    if len(data) - at < RECORD_HEAD:
        return None
    magic, kind, name_nbytes, nbytes, crc, key, time, own = _RECORD.unpack_from(data, at)
    if magic != MAGIC:
        return None
    name = at + RECORD_HEAD
    found = zlib.crc32(data[name : name + name_nbytes], zlib.crc32(data[at : name - 4], seed))
    return Head(kind, name_nbytes, nbytes, crc, key, time) if found == own else None


def is_whole(payload: bytes | memoryview, head: Head, seed: int) -> bool:
    """Tell whether this is the payload of that record."""
    return len(payload) == head.nbytes and zlib.crc32(payload, seed) == head.crc
