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
from isotone.core.versions import VersionRange
from isotone.core.views import GroupView
from isotone.corel.versions import WIRE_VERSIONS, differing, marked
from isotone.corel.wire import CATCHING_CODEC, CODEC, Catching, Wire


@dataclass
class Session:
    """One connection after another, in one group."""

    daemon: DaemonId
    server: str
    group: str
    client: ClientId | None = None
    opened: int = 0
    view: str = ""  # of the current view and round, as all messages name it
    servers: tuple[str, ...] = ()  # who takes part in the current view, or may; sorted
    doubled: tuple[str, ...] = ()  # servers with two sessions in the view
    speaks: VersionRange = WIRE_VERSIONS
    foreign: dict[str, int] = field(default_factory=dict)  # members of the view with another version: as if not there
    senseless: dict[str, str] = field(default_factory=dict)  # members that said what nobody understands: likewise
    _view: str = ""
    _round: int = 0
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
        self.foreign, self.senseless = {}, {}

    def enter_view(self, view: GroupView, known: frozenset[str]) -> None:
        """Who is there now; ``known``: the servers of all configurations known here."""
        self.view = self._view = str(view.id)
        self._round, self.foreign, self.senseless = 0, {}, {}
        names = sorted(member.name for member in view.members)
        twice = {name for name in names if names.count(name) > 1}
        self._places = {member: member.name for member in view.members if member.name not in twice}
        self.doubled = tuple(sorted(twice & (known | {self.server})))
        self.servers = tuple(sorted(set(names) & known))

    def enter_round(self) -> None:
        """States are exchanged anew in the same view."""
        self._round += 1
        self.view = f"{self._view}+{self._round}"

    def dismiss(self, server: str, version: int) -> None:
        """It speaks a version that this server does not: what it says counts for nothing."""
        self.foreign[server] = version
        self._leave_out(server)

    def ignore(self, server: str, reason: str) -> None:
        """What it said makes no sense, for this reason: what it says from here on counts for nothing."""
        self.senseless[server] = reason
        self._leave_out(server)

    def _leave_out(self, server: str) -> None:
        self._places = {client: name for client, name in self._places.items() if name != server}
        self.servers = tuple(each for each in self.servers if each != server)

    def differences(self) -> list[str]:
        """Who speaks another version, or says nonsense, in words."""
        others = [differing(server, version, self.speaks) for server, version in sorted(self.foreign.items())]
        return [*others, *(reason for _, reason in sorted(self.senseless.items()))]

    @property
    def present(self) -> frozenset[str]:
        """The names of all members of the view that have one session in it."""
        return frozenset(self._places.values())

    def server_of(self, client: ClientId) -> str:
        """The server behind a member of the view, or nothing."""
        return self._places.get(client, "")

    def send(self, message: Wire) -> b4.Ask:
        """Send to the group, in its total order."""
        return self._send(Service.AGREED, self.group, CODEC.encode(message))

    def send_to(self, server: str, message: Catching) -> b4.Ask:
        """Send to one member of the view alone."""
        return self.answer(self.client_of(server), message)

    def client_of(self, server: str) -> ClientId:
        """Of a member of the view."""
        return next(client for client, name in self._places.items() if name == server)

    def answer(self, client: ClientId, message: Catching) -> b4.Ask:
        """Send to one client alone, whoever it is."""
        return self._send(Service.FIFO, client.private_group, CATCHING_CODEC.encode(message))

    def _send(self, service: Service, group: str, body: bytes) -> b4.Ask:
        self._sent += 1
        assert self.client is not None
        said = marked(self.speaks.low, body)
        return b4.Ask(self.client, b4.Send(bundle_of(self.client, self._sent, service, (group,), (said,))))
