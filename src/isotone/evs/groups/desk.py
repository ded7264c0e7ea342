"""Requests of clients: refused with a reason, or turned into drafts. What is refused changes nothing.

Drafts go under the client's private name and not under its session, so that a client that comes back stands behind its
former self [Spread 2.9.2]. A session is over when the client asks so; its kill follows all that it sent.

Implements: [Spread 6.4.3], the join, the leave and the disconnection of a local client as events. Deviations: none.
"""

from __future__ import annotations

import msgspec

from isotone.core import names
from isotone.core.boundary import (
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Indicate,
    Join,
    Leave,
    Request,
    Send,
    refusal,
)
from isotone.core.bundles import BUNDLE_BYTES_MAX, Bundle
from isotone.core.codec.bundle import encode_bundle
from isotone.core.contract import Action
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import ClientId
from isotone.core.services import Service
from isotone.evs.groups.actions import GroupsSettings
from isotone.evs.groups.messages import CODEC, JoinMessage, KillMessage, LeaveMessage
from isotone.evs.groups.roster import Roster
from isotone.evs.ordering.large import PIECE_BYTES_MAX, drafts_of
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import UnitKind


class _Session(msgspec.Struct):
    next_sequence: int = 1
    wanted: dict[str, None] = msgspec.field(default_factory=dict)  # groups it is in or asked to be in


class Desk:
    """Takes the requests of one daemon's clients."""

    def __init__(self, roster: Roster, settings: GroupsSettings) -> None:
        self._roster = roster
        self._settings = settings
        self._sessions: dict[ClientId, _Session] = {}
        self._last_session: dict[str, int] = {}  # by name, the longest unused first
        self._session_floor = -1  # the highest number among names that were forgotten
        self._large_messages = 0  # so far: each has a number of its own
        self.piece_bytes = PIECE_BYTES_MAX  # of a large message that one fragment holds, for the links of this view
        self.joining: dict[tuple[ClientId, str], None] = {}  # joins asked here, not yet delivered here

    def take(self, client: ClientId, request: Request, *, busy: bool, out: list[Action]) -> list[Draft]:
        """Take one request; answers go to ``out``."""
        try:
            return self._take(client, request, busy=busy, out=out)
        except LocalProtocolError as error:
            out.append(Indicate((client,), refusal(request, str(error))))
            return []

    def _take(self, client: ClientId, request: Request, *, busy: bool, out: list[Action]) -> list[Draft]:
        if isinstance(request, Connect):
            self._connect(client)
            out.append(Indicate((client,), Connected()))
            return []
        session = self._sessions.get(client)
        if session is None:
            raise LocalProtocolError("not connected")
        match request:
            case Send(bundle=bundle):
                return self._send(client, session, bundle, busy=busy)
            case Join(group=group):
                return self._join(client, session, group, busy=busy)
            case Leave(group=group):
                return self._leave(client, session, group, busy=busy)
            case Disconnect():
                out.append(Indicate((client,), Disconnected("asked for")))
                return self._disconnect(client, session)

    # Each of these changes the session and returns drafts, or changes nothing and raises.

    def _connect(self, client: ClientId) -> None:
        names.check_client_name(client.name)
        if client.daemon != self._roster.me:
            raise LocalProtocolError(f"a client of {client.daemon}, not of {self._roster.me}")
        if client.name in self._roster.open:
            raise LocalProtocolError("the name is in use")
        if client.session <= self._last_session.get(client.name, self._session_floor):
            raise LocalProtocolError("a session's number is higher than the last under its name")
        self._remember(client)
        self._sessions[client] = _Session()
        self._roster.connect(client)

    def _remember(self, client: ClientId) -> None:
        self._last_session.pop(client.name, None)
        self._last_session[client.name] = client.session
        if len(self._last_session) > self._settings.names_max:
            oldest = next(iter(self._last_session))
            self._session_floor = max(self._session_floor, self._last_session.pop(oldest))

    def _disconnect(self, client: ClientId, session: _Session) -> list[Draft]:
        del self._sessions[client]
        self._roster.disconnect(client)
        if not session.wanted and session.next_sequence == 1:
            return []  # it is in no group, or its leave is on the way; and whoever sent leaves an AGREED unit: D-forget
        return [self._control(client, KillMessage(client.name, client.session))]

    def _join(self, client: ClientId, session: _Session, group: str, *, busy: bool) -> list[Draft]:
        _check_joinable(group)
        if group in session.wanted:
            raise LocalProtocolError("joined already")
        self._check_numbers(session, group)
        _check_idle(busy=busy)
        session.wanted[group] = None
        self.joining[client, group] = None
        return [self._control(client, JoinMessage(client.name, client.session, group))]

    def _check_numbers(self, session: _Session, group: str) -> None:
        """Joins that are on their way count as groups of their own."""
        settings, groups = self._settings, self._roster.by_name
        if len(session.wanted) >= settings.groups_per_session_max:
            raise LocalProtocolError(f"a session is in at most {settings.groups_per_session_max} groups")
        if group not in groups and len(groups) + len(self.joining) >= settings.groups_max:
            raise LocalProtocolError(f"there are at most {settings.groups_max} groups")

    def _leave(self, client: ClientId, session: _Session, group: str, *, busy: bool) -> list[Draft]:
        _check_joinable(group)
        if group not in session.wanted:
            raise LocalProtocolError("not a member")
        _check_idle(busy=busy)
        del session.wanted[group]
        return [self._control(client, LeaveMessage(client.name, client.session, group))]

    def _send(self, client: ClientId, session: _Session, bundle: Bundle, *, busy: bool) -> list[Draft]:
        if bundle.sender != client:
            raise LocalProtocolError("sent in another's name")
        if bundle.first_sequence != session.next_sequence:
            raise LocalProtocolError(f"the next sequence is {session.next_sequence}, not {bundle.first_sequence}")
        _check_idle(busy=busy)
        drafts = self._drafts_of(bundle)
        session.next_sequence += bundle.count
        return drafts

    def _drafts_of(self, bundle: Bundle) -> list[Draft]:
        payload_max = self._settings.message_bytes_max if bundle.count == 1 else BUNDLE_BYTES_MAX
        body = b"".join(encode_bundle(bundle, None, payload_max=payload_max))
        whole = Draft(bundle.sender.name, UnitKind.BUNDLE, bundle.service, body)
        drafts = drafts_of(whole, number=self._large_messages + 1, piece_bytes=self.piece_bytes)
        self._large_messages += len(drafts) > 1
        return drafts

    def _control(self, client: ClientId, message: JoinMessage | LeaveMessage | KillMessage) -> Draft:
        return Draft(client.name, UnitKind.GROUPS, Service.SAFE, CODEC.encode(message))


def _check_joinable(group: str) -> None:
    names.check_group_name(group)
    if names.is_private_group(group):
        raise LocalProtocolError("a private group has its client alone")


def _check_idle(*, busy: bool) -> None:
    if busy:
        raise LocalProtocolError("the daemon is busy")
