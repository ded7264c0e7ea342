"""Delegation authorities: who may be in which ring, what its members must know, and where the parent is.

One process serves any number of rings. For each it is the delegation authority (`Enrol` is answered with `Bootstrap`)
and the membership service: it watches the members with the shared detector, numbers the views, and makes a view
durable before anybody hears of it, so that a number never means two views. The authority of the top ring also holds
the register of decisions (`isotone.flows.root`).

Implements: [Flows 3.1]. Deviations: Dw7 the register; Dw8 a view says since when each member is in without a break.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from isotone.core.codec.control import ControlMessage
from isotone.core.contract import (
    Action,
    Address,
    DatagramsReceived,
    DatagramsRefused,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    Put,
    SendDatagrams,
    SetTimer,
    Started,
    Stop,
    Stopping,
    Storage,
    TimerFired,
)
from isotone.core.contract import Record as Note
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.detector.detector import Detector
from isotone.detector.settings import DetectorSettings
from isotone.detector.signals import Heard, PeerAdded, PeerRemoved, ProbeAnswered, SendProbe, Suspect
from isotone.flows.compiler import Rules, compile_text
from isotone.flows.messages import (
    CODEC,
    MEMBERS_MAX,
    Alive,
    Bootstrap,
    Depart,
    Enrol,
    Probe,
    ProbeAnswer,
    Record,
    Recorded,
    RingView,
    WireMember,
    decision_from_bytes,
)
from isotone.flows.ring import NO_VERSION
from isotone.flows.values import to_plain
from isotone.trace import flows as trace

VIEW_BYTES_MAX = 50_000
"""Of names and addresses in one ring: a view must fit into a datagram."""
KEEP_ALIVE_RING_US, KEEP_ALIVE_MAX_US = 12_000, 5_000_000
"""For each ring the members of all are probed so much more rarely, so that an authority of many rings has time for it:
eight members cost a tenth of a core."""
VIEW_DELAY_US = 20_000
"""Joins and failures that come together make one view."""


class RingSettings(msgspec.Struct, frozen=True):
    """One ring: where its leader goes on to (no parent: to the root), and how its members run."""

    name: str
    parent: str
    parent_authority: str
    program: str
    token_us: int = 100_000
    ranges_max: int = 100
    bytes_per_s: int = 0  # for tokens at each member: then rate and k_max adapt


class _StoredRing(msgspec.Struct, frozen=True, array_like=True):
    number: int
    members: tuple[WireMember, ...]


class _Register(msgspec.Struct, frozen=True, array_like=True):
    """A decision, and the version of the one before it."""

    after: tuple[int, int] = NO_VERSION
    body: bytes = b""


class _Service:
    """The membership service of one ring."""

    def __init__(self, settings: RingSettings, rules: Rules, detector: DetectorSettings) -> None:
        self.settings, self.rules = settings, rules
        self.number = 0
        self.members: dict[str, WireMember] = {}  # of the present view, the leader first
        self.wanted: dict[str, str] = {}  # address by member: of the next view
        self.due = False  # a new view is on its way
        self.register = _Register()  # the top ring's last decision
        self.detector = Detector(detector, ("detector", settings.name))

    def view(self) -> RingView:
        return RingView(self.settings.name, self.number, tuple(self.members.values()))

    def next_view(self) -> None:
        """Whoever stays keeps its place and its first view; newcomers stand behind."""
        self.number += 1
        stay = {id: each for id, each in self.members.items() if id in self.wanted}
        come = {id: WireMember(id, at, self.number) for id, at in self.wanted.items() if id not in stay}
        self.members = {**stay, **come}
        self.due = False


class Authority:
    """Serves these rings."""

    periodic_timers = ("detector",)

    def __init__(self, rings: Mapping[str, RingSettings], detector: DetectorSettings | None = None) -> None:
        rules = {text: compile_text(text) for text in dict.fromkeys(each.program for each in rings.values())}
        usual = DetectorSettings().keep_alive_us
        rarely = min(len(rings) * KEEP_ALIVE_RING_US, KEEP_ALIVE_MAX_US)
        watching = detector or DetectorSettings(keep_alive_us=max(usual, rarely))
        self._services = {name: _Service(each, rules[each.program], watching) for name, each in rings.items()}
        self._ticket = 0

    def handle(self, event: Event) -> list[Action]:
        """Take one event, say what to do."""
        match event:
            case DatagramsReceived(at, source, data, size):
                actions: list[Action] = []
                for begin in range(0, len(data), size):
                    actions += self._on_message(CODEC.decode(data[begin : begin + size]), source, at)
                return actions
            case TimerFired(at, ("view", str(ring))):
                return self._make_view(self._services[ring], at)
            case TimerFired(at, ("detector", str(ring))):
                service = self._services[ring]
                return self._watched(service, service.detector.handle(event), at)
            case Started(at, storage):
                return self._on_started(storage, at)
            case PersistFailed(reason=reason):
                return [Stop(f"cannot write: {reason}")]
            case Persisted() | Stopping() | DatagramsRefused():
                return []
        raise LocalProtocolError(f"an authority takes no {type(event).__name__}")

    def numbers(self) -> dict[str, tuple[int, tuple[str, ...]]]:
        """The present view of each ring, for status."""
        return {name: (each.number, tuple(each.members)) for name, each in self._services.items()}

    def _on_started(self, storage: Storage, at: int) -> list[Action]:
        actions: list[Action] = []
        for name, service in self._services.items():
            stored = storage.cells.get(f"ring/{name}")
            if stored is not None:
                ring = msgspec.msgpack.decode(stored, type=_StoredRing)
                service.number = ring.number
                service.members = {each.id: each for each in ring.members}
                service.wanted = {each.id: each.address for each in ring.members}
            held = storage.cells.get(f"register/{name}")
            if held is not None:
                service.register = msgspec.msgpack.decode(held, type=_Register)
                actions.append(self._note(service))
            for member in service.members:
                actions += self._watched(service, service.detector.handle(PeerAdded(at, member)), at)
        return actions

    def _on_message(self, message: ControlMessage, source: Address, at: int) -> list[Action]:
        ring = getattr(message, "ring", "")
        service = self._services.get(ring)
        if service is None:
            raise RemoteProtocolError("a ring that is not served here")
        match message:
            case Enrol():
                return self._on_enrol(service, message, at)
            case Alive(_, member, number):
                actions = self._heard(service, member, at)
                if number != service.number and not service.due:
                    actions.append(_send(source, service.view()))
                return actions
            case ProbeAnswer(_, member, nonce):
                return self._watched(service, service.detector.handle(ProbeAnswered(at, member, nonce)), at)
            case Record():
                return self._on_record(service, message)
            case Depart(_, member):
                return self._remove(service, member, at)
        raise RemoteProtocolError("not a message for an authority")

    # --- members ---------------------------------------------------------------------------------------------------

    def _on_enrol(self, service: _Service, message: Enrol, at: int) -> list[Action]:
        told = service.settings
        actions: list[Action] = []
        if message.member not in service.wanted:
            room = VIEW_BYTES_MAX - sum(len(f"{id}{at}".encode()) for id, at in service.wanted.items())
            if len(service.wanted) >= MEMBERS_MAX or room < 0:
                raise RemoteProtocolError(f"the ring is full: {len(service.wanted)} members")
            service.wanted[message.member] = message.address
            actions += self._watched(service, service.detector.handle(PeerAdded(at, message.member)), at)
            actions += self._soon(service)
        answer = Bootstrap(
            told.name,
            message.member,
            told.parent,
            told.parent_authority,
            told.token_us,
            told.ranges_max,
            told.bytes_per_s,
            told.program,
        )
        actions.append(_send(Address(message.address), answer))
        if message.member in service.members:
            actions.append(_send(Address(message.address), service.view()))  # it was told before, and did not hear it
        return actions

    def _heard(self, service: _Service, member: str, at: int) -> list[Action]:
        if member not in service.wanted:
            return []
        return self._watched(service, service.detector.handle(Heard(at, member)), at)

    def _watched(self, service: _Service, said: list[Action], at: int) -> list[Action]:
        """Actions of the detector: probes go out, suspicions change the ring."""
        actions: list[Action] = []
        for action in said:
            match action:
                case SendProbe(peer, nonce):
                    if peer in service.wanted:
                        probe = Probe(service.settings.name, peer, nonce)
                        actions.append(_send(Address(service.wanted[peer]), probe))
                case Suspect(peer):
                    actions += self._remove(service, peer, at)
                case SetTimer():
                    actions.append(action)
        return actions

    def _remove(self, service: _Service, member: str, at: int) -> list[Action]:
        if service.wanted.pop(member, None) is None:
            return []
        return [*self._watched(service, service.detector.handle(PeerRemoved(at, member)), at), *self._soon(service)]

    def _soon(self, service: _Service) -> list[Action]:
        if service.due:
            return []
        service.due = True
        return [SetTimer(("view", service.settings.name), VIEW_DELAY_US)]

    def _make_view(self, service: _Service, at: int) -> list[Action]:
        """Durable before anybody hears of it."""
        service.next_view()
        name = service.settings.name
        stored = msgspec.msgpack.encode(_StoredRing(service.number, tuple(service.members.values())))
        self._ticket += 1
        view = service.view()
        told = [_send(Address(each.address), view) for each in view.members]
        return [Persist(self._ticket, (Put(f"ring/{name}", stored),)), *told]

    # --- the register ----------------------------------------------------------------------------------------------

    def _on_record(self, service: _Service, message: Record) -> list[Action]:
        """Take a decision only from whoever knows the last one; tell the last one in any case, once it is durable."""
        if service.settings.parent:
            raise RemoteProtocolError("only a top ring has a register")
        held = decision_from_bytes(service.register.body, service.rules)
        actions: list[Action] = []
        if message.body and message.after == held.version:
            offered = decision_from_bytes(message.body, service.rules)
            if offered.version > held.version:
                service.register = _Register(message.after, message.body)
                self._ticket += 1
                write = Put(f"register/{service.settings.name}", msgspec.msgpack.encode(service.register))
                actions += [Persist(self._ticket, (write,)), self._note(service)]
        answer = Recorded(message.ring, message.member, service.register.body)
        return [*actions, _send(Address(message.address), answer)]

    def _note(self, service: _Service) -> Action:
        made = decision_from_bytes(service.register.body, service.rules)
        number, round = service.register.after
        aggregates = msgspec.json.encode([to_plain(each) for each in made.aggregates]).decode()
        flows = msgspec.json.encode({name: to_plain(value) for name, value in made.flows.items()}).decode()
        return Note(trace.Decided(service.settings.name, *made.version, f"{number}.{round}", aggregates, flows))


def _send(destination: Address, message: ControlMessage) -> SendDatagrams:
    return SendDatagrams(destination, ((CODEC.encode(message),),))
