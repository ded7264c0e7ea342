"""A HAB process with the local atomic broadcast and the failure detector of its centre beneath it, on one page.

`HabOnConsensus` orders by consensus among the processes of the centre, which the detector watches; a process that ends
stays away. `HabOnCorel` takes COReL's green order, whose views are the detector; a process comes back with its log.
Packets from processes of the same centre are for the local broadcast, all others for HAB.

Implements: [HAB 2], processes of a group with their detectors. Deviations: none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from isotone.core.contract import Action, Event, SetTimer, Started, TimerFired
from isotone.core.ids import DaemonId
from isotone.corel import events as c
from isotone.corel.message import Message
from isotone.corel.quorum import Majority
from isotone.corel.replica import Replica
from isotone.corel.settings import ReplicaSettings
from isotone.detector import signals as d
from isotone.detector.detector import Detector
from isotone.hab import consensus_messages as cm
from isotone.hab.consensus import AGAIN, Consensus
from isotone.hab.coordinator import ANSWER
from isotone.hab.events import (
    DeliverLocally,
    LocalBroadcast,
    LocalDelivered,
    LocalRestored,
    LocalSuspected,
    OfferLocalState,
    PacketReceived,
    SendPacket,
)
from isotone.hab.process import ALIVE, SUBMIT, Hab
from isotone.hab.settings import HabSettings

DETECTOR, LOCAL_AGAIN = "detector", "local-again"
LOCAL_AGAIN_US = 50_000
OWN_TIMERS = (ALIVE, SUBMIT)


Call = Callable[[], list[Action]]


def _run(actions: Iterable[Action], inside: Callable[[Action], Call | None]) -> list[Action]:
    """Carry out what concerns the parts themselves, first come, first served: a part's actions keep their order."""
    out: list[Action] = []
    calls: deque[Call] = deque()
    while True:
        for action in actions:
            call = inside(action)
            if call is None:
                out.append(action)
            else:
                calls.append(call)
        if not calls:
            return out
        actions = calls.popleft()()


def _nothing() -> list[Action]:
    return []


def _is_own(key: object) -> bool:
    return key in OWN_TIMERS or (isinstance(key, tuple) and key[0] == ANSWER)


class HabOnConsensus:
    """Consensus and the detector beneath HAB."""

    def __init__(self, settings: HabSettings, process: str, incarnation: int, *, founder: bool = True) -> None:
        self.hab = Hab(settings, process, incarnation, founder=founder)
        self._peers = settings.centres[settings.centre_of(process)]
        self.local = Consensus(process, self._peers)
        self._detector = Detector(timer=DETECTOR)
        self._suspects: set[str] = set()

    def handle(self, event: Event) -> list[Action]:
        """Take one event, change state, say what to do."""
        match event:
            case Started():
                watched = [each for each in self._peers if each != self.hab.process]
                added = [action for each in watched for action in self._detector.handle(d.PeerAdded(event.at, each))]
                return [*self._carried(self.hab.handle(event), event.at), *self._detected(added, event.at)]
            case PacketReceived(source=source, data=data) if source in self._peers:
                return self._on_peer(source, data, event)
            case TimerFired(key=key) if key == DETECTOR:
                return self._detected(self._detector.handle(event), event.at)
            case TimerFired(key=key) if key == AGAIN:
                return self._carried(self.local.handle(event), event.at)
            case LocalSuspected():
                return self._suspect(event)
        return self._carried(self.hab.handle(event), event.at)

    def _suspect(self, event: LocalSuspected) -> list[Action]:
        """Consensus and HAB have one detector."""
        return [
            *self._carried(self.local.handle(event), event.at),
            *self._carried(self.hab.handle(event), event.at),
        ]

    @property
    def suspects(self) -> tuple[str, ...]:
        """Whom the detector suspects now."""
        return tuple(sorted(self._suspects))

    def _on_peer(self, source: str, data: bytes, event: Event) -> list[Action]:
        message = cm.CODEC.decode(data)
        at = event.at
        match message:
            case cm.Probe(nonce=nonce):
                told = self._detector.handle(d.ProbeReceived(at, source, nonce))
            case cm.Echo(nonce=nonce):
                told = self._detector.handle(d.ProbeAnswered(at, source, nonce))
            case _:
                told = self._detector.handle(d.Heard(at, source))
                return [*self._detected(told, at), *self._carried(self.local.handle(event), at)]
        ahead = self.local.on_progress(self._peers.index(source), message.instance)
        return [*self._detected(told, at), *self._carried(ahead, at)]

    def _detected(self, actions: Iterable[Action], at: int) -> list[Action]:
        out: list[Action] = []
        before = set(self._suspects)
        for action in actions:
            match action:
                case d.SendProbe(peer=peer, nonce=nonce):
                    out.append(SendPacket(peer, cm.CODEC.encode(cm.Probe(nonce, self.local.instance))))
                case d.AnswerProbe(peer=peer, nonce=nonce):
                    out.append(SendPacket(peer, cm.CODEC.encode(cm.Echo(nonce, self.local.instance))))
                case d.Suspect(peer=peer):
                    self._suspects.add(peer)
                case d.Trust(peer=peer):
                    self._suspects.discard(peer)
                case d.DoubtSelf():
                    pass
                case _:
                    out.append(action)
        if self._suspects != before:
            out += self._suspect(LocalSuspected(at, tuple(sorted(self._suspects))))
        return out

    def _carried(self, actions: Iterable[Action], at: int) -> list[Action]:
        return _run(actions, partial(self._inside, at))

    def _inside(self, at: int, action: Action) -> Call | None:
        """What one part says to the other."""
        match action:
            case LocalBroadcast():
                return partial(self.local.broadcast, action)
            case DeliverLocally(records=records):
                return partial(self.hab.handle, LocalDelivered(at, records))
            case OfferLocalState():
                return _nothing  # a process that ends stays away: nobody needs it
        return None


class HabOnCorel:
    """A COReL replica beneath HAB: its green order is the local broadcast."""

    def __init__(
        self,
        settings: HabSettings,
        process: str,
        daemon: DaemonId,
        identity: bytes,
        *,
        incarnation: int = 0,
        group: str = "",
        founder: bool = True,
    ) -> None:
        """``incarnation``: of the process, if it is not that of the daemon; ``group``: of its centre's servers."""
        centre = settings.centre_of(process)
        servers = settings.centres[centre]
        self.hab = Hab(settings, process, incarnation or daemon.incarnation, founder=founder)
        self.replica = Replica(
            ReplicaSettings(
                server=process,
                servers=servers,
                group=group or f"hab-{centre}",
                quorum=Majority(servers),
                snapshots=settings.state_every > 0,
                checkpoint_records=64,
            ),
            daemon,
            identity,
        )
        self._servers = servers
        self._taken = 0  # local positions up to here were handed to HAB
        self._requests = 0
        self._under_way: dict[int, bytes] = {}  # appends without a name yet
        self._refused: list[bytes] = []

    def handle(self, event: Event) -> list[Action]:
        """Take one event, change state, say what to do."""
        match event:
            case Started():
                return self._on_start(event)
            case PacketReceived():
                return self._carried(self.hab.handle(event), event.at)
            case TimerFired(key=key) if key == LOCAL_AGAIN:
                refused, self._refused = self._refused, []
                appended = [action for record in refused for action in self._append(record, event.at)]
                return self._carried(appended, event.at)
            case TimerFired(key=key) if _is_own(key):
                return self._carried(self.hab.handle(event), event.at)
        if type(event).__module__ == "isotone.hab.events":
            return self._carried(self.hab.handle(event), event.at)
        return self._carried(self.replica.handle(event), event.at)

    def _on_start(self, event: Started) -> list[Action]:
        """The centre's state as the log has it: the snapshot, and what is green behind it."""
        actions = self._carried(self.replica.handle(event), event.at)
        ledger = self.replica.ledger
        place, records = 0, 0
        if ledger.snapshot is not None:
            place, records = ledger.snapshot.head.place, ledger.snapshot.head.records
        green = ledger.queue.between(place, ledger.queue.green)
        actions += self._carried(self._on_green(records + 1, green, event.at, replayed=True), event.at)
        return [*actions, *self._carried(self.hab.handle(event), event.at)]

    @property
    def suspects(self) -> tuple[str, ...]:
        """Who is not in the view now."""
        return tuple(each for each in self._servers if each not in self.replica.session.servers)

    def _on_green(self, position: int, messages: Iterable[Message], at: int, *, replayed: bool = False) -> list[Action]:
        records = tuple(record for message in messages for record in message.records)
        known = self._taken + 1 - position
        if known >= len(records):
            return []
        assert known >= 0, "green records are told without gaps"
        self._taken = position - 1 + len(records)
        return self.hab.handle(LocalDelivered(at, records[known:], replayed))

    def _append(self, record: bytes, at: int) -> list[Action]:
        self._requests += 1
        self._under_way[self._requests] = record
        return self.replica.handle(c.AppendWanted(at, self._requests, record))

    def _install(self, position: int, state: bytes, at: int) -> list[Action]:
        self._taken = position
        return self.hab.handle(LocalRestored(at, state))

    def _carried(self, actions: Iterable[Action], at: int) -> list[Action]:
        return _run(actions, partial(self._inside, at))

    def _inside(self, at: int, action: Action) -> Call | None:
        """What one part says to the other."""
        match action:
            case LocalBroadcast(record=record):
                return partial(self._append, record, at)
            case OfferLocalState(state=state):
                return partial(self.replica.handle, c.SnapshotOffered(at, self._taken, state))
            case c.DeliverGreen(position=position, messages=messages):
                return partial(self._on_green, position, messages, at)
            case c.InstallSnapshot(position=position, state=state):
                return partial(self._install, position, state, at)
            case c.AppendNamed(requests=requests):
                for request in requests:
                    self._under_way.pop(request, None)
                return _nothing
            case c.AppendRefused(request=request):
                self._refused.append(self._under_way.pop(request))
                return partial(list, [SetTimer(LOCAL_AGAIN, LOCAL_AGAIN_US)])
            case c.StandingChanged(primary=True, servers=servers):
                absent = tuple(each for each in self._servers if each not in servers)
                return (
                    partial(self.hab.handle, LocalSuspected(at, absent)) if absent != self.hab.suspected else _nothing
                )
        return _nothing if isinstance(action, c.ApplicationAction) else None
