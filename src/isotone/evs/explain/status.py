"""A daemon at a glance: daemon view, sites, links, lines, memory, groups, peers, and where timeouts come from."""

from __future__ import annotations

import msgspec

from isotone.detector.timeouts import Timeout
from isotone.evs.explain import inside
from isotone.evs.explain.answers import ViewAnswer
from isotone.evs.explain.views import why_no_view
from isotone.evs.links.contract import LinkCounters
from isotone.evs.membership.counting import links_of
from isotone.evs.membership.network import Network
from isotone.evs.membership.node import Node
from isotone.evs.membership.peers import Peer
from isotone.evs.membership.states import Exclusion
from isotone.evs.stack import Stack


class SiteStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A site of the daemon view and its lines: Lamport times, and sequences in its stream."""

    name: str
    daemons: tuple[str, ...]
    gateway: str
    received: int  # sequences, without a gap
    known: int  # sequences that exist
    line: int
    acknowledged: int  # all its daemons have everything up to here


class LinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The ring of the site, or a link to another site."""

    name: str
    protocol: str
    to: tuple[str, ...]
    room: int
    waiting_bytes: int
    memory_max: int
    counters: LinkCounters


class TimeoutStatus(msgspec.Struct, frozen=True):
    """How long, and where that comes from."""

    us: int
    text: str


class PeerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon that is known, as it is seen from here."""

    name: str
    site: str
    address: str
    incarnation: int | None
    reached: bool
    suspected: str
    silent_us: int
    round_trip_us: int
    variation_us: int
    lost_ppm: int
    timeouts: dict[str, TimeoutStatus]


class LinesStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Up to which Lamport time everything is here, and everywhere; since when they stand still if somebody waits."""

    agreed: int
    stable: int
    lamport: int
    agreed_since: int | None
    stable_since: int | None
    slowest: tuple[str, ...]


class MemoryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes held, by what holds them."""

    kept: int  # units that are not known to be everywhere
    undelivered: int  # units
    unstamped: int
    unstable: int  # of what this daemon stamped
    window: int
    queued: int  # for the next daemon view
    queued_in_groups: int
    unfinished: int  # large messages of which a part came
    links: int


class GroupsStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The groups at this daemon."""

    state: str
    reason: str
    groups: int
    sessions: int
    memberships: int
    joining: int
    held_units: int
    refused: dict[str, int]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. ``version`` is the daemon view's; without a daemon view that works, sites, links and lines are not."""

    text: str
    daemon: str
    site: str
    address: str
    view: ViewAnswer
    version: int | None
    sites: tuple[SiteStatus, ...]
    links: tuple[LinkStatus, ...]
    lines: LinesStatus | None
    memory: MemoryStatus
    groups: GroupsStatus
    peers: tuple[PeerStatus, ...]
    refusals: tuple[Exclusion, ...]
    doubts: int
    entries: dict[str, int]
    room: int


def status(stack: Stack, at: int) -> Status:
    """How a daemon stands."""
    node, network = inside.node_of(stack), inside.installed(stack)
    standing, view = stack.membership.standing(at), why_no_view(stack, at)
    peers = tuple(_peer(node, node.peers.by_name[name], at) for name in sorted(node.peers.by_name))
    reached = sum(each.reached for each in peers)
    groups = _groups(stack)
    return Status(
        text=f"{stack.me} in {node.site}: {view.state}, {len(view.members)} daemons in {view.daemon_view}, "
        f"{reached} of {len(peers)} others reached, {groups.groups} groups, {groups.sessions} sessions",
        daemon=str(stack.me),
        site=node.site,
        address=node.address,
        view=view,
        version=None if network is None else network.version,
        sites=() if network is None else _sites(network),
        links=() if network is None else _links(network, node),
        lines=None if network is None else _lines(network),
        memory=_memory(stack, network),
        groups=groups,
        peers=peers,
        refusals=standing.refusals,
        doubts=standing.doubts,
        entries={reason.name: count for reason, count in standing.entries},
        room=max(0, stack.room),
    )


def _sites(network: Network) -> tuple[SiteStatus, ...]:
    out = []
    for site, stream in zip(network.view.topology.sites, network.transport.delivery.streams):
        out.append(
            SiteStatus(
                name=site.name,
                daemons=site.daemons,
                gateway=site.gateway,
                received=stream.line.contiguous,
                known=stream.known,
                line=stream.line.line,
                acknowledged=stream.line.received_everywhere,
            )
        )
    return tuple(out)


def _links(network: Network, node: Node) -> tuple[LinkStatus, ...]:
    return tuple(
        LinkStatus(
            name=each.name,
            protocol=each.protocol,
            to=each.to,
            room=each.link.room,
            waiting_bytes=each.waiting_bytes,
            memory_max=each.link.memory_max,
            counters=msgspec.structs.replace(each.link.counters),
        )
        for each in links_of(node.me.name, network.view, network.transport)
    )


def _lines(network: Network) -> LinesStatus:
    lines, names = network.transport.delivery.lines, network.view.topology.sites
    agreed_since, stable_since = inside.lines_since(network.transport)
    return LinesStatus(
        agreed=lines.agreed,
        stable=lines.stable,
        lamport=network.lamport,
        agreed_since=agreed_since,
        stable_since=stable_since,
        slowest=tuple(names[site].name for site in lines.slowest()),
    )


def _memory(stack: Stack, network: Network | None) -> MemoryStatus:
    node, groups = inside.node_of(stack), stack.groups
    transport = None if network is None else network.transport
    trunks = transport.gateway.trunks if transport is not None and transport.gateway is not None else []
    ring = 0 if transport is None else transport.ring.counters.buffered_bytes + transport.injection.waiting_bytes
    return MemoryStatus(
        kept=0 if transport is None else transport.delivery.kept_bytes,
        undelivered=0 if transport is None else len(transport.delivery.undelivered()),
        unstamped=0 if transport is None else transport.stamper.waiting_bytes,
        unstable=0 if transport is None else transport.stamper.unstable_bytes,
        window=0 if transport is None else transport.stamper.window_bytes,
        queued=node.waiting_bytes,
        queued_in_groups=groups.waiting_bytes,
        unfinished=inside.unfinished_bytes(groups),
        links=ring + sum(trunk.waiting_bytes + trunk.link.counters.buffered_bytes for trunk in trunks),
    )


def _groups(stack: Stack) -> GroupsStatus:
    groups = stack.groups
    return GroupsStatus(
        state=groups.state.name,
        reason=groups.reason.name,
        groups=len(groups.roster.by_name),
        sessions=len(groups.roster.open),
        memberships=sum(len(group.local) for group in groups.roster.by_name.values()),
        joining=len(groups.desk.joining),
        held_units=len(inside.held_in_groups(groups)),
        refused=dict(sorted(groups.refused.items())),
    )


def _peer(node: Node, peer: Peer, at: int) -> PeerStatus:
    report = inside.peer_report(node, peer.name, at)
    limits = {} if report is None else {name: getattr(report.limits, name) for name in _TIMEOUTS}
    return PeerStatus(
        name=peer.name,
        site=peer.site,
        address=peer.address,
        incarnation=peer.incarnation,
        reached=node.watch.reaches(peer.name),
        suspected=peer.suspected,
        silent_us=0 if report is None else report.silent_us,
        round_trip_us=0 if report is None else report.smoothed_us,
        variation_us=0 if report is None else report.variation_us,
        lost_ppm=0 if report is None else report.lost_ppm,
        timeouts={name: _timeout(limit) for name, limit in limits.items()},
    )


_TIMEOUTS = ("silence", "confirm", "grace", "one_way")


def _timeout(limit: Timeout) -> TimeoutStatus:
    return TimeoutStatus(limit.us, limit.explain())
