"""A client process of the simulator: an application above one session after another, over the simulated network."""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core import boundary as b4
from isotone.core.choice import Choice
from isotone.core.contract import Action, Address, Event, Started
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import NO_DAEMON, ClientId
from isotone.core.services import Service
from isotone.evs.sessions.client_session import ClientSession
from isotone.evs.sessions.notices import Dropped, Ended, Notice, Notify, SendWanted
from isotone.evs.sessions.settings import ClientSettings
from isotone.trace.boundary import message_digest

STREAMS_MAX = 100_000


class Say(Event, frozen=True, gc=False):
    """The application sends a message."""

    group: str
    body: bytes
    service: Service = Service.AGREED
    deadline_us: int | None = None


class Want(Event, frozen=True, gc=False):
    """The application joins, leaves or disconnects."""

    request: b4.Join | b4.Leave | b4.Disconnect


@dataclass
class Record:
    """What one session sent and heard, in digests."""

    sent: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)  # tickets
    heard: list[tuple[str, object]] = field(default_factory=list)
    ended: Ended | None = None


class RemoteClient:
    """One application."""

    periodic_timers = ClientSession.periodic_timers

    def __init__(self, name: str, addresses: list[Address], choice: Choice, settings: ClientSettings) -> None:
        self.name = name
        self.records: dict[ClientId, Record] = {}
        self.notices: list[Notice] = []
        self.refused = 0
        self._addresses = addresses
        self._choice = choice
        self._settings = settings
        self._count = 0
        self.session = self._make()

    def _make(self) -> ClientSession:
        self._count += 1
        return ClientSession(
            self.name,
            self._addresses,
            choice=self._choice.derive(str(self._count)),
            settings=self._settings,
            first_stream=self._count * STREAMS_MAX,
        )

    @property
    def record(self) -> Record:
        return self.records.setdefault(self.session.client, Record())

    def handle(self, event: Event) -> list[Action]:
        match event:
            case Started():
                return self._connect(event.at)
            case Say(group=group, body=body, service=service, deadline_us=deadline_us):
                wanted = SendWanted(event.at, service, (group,), (body,), deadline_us=deadline_us)
                actions = self._ask(wanted)
                if actions is not None:
                    self.record.sent.append(message_digest(0, body))
                return actions or []
            case Want(request=request):
                return self._ask(b4.Requested(event.at, self.session.client, request)) or []
        return self._told(self.session.handle(event), event.at)

    def _connect(self, at: int) -> list[Action]:
        provisional = ClientId(NO_DAEMON, self.name, 0)
        return self._told(self.session.handle(b4.Requested(at, provisional, b4.Connect())), at)

    def _ask(self, event: Event) -> list[Action] | None:
        try:
            return self._told(self.session.handle(event), event.at)
        except LocalProtocolError:
            self.refused += 1
            return None

    def _told(self, actions: list[Action], at: int) -> list[Action]:
        out: list[Action] = []
        for action in actions:
            match action:
                case b4.Indicate(indication=indication):
                    self._hear(indication)
                case Notify(notice=notice):
                    self.notices.append(notice)
                    if isinstance(notice, Dropped):
                        self.record.dropped += range(notice.first, notice.first + notice.count)
                    if isinstance(notice, Ended):
                        self.record.ended = notice
                        self.session = self._make()
                        return [*out, *self._connect(at)]
                case _:
                    out.append(action)
        return out

    def _hear(self, indication: b4.Indication) -> None:
        match indication:
            case b4.Message(bundle=bundle):
                self.record.heard += [("message", message_digest(0, bytes(body))) for body in bundle.bodies()]
            case b4.View(view=view):
                self.record.heard.append(("view", str(view.id)))
            case b4.Transitional(view=view_id):
                self.record.heard.append(("signal", str(view_id)))
