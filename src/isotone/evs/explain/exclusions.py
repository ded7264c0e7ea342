"""Why is that daemon not in the daemon view? The first reason that holds, with its evidence and times."""

from __future__ import annotations

from collections.abc import Callable

from isotone.core.versions import highest_common
from isotone.evs.explain import inside
from isotone.evs.explain.answers import ExclusionAnswer, Ruling
from isotone.evs.explain.words import listed, silence_of, span
from isotone.evs.membership.node import Node
from isotone.evs.membership.peers import Peer
from isotone.evs.membership.reach import may_be_together
from isotone.evs.stack import Stack


def why_excluded(stack: Stack, daemon: str, at: int) -> ExclusionAnswer:
    """The ruling about a daemon, by its name."""
    node = inside.node_of(stack)
    peer = node.peers.by_name.get(daemon)
    if daemon == node.me.name:
        text = node.peers.conflict(at) or "this daemon answers, so it runs; if others do not see it, they say why"
        return ExclusionAnswer(text=f"{daemon}: {text}", daemon=daemon, ruling=Ruling.OURSELVES)
    if peer is None:
        return _stranger(node, daemon, at)
    if (answer := _member(node, peer, at)) is not None:
        return answer
    for rule in _RULES:
        if (answer := rule(node, peer, at)) is not None:
            return answer
    return _coming(node, peer, at)


def _stranger(node: Node, name: str, at: int) -> ExclusionAnswer:
    if name in node.peers.unwanted:
        text = f"{name} was removed from the settings of {node.me.name}"
        return ExclusionAnswer(text=text, daemon=name, ruling=Ruling.REMOVED)
    for where, claim in node.peers.recent_claims(at):
        if claim.name == name:
            text = f"{name} at {where} is refused here: {claim.reason}"
            return ExclusionAnswer(text=text, daemon=name, ruling=Ruling.REFUSED, since=claim.at)
    turned = node.peers.turned_away
    text = f"{name} is not known: the settings do not name it, nobody told of it and no packet of it came"
    if turned or node.peers.foreign:
        text += f" ({node.peers.foreign} packets were of other clusters, {turned} strangers had no place)"
    return ExclusionAnswer(text=text, daemon=name, ruling=Ruling.UNKNOWN)


def _answer(
    node: Node, peer: Peer, at: int, ruling: Ruling, text: str, *, since: int | None = None, until: int | None = None
) -> ExclusionAnswer:
    report = inside.peer_report(node, peer.name, at)
    age = f", for {span(at - since)}" if since is not None else ""
    return ExclusionAnswer(
        text=f"{peer.name} {text}{age}",
        daemon=peer.name,
        ruling=ruling,
        since=since,
        until=until,
        evidence=() if report is None else (*report.suspected, *report.evidence),
        unreached=unreached_pairs(node, peer),
        attached="" if peer.attached is None else str(peer.attached),
        silent_us=None if report is None else report.silent_us,
    )


def unreached_pairs(node: Node, peer: Peer) -> tuple[tuple[str, str], ...]:
    """Who of the daemon view and the peer do not reach each other, as each says: (who, whom)."""
    pairs = []
    cut = () if peer.card is None else peer.card.cut
    for member in node.past.members:
        if member.name == peer.name:
            continue
        if member.name in cut:
            pairs.append((peer.name, member.name))
        card = None if member == node.me else _card_cut(node, member.name)
        if card is not None and peer.name in card:
            pairs.append((member.name, peer.name))
    return tuple(pairs)


def _card_cut(node: Node, name: str) -> tuple[str, ...] | None:
    peer = node.peers.by_name.get(name)
    return None if peer is None or peer.card is None else peer.card.cut


# --- the rules, in the order in which they are asked ------------------------------------------------------------------


def _member(node: Node, peer: Peer, at: int) -> ExclusionAnswer | None:
    """It is in the daemon view, or in that which ended or forms."""
    network, daemon = node.network, peer.daemon
    if network is not None and daemon in network.view.members:
        silence, until = silence_of(node, peer.name, at)
        if network.installed:
            text = f"is in the daemon view {network.id} ({silence})"
            return _answer(node, peer, at, Ruling.MEMBER, text, until=until)
        text = f"is in the daemon view {network.id}, which forms ({silence})"
        return _answer(node, peer, at, Ruling.COMING, text, since=node.since, until=until)
    if network is None and daemon in node.past.members and node.watch.reaches(peer.name):
        text = f"was in the daemon view {node.past.id}, which is over: {node.reason.value}"
        return _answer(node, peer, at, Ruling.LEAVING, text, since=node.since, until=node.ends_at)
    return None


def _refused(node: Node, peer: Peer, at: int) -> ExclusionAnswer | None:
    if peer.refused:
        return _answer(node, peer, at, Ruling.REFUSED, f"is refused here: {peer.refused}", since=peer.refused_at)
    if peer.refuses:
        return _answer(node, peer, at, Ruling.REFUSES, f"refuses this daemon: {peer.refuses}")
    return None


def _gone(node: Node, peer: Peer, at: int) -> ExclusionAnswer | None:
    return _answer(node, peer, at, Ruling.GONE, "said good-bye", since=peer.heard_at) if peer.gone else None


def _suspected(node: Node, peer: Peer, at: int) -> ExclusionAnswer | None:
    if not peer.suspected or node.reaches(peer.name):
        return None
    text = f"is suspected: {peer.suspected.removeprefix(f'{peer.name}: ')}{_one_way(node, peer)}"
    return _answer(node, peer, at, Ruling.SUSPECTED, text, since=peer.suspected_at)


def _one_way(node: Node, peer: Peer) -> str:
    """A daemon that is heard at times and says that it does not hear us: the way from here to there is cut."""
    cut = () if peer.card is None else peer.card.cut
    return "; its own last word was that it does not reach this daemon" if node.me.name in cut else ""


def _unproven(node: Node, peer: Peer, at: int) -> ExclusionAnswer | None:
    if peer.two_way or node.reaches(peer.name):
        return None
    silence, until = silence_of(node, peer.name, at)
    met = "was never met" if peer.incarnation is None else "has not answered a probe since it was last suspected"
    return _answer(node, peer, at, Ruling.UNPROVEN, f"{met} ({silence}){_one_way(node, peer)}", until=until)


def _penalised(node: Node, peer: Peer, at: int) -> ExclusionAnswer | None:
    for each in inside.penalties(node, at):
        if each.daemon == peer.name:
            text = f"came and went {each.strikes} times and is under a penalty for {span(each.until - at)} more"
            return _answer(node, peer, at, Ruling.PENALTY, text, until=each.until)
    return None


def _unreached(node: Node, peer: Peer, at: int) -> ExclusionAnswer | None:
    pairs = unreached_pairs(node, peer)
    said = "; ".join(f"{who} does not reach {whom}" for who, whom in pairs)
    if any(node.site_of(who) == node.site_of(whom) for who, whom in pairs):
        text = f"is reached from here, but not by all of the daemon view: {said}"
        return _answer(node, peer, at, Ruling.UNREACHED, text)
    together = {name: node.site_of(name) for name in (peer.name, *(each.name for each in node.past.members))}
    cuts = {name: node.cut_of(name) for name in together}
    if may_be_together(together, lambda one, other: other in cuts[one] or one in cuts[other], node.settings.gateways):
        return None
    text = f"is in a site, {peer.site}, without a gateway that reaches those of all other sites: {said}"
    return _answer(node, peer, at, Ruling.UNREACHED, text)


def _version(node: Node, peer: Peer, at: int) -> ExclusionAnswer | None:
    names = [member.name for member in node.past.members]
    if highest_common(node.peers.range_of(name) for name in [*names, peer.name]) is not None:
        return None
    text = f"speaks versions {node.peers.range_of(peer.name)}, none in common with all of {listed(names)}"
    return _answer(node, peer, at, Ruling.VERSION, text)


def _elsewhere(node: Node, peer: Peer, at: int) -> ExclusionAnswer | None:
    head = node.past.members[0]
    if peer.attached is None or peer.attached.coordinator >= head:
        return None
    text = f"is in daemon view {peer.attached}, whose representative is smaller than {head} and has to take us in"
    return _answer(node, peer, at, Ruling.ELSEWHERE, text)


_RULES: tuple[Callable[[Node, Peer, int], ExclusionAnswer | None], ...] = (
    _refused,
    _gone,
    _suspected,
    _unproven,
    _penalised,
    _unreached,
    _version,
    _elsewhere,
)


def _coming(node: Node, peer: Peer, at: int) -> ExclusionAnswer:
    head = node.past.members[0]
    if head == node.me:
        text, until = "is reached and nothing speaks against it: it is about to be added", node.looks_at
    else:
        text, until = f"is reached and nothing speaks against it here: {head} decides", None
    return _answer(node, peer, at, Ruling.COMING, text, until=until)
