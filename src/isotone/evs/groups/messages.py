"""The messages of the groups among themselves, and how a daemon's share of all groups is cut into bounded pieces.

A client is named by its private name and session alone: it lives at the daemon that stamped the unit, so nobody can
speak for the clients of another daemon. A piece of GROUPS names every client, daemon and daemon view once and is
complete in itself.

Implements: [Spread 6.4.2]. Deviations: D-pieces GROUPS is cut, because one unit holds 64 KiB and ten thousand groups do
not; D-local it has the sender's own members only, as 6.4.2 says and Figure 6.22 does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set

import msgspec

from isotone.core.codec.control import ControlCodec, ControlMessage, Natural
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import (
    ClientId,
    DaemonId,
    DaemonViewId,
    GroupViewId,
    Stamp,
    parse_daemon_id,
    parse_daemon_view_id,
)
from isotone.core.names import CLIENT_NAME_MAX, GROUP_NAME_MAX

PIECE_MEMBERS_MAX = 4_000  # entries of one piece
PIECE_BYTES_MAX = 48 * 1024  # of a piece without its head, which names a daemon view and a daemon
PIECES_MAX = 10_000
TEXT_HEAD, NUMBER, PLACE, ENTRY_HEAD = 3, 9, 3, 8  # the most bytes of MessagePack that each takes
READERS_MAX = 768  # named in one statement: with the longest names below 64 KiB

_GROUP = re.compile(rf"[$-~]{{1,{GROUP_NAME_MAX}}}")
_CLIENT = re.compile(rf"[$-~]{{1,{CLIENT_NAME_MAX}}}")


class JoinMessage(ControlMessage, frozen=True, tag=0x50):
    """JOIN: a client of the sending daemon becomes a member where this stands in the order."""

    client: str
    session: Natural
    group: str


class LeaveMessage(ControlMessage, frozen=True, tag=0x51):
    """LEAVE: it ceases to be one."""

    client: str
    session: Natural
    group: str


class KillMessage(ControlMessage, frozen=True, tag=0x52):
    """KILL: it is gone, from all its groups."""

    client: str
    session: Natural


class GroupEntry(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """One group in a piece: its last view by places in the tables, whether it was signalled in it, its members."""

    name: str
    view: Natural
    following: Natural
    lamport: Natural
    stamper: Natural
    marked: bool
    members: tuple[Natural, ...]


class GroupsMessage(ControlMessage, frozen=True, tag=0x53):
    """GROUPS: piece ``piece`` of ``pieces`` of what the sending daemon brings into the daemon view ``view``.

    ``first`` is the smallest of the daemons that came there together with it and bring the same.
    """

    view: str
    first: str
    piece: Natural
    pieces: Natural
    clients: tuple[tuple[str, Natural], ...]
    views: tuple[str, ...]
    stampers: tuple[str, ...]
    groups: tuple[GroupEntry, ...]


class HoldMessage(ControlMessage, frozen=True, tag=0x54):
    """HOLD: the readers of the sending daemon, all that there are, for which senders shall wait everywhere.

    Each is a client's private name and session. It replaces the daemon's statement before it.
    """

    readers: tuple[tuple[str, Natural], ...]


Change = JoinMessage | LeaveMessage | KillMessage
CODEC: ControlCodec[JoinMessage | LeaveMessage | KillMessage | GroupsMessage | HoldMessage] = ControlCodec(
    JoinMessage, LeaveMessage, KillMessage, GroupsMessage, HoldMessage
)
JOIN_TAG = 0x50


def decode_message(body: bytes | memoryview) -> Change | GroupsMessage | HoldMessage:
    """The message of a unit; names in it are checked."""
    message = CODEC.decode(body)
    if isinstance(message, GroupsMessage):
        return message
    if isinstance(message, HoldMessage):
        _check_readers(message)
        return message
    if not _CLIENT.fullmatch(message.client):
        raise RemoteProtocolError(f"a client named {message.client!r}")
    if not isinstance(message, KillMessage) and not _GROUP.fullmatch(message.group):
        raise RemoteProtocolError(f"a group named {message.group!r}")
    return message


def _check_readers(message: HoldMessage) -> None:
    if len(message.readers) > READERS_MAX:
        raise RemoteProtocolError(f"HOLD for {len(message.readers)} readers; at most {READERS_MAX}")
    if not all(_CLIENT.fullmatch(name) for name, _ in message.readers):
        raise RemoteProtocolError("HOLD with a client whose name breaks the rules")


class Share(msgspec.Struct, frozen=True, gc=False):
    """One daemon's share of a group: the last view's id, whether it was signalled in it, its own members."""

    name: str
    id: GroupViewId
    marked: bool
    members: tuple[ClientId, ...]


def cut_shares(view: DaemonViewId, first: DaemonId, shares: Iterable[Share]) -> list[GroupsMessage]:
    """The shares as pieces, each within the bounds of a unit; at least one."""
    cut = [_piece_of(batch) for batch in _batches(shares)] or [((), (), (), ())]
    where, who = str(view), str(first)
    return [GroupsMessage(where, who, index, len(cut), *piece) for index, piece in enumerate(cut)]


def _batches(shares: Iterable[Share]) -> Iterator[list[Share]]:
    """Sizes are counted as the piece will have them: a name that stands in a table costs once in each piece."""
    batch: list[Share] = []
    named: set[object] = set()  # clients, daemon views and daemons that the piece names; only looked up
    count = size = 0
    for share in shares:
        for part in _within_one_piece(share):
            cost = _cost(part, named)
            if batch and (count + len(part.members) > PIECE_MEMBERS_MAX or size + cost > PIECE_BYTES_MAX):
                yield batch
                batch, named, count, size = [], set(), 0, 0
                cost = _cost(part, named)
            batch.append(part)
            named.update((*part.members, part.id.daemon_view, part.id.next_daemon_view, part.id.stamp.daemon))
            count += len(part.members)
            size += cost
    if batch:
        yield batch


def _cost(share: Share, named: Set[object]) -> int:
    """The most bytes that a share adds to a piece that names these already."""
    new_clients = [client for client in share.members if client not in named]
    new_texts = {
        each for each in (share.id.daemon_view, share.id.next_daemon_view, share.id.stamp.daemon) if each not in named
    }
    tables = sum(len(client.name) + TEXT_HEAD + NUMBER + 1 for client in new_clients)
    tables += sum(len(str(each)) + TEXT_HEAD for each in new_texts)
    return tables + len(share.name) + TEXT_HEAD + NUMBER + ENTRY_HEAD + PLACE * (3 + len(share.members))


def _within_one_piece(share: Share) -> Iterator[Share]:
    """A share with very many members is told in parts; the reader joins them."""
    step = max(
        1, min(PIECE_MEMBERS_MAX // 2, PIECE_BYTES_MAX // (CLIENT_NAME_MAX + TEXT_HEAD + NUMBER + 1 + PLACE) // 2)
    )
    if len(share.members) <= step:
        yield share
        return
    for start in range(0, len(share.members), step):
        yield msgspec.structs.replace(share, members=share.members[start : start + step])


Piece = tuple[tuple[tuple[str, int], ...], tuple[str, ...], tuple[str, ...], tuple[GroupEntry, ...]]


def _piece_of(batch: list[Share]) -> Piece:
    clients: dict[ClientId, int] = {}
    views: dict[DaemonViewId, int] = {}
    stampers: dict[DaemonId, int] = {}
    entries = []
    for share in batch:
        places = tuple([clients.setdefault(client, len(clients)) for client in share.members])
        view = views.setdefault(share.id.daemon_view, len(views))
        following = views.setdefault(share.id.next_daemon_view, len(views))
        stamper = stampers.setdefault(share.id.stamp.daemon, len(stampers))
        lamport = share.id.stamp.lamport
        entries.append(GroupEntry(share.name, view, following, lamport, stamper, share.marked, places))
    named = tuple((client.name, client.session) for client in clients)
    return named, tuple(map(str, views)), tuple(map(str, stampers)), tuple(entries)


def read_shares(message: GroupsMessage, daemon: DaemonId) -> list[Share]:
    """The shares in a piece that this daemon sent."""
    if not all(_CLIENT.fullmatch(name) for name, _ in message.clients):
        raise RemoteProtocolError("GROUPS with a client whose name breaks the rules")
    clients = [ClientId(daemon, name, session) for name, session in message.clients]
    views = [parse_daemon_view_id(text) for text in message.views]
    stampers = [parse_daemon_id(text) for text in message.stampers]
    shares = []
    try:
        for entry in message.groups:
            stamp = Stamp(entry.lamport, stampers[entry.stamper])
            id = GroupViewId(views[entry.view], views[entry.following], stamp)
            shares.append(Share(entry.name, id, entry.marked, tuple([clients[place] for place in entry.members])))
    except IndexError:
        raise RemoteProtocolError("GROUPS that points beyond its tables") from None
    if not all(share.members and _GROUP.fullmatch(share.name) for share in shares):
        raise RemoteProtocolError("GROUPS with a group without members, or whose name breaks the rules")
    return shares


def view_of(message: GroupsMessage) -> DaemonViewId:
    """The daemon view for which the piece is meant."""
    if not message.piece < message.pieces <= PIECES_MAX:
        raise RemoteProtocolError(f"piece {message.piece} of {message.pieces}")
    return parse_daemon_view_id(message.view)
