"""A COReL server as a process of a simulated run: the replica, and an application that appends and listens.

What the replica tells its application is dropped here: the record has it too, in its place behind the disk, and the
checkers judge that.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from isotone.core import boundary as b4
from isotone.core.contract import Action, Event
from isotone.corel.events import (
    AppendNamed,
    AppendRefused,
    AppendWanted,
    DeliverGreen,
    DeliverRed,
    DeliverWhite,
    StandingChanged,
)
from isotone.corel.replica import Replica
from isotone.sim.evs_clients import ClientKilled, StepDue
from isotone.sim.plan import Step

APPLICATION = (AppendNamed, AppendRefused, DeliverRed, DeliverGreen, DeliverWhite, StandingChanged)


class AppendStep(Step, frozen=True, tag="append"):
    """The application at a node appends records of these lengths, in one instant."""

    lengths: tuple[int, ...]


@dataclass
class CorelNode:
    """One incarnation."""

    replica: Replica
    mark: str
    heard: Callable[[StandingChanged], None]  # who lies in wait for a standing
    appended: int = 0
    refused: int = 0

    def handle(self, event: Event) -> list[Action]:
        """Play a step, break the session, or let the replica have it."""
        match event:
            case StepDue(step=AppendStep(lengths=lengths)):
                return [action for length in lengths for action in self._append(event.at, length)]
            case ClientKilled():
                return self._kill(event.at)
        return self._below(self.replica.handle(event))

    def _append(self, at: int, length: int) -> list[Action]:
        self.appended += 1
        mark = f"{self.mark}.{self.appended}.".encode()
        record = (mark * (length // len(mark) + 1))[: max(length, len(mark))]
        return self._below(self.replica.handle(AppendWanted(at, self.appended, record)))

    def _kill(self, at: int) -> list[Action]:
        """The session breaks off: at B4 that looks like a farewell, and the replica hears that it is over."""
        client = self.replica.session.client
        if client is None:
            return []
        lost = b4.Indicated(at, (client,), b4.Disconnected("killed"))
        return [b4.Ask(client, b4.Disconnect()), *self._below(self.replica.handle(lost))]

    def _below(self, actions: list[Action]) -> list[Action]:
        for action in actions:
            if type(action) is StandingChanged:
                self.heard(action)
            elif type(action) is AppendRefused:
                self.refused += 1
        return [action for action in actions if type(action) not in APPLICATION]
