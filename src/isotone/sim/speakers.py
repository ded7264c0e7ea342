"""Speakers: daemons in one stable daemon view, each a transport with somebody above it who talks and listens.

A speaker numbers what it sends and records `ssend` and `sdeliver`; the transport records its view and the network. In
runs with pruning a unit that came without content is recorded as what it stands for: it holds its place in every order.

Implements: [Spread 2.2.6], the external signature of EVS-S without changes of the view.
"""

from __future__ import annotations

from collections.abc import Callable

from isotone.core.contract import Action, Event, Record, Started
from isotone.core.ids import DaemonId
from isotone.core.services import Service
from isotone.evs.links.contract import DeclareFailed
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.transport import DeliverUnits, Submitted, Transport, TransportView
from isotone.sim.speaker_groups import Change, Contents, Members, pack, unpack
from isotone.trace.boundary import message_digest
from isotone.trace.events import DaemonDelivered, DaemonSent

SPEAKER = "speaker"


class SpeakDue(Event, frozen=True, gc=False):
    """The speaker shall send a bundle of messages of these lengths."""

    service: Service
    lengths: tuple[int, ...]
    group: str = ""  # for whom; everybody if it is empty
    change: Change = Change.NONE  # whether the speaker joins or leaves that group with it
    is_alone: bool = False  # the group has no members: it shall be stamped without waiting for any link


class Speaker:
    """One daemon: a transport, and above it somebody who talks."""

    def __init__(
        self,
        daemon: DaemonId,
        transport: Transport,
        view: TransportView,
        witness: Callable[[Unit], None] = lambda unit: None,
        contents: Contents | None = None,
    ) -> None:
        self.transport = transport
        self._witness = witness  # looks at every unit when it is delivered
        self.failed = ""
        self.sent = 0  # messages
        self.heard: list[Unit] = []
        self.waited_alone_us = 0  # the longest that something of which ``is_alone`` was said waited for its stamp
        self._alone: dict[int, int] = {}  # such messages that wait, and since when
        self._name = str(daemon)
        self._names = tuple(str(member) for member in view.members)
        self._contents = contents or Contents()
        self.members = Members(view, daemon.name) if contents is not None else None

    def handle(self, event: Event) -> list[Action]:
        """Take one event."""
        if not isinstance(event, SpeakDue):
            told = self._told(self.transport.handle(event), event.at)
            if isinstance(event, Started) and self.members is not None:
                told += self._tell(self.members.stated(event.at))
            return told
        if self.failed:
            return []
        bodies = [self._body(self.sent + place, length) for place, length in enumerate(event.lengths, start=1)]
        first, self.sent = self.sent + 1, self.sent + len(bodies)
        if event.is_alone and not self.transport.stamper.has_waiting(self._name):
            self._alone[first] = event.at
        digests = tuple(message_digest(0, body) for body in bodies)
        packed = b"".join([pack(first, event.lengths, event.group, event.change), *bodies])
        draft = Draft(self._name, UnitKind.BUNDLE, event.service, packed)
        told = self._told(self.transport.handle(Submitted(event.at, [draft])), event.at)
        return [Record(DaemonSent(self._name, first, event.service, event.lengths, digests)), *told]

    def _body(self, sequence: int, length: int) -> bytes:
        """Bytes that tell who sent them, as far as they have place for it."""
        text = f"{self._name}/{sequence}/".encode()
        return (text * (length // len(text) + 1))[:length]

    def _told(self, actions: list[Action], at: int) -> list[Action]:
        out: list[Action] = []
        for action in actions:
            if isinstance(action, DeliverUnits):
                self.heard += action.units
                for unit in action.units:
                    out += self._deliver(unit, at)
            elif isinstance(action, DeclareFailed):
                self.failed = action.reason
            else:
                out.append(action)
        return out

    def _deliver(self, unit: Unit, at: int) -> list[Action]:
        self._witness(unit)
        whole = self._contents.whole(unit)
        sender, spoken = self._names[unit.daemon], unpack(whole.body)
        if sender == self._name and spoken.first in self._alone:
            self.waited_alone_us = max(self.waited_alone_us, at - self._alone.pop(spoken.first))
        digests = tuple(message_digest(0, body) for body in spoken.bodies)
        delivered = DaemonDelivered(
            self._name, sender, spoken.first, unit.service, spoken.lengths, digests, unit.lamport, sender
        )
        events = self.members.deliver(unit, whole, at) if self.members is not None else []
        return [Record(delivered), *self._tell(events)]

    def _tell(self, events: list[Event]) -> list[Action]:
        """What the transport has to hear of groups."""
        out: list[Action] = []
        for event in events:
            out += self._told(self.transport.handle(event), event.at)
        return out
