"""Messages that nobody waits for: their order, their bundles, their bound, and sessions that end under them."""

from __future__ import annotations

import asyncio

import pytest

import isotone
from isotone.client import Closed, Settings
from isotone.core import boundary as b4
from isotone.core.errors import LocalProtocolError
from isotone.evs.sessions.settings import ClientSettings, ServerSettings
from tests.client.daemon import Daemon, run, within

NARROW = ServerSettings(wide_windows_max=0)


def bundles(daemon: Daemon) -> list[int]:
    return [request.bundle.count for _, request in daemon.asked if isinstance(request, b4.Send)]


def test_what_is_posted_in_one_turn_is_one_bundle() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice") as me:
            for number in range(1000):
                await me.post("chat", b"%d" % number)
            await daemon.until(lambda: len(daemon.sent("alice")) == 1000)
            assert daemon.sent("alice") == [b"%d" % number for number in range(1000)]
            assert bundles(daemon) == [1000]

    run(main)


def test_it_keeps_its_order_with_all_else() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice") as me:
            chat = await me.join("chat")
            await chat.post(b"1", type=7)
            await me.post(["chat", "other"], b"2")
            await chat.send(b"3")
            await chat.post(bytearray(b"4"), service=isotone.FIFO)
            await chat.send_many([b"5", b"6"])
            await chat.post(b"7")
            await chat.leave()
            kinds = [type(request).__name__ for _, request in daemon.asked]
            assert daemon.sent("alice") == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"] and kinds[-1] == "Leave"
            first = next(request.bundle for _, request in daemon.asked if isinstance(request, b4.Send))
            assert first.types == (7,)
            with pytest.raises(Closed):
                await chat.post(b"late")

    run(main)


def test_without_room_it_waits_and_nothing_is_lost_at_the_end() -> None:
    async def main() -> None:
        brief = Settings(session=ClientSettings(queue_bytes_max=50_000, packed_bytes_max=8_000))
        async with Daemon(settings=NARROW) as daemon:
            async with isotone.connect(daemon.address, name="alice", settings=brief) as me:
                daemon.room(0)
                posted: list[int] = []

                async def post() -> None:
                    for number in range(400):
                        await me.post("g", b"%03d" % number + bytes(1000))
                        posted.append(number)

                posting = asyncio.create_task(post())
                await daemon.until(lambda: me._link.room == 0)
                await asyncio.sleep(0)
                assert len(posted) < 400 and not posting.done()
                daemon.room(1 << 30)
                await within(posting)
            assert [int(each[:3]) for each in daemon.sent("alice")] == list(range(400))

    run(main)


def test_what_never_left_goes_in_the_next_session() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice") as me:
            await me.send("g", b"first")
            daemon.restart()
            assert isinstance(await within(me.receive()), isotone.client.Interrupted)
            await me.post("g", b"second")
            await me.post("g", b"third")
            await daemon.until(lambda: b"third" in daemon.sent("alice"))
            assert daemon.sent("alice")[-2:] == [b"second", b"third"]

    run(main)


def test_what_is_wrong_is_said_at_once() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address) as me:
            for wrong in (me.post("no such name", b"x"), me.post("g", b"x", type=1 << 16), me.post("g", "text")):  # type: ignore[arg-type]
                with pytest.raises(LocalProtocolError):
                    await wrong
            await me.post("g", b"right")
            await daemon.until(lambda: daemon.sent(me.name) == [b"right"])

    run(main)
