"""Values come back as they were, from a record or from a file of their own."""

import array
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sched.journal import values
from sched.journal.values import Damaged


def stored(folder, header, buffers, *, large):
    """Store a value in one of the two ways; return the kind and the payload of its record."""
    parts = values.split(header, buffers)
    if not large:
        return values.in_place(parts)
    (folder / values.FOLDER).mkdir(exist_ok=True)
    return values.apart(folder / values.FOLDER, "stem", parts, buffers)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.lists(st.binary(max_size=200), max_size=5), st.booleans())
def test_any_value_comes_back(header, buffers, large):
    with tempfile.TemporaryDirectory() as name:
        kind, payload = stored(Path(name), header, buffers, large=large)
        parts = values.read(kind, payload)
        values.verify(Path(name), parts)
        assert parts.nbytes == len(header) + sum(map(len, buffers))
        found, rest = values.load(Path(name), parts)
        assert (found, [bytes(part) for part in rest]) == (header, buffers)


def test_a_header_that_is_large_is_in_the_file_too(tmp_path, monkeypatch):
    monkeypatch.setattr(values, "LARGE", 1000)
    kind, payload = stored(tmp_path, b"h" * 1000, [b"b" * 10], large=True)
    assert len(payload) < 200
    header, buffers = values.load(tmp_path, values.read(kind, payload))
    assert (header, bytes(buffers[0])) == (b"h" * 1000, b"b" * 10)


ARRAYS = [
    *(np.arange(24, dtype=code).reshape(2, 3, 4) for code in "bBhHiIlLqQefdFD"),
    np.array([True, False]),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(3.0)[:0],
    np.array(5.0),
]


@pytest.mark.parametrize("made", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_a_single_array_is_a_file_that_numpy_reads(tmp_path, made):
    buffers = []
    header = pickle.dumps(made, protocol=5, buffer_callback=buffers.append)
    # NumPy pickles what lies in Fortran order as the buffer of its transpose.
    stored(tmp_path, header, buffers, large=True)
    found = np.load(tmp_path / values.FOLDER / "stem.npy")
    assert found.dtype == made.dtype
    assert np.array_equal(found, made) or np.array_equal(found.T, made)


@pytest.mark.parametrize(
    ("buffer", "dtype"),
    [
        (b"bytes", "u1"),
        (array.array("d", [1, 2]), "f8"),
        (np.zeros(3, "i4,f8"), "u1"),
        (np.zeros(3, ">i4"), "u1"),
    ],
    ids=["bytes", "array", "records", "big-endian"],
)
def test_a_buffer_that_is_no_plain_array_is_one_of_bytes(tmp_path, buffer, dtype):
    stored(tmp_path, b"h", [buffer], large=True)
    assert np.load(tmp_path / values.FOLDER / "stem.npy").dtype == dtype


@pytest.mark.parametrize(
    ("buffers", "suffix"), [([], ".pickle"), ([b"a"], ".npy"), ([b"a", b"b"], ".parts")], ids=len
)
def test_the_name_of_a_file_says_how_it_can_be_read(tmp_path, buffers, suffix):
    stored(tmp_path, pickle.dumps("value"), buffers, large=True)
    assert [path.suffix for path in (tmp_path / values.FOLDER).iterdir()] == [suffix]
    if suffix == ".pickle":
        assert pickle.loads((tmp_path / values.FOLDER / "stem.pickle").read_bytes()) == "value"


def test_a_file_that_is_not_what_was_written_is_never_believed(tmp_path):
    kind, payload = stored(tmp_path, b"h", [np.arange(10)], large=True)
    parts = values.read(kind, payload)
    path = tmp_path / values.FOLDER / parts.file.name
    data = path.read_bytes()
    changed = [data[:n] + bytes([data[n] ^ 4]) + data[n + 1 :] for n in range(len(data))]
    for wrong in [*changed, data[:-1], data + b"\0", b""]:
        path.write_bytes(wrong)
        for use in (values.load, values.verify):
            with pytest.raises(Damaged, match="written"):
                use(tmp_path, parts)


def test_a_payload_that_another_program_made_is_refused():
    for payload in (b"", b"\xff" * 4, b"\xff" * 40, b"\0" * 12, b"\1\0\0\0" + b"\7" + b"\0" * 7):
        for kind in (values.IN_PLACE, values.APART):
            with pytest.raises(Damaged):
                values.read(kind, payload)


def test_a_file_elsewhere_is_refused(tmp_path):
    (tmp_path / values.FOLDER).mkdir()
    kind, payload = values.apart(tmp_path / values.FOLDER, "stem", values.split(b"h", [b"b"]), [b"b"])
    with pytest.raises(Damaged):
        values.read(kind, payload.replace(b"stem.npy", b"../a.npy"))
