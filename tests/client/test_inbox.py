"""Events that wait: bounds, order, and who is woken."""

from __future__ import annotations

import asyncio

import pytest

from isotone.client.errors import Disconnected, Overrun
from isotone.client.inbox import EVENT_BYTES, TURN_MAX, Inbox, Pressure
from tests.client.daemon import run


def test_pressure() -> None:
    async def main() -> None:
        said: list[bool] = []
        pressure = Pressure(1_000, 3_000, said.append)
        loop = asyncio.get_running_loop()
        pressure.held = 1_001
        pressure.adjust()
        assert said == [True]
        pressure.taken(400)
        assert said == [True], "half of the bound, before it is read again"
        pressure.taken(101)
        assert said == [True, False]
        pressure.held = 2_000
        waiter: asyncio.Future[object] = loop.create_future()
        pressure.adjust()
        pressure.enter(waiter)
        assert said == [True, False, True, False], "who waits for the daemon must hear it"
        pressure.held = 2_900
        pressure.adjust()
        pressure.exit(waiter)
        assert said[4:] == [True]
        pressure.enter(waiter)
        pressure.held = 3_001
        pressure.adjust()
        assert said[4:] == [True, False, True] and isinstance(waiter.exception(), Overrun)
        pressure.release()
        assert said[-1] is False

    run(main)


def test_each_event_goes_to_one_reader_and_the_end_to_all() -> None:
    async def main() -> None:
        pressure = Pressure(1_000, 1_000, lambda paused: None)
        inbox = Inbox(asyncio.get_running_loop(), pressure)

        async def read() -> list[object]:
            taken = []
            try:
                while True:
                    await inbox.wait()
                    taken.append(inbox.take())
            except StopAsyncIteration:
                return taken

        readers = [asyncio.create_task(read()) for _ in range(3)]
        for number in range(10):
            inbox.put(number, 10)
            await asyncio.sleep(0)
        inbox.end()
        inbox.put("too late")
        taken = await asyncio.gather(*readers)
        assert sorted(each for part in taken for each in part) == list(range(10))
        assert pressure.held == inbox.held == 0

    run(main)


def test_the_end_may_be_an_error_and_comes_behind_what_is_there() -> None:
    async def main() -> None:
        inbox = Inbox(asyncio.get_running_loop(), Pressure(1_000, 1_000, lambda paused: None))
        inbox.put("event")
        inbox.end(Disconnected("gone", "it is"))
        await inbox.wait()
        assert inbox.held == EVENT_BYTES and inbox.take() == "event"
        for _ in range(2):
            with pytest.raises(Disconnected):
                await inbox.wait()

    run(main)


def test_a_reader_with_much_to_read_lets_others_run() -> None:
    async def main() -> None:
        inbox = Inbox(asyncio.get_running_loop(), Pressure(1 << 30, 1 << 30, lambda paused: None))
        for number in range(4 * TURN_MAX):
            inbox.put(number)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        running = asyncio.create_task(others())
        for _ in range(4 * TURN_MAX):
            await inbox.wait()
            inbox.take()
        running.cancel()
        assert turns >= 3

    run(main)
