"""Faults on purpose: who is hit, what is counted, and streams that stand still."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from isotone.core.contract import Address
from isotone.core.errors import InputError
from isotone.daemon.faults import FaultRule, Faults
from isotone.daemon.offload import Parts
from isotone.evs.membership import LinkPlan
from isotone.evs.overlay.topology import LinkProtocol
from tests.daemon.local_cluster import DEADLINE_S, local_cluster, traced

NAMES = {Address("h:1"): "d1", Address("h:2"): "d2"}


class Bench:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.sent: list[Address] = []
        self.changes = 0
        self.arrived = asyncio.Event()
        self.faults = Faults(
            loop,
            name_of=lambda address: NAMES.get(address, ""),
            is_known=lambda name: name in NAMES.values(),
            send=self._send,
            changed=self._changed,
        )

    def _send(self, destination: Address, datagrams: Sequence[Parts]) -> None:
        self.sent.append(destination)
        self.arrived.set()

    def _changed(self) -> None:
        self.changes += 1


def on_bench(check: object) -> None:
    async def main() -> None:
        await check(Bench(asyncio.get_running_loop()))  # type: ignore[operator]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("rule", "takes", "loses"),
    [
        (FaultRule(daemon="d1", cut=True), True, True),
        (FaultRule(daemon="d1", cut=True, receive_only=True), True, False),
        (FaultRule(daemon="d1", cut=True, send_only=True), False, True),
        (FaultRule(daemon="d1", drop=1.0), True, False),
        (FaultRule(daemon="d2", cut=True), False, False),
    ],
)
def test_a_rule_hits_its_daemon_in_its_direction(rule: FaultRule, takes: bool, loses: bool) -> None:
    async def check(bench: Bench) -> None:
        bench.faults.replace([rule])
        assert bench.faults.takes(Address("h:1"), [[b"x"], [b"y"]]) is takes
        assert bench.faults.loses(Address("h:1")) is loses
        assert bench.faults.dropped == 2 * takes + loses
        assert not bench.faults.takes(Address("elsewhere:9"), [[b"x"]])
        bench.faults.heal()
        assert not bench.faults.takes(Address("h:1"), [[b"x"]]) and not bench.faults.loses(Address("h:1"))
        assert bench.changes == 2

    on_bench(check)


def test_what_is_delayed_comes_later() -> None:
    async def check(bench: Bench) -> None:
        bench.faults.replace([FaultRule(daemon="d1", delay_us=2_000)])
        assert bench.faults.takes(Address("h:1"), [[b"x"]])
        assert bench.sent == []
        await asyncio.wait_for(bench.arrived.wait(), DEADLINE_S)
        assert bench.sent == ["h:1"] and bench.faults.delayed == 1

    on_bench(check)


def test_nonsense_changes_nothing() -> None:
    async def check(bench: Bench) -> None:
        bench.faults.cut("d1")
        for rule in (FaultRule(daemon="nobody"), FaultRule(daemon="d1", drop=2.0), FaultRule(daemon="d1", delay_us=-1)):
            with pytest.raises(InputError):
                bench.faults.replace([rule])
        assert [each.daemon for each in bench.faults.rules()] == ["d1"]

    on_bench(check)


def test_a_link_over_tcp_stands_still_while_it_is_cut(tmp_path: Path) -> None:
    plans = (LinkPlan(a="north", b="south", protocol=LinkProtocol.TCP),)
    base = traced(tmp_path, faults=True)
    membership = msgspec.structs.replace(base.stack.membership, links=plans)
    base = msgspec.structs.replace(base, stack=msgspec.structs.replace(base.stack, membership=membership))
    sites = {"d1": "north", "d2": "south"}

    async def main() -> None:
        async with local_cluster(tmp_path, ("d1", "d2"), base=base, sites=sites) as cluster:
            first, second = cluster.nodes["d1"], cluster.nodes["d2"]
            first.set_fault_rules([{"daemon": "d2", "cut": True}])
            second.set_fault_rules([{"daemon": "d1", "cut": True}])
            await cluster.together("d1")
            await cluster.together("d2")
            with pytest.raises(InputError, match="not a fault"):
                first.set_fault_rules([{"daemon": "d2", "kut": True}])
            assert first.fault_rules() == [msgspec.structs.asdict(FaultRule(daemon="d2", cut=True))]
            first.set_fault_rules([])
            second.set_fault_rules([])
            await cluster.together()

    asyncio.run(asyncio.wait_for(main(), 2 * DEADLINE_S))


def test_without_the_setting_there_are_none(tmp_path: Path) -> None:
    async def main() -> None:
        async with local_cluster(tmp_path, ("d1",)) as cluster:
            node = cluster.nodes["d1"]
            assert node.faults is None and node.fault_rules() is None
            with pytest.raises(InputError, match="not enabled"):
                node.set_fault_rules([])

    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (FaultRule(daemon="d2", cut=True), "d2: cut"),
        (FaultRule(daemon="d2", cut=True, receive_only=True), "d2: cut sending"),
        (FaultRule(daemon="d2", delay_us=5, drop=0.25), "d2: delay 5 us, drop 0.25"),
        (FaultRule(daemon="d2"), "d2: nothing"),
    ],
)
def test_a_rule_in_words(rule: FaultRule, told: str) -> None:
    assert rule.told == told
