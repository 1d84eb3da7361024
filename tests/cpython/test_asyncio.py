"""asyncio over tiles: `loop.run_in_executor` and `asyncio.wrap_future`."""

import asyncio
import threading

import pytest

import sched
from tests.gates import Gate


@pytest.fixture(params=["host", pytest.param("cpu", marks=pytest.mark.sycl)])
def s(request):
    """Two tiles. Those of `cpu` work in the script's thread, so the loop has to lend it to them."""
    if request.param == "cpu":
        pytest.importorskip("dpnp")
    try:
        scheduler = sched.local(tiles=2, device=request.param)
    except sched.DeviceError as error:
        pytest.skip(str(error))
    with scheduler:
        yield scheduler


@pytest.fixture
def host():
    with sched.local(tiles=1, device="host") as scheduler:
        yield scheduler


def square(x):
    return x * x


def boxed(x):
    return [x]


def fail(x):
    raise ValueError(x)


def test_the_loop_runs_calls_on_tiles(s):
    async def main():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(s, square, i) for i in range(20)))

    assert asyncio.run(main()) == [i * i for i in range(20)]


def test_a_future_of_ours_can_be_awaited(s):
    async def main():
        return await asyncio.wrap_future(s.submit(square, s.submit(square, 3)))

    assert asyncio.run(main()) == 81


def test_a_value_that_lies_on_a_tile_can_be_awaited(s):
    async def main():
        return await asyncio.wrap_future(s.submit(boxed, 3))

    assert asyncio.run(main()) == [3]


def test_an_exception_arrives_with_the_remote_traceback(s):
    async def main():
        with pytest.raises(ValueError, match="7") as info:
            await asyncio.get_running_loop().run_in_executor(s, fail, 7)
        return info.value.__cause__

    assert isinstance(asyncio.run(main()), sched.RemoteTraceback)


def test_other_coroutines_run_meanwhile(host):
    async def main():
        with Gate() as gate:
            held = asyncio.wrap_future(host.submit(gate.hold, "late"))
            await asyncio.sleep(0)
            gate.open()
            return await held

    assert asyncio.run(main()) == "late"


def test_cancelling_what_was_awaited_cancels_a_task_that_waits(host):
    async def main():
        with Gate() as gate:
            running = [host.submit(gate.hold, i) for i in range(2)]  # as many as the tile takes at a time
            waiting = host.submit(square, 3)
            awaited = asyncio.wrap_future(waiting)
            awaited.cancel()
            with pytest.raises(asyncio.CancelledError):
                await awaited
            await asyncio.sleep(0)  # the loop passes it on
            gate.open()
            assert [await asyncio.wrap_future(future) for future in running] == [0, 1]
        return waiting.cancelled()

    assert asyncio.run(main())


def test_waiting_can_end_before_the_task_does(host):
    async def main():
        with Gate() as gate:
            held = host.submit(gate.hold, "late")
            gate.wait_for()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(held), timeout=0.01)
            gate.open()
        return held

    assert asyncio.run(main()).result() == "late"  # it was running, so it could not be cancelled


def test_one_loop_after_another(s):
    """The first ends while a task is under way: the next must be lent to the tiles again."""

    async def leave():
        future = asyncio.wrap_future(s.submit(square, 2))
        await asyncio.sleep(0)
        return future.done()

    async def stay():
        return await asyncio.wrap_future(s.submit(square, 3))

    asyncio.run(leave())
    assert asyncio.run(asyncio.wait_for(stay(), timeout=20)) == 9


def test_a_loop_in_another_thread(s):
    found = []

    async def main():
        return await asyncio.get_running_loop().run_in_executor(s, square, 5)

    thread = threading.Thread(target=lambda: found.append(asyncio.run(main())))
    thread.start()
    s.submit(square, 1).result()  # the script's thread waits too, or `cpu` tiles have nobody to work for them
    while thread.is_alive():
        s.submit(square, 1).result()
    assert found == [25]
