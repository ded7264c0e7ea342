"""Real daemons from settings, in this process: one that knows another's address alone finds it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from isotone.daemon.node import Node
from isotone.daemon.settings import DaemonSettings, dev_settings
from isotone.daemon.settings.composition import node_settings
from isotone.daemon.settings.discovery import Discovery, keep_looking, system_resolver
from isotone.daemon.settings.tables import Cluster
from isotone.evs.membership import PeersChanged

WITHIN_S = 20


def settings(directory: Path, name: str, *seeds: str) -> DaemonSettings:
    base = dev_settings(0, directory=directory / name, name=name, admin_port=0, spread=False)
    cluster: Cluster = msgspec.structs.replace(base.cluster, seeds=seeds)
    trace = msgspec.structs.replace(base.trace, level="off")
    return msgspec.structs.replace(base, cluster=cluster, trace=trace)


async def together(*nodes: Node) -> None:
    """Until each has all of them in its daemon view; looks after every wake-up of any."""
    woken = asyncio.Event()
    for node in nodes:
        node.observers.append(lambda at: woken.set())
    while not all(len(node.stack.membership.members) == len(nodes) for node in nodes):
        woken.clear()
        await woken.wait()


def test_a_seed_brings_two_daemons_together(tmp_path: Path) -> None:
    async def run() -> None:
        first = Node(node_settings(settings(tmp_path, "d1"), "d1"))
        await first.start()
        second = Node(node_settings(settings(tmp_path, "d2", str(first.address)), "d2"))
        await second.start()
        try:
            await asyncio.wait_for(together(first, second), WITHIN_S)
        finally:
            await second.stop()
            await first.stop()

    asyncio.run(run())


def test_a_host_name_is_looked_up_and_told(tmp_path: Path) -> None:
    async def run() -> None:
        port = 4803
        discovery = Discovery(settings(tmp_path, "d1", f"localhost:{port}"), "d1")
        told: asyncio.Queue[PeersChanged] = asyncio.Queue()
        looking = asyncio.create_task(
            keep_looking(discovery, told.put_nowait, now=lambda: 1, resolver=system_resolver, interval_ms=60_000)
        )
        event = await asyncio.wait_for(told.get(), WITHIN_S)
        looking.cancel()
        assert event.seeds == (f"127.0.0.1:{port}",)

    asyncio.run(run())
