"""Memory that is lent again, without any device."""

import gc

import numpy as np
import pytest

from sched.backends.pool import KEPT, LEAST, MIB, HostPool, Pool, rounded


class Raw:
    def __init__(self, nbytes):
        self.nbytes = nbytes


class Borrower:
    def __init__(self, raw):
        self.raw = raw


@pytest.fixture
def pool():
    return Pool(Raw, kept=8, least=2)


def test_what_nobody_has_any_more_is_lent_again(pool):
    borrower = pool.lend(4, Borrower)
    raw = borrower.raw
    del borrower
    assert pool.lend(4, Borrower).raw is raw


def test_what_somebody_has_is_lent_to_nobody_else(pool):
    borrowers = [pool.lend(4, Borrower) for _ in range(20)]
    assert len({id(b.raw) for b in borrowers}) == 20


def test_what_was_used_last_is_lent_first(pool):
    first, second = pool.lend(4, Borrower), pool.lend(4, Borrower)
    warmest = second.raw
    del first
    del second
    assert pool.lend(4, Borrower).raw is warmest


def test_it_keeps_no_more_than_it_may_and_lets_go_of_the_oldest(pool):
    borrowers = [pool.lend(4, Borrower) for _ in range(3)]
    raws = [b.raw for b in borrowers]
    while borrowers:
        borrowers.pop(0)
    assert pool.nbytes == 8
    lent = [pool.lend(4, Borrower) for _ in range(3)]
    assert [b.raw for b in lent[:2]] == [raws[2], raws[1]]
    assert lent[2].raw is not raws[0]


def test_it_keeps_nothing_that_is_larger_than_all_it_may_keep(pool):
    small = pool.lend(4, Borrower)
    del small
    pool.lend(100, Borrower)
    assert pool.nbytes == 4


def test_it_keeps_nothing_small(pool):
    pool.lend(1, Borrower)
    assert pool.nbytes == 0


def test_memory_serves_for_any_length_that_is_about_its_own():
    assert rounded(MIB) == MIB
    assert rounded(MIB + 1) == rounded(MIB + MIB // 16)
    for nbytes in (LEAST, LEAST + 1, 3 * MIB - 1, 17 * MIB + 5, KEPT):
        assert nbytes <= rounded(nbytes) <= nbytes * 9 / 8


def test_a_borrower_that_dies_while_the_pool_is_busy_waits_for_nothing(pool):
    borrower = pool.lend(4, Borrower)
    with pool._lock:
        del borrower
    assert pool.nbytes == 0


def test_where_memory_is_short_what_is_kept_is_let_go_of_first():
    short = []

    def make(nbytes):
        if short and short.pop():
            raise MemoryError
        return Raw(nbytes)

    pool = Pool(make, kept=8, least=2)
    pool.lend(4, Borrower)
    assert pool.nbytes == 4
    short.append(True)
    assert pool.lend(2, Borrower).raw.nbytes == 2
    assert pool.nbytes == 2


def test_where_there_is_none_at_all_the_error_is_that_of_the_memory(pool):
    def make(nbytes):
        raise MemoryError("none")

    with pytest.raises(MemoryError, match="none"):
        Pool(make).lend(4, Borrower)


def test_an_array_over_a_buffer_of_the_host_keeps_it():
    pool = HostPool()
    first = np.frombuffer(pool.room(2 * MIB), "f8")
    address = first.__array_interface__["data"][0]
    view = first[::2]
    del first
    gc.collect()
    second = np.frombuffer(pool.room(2 * MIB), "f8")
    assert second.__array_interface__["data"][0] != address
    del view
    third = np.frombuffer(pool.room(2 * MIB - 8), "f8")
    assert third.__array_interface__["data"][0] == address
    assert third.nbytes == 2 * MIB - 8


def test_a_buffer_of_the_host_is_writable_and_as_long_as_was_asked():
    pool = HostPool()
    for nbytes in (0, 1, 1000, MIB, MIB + 1):
        room = pool.room(nbytes)
        assert (room.nbytes, room.format, room.readonly) == (nbytes, "B", False)
