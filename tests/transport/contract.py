"""What every transport promises: one suite, which each rank runs for its own end.

`test_loopback.py` runs it with a thread for each rank, `under_mpi.py` under mpiexec. A body is an ordinary
program of one rank; it fails by an assertion on any of them.
"""

import gc
import time
from collections.abc import Callable

import numpy

from sched.model import RankId
from sched.transport.base import Buffer, Lane, Memory, Message, Transport

from .tiles import Staged, Stock

PATIENCE = 40.0


def take(end: Transport) -> Message:
    """Wait for the next message."""
    deadline = time.monotonic() + PATIENCE
    while (message := end.receive()) is None:
        assert time.monotonic() < deadline, f"rank {end.rank} waits for a message in vain"
        time.sleep(0)
    return message


def send_all(end: Transport, memories: list[Staged]) -> None:
    """Wait until all of this memory has left."""
    deadline = time.monotonic() + PATIENCE
    while not all(memory.has_left for memory in memories):
        assert end.receive() is None
        assert time.monotonic() < deadline, f"rank {end.rank} cannot get rid of its memory"
        time.sleep(0)


def neighbours(end: Transport) -> tuple[RankId, RankId]:
    """The rank before and the rank after."""
    return RankId((end.rank - 1) % end.size), RankId((end.rank + 1) % end.size)


def a_message_arrives_as_it_was_sent(end: Transport) -> None:
    before, after = neighbours(end)
    for length in (0, 1, 100, 16_000, 17_000, 1_000_000):
        data = bytes([end.rank]) * length
        end.send(after, Lane.CONTROL, data)
        message = take(end)
        assert (before, Lane.CONTROL, []) == (message.source, message.lane, message.buffers)
        assert bytes([before]) * length == bytes(message.data)


def buffers_of_every_kind_and_length_arrive(end: Transport) -> None:
    _, after = neighbours(end)
    big = bytes(range(256)) * 5_000
    buffers = [b"", b"x", bytearray(big), memoryview(big)[3:70_000], memoryview(big).cast("i"), b"end"]
    end.send(after, Lane.VALUES, b"with buffers", buffers)
    message = take(end)
    assert bytes(message.data) == b"with buffers"
    assert [memoryview(b).tobytes() for b in buffers] == [bytes(b) for b in message.buffers]


def thousands_of_buffers_arrive(end: Transport) -> None:
    _, after = neighbours(end)
    buffers = [i.to_bytes(4, "little") * (i % 7) for i in range(3_000)]
    end.send(after, Lane.CONTROL, b"many", buffers)
    assert buffers == [bytes(b) for b in take(end).buffers]


def one_lane_keeps_the_order_of_its_sender(end: Transport) -> None:
    _, after = neighbours(end)
    lengths = [10, 300_000, 20, 20_000, 0, 5_000_000, 30]
    for number, length in enumerate(lengths * 5):
        end.send(after, Lane.CONTROL, number.to_bytes(4, "little"), [b"." * length] if length else [])
    for number, length in enumerate(lengths * 5):
        message = take(end)
        assert number == int.from_bytes(message.data, "little")
        assert length == sum(len(b) for b in message.buffers)


def both_lanes_arrive_whatever_the_other_holds(end: Transport) -> None:
    _, after = neighbours(end)
    end.send(after, Lane.VALUES, b"large", [bytes(20_000_000)])
    end.send(after, Lane.CONTROL, b"small")
    assert {(Lane.VALUES, b"large"), (Lane.CONTROL, b"small")} == {
        (m.lane, bytes(m.data)) for m in (take(end), take(end))
    }


def all_may_send_before_anybody_receives(end: Transport) -> None:
    others = [RankId(r) for r in range(end.size) if r != end.rank]
    for other in others:
        end.send(other, Lane.VALUES, b"to all", [bytes(8_000_000)])
    assert sorted(others) == sorted(take(end).source for _ in others)


def many_messages_wait_for_one_that_is_busy(end: Transport) -> None:
    count = 500
    if end.rank == 0:
        time.sleep(0)
        seen: dict[int, list[int]] = {}
        for _ in range(count * (end.size - 1)):
            message = take(end)
            seen.setdefault(message.source, []).append(int.from_bytes(message.data, "little"))
        assert {r: list(range(count)) for r in range(1, end.size)} == seen
    else:
        for number in range(count):
            end.send(RankId(0), Lane.CONTROL, number.to_bytes(4, "little"))
        end.receive()


def the_sender_may_forget_what_it_sent(end: Transport) -> None:
    _, after = neighbours(end)
    for number in range(20):
        end.send(after, Lane.VALUES, b"#%d" % number, [bytearray([number]) * 400_000])
        gc.collect()
    for number in range(20):
        message = take(end)
        assert bytes([number]) * 400_000 == bytes(message.buffers[0])


def ordinary_buffers_arrive_writable_and_aligned(end: Transport) -> None:
    _, after = neighbours(end)
    lengths = [1, 16_000, 3, 17_000, 8, 100_000]
    end.send(after, Lane.VALUES, b"of arrays", [b"." * length for length in lengths])
    arrays = [numpy.frombuffer(b, numpy.uint8) for b in take(end).buffers]
    assert lengths == [array.nbytes for array in arrays]
    assert all(array.flags.writeable for array in arrays)
    assert [0] * len(arrays) == [array.ctypes.data % 16 for array in arrays]


def room_is_asked_for_what_is_large_and_for_what_was_a_tiles(end: Transport) -> None:
    _, after = neighbours(end)
    asked: list[tuple[int, bool]] = []

    def room(nbytes: int, tile: bool) -> Buffer | Memory:
        asked.append((nbytes, tile))
        return Staged(bytes(nbytes), Stock()) if tile else bytearray(nbytes)

    with _Room(end, room):
        sent = Staged(b"tile's", Stock())
        end.send(after, Lane.VALUES, b"", [bytes(500_000), sent, bytes(40_000)])
        message = take(end)
        send_all(end, [sent])
    assert asked == [(500_000, False), (6, True), (40_000, False)]
    assert [bytearray, Staged, bytearray] == [type(b) for b in message.buffers]


def memory_of_any_length_arrives_whole(end: Transport) -> None:
    _, after = neighbours(end)
    contents = [bytes((7 * i + n) % 251 for i in range(n)) for n in (0, 1, 63, 64, 65, 1_000, 4_096)]
    with _Room(end, staged(Stock()), piece=64):
        sent = [Staged(content, Stock()) for content in contents]
        end.send(after, Lane.VALUES, b"memories", sent)
        message = take(end)
        send_all(end, sent)
    assert contents == [bytes(memory) for memory in message.buffers]


def memory_that_refuses_many_times_arrives_whole(end: Transport) -> None:
    _, after = neighbours(end)
    content = bytes(range(250)) * 4
    with _Room(end, staged(Stock(), refusals=10), piece=64):
        sent = [Staged(content, Stock(), refusals=10) for _ in range(3)]
        end.send(after, Lane.VALUES, b"one", sent[:1])
        end.send(after, Lane.VALUES, b"two", sent[1:])
        one, two = take(end), take(end)
        send_all(end, sent)
    assert (bytes(one.data), bytes(two.data)) == (b"one", b"two")
    assert [content] * 3 == [bytes(memory) for memory in one.buffers + two.buffers]


def a_tiles_memory_may_land_in_ordinary_memory(end: Transport) -> None:
    _, after = neighbours(end)
    with _Room(end, lambda nbytes, tile: bytearray(nbytes), piece=64):
        sent = Staged(bytes(range(200)), Stock())
        end.send(after, Lane.VALUES, b"", [sent])
        message = take(end)
        send_all(end, [sent])
    assert message.buffers == [bytearray(range(200))]


def memory_and_ordinary_buffers_mix_in_any_order(end: Transport) -> None:
    others = [RankId(r) for r in range(end.size) if r != end.rank]
    sent: list[Staged] = []
    with _Room(end, staged(Stock(2)), piece=100):
        stock = Stock(2)
        for number in range(30):
            for other in others:
                memory = Staged(bytes([number]) * (37 * number), stock)
                large, small = bytes([number]) * 20_000, bytes([number]) * number
                mixed = [memory, large, small] if number % 2 else [small, large, memory]
                end.send(other, Lane.VALUES, number.to_bytes(2, "little") * (1 + 5_000 * (number % 3)), mixed)
                sent.append(memory)
        seen: dict[int, list[int]] = {}
        for _ in range(30 * len(others)):
            message = take(end)
            number = message.data[0]
            seen.setdefault(message.source, []).append(number)
            lengths = [37 * number, 20_000, number]
            expected = [bytes([number]) * n for n in (lengths if number % 2 else reversed(lengths))]
            assert expected == [bytes(b) for b in message.buffers]
        send_all(end, sent)
    assert {other: list(range(30)) for other in others} == seen


def no_ring_of_ranks_waits_for_one_anothers_room(end: Transport) -> None:
    """Each rank lends one piece in either direction, and expects from the next one what that cannot read.

    Would it lend its room for that, then no rank could send to the next one, nor read anything else.
    """
    before, after = neighbours(end)
    lent, room, expected = Stock(0), staged(Stock(1)), []

    def noted_room(nbytes: int, tile: bool) -> Buffer | Memory:
        expected.append(nbytes)
        return room(nbytes, tile)

    with _Room(end, noted_room, piece=100_000):
        unread, other = (Staged(bytes([end.rank]) * 500_000, lent) for _ in range(2))
        end.send(before, Lane.VALUES, b"unread", [unread])
        messages = []
        while not expected:
            messages += filter(None, [end.receive()])
        end.send(before, Lane.CONTROL, b"expecting")
        while b"expecting" not in [bytes(message.data) for message in messages]:
            messages.append(take(end))
        lent.free = 1
        end.send(after, Lane.VALUES, b"other", [other])
        while len(messages) < 3:
            messages.append(take(end))
        send_all(end, [unread, other])
    found = {bytes(m.data): (m.source, *map(bytes, m.buffers)) for m in messages}
    assert found.pop(b"expecting") == (after,)
    assert found == {
        b"unread": (after, bytes([after]) * 500_000),
        b"other": (before, bytes([before]) * 500_000),
    }


def memory_that_waits_holds_back_no_order(end: Transport) -> None:
    """It can be read only when the order that was sent after it has been seen."""
    before, after = neighbours(end)
    with _Room(end, staged(Stock())):
        memory = Staged(b"large", Stock(0))
        end.send(after, Lane.VALUES, b"value", [memory])
        end.send(after, Lane.CONTROL, b"order")
        seen = set()
        while len(seen) < 3:
            message = take(end)
            seen.add(bytes(message.data))
            if bytes(message.data) == b"order":
                end.send(before, Lane.CONTROL, b"seen")
            elif bytes(message.data) == b"seen":
                memory.stock.free += 1
        send_all(end, [memory])
    assert {b"value", b"order", b"seen"} == seen


def memory_that_waits_holds_back_no_other_rank(end: Transport) -> None:
    """It can be read only when the value has been seen that was sent after it to another rank."""
    before, after = neighbours(end)
    if before == after:
        return
    with _Room(end, staged(Stock())):
        waits, other = Staged(b"waits", Stock(0)), Staged(b"other", Stock())
        end.send(after, Lane.VALUES, b"waits", [waits])
        end.send(before, Lane.VALUES, b"other", [other])
        seen = set()
        while len(seen) < 3:
            message = take(end)
            seen.add(bytes(message.data))
            if bytes(message.data) == b"other":
                end.send(after, Lane.CONTROL, b"seen")
            elif bytes(message.data) == b"seen":
                waits.stock.free += 1
        send_all(end, [waits, other])
    assert {b"waits", b"other", b"seen"} == seen


def nothing_arrives_that_was_not_sent(end: Transport) -> None:
    assert end.receive() is None


class _Room:
    """What arrives meanwhile has this room."""

    def __init__(
        self, end: Transport, room: Callable[[int, bool], Buffer | Memory], piece: int | None = None
    ) -> None:
        self._end, self._room, self._piece = end, room, piece

    def __enter__(self) -> None:
        self._before = self._end.room, self._end.piece
        self._end.room, self._end.piece = self._room, self._piece or self._end.piece

    def __exit__(self, *error: object) -> None:
        self._end.room, self._end.piece = self._before


def staged(stock: Stock, refusals: int = 0) -> Callable[[int, bool], Buffer | Memory]:
    """Room that lends from a stock."""
    return lambda nbytes, tile: Staged(bytes(nbytes), stock, refusals) if tile else bytearray(nbytes)


CONTRACT = [
    a_message_arrives_as_it_was_sent,
    buffers_of_every_kind_and_length_arrive,
    thousands_of_buffers_arrive,
    one_lane_keeps_the_order_of_its_sender,
    both_lanes_arrive_whatever_the_other_holds,
    all_may_send_before_anybody_receives,
    many_messages_wait_for_one_that_is_busy,
    the_sender_may_forget_what_it_sent,
    ordinary_buffers_arrive_writable_and_aligned,
    room_is_asked_for_what_is_large_and_for_what_was_a_tiles,
    memory_of_any_length_arrives_whole,
    memory_that_refuses_many_times_arrives_whole,
    a_tiles_memory_may_land_in_ordinary_memory,
    memory_and_ordinary_buffers_mix_in_any_order,
    no_ring_of_ranks_waits_for_one_anothers_room,
    memory_that_waits_holds_back_no_order,
    memory_that_waits_holds_back_no_other_rank,
    nothing_arrives_that_was_not_sent,
]
