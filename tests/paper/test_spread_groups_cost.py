"""[Spread 6.4]: what joins and leaves of clients cost the daemons: one SAFE message, and no synchronisation.

Counted is all that the daemons send to each other, from the packets up, while nobody does anything else. What goes on
whether or not somebody joins is left out by name: the ring's token, with what asks for it and acknowledges it, and the
probes of the failure detector with their answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from isotone.core.contract import Action, Event, MulticastDatagrams, SendDatagrams, WriteStream
from isotone.core.services import Service
from isotone.evs.links.ring.token import PacketKind
from isotone.evs.membership.messages import MARK, Envelope
from isotone.evs.stack import Stack
from isotone.sim.full_cluster import FullCluster
from isotone.trace.events import DaemonSent, NetworkSent, ViewDelivered
from tests.paper.membership_run import recorded

GOES_ON_ANYWAY = {"TOKEN", "REQUEST", "SEEN", "Probe", "Answer"}
CLIENTS = {"a": "alice", "b": "bob", "c": "carol"}
APART = {"a": "x", "b": "y", "c": "z"}
Change = Callable[[FullCluster], None]


class Packets:
    """Counts the packets of the daemons of one site by what they are."""

    def __init__(self) -> None:
        self.sent: Counter[tuple[str, str]] = Counter()

    def __call__(self, stack: Stack, event: Event, actions: Sequence[Action]) -> None:
        for action in actions:
            assert not isinstance(action, WriteStream), "nobody is linked by tcp"
            if isinstance(action, SendDatagrams | MulticastDatagrams):
                for parts in action.datagrams:
                    self.sent[stack.me.name, self._kind(b"".join(parts))] += 1

    def _kind(self, packet: bytes) -> str:
        if packet[0] != MARK:
            return PacketKind(packet[0]).name
        return type(Envelope(recorded().membership.cluster).open(memoryview(packet))).__name__

    def because_of_the_change(self) -> dict[tuple[str, str], int]:
        return {each: count for each, count in self.sent.items() if each[1] not in GOES_ON_ANYWAY}


def join(cluster: FullCluster) -> None:
    cluster.join("b", "bert", "chat")


def leave(cluster: FullCluster) -> None:
    cluster.leave("b", "bob", "chat")


def quiet_cluster(sites: dict[str, str] | None, packets: Packets | None) -> FullCluster:
    """Everybody's client is in the group, b has one more that is in none, and nothing is left to do."""
    cluster = FullCluster(*CLIENTS, sites=sites, settings=recorded(), spy=packets)
    for node, client in CLIENTS.items():
        cluster.join(node, client, "chat")
    cluster.connect("b", "bert")
    assert cluster.run_until_quiet()
    cluster.run_for(2_000)
    return cluster


@pytest.mark.parametrize("change", [join, leave])
def test_one_packet_of_data(change: Change) -> None:
    """In one site. That nothing else is left when nothing happens is counted first."""
    packets = Packets()
    cluster = quiet_cluster(None, packets)
    packets.sent.clear()
    cluster.run_for(2_000)
    assert packets.sent and packets.because_of_the_change() == {}
    change(cluster)
    cluster.run_for(2_000)
    assert packets.because_of_the_change() == {("b", "DATA"): 1}


@pytest.mark.parametrize("sites", [None, APART])
@pytest.mark.parametrize("change", [join, leave])
def test_one_safe_message_between_the_daemons(change: Change, sites: dict[str, str] | None) -> None:
    """One unit at B3 and in the network of the daemon view below it (where lines go on anyway), from the one daemon."""
    cluster = quiet_cluster(sites, None)
    before, states = len(cluster.rows), {name: cluster.states(name) for name in CLIENTS}
    change(cluster)
    cluster.run_for(2_000)
    after = [row.entry for row in cluster.rows[before:]]
    sent = [entry for entry in after if isinstance(entry, DaemonSent)]
    assert [(entry.daemon, entry.service, len(entry.lengths)) for entry in sent] == [("b#1", Service.SAFE, 1)]
    assert [entry.daemon for entry in after if isinstance(entry, NetworkSent)] == ["b#1"]
    views = [entry for entry in after if isinstance(entry, ViewDelivered)]
    told = {receiver.split("#")[1] for entry in views for receiver in entry.receivers}
    assert told == ({*CLIENTS.values(), "bert"} if change is join else {"alice", "carol"})
    assert {name: cluster.states(name) for name in CLIENTS} == states == dict.fromkeys(CLIENTS, ("OP", "GOP"))
