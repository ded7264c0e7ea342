"""A toy on boundary B4: a counter that every member of a group keeps, durably."""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.contract import (
    Action,
    Append,
    CancelTimer,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    Put,
    SetTimer,
    Started,
    Stop,
    Stopping,
    TimerFired,
)
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import NO_DAEMON, ClientId
from isotone.core.services import Service
from isotone.core.views import GroupView

GROUP, LOG, AGAIN = "counter", "added", "again"
AGAIN_US = 20_000


class Add(Event, frozen=True):
    """The application adds."""

    amount: int


class Broken(Event, frozen=True):
    """The application finds a bug."""


class Counted(Action, frozen=True):
    """The counter stands at this, durably."""

    total: int


class Viewed(Action, frozen=True):
    """There is a view."""

    view: GroupView


class Strange(Action, frozen=True):
    """Nobody takes this."""


class Counter:
    """Adds are kept until there is a view, and counted where they are heard."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.total = 0
        self.client: ClientId | None = None
        self.tries = 0
        self.heard: list[str] = []  # indications, by their kind
        self.failures: list[str] = []
        self._sent = 0
        self._tickets = 0
        self._waiting: list[int] = []
        self._in_view = False

    def handle(self, event: Event) -> list[Action]:
        """As every automaton."""
        match event:
            case Started(storage=storage):
                log = storage.logs.get(LOG)
                assert log is None or not log.damaged
                self.total = sum(int(record) for record in (log.records if log is not None else ()))
                return [Counted(self.total), self._connect()]
            case Add(amount=amount):
                if amount <= 0:
                    raise LocalProtocolError("a counter only grows")
                self._waiting.append(amount)
                return self._send()
            case b4.Indicated(receivers=receivers, indication=indication):
                self.heard.append(type(indication).__name__)
                return self._on_indication(receivers[0], indication)
            case TimerFired():
                return [self._connect()]
            case PersistFailed(reason=reason):
                self.failures.append(reason)
                return [] if reason.startswith("disk full") else [Stop(reason)]
            case Persisted():
                return []
            case Stopping():
                self._tickets += 1
                return [CancelTimer(AGAIN), Persist(self._tickets, [Put("stopped", b"yes")]), Counted(-1)]
            case Broken():
                return [Strange()]
        raise AssertionError(f"what is {event!r}?")

    def _connect(self) -> Action:
        self.tries += 1
        self.client = ClientId(NO_DAEMON, self.name, self.tries)
        return b4.Ask(self.client, b4.Connect())

    def _on_indication(self, client: ClientId, indication: b4.Indication) -> list[Action]:
        match indication:
            case b4.Connected():
                self.client, self._sent = client, 0
                return [b4.Ask(client, b4.Join(GROUP))]
            case b4.View(view=view):
                assert self.client in view.members
                self._in_view = True
                return [Viewed(view), *self._send()]
            case b4.Message(bundle=bundle):
                bodies = [bytes(body) for body in bundle.bodies()]  # a session may have packed several
                self.total += sum(map(int, bodies))
                self._tickets += 1
                return [Persist(self._tickets, [Append(LOG, body) for body in bodies]), Counted(self.total)]
            case b4.Disconnected():
                assert client == self.client
                self._in_view = False
                return [SetTimer(AGAIN, AGAIN_US)]
        return []

    def _send(self) -> list[Action]:
        if not self._in_view or self.client is None:
            return []
        waiting, self._waiting = self._waiting, []
        sends: list[Action] = []
        for amount in waiting:
            self._sent += 1
            bundle = bundle_of(self.client, self._sent, Service.AGREED, (GROUP,), [b"%d" % amount])
            sends.append(b4.Ask(self.client, b4.Send(bundle)))
        return sends
