"""The clients of one node, all of whose memberships are view-synchronous, as one automaton at boundary B4.

Implements: [DESIGN 4], the clients of a simulated run.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.choice import Choice
from isotone.core.contract import Action, Event, SetTimer, TimerFired
from isotone.core.ids import ClientId
from isotone.core.services import Service
from isotone.evs.sessions.synchrony import (
    FLUSH,
    SYNCHRONOUS,
    AskFlush,
    FlushAllowed,
    SynchronousMember,
    TellFlushed,
    synchronous_service,
)
from isotone.sim.evs_clients import Clients, Session
from isotone.sim.faults import MILLISECOND
from isotone.sim.plan import Step
from isotone.sim.workload import SendStep

WAITING_MAX = 1_000
REPLIES = 0.05


@dataclass
class SynchronousClients(Clients):
    """The clients of one incarnation of one node."""

    choice: Choice = field(default_factory=lambda: Choice("synchrony"))
    members: dict[tuple[ClientId, str], SynchronousMember] = field(default_factory=dict)
    waiting: dict[tuple[ClientId, str], deque[SendStep]] = field(default_factory=dict)  # for the next view

    def handle(self, event: Event) -> list[Action]:
        """As its base; and now and then a program takes its time before it allows a flush."""
        if isinstance(event, TimerFired):
            key = self._asked[event.key]  # type: ignore[index]
            return self._react(key, FlushAllowed(event.at))
        self._at = event.at
        return super().handle(event)

    def __post_init__(self) -> None:
        self._asked: dict[tuple[str | int, ...], tuple[ClientId, str]] = {}
        self._at = 0

    def _play(self, session: Session, step: Step) -> list[Action]:
        if not isinstance(step, SendStep):
            return super()._play(session, step)
        key = next(((session.id, group) for group in step.groups if (session.id, group) in self.members), None)
        if key is None:
            outside = tuple(group for group in step.groups if group not in session.wanted | session.leaving)
            return [self._send(session, msgspec.structs.replace(step, groups=outside))] if outside else []
        if key[1] in session.leaving:
            return []
        if not self.members[key].may_send:
            if len(self.waiting.setdefault(key, deque())) < WAITING_MAX:
                self.waiting[key].append(step)
            return []
        return self._send_in_view(session, key, step)

    def _send_in_view(self, session: Session, key: tuple[ClientId, str], step: SendStep) -> list[Action]:
        service = synchronous_service(step.service)
        first = session.sent + 1
        session.sent += len(step.lengths)
        bodies = [b"x" * length for length in step.lengths]
        bundle = bundle_of(session.id, first, service, (key[1],), bodies, flags=SYNCHRONOUS)
        return [self.members[key].sent(first, len(bodies)), b4.Ask(session.id, b4.Send(bundle))]

    def _on_indication(self, client: ClientId, indication: b4.Indication) -> list[Action]:
        actions = super()._on_indication(client, indication)
        session = self.sessions.get(client.name)
        if session is None or session.id != client:
            for key in [key for key in self.members if key[0].name == client.name and key[0].daemon == client.daemon]:
                if session is None or key[0] != session.id:
                    self._forget(key)
            return actions
        groups: tuple[str, ...] = ()
        match indication:
            case b4.View(view=view):
                groups = (view.group,)
                self.members.setdefault((client, view.group), SynchronousMember(client, view.group))
            case b4.Message(bundle=bundle):
                groups = bundle.groups
            case b4.Transitional(group=group) | b4.SelfLeave(group=group):
                groups = (group,)
        for group in groups:
            if (client, group) in self.members:
                actions += self._react((client, group), b4.Indicated(self._at, (client,), indication))
        if isinstance(indication, b4.SelfLeave):
            self._forget((client, indication.group))
        return actions

    def _forget(self, key: tuple[ClientId, str]) -> None:
        self.members.pop(key, None)
        self.waiting.pop(key, None)

    def _react(self, key: tuple[ClientId, str], event: Event) -> list[Action]:
        """Let the member have it, and do what it says."""
        actions: list[Action] = []
        member, session = self.members.get(key), self.sessions.get(key[0].name)
        if member is None or session is None or session.id != key[0]:
            return []
        for action in member.handle(event):
            match action:
                case AskFlush():
                    actions += self._ask(key)
                case TellFlushed(group=group, body=body):
                    session.sent += 1
                    bundle = bundle_of(session.id, session.sent, Service.AGREED, (group,), (body,), flags=FLUSH)
                    actions.append(b4.Ask(session.id, b4.Send(bundle)))
                case b4.Indicate(indication=indication):
                    actions += self._heard(key, indication)
                case _:
                    actions.append(action)
        return actions

    def _ask(self, key: tuple[ClientId, str]) -> list[Action]:
        after = self.choice.pick((0, 0, 2, 30)) * MILLISECOND
        if not after:
            return self._react(key, FlushAllowed(self._at))
        client, group = key
        name: tuple[str | int, ...] = ("flush", client.name, client.session, group)
        self._asked[name] = key
        return [SetTimer(name, after)]

    def _heard(self, key: tuple[ClientId, str], indication: b4.Indication) -> list[Action]:
        """In a new view what waited for it is sent; a message is answered now and then."""
        session = self.sessions[key[0].name]
        if isinstance(indication, b4.View):
            waiting = self.waiting.pop(key, deque())
            return [action for step in waiting for action in self._play(session, step)]
        if isinstance(indication, b4.Message) and indication.bundle.sender != key[0] and self.choice.chance(REPLIES):
            service = self.choice.pick((Service.FIFO, Service.CAUSAL, Service.AGREED))
            return self._play(session, SendStep(0, "", key[0].name, service, (key[1],), (20,)))
        return []
