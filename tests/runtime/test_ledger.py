"""What the ledger counts."""

from sched.backends.base import Rung
from sched.model import RankId, TileId
from sched.runtime.ledger import Ledger, Moves, MoveStats, Stats, TileStats

A, B = TileId(0), TileId(1)


def ledger(limit=100):
    return Ledger((A, B), limit)


def test_an_allocation_that_two_values_share_counts_once():
    book = ledger()
    book.add(A, {1: 60})
    book.add(A, {1: 60, 2: 10})
    assert book.now == {A: 70, B: 0}
    book.remove(A, {1: 60})
    assert book.now[A] == 70
    book.remove(A, {1: 60, 2: 10})
    assert book.now[A] == 0


def test_the_same_address_on_two_tiles_is_two_allocations():
    book = ledger()
    book.add(A, {1: 60})
    book.add(B, {1: 60})
    book.remove(A, {1: 60})
    assert book.now == {A: 0, B: 60}


def test_the_peak_is_the_most_there_has_been():
    book = ledger()
    book.add(A, {1: 60})
    book.remove(A, {1: 60})
    book.add(A, {2: 50})
    assert (book.now[A], book.peak[A]) == (50, 60)
    assert (book.room(A), book.room(B)) == (50, 100)


def test_moves_are_summed_by_rung():
    moves = Moves()
    moves.note(Rung.POINTER, 10, 0.5)
    moves.note(Rung.POINTER, 30, 0.25)
    with moves.timed(7) as move:
        move.rung = Rung.ALIAS
    with moves.timed(9):
        pass  # nothing was moved
    sums = moves.sums()
    assert sums["device pointer to MPI"] == MoveStats(2, 40, 0.75)
    assert sums["same device and context"][:2] == (1, 7)
    assert len(sums) == 2


def test_the_reports_of_ranks_are_put_together():
    first = Stats((TileStats(B, RankId(1), 1, 2, 3, 4),), {"x": MoveStats(1, 10, 0.5)})
    second = Stats(
        (TileStats(A, RankId(0), 5, 6, 7, 8),), {"x": MoveStats(2, 20, 0.5), "y": MoveStats(1, 1, 0.0)}
    )
    whole = Stats.of([first, second])
    assert [tile.tile for tile in whole.tiles] == [A, B]
    assert whole.moves == {"x": MoveStats(3, 30, 1.0), "y": MoveStats(1, 1, 0.0)}
