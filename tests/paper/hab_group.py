"""Data centres by hand: processes, the local order of each centre, and what is between centres; events in, by turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from isotone.core.contract import Action, Event, Started, TimerFired
from isotone.hab.coordinator import ANSWER
from isotone.hab.events import (
    BroadcastWanted,
    DeclareWanted,
    HaDeliver,
    LocalBroadcast,
    LocalDelivered,
    LocalSuspected,
    PacketReceived,
    SendPacket,
)
from isotone.hab.messages import COMMANDS, WIDE, Alive, Kind
from isotone.hab.process import ALIVE, Hab, Local
from isotone.hab.settings import HabSettings

Packet = tuple[str, str, object]


def commands(hab: Hab, actions: list[object]) -> list[object]:
    """What a process broadcasts inside its centre."""
    return [
        COMMANDS.decode(msgspec.msgpack.decode(each.record, type=Local).body)
        for each in actions
        if isinstance(each, LocalBroadcast)
    ]


class DataCentres:
    """``between``: packets on their way, which `run` delivers in their order."""

    def __init__(self, settings: HabSettings) -> None:
        self.settings = settings
        self.habs = {name: Hab(settings, name, 1) for names in settings.centres.values() for name in names}
        self.delivered: dict[str, list[bytes]] = {name: [] for name in self.habs}
        self.between: deque[tuple[str, str, bytes]] = deque()
        self.lost: list[Packet] = []  # what `run` did not deliver
        self._alive: list[tuple[str, str, bytes]] = []
        for name in self.habs:
            self.tell(name, Started(0))

    def tell(self, name: str, event: Event) -> None:
        """An event, and all that follows inside its centre."""
        waiting = deque([(name, event)])
        while waiting:
            process, following = waiting.popleft()
            for action in self.habs[process].handle(following):
                if isinstance(action, LocalBroadcast):
                    peers = self.settings.centres[self.settings.centre_of(process)]
                    told = LocalDelivered(0, (action.record,))
                    waiting.extend((peer, told) for peer in peers if peer in self.habs)
                else:
                    self._carry_out(process, action)

    def _carry_out(self, name: str, action: Action) -> None:
        match action:
            case HaDeliver(entries=entries):
                self.delivered[name] += [entry.record for entry in entries if entry.kind is Kind.RECORD]
            case SendPacket(to=to, data=data) if isinstance(WIDE.decode(data), Alive):
                self._alive.append((name, to, data))
            case SendPacket(to=to, data=data):
                self.between.append((name, to, data))

    def broadcast(self, name: str, record: bytes) -> None:
        """HA-broadcast."""
        self.tell(name, BroadcastWanted(0, 1, record))

    def run(self, loses: Callable[[str, str, object], bool] = lambda source, to, message: False) -> None:
        """Until nothing is between the centres; what is lost stays away."""
        while self.between:
            source, to, data = self.between.popleft()
            message = WIDE.decode(data)
            if to not in self.habs or loses(source, to, message):
                self.lost.append((source, to, message))
            else:
                self.tell(to, PacketReceived(0, source, data))

    def keep_alive(self, source: str, to: str = "", *, at: int = 0) -> None:
        """The coordinator of a centre tells its keep-alives, to this other centre or to all."""
        for name in self.settings.centres[source]:
            if name in self.habs:
                self.tell(name, TimerFired(at, ALIVE))
        told, self._alive = self._alive, []
        for name, target, data in told:
            if target in self.habs and to in ("", self.settings.centre_of(target)):
                self.tell(target, PacketReceived(at, name, data))

    def strike(self, centre: str) -> None:
        """A disaster, which is not declared yet."""
        for name in self.settings.centres[centre]:
            self.habs.pop(name, None)

    def declare(
        self, centre: str, loses: Callable[[str, str, object], bool] = lambda source, to, message: False
    ) -> None:
        """All that are left record it."""
        for name in {self.settings.centre_of(each): each for each in reversed(self.habs)}.values():
            self.tell(name, DeclareWanted(0, centre))
        self.run(loses)

    def silence(self, centre: str, of: str) -> None:
        """The coordinator of a centre has waited long enough for an answer of another one, and asks again."""
        for name in self.settings.centres[centre]:
            if name in self.habs and self.habs[name].is_coordinator:
                self.tell(name, TimerFired(0, (ANSWER, of)))

    def crash_coordinator(self, centre: str) -> None:
        """It ends, and the others of its centre suspect it."""
        names = self.settings.centres[centre]
        gone = self.habs[next(name for name in names if name in self.habs)].centre.coordinator(self.settings)
        del self.habs[gone]
        for name in names:
            if name in self.habs:
                self.tell(name, LocalSuspected(0, (gone,)))
