"""A segment gives back what was written, or less, and never anything else."""

import os

import pytest

from sched.journal import records, segments
from sched.journal.segments import Tally

from .writing import key, scanned, segment

NAME = "rank-00000.20260101T000000-00000000.log"
PAYLOADS = [b"", b"one", bytes(range(256)), b"\0" * 40, records.MAGIC * 9]


@pytest.fixture
def path(tmp_path):
    return tmp_path / NAME


def test_what_was_written_is_found_in_its_order(path):
    made = segment(path, PAYLOADS)
    assert scanned(path) == (made, Tally())


def test_cut_at_any_byte_it_gives_the_records_before(path):
    made = segment(path, PAYLOADS)
    data = path.read_bytes()
    ends = [end for end in range(len(data)) if _is_end(data, end, path)]
    assert len(ends) == len(PAYLOADS)  # before each record; after the last there is nothing to cut
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        found, tally = scanned(path)
        whole = sum(end <= cut for end in ends[1:])
        assert found == made[:whole], cut
        assert (tally.torn, tally.damaged, tally.foreign) == (int(cut not in ends and cut > 0), 0, []), cut


def _is_end(data, end, path):
    """Tell, from the bytes alone, whether a record or the first one's place ends here."""
    if end < records.SEGMENT_HEAD:
        return False
    seed = records.read_segment_head(data)
    return records.read_head(data, end, seed) is not None


def test_any_byte_that_changes_is_found_and_costs_one_record(path):
    made = segment(path, PAYLOADS)
    data = path.read_bytes()
    with path.open("r+b", buffering=0) as file:
        for place in range(len(data)):
            for bits in (0x01, 0x80, 0xFF, 0):
                os.pwrite(file.fileno(), bytes([data[place] ^ bits]), place)
                found, tally = scanned(path)
                assert (tally == Tally()) == (not bits), place
                lost = 1 if place >= records.SEGMENT_HEAD else len(made)
                assert len(found) == len(made) - (lost if bits else 0), place
                assert [item for item in made if item in found] == found, place


def test_zeros_or_garbage_in_the_middle_cost_what_they_cover(path):
    made = segment(path, [bytes([n]) * 300 for n in range(20)])
    data = path.read_bytes()
    for filling in (b"\0", b"\xa7", b"\xa7jr1"):
        for start in range(40, len(data) - 700, 97):
            hole = (filling * 700)[:700]
            path.write_bytes(data[:start] + hole + data[start + 700 :])
            found, tally = scanned(path)
            assert tally.damaged
            assert 16 <= len(found) < 20
            assert [item for item in made if item in found] == found


def test_after_damage_larger_than_what_is_read_at_a_time_it_goes_on(path, monkeypatch):
    monkeypatch.setattr(segments, "READ_AHEAD", 4096)
    monkeypatch.setattr(segments, "CHECKED", 1024)
    made = segment(path, [bytes([n]) * 500 for n in range(60)])
    data = path.read_bytes()
    for length in (1, 4000, 4096, 9001):
        path.write_bytes(data[:700] + b"\xa7" * length + data[700 + length :])
        found, tally = scanned(path)
        assert tally.damaged
        assert found == made[:1] + made[60 - len(found) + 1 :]
        assert 60 - len(found) <= length // 560 + 3


def test_a_segment_inside_a_value_is_no_part_of_the_journal(path, tmp_path):
    other = tmp_path / "other"
    segment(other, [b"a lie"])
    segment(path, [other.read_bytes(), b"true"])
    data = bytearray(path.read_bytes())
    data[records.SEGMENT_HEAD + 8] ^= 1  # so that the next record is searched for, through the value
    path.write_bytes(data)
    found, tally = scanned(path)
    assert [k for k, _ in found] == [key(1)]
    assert tally.damaged == 1


def test_a_large_payload_is_passed_and_read_by_its_place(path):
    large = bytes(range(256)) * 1000
    made = segment(path, [b"small", large, b"small too"])
    tally = Tally()
    found = list(segments.scan(path, tally))
    assert [len(record.payload) for record in found] == [len(made[0][1]), 0, len(made[2][1])]
    with path.open("rb") as file:
        seed = records.read_segment_head(path.read_bytes())
        head, payload = segments.read_at(file.fileno(), found[1].offset, seed)
    assert (head.key, payload) == made[1]


def test_a_record_of_a_kind_that_came_later_is_skipped(path):
    writer = segments.Writer(path)
    writer.append(7, key(0), b"later", b"what is this")
    writer.append(records.IN_PLACE, key(1), b"now", b"")
    writer.close()
    found, tally = scanned(path)
    assert [k for k, _ in found] == [key(1)]
    assert tally == Tally(newer=[NAME])


def test_a_segment_of_a_format_that_came_later_is_skipped(path, monkeypatch):
    with monkeypatch.context() as later:
        later.setattr(records, "VERSION", records.VERSION + 1)
        segment(path, PAYLOADS)
    assert scanned(path) == ([], Tally(newer=[NAME]))


def test_what_is_no_segment_is_skipped(path):
    path.write_bytes(b"something else altogether, of some length")
    assert scanned(path) == ([], Tally(foreign=[NAME]))


def test_what_cannot_be_read_is_skipped(path):
    path.mkdir()  # also root cannot read that as a file
    assert scanned(path) == ([], Tally(unreadable=[NAME]))


def test_a_segment_is_never_written_over(path):
    segment(path, PAYLOADS)
    with pytest.raises(FileExistsError):
        segments.Writer(path)
