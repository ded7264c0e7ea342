"""A HAB process of a simulated run: the stack, packets as datagrams, and an application that broadcasts and listens.

The application's state is a digest over all delivered records, in their order; it offers a snapshot now and then.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from isotone.core.contract import Action, Address, DatagramsReceived, DatagramsRefused, Event, Record, SendDatagrams
from isotone.hab import messages as m
from isotone.hab.events import (
    BroadcastRefused,
    BroadcastWanted,
    DeclareWanted,
    HaDeliver,
    HandoverWanted,
    InstallState,
    PacketReceived,
    RejoinWanted,
    SendPacket,
    SnapshotOffered,
    StandingChanged,
)
from isotone.hab.process import Hab
from isotone.hab.stack import HabOnConsensus, HabOnCorel
from isotone.hab.witness import Witness
from isotone.sim.evs_clients import StepDue
from isotone.sim.plan import Step
from isotone.trace.hab import HaCrossed


class BroadcastStep(Step, frozen=True, tag="ha-broadcast"):
    """The application at a process broadcasts records of these lengths, in one instant."""

    lengths: tuple[int, ...]


@dataclass
class Application:
    """A digest over the records up to a position."""

    position: int = 0
    digest: bytes = b""
    asked: int = 0
    refused: int = 0
    answered: dict[int, int] = field(default_factory=dict)  # the position of each request that was delivered


@dataclass
class HabNode:
    """One incarnation. ``addresses`` says where each process is reached."""

    stack: HabOnConsensus | HabOnCorel
    addresses: Mapping[str, Address]
    names: Callable[[Address], str]
    mark: str
    snapshot_every: int = 0
    crossing: bool = False  # whether packets between centres are recorded
    application: Application = field(default_factory=Application)
    _offered: int = 0

    @property
    def hab(self) -> Hab:
        """The process itself."""
        return self.stack.hab

    def handle(self, event: Event) -> list[Action]:
        """Play a step, or let the stack have it."""
        match event:
            case StepDue(step=BroadcastStep(lengths=lengths)):
                return [action for length in lengths for action in self._broadcast(event.at, length)]
            case DatagramsReceived(source=source, data=data, segment_size=size):
                packets = [bytes(data[place : place + size]) for place in range(0, len(data), size)]
                name = self.names(source)
                return [action for packet in packets for action in self._tell(PacketReceived(event.at, name, packet))]
            case DatagramsRefused():
                return []
        return self._tell(event)

    def _broadcast(self, at: int, length: int) -> list[Action]:
        self.application.asked += 1
        mark = f"{self.mark}.{self.application.asked}.".encode()
        record = (mark * (length // len(mark) + 1))[: max(length, len(mark))]
        return self._tell(BroadcastWanted(at, self.application.asked, record))

    def _tell(self, event: Event) -> list[Action]:
        actions = self._done(self.stack.handle(event))
        application = self.application
        if self.snapshot_every and application.position >= self._offered + self.snapshot_every:
            self._offered = application.position
            state = application.digest
            actions += self._done(self.stack.handle(SnapshotOffered(event.at, application.position, state)))
        return actions

    def _done(self, actions: list[Action]) -> list[Action]:
        out: list[Action] = []
        application = self.application
        for action in actions:
            match action:
                case SendPacket(to=to, data=data):
                    out += self._crossed(to, data)
                    out.append(SendDatagrams(self.addresses[to], [[data]]))
                case HaDeliver(entries=entries, own=own):
                    for entry in entries:
                        if entry.kind is m.Kind.RECORD and entry.position == application.position + 1:
                            application.digest = blake2b(application.digest + entry.record, digest_size=16).digest()
                            application.position = entry.position
                    application.answered.update(own)
                case InstallState(snapshot=snapshot):
                    application.position = snapshot.position if snapshot is not None else 0
                    application.digest = snapshot.state if snapshot is not None else b""
                    self._offered = application.position
                case BroadcastRefused():
                    application.refused += 1
                case StandingChanged():
                    pass
                case _:
                    out.append(action)
        return out

    def _crossed(self, to: str, data: bytes) -> list[Action]:
        settings = self.hab.settings
        if not self.crossing or to == settings.witness or settings.centre_of(to) == self.hab.centre.name:
            return []
        kind = type(m.WIDE.decode(data)).__name__
        return [Record(HaCrossed(self.hab.process, to, kind))]


@dataclass
class WitnessNode:
    """One incarnation of the witness."""

    witness: Witness

    def handle(self, event: Event) -> list[Action]:
        """Datagrams in and out."""
        if not isinstance(event, DatagramsReceived):
            return self.witness.handle(event)
        told = PacketReceived(event.at, str(event.source).partition(".")[0], bytes(event.data))
        return [
            SendDatagrams(Address(f"{action.to}.1"), [[action.data]]) if isinstance(action, SendPacket) else action
            for action in self.witness.handle(told)
        ]


OPERATOR_EVENTS = (DeclareWanted, HandoverWanted, RejoinWanted)
