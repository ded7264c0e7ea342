"""Speakers: daemons in one stable daemon view, each a transport with somebody above it who talks and listens.

A speaker numbers what it sends and records `ssend` and `sdeliver`; the transport records its view and the network.

Implements: [Spread 2.2.6], the external signature of EVS-S without changes of the view.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from isotone.core.contract import Action, Event, Record
from isotone.core.ids import DaemonId
from isotone.core.services import Service
from isotone.evs.links.contract import DeclareFailed
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.transport import DeliverUnits, Submitted, Transport
from isotone.trace.boundary import message_digest
from isotone.trace.events import DaemonDelivered, DaemonSent

SPEAKER = "speaker"
_HEAD = struct.Struct(">QH")  # first sequence, how many messages


class SpeakDue(Event, frozen=True, gc=False):
    """The speaker shall send a bundle of messages of these lengths."""

    service: Service
    lengths: tuple[int, ...]


class Speaker:
    """One daemon: a transport, and above it somebody who talks."""

    def __init__(
        self,
        daemon: DaemonId,
        transport: Transport,
        members: tuple[DaemonId, ...],
        witness: Callable[[Unit], None] = lambda unit: None,
    ) -> None:
        self.transport = transport
        self._witness = witness  # looks at every unit when it is delivered
        self.failed = ""
        self.sent = 0  # messages
        self.heard: list[Unit] = []
        self._name = str(daemon)
        self._names = tuple(str(member) for member in members)

    def handle(self, event: Event) -> list[Action]:
        """Take one event."""
        if not isinstance(event, SpeakDue):
            return self._told(self.transport.handle(event))
        if self.failed:
            return []
        bodies = [self._body(self.sent + place, length) for place, length in enumerate(event.lengths, start=1)]
        first, self.sent = self.sent + 1, self.sent + len(bodies)
        digests = tuple(message_digest(0, body) for body in bodies)
        packed = b"".join([pack(first, event.lengths), *bodies])
        draft = Draft(self._name, UnitKind.BUNDLE, event.service, packed)
        told = self._told(self.transport.handle(Submitted(event.at, [draft])))
        return [Record(DaemonSent(self._name, first, event.service, event.lengths, digests)), *told]

    def _body(self, sequence: int, length: int) -> bytes:
        """Bytes that tell who sent them, as far as they have place for it."""
        text = f"{self._name}/{sequence}/".encode()
        return (text * (length // len(text) + 1))[:length]

    def _told(self, actions: list[Action]) -> list[Action]:
        out: list[Action] = []
        for action in actions:
            if isinstance(action, DeliverUnits):
                self.heard += action.units
                for unit in action.units:
                    self._witness(unit)
                out += [Record(self._delivered(unit)) for unit in action.units]
            elif isinstance(action, DeclareFailed):
                self.failed = action.reason
            else:
                out.append(action)
        return out

    def _delivered(self, unit: Unit) -> DaemonDelivered:
        sender = self._names[unit.daemon]
        first, lengths, bodies = unpack(bytes(unit.body))
        digests = tuple(message_digest(0, body) for body in bodies)
        return DaemonDelivered(self._name, sender, first, unit.service, lengths, digests, unit.lamport, sender)


def pack(first: int, lengths: tuple[int, ...]) -> bytes:
    """What stands before the messages of a bundle."""
    return _HEAD.pack(first, len(lengths)) + struct.pack(f">{len(lengths)}I", *lengths)


def unpack(body: bytes) -> tuple[int, tuple[int, ...], list[bytes]]:
    """The first sequence, the lengths and the messages of a bundle."""
    first, count = _HEAD.unpack_from(body)
    lengths = struct.unpack_from(f">{count}I", body, _HEAD.size)
    at = _HEAD.size + 4 * count
    bodies = []
    for length in lengths:
        bodies.append(body[at : at + length])
        at += length
    return first, lengths, bodies
