"""The clients of one node in a scenario, played by one automaton that does what the script says.

A client connects by itself with its first request; what is asked before the session is open waits for it. All that a
client hears is kept, so that a test can look at it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core.boundary import (
    Ask,
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Indicated,
    Indication,
    Join,
    Leave,
    Request,
    Send,
)
from isotone.core.bundles import bundle_of
from isotone.core.contract import Action, Event
from isotone.core.ids import ClientId, DaemonId
from isotone.core.services import Service

WAITING_MAX = 10_000


class SendWanted(Event, frozen=True, gc=False):
    """The script says: this client sends these messages as one bundle."""

    client: str
    service: Service
    groups: tuple[str, ...]
    bodies: tuple[bytes, ...]


class RequestWanted(Event, frozen=True, gc=False):
    """The script says: this client connects, joins, leaves or disconnects."""

    client: str
    request: Connect | Disconnect | Join | Leave


@dataclass
class ScriptedSession:
    """One connection of one client."""

    id: ClientId
    is_open: bool = False
    sent: int = 0  # the last session sequence used
    waiting: list[Request] = field(default_factory=list)  # what was asked before the session was open


@dataclass
class ScriptedClients:
    """All clients of one incarnation of one node."""

    daemon: DaemonId
    sessions: dict[str, ScriptedSession] = field(default_factory=dict)
    heard: dict[str, list[Indication]] = field(default_factory=dict)  # by private name, through all sessions
    opened: int = 0

    def handle(self, event: Event) -> list[Action]:
        """Do what the script says; keep what is heard."""
        match event:
            case SendWanted(client=client, service=service, groups=groups, bodies=bodies):
                actions, session = self._session(client)
                bundle = bundle_of(session.id, session.sent + 1, service, groups, bodies)
                session.sent = bundle.last_sequence
                return [*actions, *self._ask(session, Send(bundle))]
            case RequestWanted(client=client, request=Disconnect()):
                return self._part(client)
            case RequestWanted(client=client, request=request):
                actions, session = self._session(client)
                return actions if isinstance(request, Connect) else [*actions, *self._ask(session, request)]
            case Indicated(receivers=receivers, indication=indication):
                return [action for receiver in receivers for action in self._hear(receiver, indication)]
        return []

    def _session(self, client: str) -> tuple[list[Action], ScriptedSession]:
        """The client's session; opened now when there is none."""
        session = self.sessions.get(client)
        if session is not None:
            return [], session
        self.opened += 1
        session = self.sessions[client] = ScriptedSession(ClientId(self.daemon, client, self.opened))
        return [Ask(session.id, Connect())], session

    def _ask(self, session: ScriptedSession, request: Request) -> list[Action]:
        if session.is_open:
            return [Ask(session.id, request)]
        assert len(session.waiting) < WAITING_MAX, f"{session.id} is never connected"
        session.waiting.append(request)
        return []

    def _part(self, client: str) -> list[Action]:
        session = self.sessions.get(client)
        if session is None:
            return []
        actions = self._ask(session, Disconnect())
        if actions:
            del self.sessions[client]
        return actions

    def _hear(self, client: ClientId, indication: Indication) -> list[Action]:
        self.heard.setdefault(client.name, []).append(indication)
        session = self.sessions.get(client.name)
        if session is None or session.id != client:
            return []
        if isinstance(indication, Disconnected):
            del self.sessions[client.name]
        elif isinstance(indication, Connected):
            session.is_open = True
            waiting, session.waiting = session.waiting, []
            if Disconnect() in waiting:
                del self.sessions[client.name]
            return [Ask(client, request) for request in waiting]
        return []
