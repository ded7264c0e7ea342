"""The same over real sockets: one port for all, a port of its own, a Unix socket; next to a native client."""

from __future__ import annotations

import asyncio
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import isotone.client
from isotone.client import Message, View
from isotone.core.contract import Address
from isotone.core.services import Service
from isotone.daemon.composition import Composition, Hooks
from isotone.daemon.node import Node
from isotone.daemon.node_settings import Listener, NodeSettings
from isotone.daemon.spread import GatewaySettings, SpreadGateway
from isotone.evs.sessions.settings import ServerSettings, SlowPolicy
from tests.daemon.spread.slow_clients import DEADLINE_S, SENT, SENT_BYTES, gateway_of, read_room, send_to_room
from tests.spread_client.blocking import SocketClient
from tests.spread_client.protocol import AGREED, FIFO, SAFE, SpreadClient


def build(composition: Composition, **changes: Any) -> SpreadGateway:
    settings = GatewaySettings(inbox_bytes_max=64 * 1024, methods=("IP", "NULL"), **changes)
    return SpreadGateway(
        composition.me, next_id=composition.next_id, name_in_use=composition.name_in_use, settings=settings
    )


@asynccontextmanager
async def daemon(
    path: Path, *listeners: Listener, sessions: ServerSettings | None = None, **changes: Any
) -> AsyncIterator[Node]:
    settings = NodeSettings(
        name="d1",
        spread_shares_port=True,
        listeners=listeners,
        state_directory=path / "state",
        sessions=sessions or ServerSettings(),
    )
    node = Node(settings, Hooks(spread=partial(build, **changes)))
    await node.start()
    try:
        async with asyncio.timeout(DEADLINE_S):
            await node.ready()
            yield node
    finally:
        await node.stop("done")


def talk(address: str, order: str, version: tuple[int, int, int]) -> list[bytes]:
    """Connect, join, send much, hear it, leave and part."""
    with SocketClient(address, SpreadClient("alice", version=version, order=order), DEADLINE_S) as me:
        client = me.connect().client
        assert client.state == "open", client.rejection
        me.write(client.join("chat"))
        assert client.private_group in me.next_that(lambda each: each.is_view).groups
        for n in range(200):
            me.write(client.multicast(FIFO, "chat", bytes((n,)) * 1000, n))
        me.write(client.multicast(SAFE, "chat", bytes(140_000)))
        heard = [me.next_that(lambda each: each.is_regular).data for _ in range(201)]
        me.write(client.leave("chat"))
        assert me.next_that(lambda each: each.is_membership).is_self_leave
        me.write(client.disconnect())
        me.until_ended()
        return heard


def test_one_port_for_all(tmp_path: Path) -> None:
    async def main() -> None:
        async with daemon(tmp_path) as node:
            for order, version in (("little", (5, 0, 1)), ("big", (4, 4, 0)), ("little", (3, 17, 4))):
                heard = await asyncio.to_thread(talk, node.address, order, version)
                assert [len(each) for each in heard] == [1000] * 200 + [140_000]
                assert [each[0] for each in heard[:200]] == list(range(200))

    asyncio.run(main())


def test_much_more_than_the_room_goes_through(tmp_path: Path) -> None:
    """What is counted down is told anew."""

    def flood(address: str) -> int:
        with SocketClient(address, SpreadClient("flood"), DEADLINE_S) as me:
            client = me.connect().client
            me.write(client.join("flood"))
            me.next()
            frame = client.multicast(FIFO, "flood", bytes(50_000))
            for _ in range(30):
                me.write(frame * 10)
                for _ in range(10):
                    me.next()
            return len(client.received)

    async def main() -> None:
        async with daemon(tmp_path) as node:
            assert await asyncio.to_thread(flood, node.address) == 301
            assert node.stack.room < 301 * 50_000

    asyncio.run(main())


def test_a_unix_socket_and_a_port_of_its_own(tmp_path: Path) -> None:
    path = f"unix:{tmp_path / 's'}"

    async def main() -> None:
        async with daemon(tmp_path, Listener(address=Address(path), spread=True)):
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o666, "open to other users, as Spread's is"
            assert len(await asyncio.to_thread(talk, path, "little", (5, 0, 1))) == 201

    asyncio.run(main())


def test_next_to_a_native_client(tmp_path: Path) -> None:
    def spread_side(address: str) -> tuple[str, ...]:
        with SocketClient(address, SpreadClient("old"), DEADLINE_S) as me:
            client = me.connect().client
            me.write(client.join("chat"))
            view = me.next_that(lambda each: each.is_view and len(each.groups) == 2)
            me.write(client.multicast(AGREED, "chat", b"from the old one", 7))
            answer = me.next_that(lambda each: each.is_regular and each.name.startswith("#new#"))
            assert answer.data == b"from the new one"
            return view.groups

    async def main() -> None:
        async with daemon(tmp_path) as node, isotone.client.connect(node.address, name="new") as me:
            chat = await me.join("chat")
            other = asyncio.create_task(asyncio.to_thread(spread_side, node.address))
            seen = []
            async for event in chat:
                if isinstance(event, Message):
                    seen.append(event.body)
                    await chat.send(b"from the new one", service=Service.AGREED)
                    break
                assert isinstance(event, View)
            assert seen == [b"from the old one"]
            assert await other == ("#new#d1", "#old#d1")

    asyncio.run(main())


def refused(address: str) -> None:
    with SocketClient(address, SpreadClient("an#illegal", version=(5, 0, 1), order="little"), DEADLINE_S) as me:
        me.connect()
        assert me.client.state != "open"


def test_who_is_turned_away_again_and_again_fills_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with daemon(tmp_path) as node:
            for _ in range(5):
                await asyncio.to_thread(refused, node.address)

    with caplog.at_level("INFO", "isotone.daemon"):
        asyncio.run(main())
    assert len([each for each in caplog.messages if "(illegal_name)" in each]) == 1


def test_senders_of_spread_wait_for_slow_native_readers(tmp_path: Path) -> None:
    """With the policy `block`, whoever sends at this daemon."""

    async def main() -> None:
        sessions = ServerSettings(buffer_bytes_max=100_000, policy=SlowPolicy.BLOCK)
        small = isotone.client.Settings(inbox_bytes_max=10_000)
        async with (
            daemon(tmp_path, sessions=sessions) as node,
            isotone.client.connect(node.address) as sender,
            isotone.client.connect(node.address, settings=small) as reader,
        ):
            room = await reader.join("room")
            assert node.stack.sessions is not None
            while not node.stack.sessions.blocking:
                await sender.send("room", bytes(5_000))
            gateway, done = gateway_of(node), threading.Event()
            talking = asyncio.create_task(asyncio.to_thread(send_to_room, node.address, done))
            while not gateway.counters.frames_received:
                await asyncio.sleep(0)
            assert gateway.counters.messages_sent == 0, "they wait"
            done.set()
            heard = 0
            while heard < SENT:
                event = await room.receive()
                heard += isinstance(event, Message) and len(event.body) == SENT_BYTES
            await talking
            assert gateway.counters.messages_sent == SENT + 1

    asyncio.run(main())


def test_native_senders_wait_for_slow_readers_of_spread(tmp_path: Path) -> None:
    """With the policy `block` they run out of credit, memory stays bounded, and all go on when it reads."""
    bound, body = 24_000_000, 40_000  # more than may be under way when senders begin to wait
    joined, reads = threading.Event(), threading.Event()

    async def main() -> None:
        async with (
            daemon(tmp_path, buffer_bytes_max=bound, policy=SlowPolicy.BLOCK) as node,
            isotone.client.connect(node.address, name="sender") as sender,
        ):
            reading = asyncio.create_task(asyncio.to_thread(read_room, node.address, joined, reads))
            assert await asyncio.to_thread(joined.wait, DEADLINE_S)
            gateway, sent = gateway_of(node), 0
            assert node.stack.sessions is not None
            (session,) = node.stack.sessions.all

            async def send() -> None:
                nonlocal sent
                while not reads.is_set():
                    await sender.send("room", sent.to_bytes(4, "big") + bytes(body))
                    sent += 1

            sending = asyncio.create_task(send())

            def stands_still() -> bool:
                """No credit is left for one more, and what was taken waits."""
                is_without = session.credit.granted - session.credit.received <= body
                return bool(gateway.blocking and session.inbox and is_without)

            while not stands_still():
                await asyncio.sleep(0)
                assert gateway.held_bytes < 2 * bound, "it was to be held"
            before = sent
            reads.set()
            await sending
            assert sent > before, "it goes on"
            await sender.send("room", (-1).to_bytes(4, "big", signed=True))
            assert await reading == [*range(sent), -1]
            assert gateway.counters.blocked and not gateway.counters.ended["slow"] and not gateway.blocking

    asyncio.run(main())
