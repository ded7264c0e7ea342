"""All clients of one node, played by one automaton at boundary B4.

The driver tells it the steps of the plan; it asks the group service and hears it. A step that does not fit (a send
without a session, a second join) is passed over, so that any part of a workload is a workload: the shrinker relies on
it. What it remembers of views is what the system's liveness is judged by.

Implements: [DESIGN 4], the clients of a simulated run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.contract import Action, Event, Started, Stopping
from isotone.core.ids import ClientId, DaemonId
from isotone.core.views import GroupView
from isotone.sim.plan import Step
from isotone.sim.workload import ConnectStep, DisconnectStep, JoinStep, LeaveStep, SendStep

WAITING_MAX = 10_000


class StepDue(Event, frozen=True):
    """The driver says that the time of this step has come."""

    step: Step


class ClientKilled(Event, frozen=True):
    """The client is gone without a word; its service finds the session broken."""

    client: str


@dataclass
class Session:
    """One connection, from the client's side."""

    id: ClientId
    connected: bool = False
    sent: int = 0  # the sequence of the last message sent: dense from 1
    wanted: set[str] = field(default_factory=set)  # groups it joined and did not leave
    leaving: set[str] = field(default_factory=set)
    views: dict[str, GroupView] = field(default_factory=dict)
    waiting: list[Step] = field(default_factory=list)  # steps that came before the session was open


@dataclass
class Clients:
    """The clients of one incarnation of one node."""

    daemon: DaemonId
    sessions: dict[str, Session] = field(default_factory=dict)  # by private name: the current one
    opened: int = 0
    heard: int = 0
    refused: int = 0

    def handle(self, event: Event) -> list[Action]:
        """Play a step, or hear what the service says."""
        match event:
            case StepDue(step=step):
                return self._on_step(step)
            case b4.Indicated(receivers=receivers, indication=indication):
                return [action for client in receivers for action in self._on_indication(client, indication)]
            case ClientKilled(client=name):
                return self._disconnect(name)
            case Started() | Stopping():
                return []
        raise AssertionError(f"the clients do not expect {event!r}")

    def _disconnect(self, name: str) -> list[Action]:
        """At B4 a session ends with the request, so a kill and a farewell look alike."""
        session = self.sessions.pop(name, None)
        return [b4.Ask(session.id, b4.Disconnect())] if session else []

    def _on_step(self, step: Step) -> list[Action]:
        name: str = step.client  # type: ignore[attr-defined]
        session = self.sessions.get(name)
        if isinstance(step, ConnectStep):
            return [] if session else self._connect(name)
        if session is None:
            return []
        if not session.connected:
            assert len(session.waiting) < WAITING_MAX
            session.waiting.append(step)
            return []
        return self._play(session, step)

    def _connect(self, name: str) -> list[Action]:
        self.opened += 1
        session = Session(ClientId(self.daemon, name, self.opened))
        self.sessions[name] = session
        return [b4.Ask(session.id, b4.Connect())]

    def _play(self, session: Session, step: Step) -> list[Action]:
        """A step of an open session."""
        match step:
            case DisconnectStep():
                return self._disconnect(session.id.name)
            case JoinStep(group=group):
                if group in session.wanted or group in session.leaving:
                    return []
                session.wanted.add(group)
                return [b4.Ask(session.id, b4.Join(group))]
            case LeaveStep(group=group):
                if group not in session.wanted:
                    return []
                session.wanted.discard(group)
                session.leaving.add(group)
                return [b4.Ask(session.id, b4.Leave(group))]
            case SendStep():
                return [self._send(session, step)]
        raise AssertionError(f"the clients do not know {step!r}")

    def _send(self, session: Session, step: SendStep) -> Action:
        first = session.sent + 1
        session.sent += len(step.lengths)
        bodies = [_body(session.id, first + place, length) for place, length in enumerate(step.lengths)]
        return b4.Ask(session.id, b4.Send(bundle_of(session.id, first, step.service, step.groups, bodies)))

    def _on_indication(self, client: ClientId, indication: b4.Indication) -> list[Action]:
        session = self.sessions.get(client.name)
        if session is None or session.id != client:
            return []  # of a session that is over
        match indication:
            case b4.Message(bundle=bundle):
                self.heard += bundle.count
            case b4.View(view=view):
                session.views[view.group] = view
            case b4.SelfLeave(group=group):
                session.leaving.discard(group)
                session.views.pop(group, None)
            case b4.Connected():
                return self._on_connected(session)
            case b4.Disconnected():
                del self.sessions[client.name]  # the service threw it out
            case b4.Refused():
                self.refused += 1
        return []

    def _on_connected(self, session: Session) -> list[Action]:
        session.connected = True
        waiting, session.waiting = session.waiting, []
        actions: list[Action] = []
        for step in waiting:
            if self.sessions.get(session.id.name) is session:
                actions += self._play(session, step)
        return actions


def _body(client: ClientId, sequence: int, length: int) -> bytes:
    """Bytes that differ from message to message wherever the length allows."""
    mark = b"%d.%s." % (sequence, client.name.encode())
    return (mark * (length // len(mark) + 1))[:length]
