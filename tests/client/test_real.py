"""The client with the real daemon inside the same process."""

from __future__ import annotations

import asyncio

import isotone
from tests.client.daemon import run, within


def test_an_embedded_daemon() -> None:
    async def main() -> None:
        async with (
            isotone.node() as daemon,
            isotone.connect(str(daemon.address), name="alice") as alice,
            isotone.connect(str(daemon.address), name="bob") as bob,
        ):
            chat, other = await within(alice.join("chat")), await within(bob.join("chat"))
            sure = await within(chat.send(b"sure", confirm=True))
            calling = asyncio.create_task(chat.call(b"who?", answers="all", deadline=20.0))
            seen: list[isotone.Message] = []
            while len(seen) < 2:
                event = await within(other.receive())
                if isinstance(event, isotone.Message):
                    seen.append(event)
            assert isotone.Receipt(seen[0].id, seen[0].stamp) == sure and seen[0].body == b"sure"
            await seen[1].reply(b"bob")
            assert [each.body for each in await within(calling)] == [b"bob"]
            await within(chat.send_many([bytes(100)] * 5_000, confirm=True))

    run(main)
