"""Slow readers hold senders of either kind, at their own daemon and at others; what daemons then do can be replayed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace

from isotone.client import Message, Session, connect
from isotone.client import Settings as ClientSettings
from isotone.core.contract import Address, Event
from isotone.core.ids import ClientId, DaemonId
from isotone.daemon.composition import Composition, Hooks
from isotone.daemon.engine import Lane
from isotone.daemon.holding import Holding
from isotone.daemon.node_settings import NodeSettings
from isotone.daemon.spread import GatewaySettings, SpreadGateway
from isotone.evs.membership import MembershipSettings
from isotone.evs.sessions.notices import GroupsHeld
from isotone.evs.sessions.server import ServerSessions
from isotone.evs.sessions.settings import ServerSettings, SlowPolicy
from isotone.evs.stack import Stack, StackSettings
from isotone.evs.transport import TransportSettings
from isotone.sim.stack_journal import replay_journal
from tests.daemon.local_cluster import DEADLINE_S, LocalCluster, local_cluster, traced
from tests.daemon.spread.slow_clients import gateway_of, read_room, send_to_room

ME = DaemonId("d", 1)
OLD, NATIVE = ClientId(ME, "old", 1), ClientId(ME, "native", 2)
BOUND, BODY = 2_000_000, 20_000


# --- by hand -------------------------------------------------------------------------------------------------------


class Gateway(SpreadGateway):
    """With readers that a test makes slow."""

    slow: tuple[ClientId, ...] = ()
    closed: frozenset[str] = frozenset()

    @property
    def blocking(self) -> tuple[ClientId, ...]:
        return self.slow

    @property
    def blocked_groups(self) -> frozenset[str]:
        return self.closed


class Native:
    """In the place of a native session that blocks."""

    client = NATIVE


def test_each_side_hears_what_readers_of_the_other_and_elsewhere_want_held() -> None:
    sessions = ServerSessions(ME, secret=bytes(16))
    stack = Stack(
        me=ME, identity=bytes(16), site="s", address=Address("d.1"), settings=StackSettings(), sessions=sessions
    )
    gateway = Gateway(ME, next_id=sessions.next_id)
    lanes = Lane("stack", stack), Lane("spread", gateway)
    posted: list[tuple[str, Event]] = []
    engine = SimpleNamespace(post=lambda lane, event: posted.append((lane.label, event)))
    holding = Holding(engine, *lanes)  # type: ignore[arg-type]

    def settled(at: int) -> list[tuple[str, Event]]:
        posted.clear()
        holding.settle(at)
        return list(posted)

    assert settled(1) == []
    gateway.slow, gateway.closed = (OLD,), frozenset({"g", "#old#d"})
    assert settled(2) == [("stack", GroupsHeld(2, ("#old#d", "g"), (OLD,)))]
    assert settled(3) == [], "only what changed"
    stack.groups.holds._groups = frozenset({"far"})
    assert settled(4) == [("spread", GroupsHeld(4, ("far",)))], "and never what it wants held itself"
    sessions._table.slow.blocking[Native()] = None  # type: ignore[index]
    assert settled(5) == [("spread", GroupsHeld(5, ("#native#d", "far")))]
    sessions._table.slow.blocking.clear()
    stack.groups.holds._groups = frozenset()
    gateway.slow, gateway.closed = (), frozenset()
    assert settled(6) == [("spread", GroupsHeld(6, ())), ("stack", GroupsHeld(6, ()))]


# --- two daemons on loopback ---------------------------------------------------------------------------------------


def build(around: Composition) -> SpreadGateway:
    settings = GatewaySettings(
        inbox_bytes_max=64 * 1024, methods=("IP", "NULL"), buffer_bytes_max=BOUND, policy=SlowPolicy.BLOCK
    )
    return SpreadGateway(around.me, next_id=around.next_id, name_in_use=around.name_in_use, settings=settings)


def base(tmp_path: Path) -> NodeSettings:
    """What may be in flight is little beside the bound."""
    transport = TransportSettings(waiting_bytes_max=100_000, site_window_bytes=400_000)
    membership = MembershipSettings(transport=transport, waiting_bytes_max=100_000)
    return traced(
        tmp_path,
        stack=StackSettings(membership=membership),
        sessions=ServerSettings(buffer_bytes_max=BOUND, window_bytes=100_000, policy=SlowPolicy.BLOCK),
        spread_shares_port=True,
        journal=tmp_path / "journal",
    )


def replayed(tmp_path: Path) -> None:
    journals = sorted((tmp_path / "journal").glob("*.journal"))
    assert len(journals) == 2
    for path in journals:
        found = replay_journal(path)
        assert found.differs_at is None and found.compared == found.events > 20


def test_native_senders_at_another_daemon_wait_for_readers_of_spread(tmp_path: Path) -> None:
    joined, reads = threading.Event(), threading.Event()

    async def stand_still(cluster: LocalCluster, sender: Session) -> int:
        """Send until nothing is taken any more; how many were, and one is under way."""
        far, near = cluster.nodes["d2"], cluster.nodes["d1"]
        sent = 0

        async def send() -> None:
            nonlocal sent
            while not reads.is_set():
                await sender.send("room", sent.to_bytes(4, "big") + bytes(BODY))
                sent += 1

        sending = asyncio.create_task(send())
        await cluster.until(lambda: "room" in far.stack.groups.holds.groups)
        (session,) = far.stack.sessions.all if far.stack.sessions else ()
        await cluster.until(lambda: bool(session.inbox) and session.credit.granted - session.credit.received < BODY)
        assert BOUND // 2 < gateway_of(near).held_bytes < 2 * BOUND and gateway_of(near).blocking
        before = sent
        reads.set()
        await sending
        assert sent > before, "it goes on"
        return sent

    async def main() -> None:
        async with (
            local_cluster(tmp_path, ("d1", "d2"), base=base(tmp_path), hooks=Hooks(spread=build)) as cluster,
            connect(cluster.nodes["d2"].address, name="sender") as sender,
        ):
            near = cluster.nodes["d1"]
            reading = asyncio.create_task(asyncio.to_thread(read_room, near.address, joined, reads))
            assert await asyncio.to_thread(joined.wait, DEADLINE_S)
            sent = await stand_still(cluster, sender)
            await sender.send("room", (-1).to_bytes(4, "big", signed=True))
            assert await reading == [*range(sent), -1]
            assert not gateway_of(near).counters.ended["slow"] and not gateway_of(near).blocking

    asyncio.run(asyncio.wait_for(main(), 2 * DEADLINE_S))
    replayed(tmp_path)


def test_senders_of_spread_at_another_daemon_wait_for_native_readers(tmp_path: Path) -> None:
    async def main() -> None:
        small = ClientSettings(inbox_bytes_max=10_000)
        async with (
            local_cluster(tmp_path, ("d1", "d2"), base=base(tmp_path), hooks=Hooks(spread=build)) as cluster,
            connect(cluster.nodes["d2"].address, name="native") as native,
            connect(cluster.nodes["d1"].address, name="reader", settings=small) as reader,
        ):
            room = await reader.join("room")
            far = cluster.nodes["d2"]

            async def fill() -> None:
                while "room" not in far.stack.groups.holds.groups:
                    await native.send("room", bytes(BODY))

            filling = asyncio.create_task(fill())
            await cluster.until(lambda: "room" in far.stack.groups.holds.groups)
            gateway, done = gateway_of(far), threading.Event()
            talking = asyncio.create_task(asyncio.to_thread(send_to_room, far.address, done))
            await cluster.until(lambda: gateway.counters.frames_received > 0)
            assert gateway.counters.messages_sent == 0, "they wait"
            done.set()
            heard = 0
            while heard < 40:
                event = await room.receive()
                heard += isinstance(event, Message) and len(event.body) == 1000
            await asyncio.gather(talking, filling)
            assert gateway.counters.messages_sent == 41

    asyncio.run(asyncio.wait_for(main(), 2 * DEADLINE_S))
    replayed(tmp_path)
