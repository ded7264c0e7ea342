"""Journals of daemons with all that stands around the stack: judges, Spread's clients, reloads; and wrong ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from isotone.client import ClientError, connect
from isotone.core import boundary as b4
from isotone.core.contract import Address, Started, TimerFired
from isotone.core.errors import InputError
from isotone.core.ids import DaemonId
from isotone.core.patterns import ByPattern
from isotone.daemon.composition import Composition, Hooks
from isotone.daemon.journal import Journal
from isotone.daemon.node import Node
from isotone.daemon.node_settings import NodeSettings
from isotone.daemon.spread import SpreadGateway
from isotone.evs.membership import KnownDaemon
from isotone.evs.sessions.admission import Admitted, Denied
from isotone.evs.sessions.settings import ServerSettings, SlowPolicy
from isotone.evs.stack import StackSettings
from isotone.sim.stack_journal import Acted, is_journal, pack_settings, replay_journal, unpack_settings
from isotone.trace.journal import JournalWriter
from tests.daemon.local_cluster import DEADLINE_S
from tests.spread_client.blocking import SocketClient
from tests.spread_client.protocol import FIFO, SpreadClient


def admit(name: str, credential: bytes, peer: Address) -> Admitted | Denied:
    return Denied("not you") if name == "mallory" else Admitted(f"user/{name}")


def permit(principal: str, request: b4.Request) -> str:
    return "not there" if isinstance(request, b4.Join) and request.group == "secret" else ""


def build(around: Composition) -> SpreadGateway:
    return SpreadGateway(around.me, next_id=around.next_id, name_in_use=around.name_in_use)


def talk(address: str) -> None:
    with SocketClient(address, SpreadClient("old"), DEADLINE_S) as me:
        client = me.connect().client
        me.write(client.join("chat"))
        me.next_that(lambda each: each.is_view)
        me.write(client.multicast(FIFO, "chat", b"from an old program", 1))
        me.next_that(lambda each: each.is_regular)
        me.write(client.disconnect())
        me.until_ended()


def test_judges_gateway_and_reload_replay(tmp_path: Path) -> None:
    slow = ByPattern((("bulk*", SlowPolicy.DISCONNECT),))
    settings = NodeSettings(
        name="d1",
        journal=tmp_path / "journal",
        spread_shares_port=True,
        sessions=msgspec.structs.replace(ServerSettings(), policies=slow),
    )

    async def main() -> None:
        node = Node(settings, Hooks(admit=admit, permit=permit, spread=build))
        await node.start()
        await node.ready()
        alice = await connect(node.address, name="alice")
        with pytest.raises(ClientError):
            await alice.join("secret")
        with pytest.raises(ClientError, match="not you"):
            await connect(node.address, name="mallory")
        chat = await alice.join("chat")
        await asyncio.to_thread(talk, node.address)
        known = (KnownDaemon("d2", "lan", Address("127.0.0.1:9")),)
        membership = msgspec.structs.replace(settings.stack.membership, known=known)
        node.apply(msgspec.structs.replace(settings, stack=StackSettings(membership=membership)))
        await chat.send(b"after")
        bob = await connect(node.address, name="bob")
        await bob.close()
        await alice.close()
        await node.stop()

    asyncio.run(asyncio.wait_for(main(), 2 * DEADLINE_S))
    (path,) = (tmp_path / "journal").glob("d1-*.journal")
    found = replay_journal(path)
    assert found.differs_at is None and not found.torn
    assert found.compared == found.events > 20


def test_settings_come_back_as_they_were() -> None:
    server = msgspec.structs.replace(ServerSettings(), policies={"chat": SlowPolicy.BLOCK}, sessions_max=7)
    stack = StackSettings()
    assert unpack_settings(pack_settings(stack)) == stack
    again = unpack_settings(pack_settings(server))
    assert again == server and again.policies["chat"] is SlowPolicy.BLOCK and "other" not in again.policies
    pattern = unpack_settings(pack_settings(msgspec.structs.replace(server, policies={"b*": SlowPolicy.BLOCK})))
    assert pattern.policies["bulk"] is SlowPolicy.BLOCK and pattern.policies.get("x") is None
    with pytest.raises(KeyError):
        pattern.policies["x"]


def test_other_actions_are_noticed(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path, _me(), identity=bytes(16), address=Address("127.0.0.1:9"))
    journal.compose(site="lan", stack=StackSettings(), sessions=ServerSettings(), secret=bytes(32))
    writer = journal._writer
    writer.append("stack", Started(1))
    writer.append("node", Acted(1, 1, b"something else".ljust(32)))
    writer.append("stack", TimerFired(2, "nobody's"))
    writer.close()
    found = replay_journal(tmp_path / "d1-3.journal")
    assert found.differs_at == 1 and found.exit_code == 1 and found.events == 2


def test_what_is_no_journal_of_a_daemon(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "other.journal")
    writer.append("stack", Started(1))
    writer.close()
    assert is_journal(tmp_path / "other.journal")
    with pytest.raises(InputError, match="made of"):
        replay_journal(tmp_path / "other.journal")
    (tmp_path / "plan.json").write_text("{}")
    assert not is_journal(tmp_path / "plan.json") and not is_journal(tmp_path / "nothing")


def _me() -> DaemonId:

    return DaemonId("d1", 3)
