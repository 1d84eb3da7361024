"""Amounts of memory as people write them."""

import pytest
from hypothesis import given, strategies as st

from sched.errors import RequestError
from sched.sizes import parse_size, show_size


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("0", 0),
        ("1000", 1000),
        ("17 B", 17),
        ("2 GiB", 2 << 30),
        ("1.5GiB", 3 << 29),
        (" 500M ", 500_000_000),
        ("500 mb", 500_000_000),
        ("64kib", 64 << 10),
        ("1T", 10**12),
        ("0.1 KiB", 102),
        (7, 7),
        (0, 0),
    ],
)
def test_a_size_is_read(text: int | str, nbytes: int) -> None:
    assert parse_size(text) == nbytes


def test_numpys_integers_are_sizes() -> None:
    numpy = pytest.importorskip("numpy")
    assert type(parse_size(numpy.int64(5))) is int


@pytest.mark.parametrize(
    "wrong",
    [
        "2 Gigs", "", " ", "GiB", "-1", "-2 GiB", "nan", "inf", "1e9", "1,5 GiB", "1.GiB", ".5 GiB",
        "2 GiB x", "2 G iB", "٣ GiB", "9" * 31, -1, True, False, float("nan"), 1.5, 2e9, None, b"1",
    ],
)  # fmt: skip
def test_what_is_no_size_is_refused_in_one_sentence(wrong: object) -> None:
    with pytest.raises(RequestError) as caught:
        parse_size(wrong, "memory")  # type: ignore[arg-type]
    assert str(caught.value).startswith(f"memory={wrong!r} is no amount of memory: ")
    assert "'2 GiB'" in str(caught.value)


@given(st.integers(0, 1 << 60))
def test_a_shown_size_is_read_again_to_three_digits(nbytes: int) -> None:
    shown = show_size(nbytes)
    assert abs(parse_size(shown) - nbytes) <= nbytes * 0.005 + 1
    assert "e" not in shown


def test_sizes_are_shown_as_people_write_them() -> None:
    sizes = [0, 1023, 1024, 3 << 29, 2 << 30, 128 << 30, 1023 << 20]
    assert [show_size(n) for n in sizes] == [
        "0 B", "1023 B", "1 KiB", "1.5 GiB", "2 GiB", "128 GiB", "1023 MiB"
    ]  # fmt: skip
