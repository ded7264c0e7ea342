"""A witness for two data centres: a process without data, at a third place, that records who was declared lost.

Of two centres no majority is left when one is lost. A declaration counts there when the witness has recorded it too. It
records one side only: whoever is recorded as lost in a life has no say in that life any more. So of two centres that
declare each other lost, one goes on.

Implements: [HAB 2.2], the disaster detector. Deviations: Dh13 a witness, see docs/protocols/hab.md.
"""

from __future__ import annotations

import msgspec

from isotone.core.codec import ControlMessage
from isotone.core.contract import Action, Event, Persist, Persisted, Put, Started, Stopping
from isotone.core.errors import RemoteProtocolError
from isotone.hab.centre import Centre, Role
from isotone.hab.events import PacketReceived, SendPacket
from isotone.hab.messages import WIDE, Declare, WitnessAnswer, WitnessQuestion
from isotone.hab.settings import HabSettings

CELL = "lost"


class Witness:
    """``lost``: of each centre the last life in which it was declared lost; all before are over."""

    def __init__(self, settings: HabSettings) -> None:
        self.settings = settings.check()
        self.lost: dict[str, int] = {}
        self._tickets = 0

    def handle(self, event: Event) -> list[Action]:
        """Take one event, change state, say what to do."""
        match event:
            case Started(storage=storage):
                if CELL in storage.cells:
                    self.lost = msgspec.msgpack.decode(storage.cells[CELL], type=dict[str, int])
                return []
            case PacketReceived(source=source, data=data):
                return self._on_packet(source, data)
        assert isinstance(event, Persisted | Stopping), f"a witness does not expect {event!r}"
        return []

    def _on_packet(self, source: str, data: bytes) -> list[Action]:
        asks, told = self.settings.centre_of(source), WIDE.decode(data)
        if not isinstance(told, WitnessQuestion) or told.centre == asks or told.centre not in self.settings.centres:
            raise RemoteProtocolError(f"{source} asks a witness for {type(told).__name__}")
        known = self.lost.get(told.centre, -1)
        if told.life <= self.lost.get(asks, -1) or told.admitted_at < known:
            return []  # who is lost has no say
        answer = SendPacket(source, WIDE.encode(WitnessAnswer(told.centre, told.admitted_at)))
        if told.admitted_at == known:
            return [answer]
        self.lost[told.centre] = told.admitted_at
        self._tickets += 1
        return [Persist(self._tickets, (Put(CELL, msgspec.msgpack.encode(self.lost)),)), answer]


# --- at a process of a centre ----------------------------------------------------------------------------------------


def questions(centre: Centre, settings: HabSettings) -> list[WitnessQuestion]:
    """What to ask the witness, until it answers: of two centres this one has recorded that the other is lost."""
    mine = centre.configuration.named(centre.name)
    if not settings.witness or len(centre.configuration.groups) != 2 or mine is None or centre.role is Role.OUT:
        return []
    waiting = [each for each in centre.declarations.values() if not centre.is_effective(each)]
    return [WitnessQuestion(each.centre, each.admitted_at, mine.admitted_at) for each in waiting]


def answered(centre: Centre, message: ControlMessage) -> list[Declare]:
    """The witness answers: the declaration counts."""
    if not isinstance(message, WitnessAnswer):
        raise RemoteProtocolError(f"the witness sends {type(message).__name__}")
    known = centre.declarations.get(message.centre)
    if known is None or known.admitted_at != message.admitted_at or centre.is_effective(known):
        return []
    return [Declare(msgspec.structs.replace(known, witnessed=True))]
