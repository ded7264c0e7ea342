"""Two runs of four real daemons with clients, on which [Spread 6] is judged: one through partition, merge, crash and
return, one through changes that break each other off. Traffic of all services crosses every change.

Made once, because they are the same for every theorem.
"""

from __future__ import annotations

from functools import cache

import msgspec

from isotone.core.services import Service
from isotone.evs.membership import MembershipSettings
from isotone.evs.stack import StackSettings
from isotone.sim.full_cluster import FullCluster
from isotone.spec.check import Report, check
from isotone.trace.events import Row
from tests.paper.history import History, of_clients, of_daemons

SITES = {"a": "x", "b": "x", "c": "y", "d": "z"}
CLIENTS = {"a": "alice", "b": "bob", "c": "carol", "d": "dave"}
SERVICES = tuple(Service)[1:]
GROUPS = ("chat", "news", "home")


class Told(msgspec.Struct):
    """The trace, what the checkers say of it, and how it reads."""

    rows: list[Row]
    report: Report
    daemons: History
    clients: dict[str, History]


@cache
def told() -> Told:
    """Partition, merge, crash and return."""
    cluster = FullCluster(*SITES, seed=3, sites=SITES, settings=recorded())
    _play(cluster)
    return _read(cluster.rows)


@cache
def told_of_cascades() -> Told:
    """Messages that only some have, and attempts that break: what was committed must hold."""
    cluster = FullCluster(*SITES, seed=5, sites={name: name for name in SITES}, settings=recorded())
    _cascade(cluster)
    return _read(cluster.rows)


def _read(rows: list[Row]) -> Told:
    return Told(rows, check(rows), of_daemons(rows), {group: of_clients(rows, group) for group in GROUPS})


def recorded() -> StackSettings:
    """With everything that the network does in the trace."""
    membership = MembershipSettings()
    transport = msgspec.structs.replace(membership.transport, record_network=True)
    return StackSettings(pruning=False, membership=msgspec.structs.replace(membership, transport=transport))


def _play(cluster: FullCluster) -> None:
    for node, client in CLIENTS.items():
        cluster.join(node, client, "chat")
    for node, client in (("a", "alice"), ("b", "bob"), ("c", "carol")):
        cluster.join(node, client, "news")
    for client in ("alice", "ann"):
        cluster.join("a", client, "home")
    assert cluster.run_until_quiet()
    _talk(cluster, "abcd", 20)
    cluster.partition("ab", "cd")
    cluster.join("b", "bert", "chat")  # behind the signal
    _talk(cluster, "abcd", 10)
    assert cluster.run_until_quiet()
    _talk(cluster, "acbd", 10)
    cluster.leave("b", "bob", "news")
    cluster.leave("c", "carol", "news")
    cluster.disconnect("b", "bert")
    assert cluster.run_until_quiet()
    cluster.heal()
    _talk(cluster, "abcd", 20)
    assert cluster.run_until_quiet()
    _talk(cluster, "dabc", 10)
    cluster.disconnect("b", "bob")
    _talk(cluster, "dacd", 5)
    cluster.run_for(3)
    cluster.crash("d")  # with messages under way
    _talk(cluster, "abc", 5)
    cluster.join("c", "carol", "news")
    assert cluster.run_until_quiet()
    cluster.restart("d")
    cluster.join("d", "dave", "chat")
    cluster.join("b", "bob", "chat")
    assert cluster.run_until_quiet()
    _talk(cluster, "abcd", 10)
    assert cluster.finish()


def _cascade(cluster: FullCluster) -> None:
    for node, client in CLIENTS.items():
        cluster.join(node, client, "chat")
    assert cluster.run_until_quiet()
    cluster.cut("d", "c")  # a and b have what d says, c has not
    cluster.cut("a", "b", one_way=True)
    _talk(cluster, "dabc", 12)
    cluster.crash("d")
    cluster.mend("a", "b", one_way=True)
    assert cluster.run_until_state("c", "EVS")
    cluster.crash("a")  # the coordinator, when some have committed
    assert cluster.run_until_state("b", "STATETRANS")
    cluster.restart("a")
    _talk(cluster, "bc", 4)
    cluster.partition("a", "bc")
    assert cluster.run_until_state("b", "EVS")
    cluster.partition("ab", "c")  # b and c part when they are about to install
    assert cluster.run_until_quiet()
    cluster.join("a", "alice", "chat")
    _talk(cluster, "abc", 6)
    cluster.heal()
    assert cluster.run_until_state("a", "GGATHER")
    cluster.pause("c")
    cluster.run_for(2_000)
    cluster.resume("c")
    _talk(cluster, "cab", 6)
    assert cluster.finish()


def _talk(cluster: FullCluster, nodes: str, times: int) -> None:
    """Sends that cross each other, of all services, now and then to two groups."""
    for turn in range(times):
        node = nodes[turn * 7 % len(nodes)]
        groups = ["chat", "news"] if turn % 3 == 2 else ["home" if turn % 7 == 6 else "chat"]
        cluster.send(node, CLIENTS[node], groups, f"{node}{turn}", service=SERVICES[(turn * 3 + turn // 5) % 5])
        cluster.run_for(turn * 37 % 9)
