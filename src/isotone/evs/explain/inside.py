"""Where explanations look into a daemon: the one module of them that knows how its parts keep what they keep.

Nothing here changes anything, nor fills a cache that is not there for that purpose alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from isotone.core.boundary import Send
from isotone.core.codec.bundle import HEAD
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import ClientId, DaemonId
from isotone.detector.detector import PeerReport
from isotone.evs.explain.answers import Penalty
from isotone.evs.groups import Groups
from isotone.evs.links.fragments import parse_fragment
from isotone.evs.membership.gather import Gather
from isotone.evs.membership.network import Network
from isotone.evs.membership.node import Node
from isotone.evs.membership.recovering import Recovering
from isotone.evs.ordering.delivery import Delivery, SiteStream
from isotone.evs.ordering.recovery import Recovery
from isotone.evs.ordering.stamper import Draft, Stamper
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.sessions.server_session import ServerSession
from isotone.evs.stack import Stack
from isotone.evs.transport.transport import Transport


class Letter(msgspec.Struct, frozen=True):
    """The head of a bundle: whose it is, which of its session's messages are in it, for whom."""

    sender: ClientId
    first: int
    last: int
    groups: tuple[str, ...]
    large: int = 0  # the number of a large message of which this was read; 0: it is a bundle


# --- bodies --------------------------------------------------------------------------------------------------------


def letter_of(kind: UnitKind, body: bytes | memoryview) -> Letter | None:
    """What a unit or a draft carries, as far as its body tells: a bundle, or the first fragment of one."""
    try:
        if kind is UnitKind.BUNDLE:
            return _read_head(memoryview(body), 0)
        if kind is UnitKind.FRAGMENT and body[0] == UnitKind.BUNDLE:
            fragment = parse_fragment(memoryview(body)[1:])
            return None if fragment.offset else _read_head(memoryview(fragment.body), fragment.number)
    except (RemoteProtocolError, ValueError, IndexError):
        pass  # no correct daemon sends it; who delivers it counts it
    return None


def _read_head(view: memoryview, large: int) -> Letter | None:
    if len(view) < HEAD.size:
        return None
    _, _, _, count, names_size, _, first, session, incarnation, _, _ = HEAD.unpack_from(view)
    names = str(view[HEAD.size : HEAD.size + names_size], "latin-1").split(" ")
    sender = ClientId(DaemonId(names[1], incarnation), names[0], session)
    return Letter(sender, first, first + count - 1, tuple(names[2:]), large)


def draft_letter(draft: Draft) -> Letter | None:
    """The same for a draft; one of a large message leads back to its beginning."""
    if draft.large is not None:
        return letter_of(UnitKind.FRAGMENT, memoryview(draft.large.encoded)[: draft.large.stride])
    return letter_of(draft.kind, draft.body)


def fragment_number(unit: Unit) -> tuple[int, bool] | None:
    """Of which large message a unit is a fragment, and whether it is the last one."""
    if unit.kind is not UnitKind.FRAGMENT:
        return None
    try:
        fragment = parse_fragment(memoryview(unit.body)[1:])
    except RemoteProtocolError:
        return None
    return fragment.number, fragment.offset + len(fragment.body) >= fragment.total


def inbox_letters(session: ServerSession) -> Iterator[Letter]:
    """What a session has sent and its daemon has not handed to the groups, numbered as the client does."""
    for taken in session.inbox:
        if isinstance(taken.request, Send):
            bundle = taken.request.bundle
            yield Letter(bundle.sender, bundle.first_sequence, bundle.last_sequence, tuple(bundle.groups))


def session_of(stack: Stack, client: ClientId) -> ServerSession | None:
    """The session of a client of this daemon, if it has one; not every client does."""
    if stack.sessions is None:
        return None
    return next((session for session in stack.sessions.all if session.client == client), None)


def readers_for(stack: Stack, session: ServerSession) -> tuple[ClientId, ...]:
    """The clients that do not read, for which the session's next message waits."""
    assert stack.sessions is not None
    return stack.sessions._table.handing.readers_for(session)


# --- membership ----------------------------------------------------------------------------------------------------


def node_of(stack: Stack) -> Node:
    """What the states of the membership share."""
    return stack.membership.node


def installed(stack: Stack) -> Network | None:
    """The network of the daemon view that works."""
    network = stack.membership.node.network
    return network if network is not None and network.installed else None


def peer_report(node: Node, name: str, at: int) -> PeerReport | None:
    """What the detector knows of a daemon, if it watches it."""
    detector = node.watch.detector
    return detector.report(name, at) if name in detector._peers else None


def penalties(node: Node, at: int) -> tuple[Penalty, ...]:
    """Those that hold now."""
    records = node.watch.penalties._records
    held = [(name, records[name]) for name in sorted(records) if at < records[name].until]
    return tuple(Penalty(name, record.until, record.strikes, record.answers) for name, record in held)


def gather_limit(stack: Stack) -> int:
    """When a gathering ends, whatever happens."""
    gather = stack.membership.gather
    limit = gather.node.settings.gather_max_us + gather._window_us()
    return max(gather._began_at + 2 * limit, gather.node.not_before)


def gathered(gather: Gather) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """In GATHER: who would be taken now, and who would follow but is cut off from one of them."""
    taken, blocked = gather._picture
    return tuple(daemon.name for daemon in taken), blocked


def recovery_lacking(recovering: Recovering) -> tuple[int, int, bool]:
    """In EVS: units that have yet to come, units that we have yet to send, and whether we are done."""
    recovery = recovering.node.past.recovery
    lacking = recovery._lacking if recovery is not None else 0
    return lacking, len(recovering._resends), recovering._done


def recovery_units(recovery: Recovery) -> Iterator[Unit]:
    """What is kept of a daemon view that ended."""
    for units in recovery._units:
        yield from units.values()


def recovery_has_delivered(recovery: Recovery, unit: Unit) -> bool:
    """Whether a unit of it was delivered while it worked."""
    progress = recovery._progress
    return unit.sequence <= progress.walked[unit.site] or unit.sequence in progress.early[unit.site]


# --- ordering ------------------------------------------------------------------------------------------------------


def lowest(delivery: Delivery) -> Unit | None:
    """The unit at which the walk in total order stands."""
    stream = delivery._lowest()
    return None if stream is None else stream.queue[0]


def unit_at(stream: SiteStream, sequence: int) -> Unit | None:
    """A unit that is here and not walked yet."""
    place = sequence - stream.queue[0].sequence if stream.queue else -1
    if 0 <= place < len(stream.queue):
        return stream.queue[place]
    return stream.ahead.get(sequence)


def lines_since(transport: Transport) -> tuple[int | None, int | None]:
    """Since when the agreed and the stable line stand still while something waits for them."""
    return transport._patience.since


def waiting_drafts(stamper: Stamper) -> Iterator[tuple[Draft, bool, bool]]:
    """What waits to be stamped: the draft, whether it is bulk, and whether it is bulk whose turn has not begun."""
    for session, drafts in stamper._waiting.items():
        is_unbegun = session in stamper._unbegun
        is_bulk = is_unbegun or session in stamper._bulk
        for draft in drafts:
            yield draft, is_bulk, is_unbegun


def oldest_unstable(stamper: Stamper) -> int | None:
    """The time of the first unit of this daemon that is not everywhere."""
    return stamper._unstable[0][0] if stamper._unstable else None


# --- links ---------------------------------------------------------------------------------------------------------


def full_links(transport: Transport, *, bulk: bool) -> list[str]:
    """The links that have no room for what this site would stamp; without names at who is no gateway."""
    gateway = transport.gateway
    if gateway is None:
        return []
    own, site = gateway._children[gateway.site], gateway.site
    return [trunk.name for trunk in own if not (trunk.is_open_for_bulk(site) if bulk else trunk.is_open(site))]


def token_text(transport: Transport, members: Sequence[DaemonId]) -> tuple[str, tuple[str, ...]]:
    """Where the token of the site's ring is, as far as this member knows."""
    custody = transport.ring._custody
    if custody.at_rest is not None:
        return "the token rests here", ()
    if custody._passed is not None:
        name = members[custody._passed[1]].name
        return f"the token was handed to {name}, which has given no sign of it, {custody._retries} times again", (name,)
    if custody.is_asking:
        return f"the token is elsewhere in the site; it was asked for {custody._asked} times", ()
    return "the token is elsewhere in the site", ()


# --- groups --------------------------------------------------------------------------------------------------------


def queued_in_groups(groups: Groups) -> Sequence[Draft]:
    """What clients asked while the groups were not known."""
    return groups._waiting


def held_in_groups(groups: Groups) -> Sequence[Unit]:
    """What was delivered to the groups while they gather."""
    return groups._held


def unfinished_bytes(groups: Groups) -> int:
    """Of large messages of which a part was delivered."""
    return groups._joining.held_bytes


def next_sequence(groups: Groups, client: ClientId) -> int | None:
    """What a session here sends next; none if there is no such session open."""
    session = groups.desk._sessions.get(client)
    return None if session is None else session.next_sequence


def last_session(groups: Groups, name: str) -> int | None:
    """The number of the last session under a private name."""
    return groups.desk._last_session.get(name)


def local_receivers(groups: Groups, names: Sequence[str]) -> int:
    """How many open sessions here are in any of these groups."""
    found: dict[ClientId, None] = {}
    for name in names:
        if (group := groups.roster.by_name.get(name)) is not None:
            found.update(dict.fromkeys(group.local))
        elif name.startswith("#"):
            client = groups.roster.open.get(name.split("#")[1])
            if client is not None and client.private_group == name:
                found[client] = None
    return len(found)
