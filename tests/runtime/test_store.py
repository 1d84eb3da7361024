"""What the store does with one value."""

import numpy as np
import pytest

from sched.backends.base import Rung
from sched.model import Ref
from tests.runtime.place import SIZE, Landed, N


class TestRoom:
    def test_is_made_by_those_that_were_unused_for_longest(self, place):
        slots = [place.make(i) for i in range(3)]
        place.store.value(slots[0], place.a)
        assert place.store.make_room(place.a, SIZE)
        assert [place.lies_on(slot) for slot in slots] == [[0], [], [0]]
        assert (place.now, place.spilled) == ([2 * SIZE, 0], [SIZE, 0])

    def test_is_made_by_no_more_than_it_takes(self, place):
        slots = [place.make(i) for i in range(3)]
        assert place.store.make_room(place.a, 2 * SIZE)
        assert [place.lies_on(slot) for slot in slots] == [[], [], [0]]

    def test_is_not_made_by_what_a_call_uses(self, place):
        slots = [place.make(i) for i in range(3)]
        place.store.pin(slots[:2])
        assert place.store.make_room(place.a, SIZE)
        assert [place.lies_on(slot) for slot in slots] == [[0], [0], []]
        assert not place.store.make_room(place.a, 2 * SIZE)
        place.store.pin(slots[:2], -1)
        assert place.store.make_room(place.a, 2 * SIZE)

    def test_is_not_made_for_what_never_fits(self, place):
        slot = place.make()
        assert not place.store.make_room(place.a, 3 * SIZE + 1)
        assert place.lies_on(slot) == [0]

    def test_does_not_count_what_is_promised(self, place):
        slot = place.make()
        place.store.reserve(place.a, 2 * SIZE)
        assert place.store.make_room(place.a, 0)
        assert place.lies_on(slot) == [0]
        assert place.store.make_room(place.a, 1)
        assert place.lies_on(slot) == []
        place.store.reserve(place.a, -2 * SIZE)

    def test_of_one_tile_is_not_made_on_another(self, place):
        slots = [place.make(0, tile=place.b), *(place.make(i) for i in (1, 2, 3))]
        assert place.store.make_room(place.a, SIZE)
        assert [place.lies_on(slot) for slot in slots] == [[1], [], [0], [0]]

    def test_is_there_when_it_is_said_to_be(self, place):
        """The device may give it back only when all that was submitted is computed."""
        place.make(0)
        place.backend.finish = lambda tile: place.backend.finished.append((tile.id, len(place.store.dropped)))
        assert place.store.make_room(place.a, 2 * SIZE)
        assert place.backend.finished == [], "there was room"
        assert place.store.make_room(place.a, 3 * SIZE)
        assert place.backend.finished == [(0, 0)]

    def test_is_not_waited_for_where_nothing_could_go(self, place):
        place.store.pin([place.make(0)])
        assert not place.store.make_room(place.a, 3 * SIZE)
        assert place.backend.finished == []


class TestWhatArrives:
    def test_lies_on_the_first_tile_and_counts_once(self, place):
        slot = place.arrive()
        assert place.now == [SIZE, 0]
        assert place.good(slot)
        assert place.now == [SIZE, 0]
        assert slot.packed is None

    def test_counts_while_it_is_on_its_way(self, place):
        memory = place.store.room(SIZE, True)
        assert type(memory) is Landed
        assert place.now == [SIZE, 0]
        assert list(place.ledger.reserved.values()) == [0, 0]
        place.ledger.remove(place.a.id, {id(memory): SIZE})

    def test_does_not_count_where_it_is_the_hosts_memory(self, place):
        slot = place.arrive(on_tile=False)
        assert place.now == [0, 0]
        assert place.good(slot)
        assert place.now == [SIZE, 0]

    def test_comes_to_the_host_if_it_does_not_fit(self, place):
        slots = [place.make(i) for i in range(3)]
        assert type(place.store.room(SIZE, True)) is bytearray
        assert type(place.store.room(0, True)) is Landed
        assert place.now == [3 * SIZE, 0]
        assert all(map(place.lies_on, slots)), "nothing makes room for it"

    def test_comes_to_the_host_if_the_room_is_promised(self, place):
        place.store.reserve(place.a, 2 * SIZE + 1)
        assert type(place.store.room(SIZE, True)) is bytearray
        place.store.reserve(place.a, -2 * SIZE - 1)

    def test_comes_to_the_host_if_there_is_less_free_than_it_seemed(self, place):
        place.backend.full = True
        assert type(place.store.room(SIZE, True)) is bytearray
        assert list(place.ledger.reserved.values()) == place.now == [0, 0]

    @pytest.mark.parametrize(
        ("direct", "here", "kind"),
        [(True, True, Landed), (True, False, Landed), (False, True, Landed), (False, False, bytearray)],
    )
    def test_comes_to_the_host_where_it_is_staged_and_this_thread_may_not_copy_it(
        self, place, direct, here, kind
    ):
        place.backend.direct, place.backend.may_touch = direct, lambda: here
        memory = place.store.room(SIZE, True)
        assert type(memory) is kind
        if kind is Landed:
            place.ledger.remove(place.a.id, {id(memory): SIZE})

    def test_can_be_put_aside_before_anybody_has_used_it(self, place):
        slot = place.arrive()
        assert place.store.make_room(place.a, 3 * SIZE)
        assert (place.now, place.spilled) == ([0, 0], [SIZE, 0])
        assert place.good(slot)
        assert (place.now, place.spilled) == ([SIZE, 0], [0, 0])

    def test_is_not_put_aside_by_its_own_first_use(self, place):
        slot = place.arrive()
        place.store.reserve(place.a, 3 * SIZE)  # the tile is full to overflowing
        assert place.good(slot)
        assert place.packer.moves.sums() == {}
        place.store.reserve(place.a, -3 * SIZE)

    def test_may_be_dropped_unused(self, place):
        place.store.drop(place.arrive())
        assert place.now == [0, 0]


class TestWhatIsSent:
    def test_is_packed_once(self, place):
        slot = place.make()
        assert place.store.pack(slot) is place.store.pack(slot)

    def test_is_forgotten_in_that_form_when_it_has_gone(self, place):
        slot = place.make()
        place.store.pack(slot)
        place.store.sent(slot)
        assert slot.packed is None
        assert place.good(slot)

    def test_is_kept_in_that_form_if_it_has_no_other(self, place):
        for slot in (place.arrive(0), place.aside(1)):
            place.store.sent(slot)
            assert place.good(slot)

    def test_is_kept_as_it_has_come_until_it_has_been_sent_on(self, place):
        slot = place.arrive()
        came, slot.unsent = slot.packed, 1
        assert place.good(slot)
        assert place.store.pack(slot) is came
        place.store.sent(slot)
        assert slot.packed is None


class TestWhatWasPutAside:
    def test_comes_back_as_it_was(self, place):
        slot = place.aside(7)
        assert (place.now, place.spilled) == ([0, 0], [SIZE, 0])
        assert place.good(slot)
        assert (place.now, place.spilled) == ([SIZE, 0], [0, 0])
        assert slot.packed is None
        moves = place.packer.moves.sums()
        assert {rung: (times, nbytes) for rung, (times, nbytes, _) in moves.items()} == {
            Rung.SPILL.value: (1, SIZE),
            Rung.RELOAD.value: (1, SIZE),
        }

    def test_may_be_put_aside_again(self, place):
        slot = place.aside()
        for _ in range(2):
            assert place.good(slot)
            assert place.store.make_room(place.a, 3 * SIZE)
            assert (place.now, place.spilled) == ([0, 0], [SIZE, 0])

    def test_makes_room_for_itself_when_it_comes_back(self, place):
        slot = place.aside(7)
        others = [place.make(i) for i in range(3)]
        assert place.good(slot)
        assert place.lies_on(others[0]) == []
        assert place.now[0] <= 3 * SIZE

    @pytest.mark.parametrize("way", ["arrive", "aside"])
    def test_stays_read_only(self, place, way):
        """As does what has come from another rank, in memory that can be written to."""
        assert not place.store.value(getattr(place, way)(), place.a).flags.writeable

    def test_is_not_packed_if_it_lies_on_another_tile_too(self, place):
        slot = place.make_on_both()
        place.store.make_room(place.a, 3 * SIZE)
        assert (place.lies_on(slot), slot.packed, place.spilled) == ([1], None, [0, 0])
        assert place.good(slot, place.b)

    def test_may_be_dropped_there(self, place):
        place.store.drop(place.aside())
        assert place.spilled == [0, 0]

    def test_stays_for_good_if_it_cannot_be_copied(self, place):
        slot = place.slot()
        place.store.keep(slot, place.a, [np.zeros(N), (x for x in ())], 0)
        assert not place.store.make_room(place.a, 3 * SIZE)
        assert (place.now, place.store.stuck(place.a)) == ([SIZE, 0], SIZE)


class TestWhatHasFailed:
    def test_leaves_its_place_empty(self, place):
        slot = place.make()
        place.store.pack(slot)
        place.store.empty(slot)
        assert (slot.values, slot.packed, place.now) == ({}, None, [0, 0])
        assert Ref(0) in place.store.slots

    def test_gives_back_what_was_promised_with_its_value(self, place):
        place.store.reserve(place.a, 5)
        assert place.store.keep(place.slot(), place.a, np.zeros(N), 5) == SIZE
        assert list(place.ledger.reserved.values()) == [0, 0]
