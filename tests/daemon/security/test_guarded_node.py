"""Real daemons on loopback with keys and with TLS: what the simulator cannot show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import isotone
from isotone.client.errors import ConnectFailed
from isotone.client.settings import Settings
from isotone.core.contract import Address
from isotone.daemon.composition import Composition, Hooks
from isotone.daemon.node import Node
from isotone.daemon.node_settings import Listener, NodeSettings
from isotone.daemon.security import Guard, Identity, Roster
from isotone.daemon.security.access import Access
from isotone.daemon.security.keys import KeyPair
from isotone.daemon.security.tls import client_context, server_context
from isotone.evs.membership import KnownDaemon, MembershipSettings
from isotone.evs.sessions.settings import ClientSettings
from isotone.evs.stack import StackSettings
from tests.daemon.security.guarded import key_of, roster_of
from tests.daemon.security.test_tls import DAY, Issuer
from tests.ports import free_port

WITHIN_S = 30


async def until(condition: Callable[[], bool]) -> None:
    async def look() -> None:
        while not condition():
            await asyncio.sleep(0)

    await asyncio.wait_for(look(), WITHIN_S)


class _builds:
    """The guard of one daemon, kept to look at."""

    def __init__(self, pair: KeyPair, roster: Roster) -> None:
        self._pair, self._roster = pair, roster
        self.guard: Guard

    def __call__(self, composition: Composition) -> Guard:
        self.guard = Guard(Identity(composition.me, self._pair), self._roster, composition.random_bytes)
        return self.guard


def guarded_nodes(keys: Mapping[str, KeyPair]) -> tuple[list[Node], list[_builds]]:
    ports = {name: free_port() for name in keys}
    known = tuple(KnownDaemon(name, "lan", Address(f"127.0.0.1:{port}")) for name, port in ports.items())
    stack = StackSettings(membership=MembershipSettings(known=known))
    builds = [_builds(pair, roster_of(*keys)) for pair in keys.values()]
    settings = [NodeSettings(name=name, port=port, stack=stack) for name, port in ports.items()]
    return [Node(each, Hooks(guard=build)) for each, build in zip(settings, builds, strict=True)], builds


def members(node: Node) -> str:
    return "".join(member.name for member in node.stack.membership.members)


def test_daemons_with_keys_form_a_view_and_serve_clients() -> None:
    async def main() -> None:
        nodes, builds = guarded_nodes({name: key_of(name) for name in "abc"})
        try:
            for node in nodes:
                await node.start()
            await until(lambda: all(members(node) == "abc" for node in nodes))
            async with isotone.connect(nodes[0].address, name="alice") as alice:
                chat = await alice.join("chat")
                async with isotone.connect(nodes[2].address, name="carol") as carol:
                    await carol.send("chat", b"x" * 200_000)
                    async for event in chat:
                        if isinstance(event, isotone.Message):
                            assert bytes(event.data) == b"x" * 200_000
                            break
            assert all(build.guard.counters.opened for build in builds)
        finally:
            for node in nodes:
                await node.stop("done")

    asyncio.run(asyncio.wait_for(main(), 2 * WITHIN_S))


def test_a_daemon_with_a_wrong_key_stays_outside() -> None:
    async def main() -> None:
        nodes, builds = guarded_nodes({"a": key_of("a"), "b": key_of("b"), "c": key_of("c", "wrong")})
        try:
            for node in nodes:
                await node.start()
            await until(lambda: members(nodes[0]) == members(nodes[1]) == "ab")
            view = nodes[0].stack.membership.view
            await until(lambda: builds[0].guard.counters.refused["wrong key"] >= 2)
            assert nodes[0].stack.membership.view == view and members(nodes[0]) == "ab"
            assert members(nodes[2]) == "c"
        finally:
            for node in nodes:
                await node.stop("done")

    asyncio.run(asyncio.wait_for(main(), 2 * WITHIN_S))


@pytest.mark.parametrize("shown", ["good", "expired", "another authority", "none"])
def test_client_certificates_at_a_daemon(tmp_path: Path, shown: str) -> None:
    issuer = Issuer(tmp_path, "authority")
    signer = Issuer(tmp_path, "other") if shown == "another authority" else issuer
    carol = signer.issue("carol", valid=-DAY if shown == "expired" else DAY)
    daemon = issuer.issue("localhost")
    access = Access(anonymous=False)

    async def main() -> None:
        hooks = Hooks(
            admit=access.admit,
            permit=access.permit,
            tls=server_context(daemon, daemon, issuer.path),
            certified=access.certified,
            gone=access.gone,
            tls_refused=access.tls_refused,
        )
        listener = Listener(address=Address("127.0.0.1:0"), tls=True)
        node = Node(NodeSettings(name="d1", listeners=(listener,)), hooks)
        await node.start()
        try:
            await node.ready()
            view = node.stack.membership.view
            door = node.addresses[1].replace("127.0.0.1", "localhost")
            trust = client_context(issuer.path, None if shown == "none" else carol)
            settings = Settings(session=ClientSettings(connect_within_us=3_600_000_000))
            if shown == "good":
                async with isotone.connect(door, name="carol", tls=trust) as me:
                    await me.join("chat")
            else:
                for _ in range(2):
                    with pytest.raises(ConnectFailed) as failed:  # at once, and not when its patience is over
                        await isotone.connect(door, name="carol", tls=trust, settings=settings)
                    code, said = ("refused", "a credential is") if shown == "none" else ("certificate", " alert ")
                    assert failed.value.code == code and said in failed.value.reason
            assert node.stack.membership.view == view
        finally:
            await node.stop("done")

    asyncio.run(asyncio.wait_for(main(), 2 * WITHIN_S))
    told = [(note.peer, note.reason) for note in access.notes()]
    if shown == "good":
        assert not access.refused and not told
    elif shown == "none":
        assert access.refused == {"no credential": 2} and len(told) == 1
    else:
        assert access.refused == {"wrong certificate": 2}
        assert told == [("127.0.0.1", "wrong certificate")], "told once"
