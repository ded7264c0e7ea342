"""The life of a node: readiness from live state, reloading, what ends it, what it tells about itself."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from pathlib import Path

import msgspec
import pytest

from isotone.client import connect
from isotone.core.addresses import split_address
from isotone.core.contract import Address, DatagramsReceived, PersistFailed, TimerFired
from isotone.core.errors import InputError, MachineError
from isotone.daemon.complaints import is_of_spread
from isotone.daemon.node import Node, Phase
from isotone.daemon.node_settings import NodeSettings
from isotone.daemon.security.packets import Kind
from isotone.evs.membership import KnownDaemon
from isotone.evs.membership.messages import MARK, Alive
from tests.daemon.local_cluster import DEADLINE_S, local_cluster, traced
from tests.ports import free_port


def run(main: object) -> None:
    asyncio.run(asyncio.wait_for(main, 2 * DEADLINE_S))  # type: ignore[arg-type]


def test_it_is_ready_when_the_first_daemon_view_is_there_and_not_before(tmp_path: Path) -> None:
    async def main() -> None:
        base = traced(tmp_path)
        membership = msgspec.structs.replace(base.stack.membership, first_wait_us=20_000)
        settings = msgspec.structs.replace(base, stack=msgspec.structs.replace(base.stack, membership=membership))
        node = Node(settings)
        assert node.why_not_ready == "not started"
        await node.start()
        assert not node.is_ready and node.why_not_ready
        await node.ready()
        assert node.is_ready and node.status().ready
        await node.stop()
        assert node.why_not_ready == "ended"
        with pytest.raises(MachineError, match="not running"):
            await node.ready()

    run(main())


def test_who_waits_for_a_node_that_ends_hears_why() -> None:
    async def main() -> None:
        base = NodeSettings(name="d1")
        membership = msgspec.structs.replace(base.stack.membership, first_wait_us=60_000_000)
        node = Node(msgspec.structs.replace(base, stack=msgspec.structs.replace(base.stack, membership=membership)))
        await node.start()
        waiting = asyncio.create_task(node.ready())
        await asyncio.sleep(0)
        node.abort("pulled the plug")
        with pytest.raises(MachineError, match="pulled the plug"):
            await waiting
        assert await node.closed() == "pulled the plug"

    run(main())


def test_packets_of_spreads_monitor_get_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        node = Node(NodeSettings(name="d1"))
        await node.start()
        monitor = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for number in range(5):
            monitor.sendto(struct.pack("<II", 0x80040080, number), split_address(node.address))
        async with asyncio.timeout(DEADLINE_S):
            while node.shell.datagrams.counters.datagrams_received < 5:
                await asyncio.sleep(0)
        monitor.close()
        await node.stop()

    run(main())
    assert caplog.text.count("UDP from 127.0.0.1 looks like that of Spread's daemons or its monitor") == 1


def test_no_packet_of_ours_looks_like_one_of_spread() -> None:
    for first in (MARK, *Kind, *range(128)):
        assert not is_of_spread(bytes([first, 0, 0, 255]))
    assert is_of_spread(b"\x80\x00\x04\x80") and not is_of_spread(b"\x80") and not is_of_spread(b"\x80\x00\x00\x00")


def test_a_bug_ends_the_node_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        node = Node(NodeSettings(name="d1"))
        await node.start()

        def broken(event: object) -> None:
            raise AssertionError("the sky fell")

        node.shell.stack_lane.handle = broken  # type: ignore[assignment]
        node.shell.engine.take(node.shell.stack_lane, TimerFired(node.now(), "x"))
        assert node.phase is Phase.ENDED
        assert "stack failed on TimerFired: AssertionError: the sky fell" in await node.closed()
        await node.stop()

    with caplog.at_level(logging.CRITICAL):
        run(main())
    assert "stack failed on TimerFired" in caplog.text


def test_an_automaton_that_cannot_go_on_ends_the_node() -> None:
    async def main() -> None:
        node = Node(NodeSettings(name="d1"))
        await node.start()
        await node.ready()
        node.shell.engine.take(node.shell.stack_lane, PersistFailed(node.now(), 99, "the disk is gone"))
        assert "the disk is gone" in await node.closed()

    run(main())


def test_garbage_is_dropped_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        node = Node(NodeSettings(name="d1"))
        await node.start()
        await node.ready()
        membership = node.stack.membership.node
        sealed = b"".join(membership.envelope.seal(Alive(membership.card())))
        for end in range(len(sealed)):
            for _ in range(2):
                event = DatagramsReceived(node.now(), Address("127.0.0.1:9"), sealed[: end + 1], end + 1)
                node.shell.engine.take(node.shell.below, event)
        assert node.is_ready
        refused = node.counts()["refused"]
        assert sum(refused.values()) >= 2
        assert caplog.text.count("127.0.0.1:9") == len(refused)
        await node.stop()

    with caplog.at_level(logging.WARNING):
        run(main())


def test_reload_takes_what_it_can_and_names_the_rest(tmp_path: Path) -> None:
    async def main() -> None:
        async with local_cluster(tmp_path, ("d1",)) as cluster:
            node = cluster.nodes["d1"]
            with pytest.raises(InputError, match="without a settings file"):
                await node.reload()
            before = node.settings
            known = (KnownDaemon("d2", "lan", Address("127.0.0.1:9")),)
            membership = msgspec.structs.replace(before.stack.membership, known=known)
            stack = msgspec.structs.replace(before.stack, membership=membership)
            trace = msgspec.structs.replace(before.trace, directory=tmp_path / "elsewhere", age_max_s=7)
            wanted = msgspec.structs.replace(before, stack=stack, port=9, faults=True, trace=trace)

            async def read() -> tuple[NodeSettings, list[str]]:
                return wanted, ["the access list changed"]

            node.read_settings = read
            said = await node.reload()
            assert "d2" in node.stack.membership.node.peers.by_name
            restart = ["port changed: that needs a restart", "trace.directory changed: that needs a restart"]
            assert said[1:] == ["faults: enabled", *restart, "the access list changed"]
            assert await node.reload() == [*restart, "the access list changed"], "it still runs as it did"
            recorded = node.shell.recording.settings
            assert (recorded.directory, recorded.age_max_s) == (before.trace.directory, 7)
            assert node.settings.port == before.port
            node.set_fault_rules([{"daemon": "d2", "cut": True}])
            assert node.fault_rules()
            wanted = before
            said = await node.reload()
            assert "d2 removed" in said[0]
            assert said[1:] == ["faults: not enabled any more, and healed", "the access list changed"]
            assert node.fault_rules() is None
            with pytest.raises(InputError, match="not enabled"):
                node.set_fault_rules([])
            assert "d2" not in node.stack.membership.node.peers.by_name

    run(main())


def test_what_it_tells_about_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with local_cluster(tmp_path, ("d1", "d2")) as cluster:
            node = cluster.nodes["d1"]
            status = msgspec.json.decode(msgspec.json.encode(node.status()))
            assert status["ready"] and status["name"] == "d1" and status["counters"]["node"]["datagrams_sent"] > 0
            assert node.counts()["node"]["events"] > 0
            assert set(node.directories()) == {"state", "trace"}
            assert "daemon view" in msgspec.json.encode(node.explain("view")).decode()
            assert node.explain("exclusion", daemon="d2").text
            with pytest.raises(InputError):
                node.explain("weather")
            node.set_trace_level("off")
            assert node.trace_status().level == node.trace_level == "off"
            with pytest.raises(InputError, match="not a level"):
                node.set_trace_level("loud")
            node.set_trace_level("full")

    run(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_both_families_and_multicast(tmp_path: Path, host: str) -> None:
    async def main() -> None:
        group = f"239.255.77.77:{free_port()}" if host == "127.0.0.1" else ""
        base = traced(tmp_path, host=host, multicast=group)
        async with local_cluster(tmp_path, ("d1", "d2"), base=base) as cluster:
            for node in cluster.nodes.values():
                assert node.shell.datagrams.has_group == bool(group)
                assert node.stack.membership.node.network.transport.ring  # type: ignore[union-attr]
            first, second = cluster.nodes.values()
            before = second.counts()["node"]["datagrams_received"]
            async with asyncio.timeout(DEADLINE_S):
                me = await connect(first.address, name="alice")
                await me.join("chat")
                await me.close()
            assert second.counts()["node"]["datagrams_received"] > before

    run(main())
