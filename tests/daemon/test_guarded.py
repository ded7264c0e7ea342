"""Daemons with keys: what the guard sends and takes passes through the shell as batches, on UDP and on streams."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from isotone.daemon.composition import Composition, Hooks
from isotone.daemon.security import Guard, Identity, Roster
from isotone.daemon.security.keys import KeyPair, generate_key
from isotone.evs.membership import LinkPlan
from isotone.evs.overlay.topology import LinkProtocol
from tests.daemon.local_cluster import DEADLINE_S, local_cluster, traced
from tests.daemon.test_cluster import judge, one_order


def guarded(directory: Path, names: tuple[str, ...]) -> Hooks:
    directory.mkdir()
    pairs: dict[str, KeyPair] = {name: generate_key(directory / f"{name}.key") for name in names}
    roster = Roster("isotone", {name: pair.public for name, pair in pairs.items()}, None, frozenset())

    def build(around: Composition) -> Guard:
        return Guard(Identity(around.me, pairs[around.me.name]), roster, around.random_bytes)

    return Hooks(guard=build)


def test_daemons_with_keys_form_a_view_and_serve(tmp_path: Path) -> None:
    names = ("d1", "d2", "d3")

    async def main() -> None:
        hooks = guarded(tmp_path / "keys", names)
        async with local_cluster(tmp_path, names, base=traced(tmp_path), hooks=hooks) as cluster:
            await one_order(cluster, 9)
            assert all(node.counts()["guard"] for node in cluster.nodes.values())
            cluster.nodes["d3"].abort()
            await cluster.together("d1", "d2")
            await cluster.nodes["d3"].closed()
            await cluster.start("d3")
            await cluster.together()
        cluster.finish_trace()

    asyncio.run(asyncio.wait_for(main(), 2 * DEADLINE_S))
    assert not judge(tmp_path).get("not_judged")


def test_a_daemon_without_the_key_is_left_out(tmp_path: Path) -> None:
    async def main() -> None:
        hooks = guarded(tmp_path / "keys", ("d1", "d2"))
        async with local_cluster(tmp_path, ("d1", "d2"), hooks=hooks) as cluster:
            cluster.names = ("d1", "d2", "x")
            cluster.hooks = None
            await cluster.start("x")
            await cluster.until(lambda: any(node.guard.counters.refused for node in list(cluster.nodes.values())[:2]))
            for name in ("d1", "d2"):
                assert [m.name for m in cluster.nodes[name].stack.membership.members] == ["d1", "d2"]

    asyncio.run(asyncio.wait_for(main(), 2 * DEADLINE_S))


@pytest.mark.parametrize("has_keys", [False, True])
def test_links_over_tcp_between_sites(tmp_path: Path, has_keys: bool) -> None:
    """The streams of daemons pass the guard as well, where there is one."""
    base = traced(tmp_path)
    plans = (LinkPlan(a="north", b="south", protocol=LinkProtocol.TCP),)
    membership = msgspec.structs.replace(base.stack.membership, links=plans)
    base = msgspec.structs.replace(base, stack=msgspec.structs.replace(base.stack, membership=membership))
    sites = {"d1": "north", "d2": "south"}

    async def main() -> None:
        hooks = guarded(tmp_path / "keys", ("d1", "d2")) if has_keys else None
        async with local_cluster(tmp_path, ("d1", "d2"), base=base, hooks=hooks, sites=sites) as cluster:
            await one_order(cluster, 6)
            assert sum(node.counts()["node"]["streams_opened"] for node in cluster.nodes.values()) >= 1

    asyncio.run(asyncio.wait_for(main(), 2 * DEADLINE_S))
