"""What every transport promises: one suite, which each rank runs for its own end.

`test_loopback.py` runs it with a thread for each rank, `under_mpi.py` under mpiexec. A body is an ordinary
program of one rank; it fails by an assertion on any of them.
"""

import gc
import time

from sched.model import RankId
from sched.transport.base import Lane, Message, Transport

PATIENCE = 60.0


def take(end: Transport) -> Message:
    """Wait for the next message."""
    deadline = time.monotonic() + PATIENCE
    while (message := end.receive()) is None:
        assert time.monotonic() < deadline, f"rank {end.rank} waits for a message in vain"
        time.sleep(0)
    return message


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


def nothing_arrives_that_was_not_sent(end: Transport) -> None:
    assert end.receive() is None


CONTRACT = [
    a_message_arrives_as_it_was_sent,
    buffers_of_every_kind_and_length_arrive,
    thousands_of_buffers_arrive,
    one_lane_keeps_the_order_of_its_sender,
    both_lanes_arrive_whatever_the_other_holds,
    all_may_send_before_anybody_receives,
    many_messages_wait_for_one_that_is_busy,
    the_sender_may_forget_what_it_sent,
    nothing_arrives_that_was_not_sent,
]
