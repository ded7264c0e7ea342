"""Small automata that the tests of the simulator share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from isotone.core.boundary import Ask, Indicate, Indicated, Message, Request, Requested, Send
from isotone.core.contract import Action, Automaton, Event
from isotone.core.ids import DaemonId, Stamp
from isotone.sim import Boot, Program

Rule = Callable[[Event], Sequence[Action]]


@dataclass
class Scripted:
    """Answers by a rule and keeps all it heard."""

    rule: Rule = lambda event: ()
    heard: list[Event] = field(default_factory=list)

    def handle(self, event: Event) -> list[Action]:
        self.heard.append(event)
        return list(self.rule(event))

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.heard if type(event) is kind]


class Told(Event, frozen=True):
    """The driver hands in actions."""

    actions: tuple[Action, ...]


def obey(event: Event) -> Sequence[Action]:
    return event.actions if isinstance(event, Told) else ()


def obedient(boot: Boot) -> Mapping[str, Automaton]:
    """A program whose one automaton does what it is told."""
    return {"main": Scripted(obey)}


def one(rule: Rule) -> Program:
    return lambda boot: {"main": Scripted(rule)}


@dataclass
class Echo:
    """A service that confirms every request at once and hands every bundle to its sender."""

    lamport: int = 0
    heard: list[Event] = field(default_factory=list)

    def handle(self, event: Event) -> list[Action]:
        self.heard.append(event)
        if not isinstance(event, Requested):
            return []
        request: Request = event.request
        if isinstance(request, Send):
            self.lamport += 1
            stamp = Stamp(self.lamport, DaemonId("echo", 1))
            return [Indicate((event.client,), Message(request.bundle, stamp))]
        return []


__all__ = ["Ask", "Echo", "Indicated", "Scripted", "Told", "obedient", "obey", "one"]
