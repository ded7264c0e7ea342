"""The virtual-time loop by itself, without a cluster."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import Any

import pytest

from isotone.testing import Deadlock, DiedUnnoticed, NotSimulated, TimeOver, new_loop, run
from tests.testing.virtual import pause


def test_time_passes_only_by_waiting() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        for seconds in (0.0, 1e-6, 0.05, 3_000.0):
            await pause(seconds)
            times.append(loop.time())
        return times

    began = time.process_time()
    assert run(main) == pytest.approx([0.0, 0.0, 1e-6, 0.050001, 3_000.050001])
    assert time.process_time() - began < 30  # an hour passed


def test_timers_ring_in_the_order_of_time() -> None:
    async def main() -> list[int]:
        rung: list[int] = []
        loop = asyncio.get_running_loop()
        for delay in (30, 10, 20):
            loop.call_later(delay / 1000, rung.append, delay)
        loop.call_later(0.005, rung.append, 0).cancel()
        await pause(1)
        return rung

    assert run(main) == [10, 20, 30]


def test_timeouts_are_virtual() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 100)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(main) == pytest.approx(200)


def test_a_result_and_an_error_come_through() -> None:
    async def good(seed: int) -> int:
        return seed

    async def bad() -> None:
        raise KeyError("mine")

    assert run(good, seed=17) == 17
    with pytest.raises(KeyError, match="mine"):
        run(bad)


def test_what_is_left_is_cancelled_in_the_order_in_which_it_began() -> None:
    ended: list[int] = []

    async def waiter(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    async def main() -> None:
        tasks = [asyncio.create_task(waiter(number)) for number in range(20)]
        await asyncio.sleep(0)
        assert len(tasks) == 20

    run(main)
    assert ended == list(range(20))


def test_executors_run_in_the_same_thread() -> None:
    async def main() -> tuple[bool, str]:
        there = await asyncio.to_thread(threading.get_ident)
        try:
            await asyncio.get_running_loop().run_in_executor(None, int, "x")
        except ValueError as error:
            return there == threading.get_ident(), str(error)
        raise AssertionError("no error")

    same, text = run(main)
    assert same
    assert "invalid literal" in text


def test_randomness_is_the_seeds() -> None:
    async def main() -> tuple[bytes, float]:
        loop: Any = asyncio.get_running_loop()
        return loop.random_bytes(20), random.random()

    assert run(main, seed=1) == run(main, seed=1)
    one, other = run(main, seed=1), run(main, seed=2)
    assert one[0] != other[0] and one[1] != other[1]
    assert len(one[0]) == 20
    state = random.getstate()
    run(main)
    assert random.getstate() == state


@pytest.mark.parametrize("patience", ["alone", "with others"])
def test_a_deadlock_names_who_waits_and_where(patience: str) -> None:
    async def for_godot() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        if patience == "alone":
            await for_godot()
        await asyncio.gather(for_godot(), for_godot())

    with pytest.raises(Deadlock, match=r"for_godot .*test_loop.py"):
        run(main)


def test_polling_without_waiting_is_noticed() -> None:
    async def main() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(TimeOver, match="stands still"):
        run(main)


def test_virtual_time_is_bounded() -> None:
    async def main() -> None:
        while True:
            await pause(1)

    with pytest.raises(TimeOver, match="more than 50"):
        run(main, limit=50)


def test_nothing_real_is_at_hand() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(NotSimulated, match="no cluster"):
            await loop.create_connection(asyncio.Protocol, "localhost", 80)
        with pytest.raises(NotSimulated, match="create_server"):
            await asyncio.start_server(lambda reader, writer: None, "localhost", 0)
        with pytest.raises(NotSimulated, match="subprocess_exec"):
            await asyncio.create_subprocess_exec("true")
        with pytest.raises(NotSimulated, match="getaddrinfo"):
            await loop.getaddrinfo("localhost", 80)
        with pytest.raises(NotSimulated, match="add_reader"):
            loop.add_reader(0, print)

    run(main)


def test_another_thread_is_refused() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        said: list[str] = []

        def call() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except NotSimulated as error:
                said.append(str(error))

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert "another thread" in said[0]
        loop.call_soon_threadsafe(said.append, "own")
        await asyncio.sleep(0)
        assert said[1:] == ["own"]

    run(main)


def test_the_loop_serves_asyncios_own_runner() -> None:
    async def main() -> float:
        await pause(1_000)
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(main()) == pytest.approx(1_000)


def test_a_task_that_died_unnoticed_fails_the_run() -> None:
    async def dying() -> None:
        raise KeyError("nobody looks")

    async def main() -> None:
        task = asyncio.create_task(dying())
        await pause(1)
        assert task.done()

    async def stuck() -> None:
        task = asyncio.create_task(dying())
        async with asyncio.timeout(10):
            await asyncio.Event().wait()
        assert task.done()

    with pytest.raises(DiedUnnoticed, match="nobody looks"):
        run(main)
    with pytest.raises(TimeoutError) as caught:
        run(stuck)
    assert "nobody looks" in caught.value.__notes__[0]


def test_an_error_in_a_callback_fails_the_run() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(int, "x")
        await pause(1)

    with pytest.raises(DiedUnnoticed, match="invalid literal"):
        run(main)
