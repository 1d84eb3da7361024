"""What the store does when two threads are at one value.

They meet only where it has let go of its lock: while it packs or unpacks. So what another thread does
meanwhile is done there, by the one thread that there is: the same each time.
"""

import numpy as np
import pytest

from tests.runtime.place import SIZE, N


class TestTwoThreads:
    def test_that_fetch_a_value_for_one_tile_get_the_same_and_it_counts_once(self, place):
        slot, found = place.aside(), []
        place.packer.meanwhile = lambda: found.append(place.store.value(slot, place.a))
        assert place.store.value(slot, place.a) is found[0]
        assert place.now == [SIZE, 0]

    @pytest.mark.parametrize("way", ["arrive", "aside"])
    def test_that_fetch_it_for_two_tiles_count_it_on_both(self, place, way):
        slot = getattr(place, way)()
        place.packer.meanwhile = lambda: place.store.value(slot, place.a)
        assert place.good(slot, place.b)
        assert (place.now, place.spilled) == ([SIZE, SIZE], [0, 0])
        assert place.lies_on(slot) == [0, 1]

    def test_one_fetches_what_the_other_drops(self, place):
        """A call that is not wanted any more may still run."""
        slot = place.aside()
        place.packer.meanwhile = lambda: place.store.drop(slot)
        assert place.good(slot)
        assert place.now == [0, 0]

    @pytest.mark.parametrize("how", ["pinned", "dropped", "put aside"])
    def test_one_puts_aside_what_the_other_has_changed(self, place, how):
        slot = place.make()
        other = {
            "pinned": lambda: place.store.pin([slot]),
            "dropped": lambda: place.store.drop(slot),
            "put aside": lambda: place.store._put_aside(slot, place.a),
        }[how]
        place.packer.meanwhile = other
        place.store._put_aside(slot, place.a)
        if how == "pinned":
            assert (place.lies_on(slot), slot.packed) == ([0], None)
        assert place.now == [SIZE * (how == "pinned"), 0]
        assert place.spilled == [SIZE * (how == "put aside"), 0]

    def test_put_it_aside_on_two_tiles_and_it_is_not_lost(self, place):
        slot = place.make_on_both()
        # Each sees that the other has it, and goes on when the other's is away.
        place.turnstile.before(2, lambda: place.store._put_aside(slot, place.b))
        place.store._put_aside(slot, place.a)
        assert place.lies_on(slot) == [0]
        assert place.now == [SIZE, 0]
        assert place.good(slot)

    def test_one_sends_what_the_other_puts_aside(self, place):
        slot = place.make(7)
        made = slot.values[0]
        place.packer.meanwhile = lambda: place.store.make_room(place.a, 3 * SIZE)
        assert place.store.pack(slot) is slot.packed
        assert place.spilled == [SIZE, 0]
        assert not np.shares_memory(np.frombuffer(slot.packed.buffers[0]), made), "it keeps no room"
        place.store.sent(slot)
        assert place.good(slot)

    def test_one_fetches_from_a_tile_what_the_other_would_put_aside_there(self, place, monkeypatch):
        slot = place.make(7)

        def adopt(value, tile, *, moved):
            """Copy it, as from one device to another."""
            place.store._put_aside(slot, place.a)
            return value.copy()

        monkeypatch.setattr(place.packer, "adopt", adopt)
        assert place.good(slot, place.b)
        assert (place.now, place.spilled, slot.packed) == ([SIZE, SIZE], [0, 0], None)  # it had to stay
        for tile in (place.a, place.b):
            place.store._put_aside(slot, tile)
        assert (place.now, place.spilled) == ([0, 0], [0, SIZE])

    def test_one_asks_how_large_a_value_is_that_the_other_copies_to_a_tile(self, place):
        class Holdings(dict):
            """While somebody looks at it, another thread copies the value; if the lock lets it."""

            def values(self):
                if not place.turnstile.is_taken():
                    place.store.keep(slot, place.b, np.full(N, 7.0), 0)
                return super().values()

        slot = place.make(7)
        slot.holdings[place.a.id] = Holdings(slot.holdings[place.a.id])
        assert place.store.lacking([slot], place.b) == SIZE
