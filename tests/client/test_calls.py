"""Calls: the first answer, a majority, all, so many; and all the ways in which they do not come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

import isotone
from isotone.client import NoAnswer, NotAMember
from isotone.client.calls import Call, numbered
from isotone.client.events import ANSWER
from isotone.client.ledger import Parcel
from isotone.core.errors import LocalProtocolError
from isotone.core.services import Service
from tests.client.daemon import Daemon, run, within


async def serve(chat: isotone.Group, *, delay: asyncio.Event | None = None) -> None:
    async for event in chat:
        if isinstance(event, isotone.Message) and event.is_call and event.sender != chat.session.id:
            if delay is not None:
                await delay.wait()
            await event.reply(chat.session.name.encode() + b" " + event.body)


@asynccontextmanager
async def servers(daemon: Daemon, *names: str, delay: asyncio.Event | None = None) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        tasks = []
        for name in names:
            session = await stack.enter_async_context(isotone.connect(daemon.address, name=name))
            tasks.append(asyncio.create_task(serve(await session.join("chat"), delay=delay)))
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def bodies(answers: list[isotone.Message]) -> list[bytes]:
    return sorted(each.body for each in answers)


def test_first_majority_all_and_so_many() -> None:
    async def main() -> None:
        async with (
            Daemon() as daemon,
            isotone.connect(daemon.address, name="caller") as me,
            servers(daemon, "a", "b", "c"),
        ):
            chat = await me.join("chat")
            assert bodies(await chat.call(b"x", deadline=10.0)) == [b"a x", b"b x", b"c x"]
            assert len(await chat.call(b"x", answers="first", deadline=10.0)) >= 1
            assert len(await chat.call(b"x", answers="majority", deadline=10.0)) >= 2
            assert len(await chat.call(b"x", answers=3, deadline=10.0, type=5)) == 3
            with pytest.raises(NoAnswer, match="4 answers are wanted and 3 others"):
                await chat.call(b"x", answers=4, deadline=10.0)
            for wrong in ("some", 0, True):
                with pytest.raises(LocalProtocolError):
                    await chat.call(b"x", answers=wrong, deadline=10.0)  # type: ignore[arg-type]
            assert not me._hearing.calls._open

    run(main)


def test_from_outside_of_the_group() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address) as me, servers(daemon, "a", "b"):
            assert len(await me.call("chat", b"x", deadline=10.0)) >= 1
            assert len(await me.call("chat", b"x", answers=2, deadline=10.0)) == 2
            with pytest.raises(NotAMember, match="'all' needs the membership"):
                await me.call("chat", b"x", answers="all", deadline=10.0)
            with pytest.raises(NoAnswer, match="deadline") as late:
                await me.call("chat", b"x", answers=3, deadline=0.1)
            assert len(late.value.answers) <= 2

    run(main)


def test_alone_and_too_late() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address) as me:
            chat = await me.join("chat")
            assert await chat.call(b"x", answers="all", deadline=10.0) == []
            with pytest.raises(NoAnswer, match="0 others"):
                await chat.call(b"x", answers="first", deadline=10.0)
            never = asyncio.Event()
            async with servers(daemon, "mute", delay=never):
                with pytest.raises(NoAnswer, match="deadline"):
                    await chat.call(b"x", deadline=0.02)
            with pytest.raises(NoAnswer):
                await chat.call(b"x", answers="first", deadline=10.0)

    run(main)


def test_who_leaves_cannot_answer_any_more() -> None:
    async def main() -> None:
        async with (
            Daemon() as daemon,
            isotone.connect(daemon.address, name="caller") as me,
            isotone.connect(daemon.address, name="leaver") as leaver,
            servers(daemon, "a"),
        ):
            chat, mute = await me.join("chat"), await leaver.join("chat")
            calling = asyncio.create_task(chat.call(b"x", deadline=20.0))
            while not isinstance(await mute.receive(), isotone.Message):
                pass
            assert not calling.done()
            await mute.leave()
            assert bodies(await within(calling)) == [b"a x"]

    run(main)


def test_only_the_first_answer_of_each_counts_and_only_of_those_who_were_asked() -> None:
    async def main() -> None:
        async with (
            Daemon() as daemon,
            isotone.connect(daemon.address, name="caller") as me,
            isotone.connect(daemon.address, name="eager") as eager,
            isotone.connect(daemon.address, name="stranger") as stranger,
            isotone.connect(daemon.address, name="late") as late,
        ):
            chat, asked, mute = await me.join("chat"), await eager.join("chat"), await late.join("chat")
            calling = asyncio.create_task(chat.call(b"x", deadline=20.0))
            call: isotone.GroupEvent | None = None
            while not isinstance(call, isotone.Message):
                call = await asked.receive()
            assert call.call_number is not None
            answer = numbered(call.call_number, b"forged")
            forged = Parcel((me.private_group,), Service.FIFO, (answer,), flags=ANSWER)
            await stranger._sending.send_one(forged, None)
            await call.reply(b"one")
            await call.reply(b"two")
            await me.send(me.id, b"mark")
            await me.receive()
            assert not calling.done()
            while not isinstance(call := await mute.receive(), isotone.Message):
                pass
            await call.reply(b"three")
            assert bodies(await within(calling)) == [b"one", b"three"]
            with pytest.raises(LocalProtocolError, match="no call"):
                await (await within(_message(chat, me))).reply(b"x")

    async def _message(chat: isotone.Group, me: isotone.Session) -> isotone.Message:
        await chat.send(b"ordinary")
        while True:
            event = await chat.receive()
            if isinstance(event, isotone.Message) and not event.is_call:
                return event

    run(main)


def test_an_answer_may_come_before_the_caller_hears_its_own_call() -> None:
    async def main() -> None:
        done = asyncio.get_running_loop().create_future()
        call = Call(1, "g", "first", done, open_group=False)

        async with Daemon() as daemon, isotone.connect(daemon.address) as session:
            await session.send(session.id, b"x")
            message = await session.receive()
        assert isinstance(message, isotone.Message)
        call.on_answer(message)
        assert not done.done() and call.collected() == []
        call.on_heard((message.sender,))
        assert done.done() and call.collected() == [message]

    run(main)
