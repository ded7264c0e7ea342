"""The doors of a daemon: one port for all, Unix sockets, TLS; and who is turned away at which."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from isotone.client import Settings, connect
from isotone.client.errors import ConnectFailed
from isotone.core.contract import Address
from isotone.core.errors import MachineError
from isotone.daemon import routing
from isotone.daemon.composition import Composition, Hooks
from isotone.daemon.node import Node
from isotone.daemon.node_settings import Listener, NodeSettings
from isotone.daemon.security.tls import client_context, server_context
from isotone.daemon.spread import SpreadGateway
from isotone.evs.sessions.settings import ClientSettings
from tests.daemon.local_cluster import DEADLINE_S
from tests.daemon.security.test_tls import Issuer

PATIENT = Settings(session=ClientSettings(connect_within_us=3_600_000_000))


@asynccontextmanager
async def daemon(settings: NodeSettings, hooks: Hooks | None = None) -> AsyncIterator[Node]:
    node = Node(settings, hooks)
    await node.start()
    try:
        async with asyncio.timeout(DEADLINE_S):
            await node.ready()
            yield node
    finally:
        await node.stop()


async def talk(address: str, **options: object) -> None:
    """A session that says something large to itself."""
    me = await connect(address, name="alice", **options)  # type: ignore[arg-type]
    chat = await me.join("chat")
    body = b"x" * 1_000_000
    await chat.send(body)
    while True:
        event = await chat.receive(timeout=DEADLINE_S)
        if getattr(event, "body", None) == body:
            break
    await me.close()


async def ends(address: str, first: bytes) -> bytes:
    """What a daemon says to who begins so, until it closes."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(first)
    said = await asyncio.wait_for(reader.read(), DEADLINE_S)
    writer.close()
    return said


def build(around: Composition) -> SpreadGateway:
    return SpreadGateway(around.me, next_id=around.next_id, name_in_use=around.name_in_use)


def test_a_unix_socket_is_made_and_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    settings = NodeSettings(name="d1", listeners=(Listener(address=Address(f"unix:{path}")),))

    async def main() -> None:
        async with daemon(settings) as node:
            assert node.addresses == (node.address, f"unix:{path}")
            await talk(f"unix:{path}")
            second = Node(settings)
            with pytest.raises(MachineError, match="Address already in use"):
                await second.start()
        assert not path.exists()
        path.touch()
        path.unlink()
        async with daemon(settings):
            pass

    asyncio.run(main())


def test_clients_come_by_tls_and_the_door_of_the_daemons_is_closed_to_them(tmp_path: Path) -> None:
    issuer = Issuer(tmp_path, "authority")
    server, client = issuer.issue("localhost"), issuer.issue("carol")
    seen: list[tuple[str, dict[str, object]]] = []
    gone: list[str] = []
    refused: list[tuple[str, str, Address]] = []
    hooks = Hooks(
        tls=server_context(server, server, issuer.path),
        certified=lambda peer, certificate: seen.append((peer, certificate)),
        gone=gone.append,
        tls_refused=lambda *told: refused.append(told),
    )
    settings = NodeSettings(name="d1", listeners=(Listener(address=Address("127.0.0.1:0"), tls=True),))

    async def main() -> None:
        async with daemon(settings, hooks) as node:
            main_door, tls_door = node.addresses
            context = client_context(issuer.path, client, client)
            port = tls_door.rpartition(":")[2]
            await talk(f"localhost:{port}", tls=context)
            assert len(seen) == 1 and "carol" in str(seen[0][1])
            for place, door in enumerate((main_door, tls_door), start=1):
                assert b"clients come by TLS here" in await ends(door, b"ISOC\x01\x01\x00\x00")
                with pytest.raises(ConnectFailed, match=r"\(refused\): clients come by TLS here"):
                    await connect(door, settings=PATIENT)
                assert len(refused) == 2 * place, "counted, and told with who it was"
            assert {reason for reason, _, _ in refused} == {"no TLS", "TLS handshake failed"}
            assert await ends(main_door, b"ISOC\x09\x09\x00\x00") == b"ISOD\x00\x01\x01\x00"
            assert await ends(main_door, b"ISOC\x01\x01\x01\x00") == b"", "that is no greeting"
            assert node.counts()["node"]["streams_without_tls"] == 4
        assert gone

    asyncio.run(main())


def test_first_bytes_decide_even_one_by_one(tmp_path: Path) -> None:
    settings = NodeSettings(name="d1", spread_shares_port=True)

    async def main() -> None:
        async with daemon(settings, Hooks(spread=build)) as node:
            await talk(node.address)
            host, _, port = node.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            for place in range(8):
                writer.write(b"ISOC\x01\x01\x00\x00"[place : place + 1])
                await writer.drain()
            assert (await asyncio.wait_for(reader.readexactly(8), DEADLINE_S))[:4] == b"ISOD"
            writer.close()
            _, writer = await asyncio.open_connection(host, int(port))
            told = asyncio.Event()
            node.observers.append(lambda at: told.set() if node.gateway.counters.accepted else None)
            writer.write(b"\x05\x00\x01\x00\x05alice")
            await told.wait()
            writer.close()

    asyncio.run(main())


def test_who_says_nothing_makes_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "UNDECIDED_MAX", 3)
    monkeypatch.setattr(routing, "UNDECIDED_SECONDS", 3600)
    settings = NodeSettings(name="d1", spread_shares_port=True)

    async def main() -> None:
        async with daemon(settings, Hooks(spread=build)) as node:
            host, _, port = node.address.rpartition(":")
            callers = [await asyncio.open_connection(host, int(port)) for _ in range(5)]
            for reader, _ in callers[:2]:
                assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
            assert node.counts()["node"]["streams_silent"] == 2
            for _, writer in callers:
                writer.close()
            await talk(node.address)

    asyncio.run(main())


def test_more_streams_than_there_is_place_for_are_turned_away() -> None:
    async def main() -> None:
        async with daemon(NodeSettings(name="d1", streams_max=2)) as node:
            host, _, port = node.address.rpartition(":")
            callers = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
            assert await asyncio.wait_for(callers[2][0].read(), DEADLINE_S) == b""
            assert node.counts()["node"]["streams_turned_away"] == 1
            for _, writer in callers:
                writer.close()

    asyncio.run(main())
