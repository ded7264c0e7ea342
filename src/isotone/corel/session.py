"""The replica's session at boundary B4: connected, joined, and which servers the members of a view are.

A server's client has the server's name, so who is who follows from the view alone.

Implements: [COReL 4.1], on [Spread 2.2.1]. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.ids import ClientId, DaemonId
from isotone.core.services import Service
from isotone.core.views import GroupView
from isotone.corel.wire import CODEC, Wire


@dataclass
class Session:
    """One connection after another, in one group."""

    daemon: DaemonId
    server: str
    group: str
    known: frozenset[str]  # all servers; other members of the group are passed over
    client: ClientId | None = None
    opened: int = 0
    view: str = ""  # of the current view, as all messages name it
    servers: tuple[str, ...] = ()  # in the current view, sorted
    doubled: tuple[str, ...] = ()  # servers with two sessions in the view
    _sent: int = 0
    _places: dict[ClientId, str] = field(default_factory=dict)

    def connect(self) -> b4.Ask:
        """Begin a session."""
        self.opened += 1
        self._sent = 0
        self.client = ClientId(self.daemon, self.server, self.opened)
        return b4.Ask(self.client, b4.Connect())

    def ask(self, request: b4.Request) -> b4.Ask:
        """Ask something in this session."""
        assert self.client is not None
        return b4.Ask(self.client, request)

    def end(self) -> None:
        """The session is over."""
        self.client = None
        self.leave_view()

    def leave_view(self) -> None:
        """No message counts until the next view."""
        self.view, self.servers, self.doubled, self._places = "", (), (), {}

    def enter_view(self, view: GroupView) -> None:
        """Who is there now."""
        self.view = str(view.id)
        self._places = {member: member.name for member in view.members if member.name in self.known}
        names = sorted(self._places.values())
        self.servers = tuple(sorted(set(names)))
        self.doubled = tuple(sorted({name for name in names if names.count(name) > 1}))

    def server_of(self, client: ClientId) -> str:
        """The server behind a member of the view, or nothing."""
        return self._places.get(client, "")

    def send(self, message: Wire) -> b4.Ask:
        """Send to the group, in its total order."""
        self._sent += 1
        body = CODEC.encode(message)
        assert self.client is not None
        bundle = bundle_of(self.client, self._sent, Service.AGREED, (self.group,), (body,))
        return b4.Ask(self.client, b4.Send(bundle))
