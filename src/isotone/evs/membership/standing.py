"""How a daemon stands, as one value: the surface that `explain` reads. It changes nothing, and no paper asks for it."""

from __future__ import annotations

from isotone.evs.membership.node import Node
from isotone.evs.membership.peers import Peer
from isotone.evs.membership.segment import Segment
from isotone.evs.membership.states import Exclusion, Standing, State
from isotone.evs.membership.transfer import Transfer


def standing_of(node: Node, segment: Segment, transfer: Transfer, at: int) -> Standing:
    """All that people may want to know."""
    names, text = _waiting(node, segment, transfer)
    network = node.network
    inside = {member.name for member in (network.view.members if network is not None else node.past.members)}
    peers = [peer for name, peer in sorted(node.peers.by_name.items())]
    return Standing(
        state=node.state,
        reason=node.reason,
        since=node.since,
        view=node.past.id,
        forming=network.id if network is not None and not network.installed else None,
        waiting_for=tuple(names),
        waiting_text=text,
        exclusions=tuple(_exclusion(node, peer, at) for peer in peers if peer.name not in inside),
        refusals=tuple(_refusals(node, peers, at)),
        doubts=node.watch.doubts,
        entries=tuple(sorted(node.entries.items(), key=lambda item: item[0].name)),
    )


def _waiting(node: Node, segment: Segment, transfer: Transfer) -> tuple[list[str], str]:
    match node.state:
        case State.STATETRANS:
            return transfer.missing(), "their states are missing"
        case State.EVS:
            return transfer.missing(), "they have not recovered everything yet"
        case State.REP:
            return [segment.representative], "it represents the site"
        case State.GATHER:
            return [peer.name for peer in node.smaller_representatives()], "smaller representatives may take us along"
        case State.SEG:
            return [], "looking for others in the site"
    return [], ""


def _exclusion(node: Node, peer: Peer, at: int) -> Exclusion:
    """Why somebody whom we know is not with us; the first that applies."""
    if peer.refused:
        return Exclusion(peer.name, f"refused: {peer.refused}", peer.refused_at)
    if peer.gone:
        return Exclusion(peer.name, "it said good-bye", peer.heard_at)
    if peer.suspected:
        return Exclusion(peer.name, peer.suspected, peer.suspected_at)
    if not peer.two_way:
        return Exclusion(peer.name, "it has not answered yet", at)
    if node.watch.penalties.holds(peer.name, at):
        return Exclusion(peer.name, "it came and went, and is under a penalty", at)
    if peer.card is not None and node.me.name in peer.card.cut:
        return Exclusion(peer.name, "it does not reach us", peer.heard_at)
    others = [member.name for member in node.past.members if peer.card is not None and member.name in peer.card.cut]
    if others:
        return Exclusion(peer.name, f"it does not reach {', '.join(others)}", peer.heard_at)
    if peer.attached is not None and peer.attached.coordinator < node.past.members[0]:
        return Exclusion(peer.name, f"it is in daemon view {peer.attached} of a smaller coordinator", peer.heard_at)
    return Exclusion(peer.name, "it is about to be added", peer.heard_at)


def _refusals(node: Node, peers: list[Peer], at: int) -> list[Exclusion]:
    found = [Exclusion(peer.name, f"we refuse it: {peer.refused}", peer.refused_at) for peer in peers if peer.refused]
    found += [Exclusion(peer.name, f"it refuses us: {peer.refuses}", peer.heard_at) for peer in peers if peer.refuses]
    claims = node.peers.recent_claims(at)
    found += [Exclusion(each.name, f"we refuse it at {where}: {each.reason}", each.at) for where, each in claims]
    if conflict := node.peers.conflict(at):
        found.append(Exclusion(node.me.name, conflict, node.at))
    return found
