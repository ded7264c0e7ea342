"""Throughput of a source that sends as fast as it can: directly to every site, or over one shared tree.

Six sites as on the thesis' map, each pair with a rate of its own; the tree follows the good ones. Throughput is that of
the slowest receiver. Implements: [Spread Table 4.1], which has tcp links; here are both protocols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isotone.core.contract import Action, Address, Event
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.core.services import Service
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import UnitKind
from isotone.evs.overlay.topology import (
    LinkProtocol,
    Topology,
    fanout,
    make_link,
    make_site,
    make_topology,
    shared_tree,
)
from isotone.evs.transport import DeliverUnits, Submitted, Transport, TransportView
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.process import Boot
from isotone.sim.world import World

SITES = ("cnds", "hopkins", "maeeast", "osu", "rutgers", "ucsb")
SOURCES = ("maeeast", "cnds", "rutgers", "ucsb")
TREE = {("cnds", "hopkins"), ("cnds", "maeeast"), ("maeeast", "rutgers"), ("maeeast", "osu"), ("osu", "ucsb")}
TREE_KBIT, CNDS_KBIT, OTHER_KBIT = 600, 750, 350
SLOW_KBIT = {("rutgers", "ucsb"): 200, ("osu", "rutgers"): 220, ("maeeast", "ucsb"): 520, ("hopkins", "maeeast"): 520}
LATENCY_US = 20_000
QUEUE_BYTES = 16 * 1024  # a fifth of a second at 600 kbit/s
MESSAGE_BYTES = 1_024
LABEL = "daemon"
START_US = 1_000_000


def throughput_by_routing(
    *, probes: int = 1_000, protocols: Sequence[LinkProtocol] = tuple(LinkProtocol)
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One row for each protocol and source; ``probes`` messages are sent."""
    rows = []
    for protocol in protocols:
        whole = _topology(protocol)
        for source in SOURCES:
            row: dict[str, Any] = {"protocol": protocol.value, "source": source}
            for name, topology in (("fanout", fanout(whole)), ("tree", shared_tree(whole))):
                row[f"{name}_kbit_per_second"] = round(_throughput(topology, source, probes), 1)
            rows.append(row)
    used = {
        "sites": list(SITES),
        "latency_us": LATENCY_US,
        "queue_bytes": QUEUE_BYTES,
        "message_bytes": MESSAGE_BYTES,
        "probes": probes,
    }
    return used, rows


def kbit(one: str, other: str) -> int:
    """The rate between two sites."""
    pair = (min(one, other), max(one, other))
    if pair in SLOW_KBIT:
        return SLOW_KBIT[pair]
    if pair in TREE:
        return TREE_KBIT if "cnds" not in pair else CNDS_KBIT
    return CNDS_KBIT if "cnds" in pair else OTHER_KBIT


def _topology(protocol: LinkProtocol) -> Topology:
    pairs = [(one, other) for one in SITES for other in SITES if one < other]
    links = [make_link(a, b, 1 if (a, b) in TREE else 10, protocol) for a, b in pairs]
    return make_topology([make_site(site, [f"d{site}"]) for site in SITES], links)


class _Receivers:
    """All sites: when each had the last message."""

    def __init__(self, world: World, view: TransportView, count: int) -> None:
        self.finished: dict[str, int] = {}
        self.world, self.count = world, count
        self._view = view

    def program(self, boot: Boot) -> Mapping[str, _Receiver]:
        """One site."""
        return {LABEL: _Receiver(self, boot.site, Transport(me=boot.daemon.name, view=self._view))}


class _Receiver:
    """A transport that notes when the last message came."""

    def __init__(self, all_receivers: _Receivers, site: str, transport: Transport) -> None:
        self._all, self._site, self._transport = all_receivers, site, transport
        self._left = all_receivers.count

    def handle(self, event: Event) -> list[Action]:
        """Take one event."""
        out: list[Action] = []
        for action in self._transport.handle(event):
            if isinstance(action, DeliverUnits):
                self._left -= len(action.units)
                if not self._left:
                    self._all.finished[self._site] = self._all.world.now
            else:
                out.append(action)
        return out


def _throughput(topology: Topology, source: str, count: int) -> float:
    world = World(seed=1, network=NetworkSettings(wan=LinkSettings(latency_us=LATENCY_US, jitter_us=0)))
    members = tuple(DaemonId(f"d{site}", 1) for site in SITES)
    addresses = {member.name: Address(f"{member.name}.1") for member in members}
    receivers = _Receivers(world, TransportView(DaemonViewId(1, members[0]), members, topology, addresses), count)
    for site in SITES:
        world.add_process(f"d{site}", receivers.program, site=site)
    _limit(world)
    drafts = [Draft("s", UnitKind.BUNDLE, Service.RELIABLE, bytes(MESSAGE_BYTES))] * count
    world.at(START_US, lambda: world.tell(f"d{source}", LABEL, Submitted(0, drafts)))
    assert world.run_until_quiet(600_000_000) and len(receivers.finished) == len(SITES)
    return count * MESSAGE_BYTES * 8 * 1_000 / (max(receivers.finished.values()) - START_US)


def _limit(world: World) -> None:
    for one in SITES:
        for other in SITES:
            if one != other:
                rate = kbit(one, other) * 1_000 // 8
                settings = LinkSettings(
                    latency_us=LATENCY_US, jitter_us=0, bandwidth_bytes_per_second=rate, queue_bytes_max=QUEUE_BYTES
                )
                world.network.link(f"d{one}", f"d{other}").change(settings)
