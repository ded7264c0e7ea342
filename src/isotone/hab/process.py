"""One HAB process: its broadcasts until they are delivered, what it hears from other centres, and its centre's state.

Implements: [HAB 3]. Deviations: Dh1 to Dh10; see docs/protocols/hab.md.
"""

from __future__ import annotations

from collections import deque

import msgspec

from isotone.core.codec import ControlMessage
from isotone.core.contract import Action, Event, Record, SetTimer, Started, Stopping, TimerFired
from isotone.core.errors import RemoteProtocolError
from isotone.hab import messages as m
from isotone.hab import petitions, rows, witness
from isotone.hab.centre import Answer, Centre, Deliver, Effect, Installed, Recorded, Role, RoleChanged, founded, outside
from isotone.hab.commands import apply
from isotone.hab.configuration import Group
from isotone.hab.coordinator import ANSWER, Contacts, Coordinator
from isotone.hab.disasters import Watch
from isotone.hab.events import (
    BroadcastRefused,
    BroadcastWanted,
    DeclareWanted,
    FoundWanted,
    HaDeliver,
    HandoverWanted,
    InstallState,
    LocalBroadcast,
    LocalDelivered,
    LocalRestored,
    LocalSuspected,
    OfferLocalState,
    PacketReceived,
    RejoinWanted,
    SendPacket,
    SnapshotOffered,
    StandingChanged,
)
from isotone.hab.petitions import PetitionClock
from isotone.hab.settings import HabSettings, Mode
from isotone.hab.submissions import Submissions
from isotone.hab.transition import is_news, is_past_beginning, is_unaware
from isotone.trace import hab as trace

SUBMIT, ALIVE = "submit", "alive"
LIFE_BITS = 40
UNKNOWN = "this centre was declared lost: whether it was ordered before is not known"
OPERATOR = (DeclareWanted, FoundWanted, HandoverWanted, RejoinWanted)


class Local(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A command as the local broadcast carries it: who broadcast it, so that it can count its own."""

    process: str
    incarnation: int
    body: bytes


class Hab:
    """A process. Its centre's state is rebuilt from the local broadcast; its own broadcasts end with it."""

    periodic_timers = frozenset({ALIVE, SUBMIT, ANSWER})

    def __init__(self, settings: HabSettings, process: str, incarnation: int, *, founder: bool = True) -> None:
        """``founder``: the system begins with this centre; otherwise it comes back, and asks for a state."""
        self.settings = settings.check()
        self.process, self._incarnation = process, incarnation
        name = settings.centre_of(process)
        self.centre: Centre = founded(name, settings) if founder else outside(name)
        self.contacts = Contacts(settings)
        self.coordinator = Coordinator(process, settings, self.contacts)
        self.watch = Watch(settings)
        self.submissions = Submissions(settings)
        self.suspected: tuple[str, ...] = ()
        self._local = 0  # own commands that are not delivered
        self._applied = 0  # commands since the state was offered
        self._asked_epoch = 0  # the coordinator's epoch against which this process complained
        self._leased_until = 0
        self._waiting = PetitionClock(settings)
        self._held: deque[m.Entry] = deque()  # delivered ahead of the others, and no lease
        self._offer: m.KeepSnapshot | None = None  # a snapshot that is not confirmed yet
        self._at = 0

    def handle(self, event: Event) -> list[Action]:
        """Take one event, change state, say what to do."""
        self._at = event.at
        match event:
            case Started():
                self._leased_until = event.at + self.settings.lease_us
                self.watch.begin(event.at)
                timers: list[Action] = [
                    SetTimer(ALIVE, self.settings.alive_us),
                    SetTimer(SUBMIT, self.settings.answer_us),
                ]
                return [*timers, *self._role_row("it started"), *self._go_on()]
            case PacketReceived(source=source, data=data):
                return self._on_packet(source, data)
            case LocalDelivered(records=records, replayed=replayed):
                return self._on_local(records, replayed=replayed)
            case TimerFired(key=key):
                return self._on_timer(key)
            case BroadcastWanted(request=request, record=record):
                return self._on_wanted(request, record)
            case LocalSuspected(processes=processes):
                return self._on_suspected(processes)
            case SnapshotOffered(position=position, state=state):
                return self._on_snapshot(position, state)
            case LocalRestored(state=state):
                return self._on_restored(state)
            case Stopping():
                return []
        assert isinstance(event, OPERATOR), f"a HAB process does not expect {event!r}"
        return self._on_operator(event)

    @property
    def incarnation(self) -> int:
        """Of its broadcasts: another one after each start, and after each return of its centre."""
        return self._incarnation << LIFE_BITS | self.centre.life

    def _token(self) -> str:
        return f"{self.process}#{self._incarnation}.{self.centre.life}.{self.centre.epoch}"

    @property
    def is_fresh(self) -> bool:
        """Whether this centre has no state, and has not asked for one."""
        return self.centre.role is Role.OUT and not self.centre.epoch and not self.centre.joining

    def _come_back(self, alive: m.Alive) -> list[Action]:
        """A centre without a state asks for one by itself once the others show that it must have had one.

        Before, it may be new, and begin at any time. Then its wish would come late, and be taken for a loss.
        """
        return [self._broadcast(m.Rejoin(self._token()))] if self.is_fresh and is_past_beginning(alive) else []

    @property
    def is_coordinator(self) -> bool:
        """Whether it talks to other centres."""
        return self.centre.coordinator(self.settings) == self.process

    def _broadcast(self, command: ControlMessage) -> LocalBroadcast:
        self._local += 1
        local = Local(self.process, self._incarnation, m.COMMANDS.encode(command))
        return LocalBroadcast(msgspec.msgpack.encode(local))

    def _go_on(self) -> list[Action]:
        """After any change: the coordinator's duties, and broadcasts that can be submitted."""
        actions, commands = self.coordinator.drive(self.centre)
        return [*actions, *map(self._broadcast, commands), *self._submit(), *self._keep_snapshot()]

    # --- broadcasts ------------------------------------------------------------------------------------------------

    def _on_wanted(self, request: int, record: bytes) -> list[Action]:
        waiting = len(self.submissions.pending)
        if waiting >= self.settings.pending_max:
            return [BroadcastRefused(request, f"{waiting} broadcasts are not delivered yet")]
        if self.centre.role is Role.OUT:
            return [BroadcastRefused(request, "this centre takes no part: it was declared lost, or has no state yet")]
        if len(record) > self.settings.record_bytes_max:
            return [BroadcastRefused(request, f"a record has at most {self.settings.record_bytes_max} bytes")]
        name = rows.message_name(self.process, self.incarnation, self.submissions.begin(request, record))
        row = trace.HaBroadcast(self.process, self.centre.name, name, rows.digest_of(record))
        return [Record(row), *self._submit()]

    def _submit(self) -> list[Action]:
        """Figure 4 and 5, HA-Broadcast: in the primary a local broadcast, else a `Send` to a process there."""
        centre = self.centre
        leader = centre.configuration.named(centre.leader)
        if leader is None or centre.role in {Role.OUT, Role.TRANSITION} or centre.yielding:
            return []
        here = leader.number == centre.number
        actions: list[Action] = []
        for batch in self.submissions.due(self._at):
            records = tuple(each.record for each in batch)
            answer_to = "" if here else self.process
            send = m.Send(self.process, self.incarnation, batch[0].counter, records, answer_to)
            actions.append(self._broadcast(send) if here else SendPacket(self.contacts.of(leader.name), _wide(send)))
        return actions

    def _look_at_submissions(self) -> None:
        """What is not ordered is submitted again; after silence, to another process of the primary."""
        leader = self.centre.configuration.named(self.centre.leader)
        if leader is not None and self.submissions.is_late(self._at):
            if leader.number != self.centre.number and not self.submissions.answered:
                self.contacts.rotate(leader.name)
            self.submissions.again()
        self.submissions.answered = False

    # --- the local broadcast ---------------------------------------------------------------------------------------

    def _on_local(self, records: tuple[bytes, ...], *, replayed: bool) -> list[Action]:
        actions: list[Action] = []
        for record in records:
            local = msgspec.msgpack.decode(record, type=Local)
            own = local.process == self.process and local.incarnation == self._incarnation
            self._local -= own and self._local > 0
            command = m.COMMANDS.decode(local.body)
            self._applied += 1
            actions += self._effects(apply(self.centre, self.settings, command), replayed=replayed)  # type: ignore[arg-type]
            actions += self._after(command)
        if self.settings.state_every and self._applied >= self.settings.state_every and not replayed:
            self._applied = 0
            actions.append(OfferLocalState(msgspec.msgpack.encode(self.centre)))
        return actions if replayed else [*actions, *self._complain(), *self._go_on()]

    def _after(self, command: ControlMessage) -> list[Action]:
        """What a command means for this process alone."""
        centre = self.centre
        incarnation, counter = centre.origins.get(self.process, (0, 0))
        if incarnation == self.incarnation and counter > self.submissions.ordered:
            self.submissions.note_ordered(counter, self._at)
        if isinstance(command, m.Leased | m.Confirm) and command.epoch == centre.epoch:
            self._leased_until = self._at + self.settings.lease_us
            return self._release()
        return []

    def _effects(self, effects: list[Effect], *, replayed: bool) -> list[Action]:
        actions: list[Action] = []
        for effect in effects:
            match effect:
                case Deliver(entries=entries):
                    self._held.extend(entries)
                    actions += self._release()
                case Answer(to=to, message=message):
                    if to and self.is_coordinator and not replayed:
                        actions.append(SendPacket(to, _wide(message)))
                case RoleChanged(why=why):
                    self.submissions.begin_epoch()
                    actions += self._role_row(why)
                    if self.centre.role is Role.OUT:
                        actions += self._give_up()
                case Installed(snapshot=snapshot):
                    actions += self._give_up()
                    row = rows.installed(self.process, self.centre, snapshot, replayed=replayed)
                    actions += [row, InstallState(snapshot, self.centre.life)]
                case Recorded(declaration=declaration, group=lost, effective=effective):
                    actions += self._declared(declaration, lost, effective=effective, replayed=replayed)
        return actions

    def _give_up(self) -> list[Action]:
        """The centre is out, or begins anew: nothing of before is delivered, and own broadcasts begin anew too."""
        refused: list[Action] = [
            BroadcastRefused(request, UNKNOWN, perhaps=True) for request in self.submissions.give_up()
        ]
        self._held.clear()
        self._offer = None
        return refused

    def _release(self) -> list[Action]:
        """Deliver what may be delivered: in the primary's at-once mode, what the others lack needs the lease."""
        centre = self.centre
        limited = self.settings.mode is Mode.AT_ONCE and centre.role is Role.PRIMARY and self._at > self._leased_until
        entries: list[m.Entry] = []
        while self._held and (not limited or self._held[0].index <= centre.confirmed):
            entries.append(self._held.popleft())
        if not entries:
            return []
        own: list[tuple[int, int]] = []
        records = [entry for entry in entries if entry.kind is m.Kind.RECORD]
        for entry in records:
            if entry.origin == self.process and entry.incarnation == self.incarnation:
                own += [(request, entry.position) for request in self.submissions.delivered(entry.counter)]
        actions: list[Action] = [HaDeliver(tuple(entries), tuple(own))]
        if records:
            actions.insert(0, rows.delivered(self.process, centre, self.settings, records, entries[-1].index))
        return actions

    def _role_row(self, why: str) -> list[Action]:
        centre = self.centre
        row = rows.role(self.process, centre, why)
        return [row, StandingChanged(centre.role.value, centre.epoch, why)]

    def _declared(self, declaration: m.Declaration, lost: Group, *, effective: bool, replayed: bool) -> list[Action]:
        centre = self.centre
        actions: list[Action] = [rows.declared(self.process, centre, lost, declaration, effective=effective)]
        if declaration.recorders and self.is_coordinator and not replayed:
            told = _wide(m.Declare(declaration))
            actions += [
                SendPacket(self.contacts.of(name), told) for name in self.settings.centres if name != centre.name
            ]
        return actions

    def _on_restored(self, state: bytes) -> list[Action]:
        """The state of the centre as an earlier incarnation had it: the application is told all of it again."""
        self.centre = msgspec.msgpack.decode(state, type=Centre)
        centre, snapshot = self.centre, self.centre.snapshot
        actions = self._effects([RoleChanged("it started again"), Installed(snapshot)], replayed=True)
        first = max(snapshot.index if snapshot is not None else 0, centre.log.base)
        entries = () if centre.role is Role.OUT else centre.log.behind(first, max(0, centre.delivered - first))
        return [*actions, *self._effects([Deliver(entries)] if entries else [], replayed=True)]

    # --- other centres ---------------------------------------------------------------------------------------------

    def _on_packet(self, source: str, data: bytes) -> list[Action]:
        message = m.WIDE.decode(data)
        if source == self.settings.witness:
            return [self._broadcast(each) for each in witness.answered(self.centre, message)]
        name = self.settings.centre_of(source)
        if name == self.centre.name:
            raise RemoteProtocolError(f"{source} is of this centre")
        self.watch.heard(name, self._at)
        match message:
            case m.OkStored():
                return [*self.coordinator.on_stored(self.centre, source, message), *self._go_on()]
            case m.OkState():
                return [*self.coordinator.on_state(self.centre, source, message), *self._go_on()]
            case m.OkSent():
                self.submissions.answered = True
                self.contacts.answered(source)
                if message.incarnation == self.incarnation and message.epoch == self.centre.epoch:
                    self.submissions.note_ordered(message.counter, self._at)
                return self._submit()
            case m.Alive():
                return self._on_alive(message)
        if not isinstance(message, m.REQUESTS):
            raise RemoteProtocolError(f"{source} sends {type(message).__name__}")
        if self._local >= self.settings.local_max:
            return []  # whoever asks will ask again
        return [self._broadcast(message)]

    def _on_alive(self, alive: m.Alive) -> list[Action]:
        self.watch.told(alive, self._at)
        if self.is_fresh:
            return self._come_back(alive)
        mine = self.centre.configuration.named(self.centre.name)
        if alive.leads and mine is not None and self.centre.role is not Role.OUT and alive.epoch >= self.centre.epoch:
            if (self.centre.name, mine.admitted_at) not in alive.members:
                return [self._broadcast(m.Excluded(alive.epoch))]
        if is_unaware(self.centre, alive):
            return [self._broadcast(m.LeaderUnaware(self.centre.epoch))]
        news: list[ControlMessage] = [m.Declare(each) for each in alive.declarations if is_news(self.centre, each)]
        news += map(m.PetitionHeard, petitions.news(self.centre, alive))
        return [self._broadcast(each) for each in news if self._local < self.settings.local_max]

    # --- detectors, timers, operators ------------------------------------------------------------------------------

    def _on_suspected(self, processes: tuple[str, ...]) -> list[Action]:
        self.suspected = tuple(each for each in processes if each != self.process)
        row = trace.HaSuspected(self.process, self.centre.name, self.suspected)
        return [Record(row), *self._complain()]

    def _complain(self) -> list[Action]:
        """Figures 4 (d), 5 (g) and 6 (b): another process shall be the coordinator."""
        epoch = self.centre.coordinator_epoch
        if self.centre.coordinator(self.settings) not in self.suspected or self._asked_epoch >= epoch:
            return []
        self._asked_epoch = epoch
        return [self._broadcast(m.ChangeEpoch(epoch))]

    def _on_timer(self, key: object) -> list[Action]:
        if key == ALIVE:
            return [SetTimer(ALIVE, self.settings.alive_us), *self._keep_alive(), *self._release()]
        if key == SUBMIT:
            self._look_at_submissions()
            again = SetTimer(SUBMIT, self.settings.answer_us)
            return [again, *self.coordinator.joins(self.centre), *self._go_on()]
        assert isinstance(key, tuple) and key[0] == ANSWER, f"no timer {key!r}"
        self.coordinator.on_silence(self.centre, str(key[1]))
        return self._go_on()

    def _keep_alive(self) -> list[Action]:
        centre, settings = self.centre, self.settings
        if not self.is_coordinator:
            return []
        declarations = tuple(centre.declarations.values())
        leads = centre.role is Role.PRIMARY
        members = tuple((each.name, each.admitted_at) for each in centre.configuration.groups) if leads else ()
        wanted = tuple(centre.petitions.values())
        about = (centre.name, centre.number, centre.epoch, centre.delivered, declarations, leads, members, wanted)
        alive = _wide(m.Alive(*about, confirmed=centre.confirmed))
        actions: list[Action] = []
        for name in settings.centres:
            if name != centre.name:
                actions.append(SendPacket(self.watch.contact(name), alive))
        if settings.mode is Mode.AT_ONCE and centre.role is Role.PRIMARY:
            heard = sum(
                not self.watch.is_silent(each.name, self._at, settings.lease_us // 2)
                for each in centre.configuration.groups
                if each.number != centre.number
            )
            if 1 + heard >= centre.configuration.majority:
                actions.append(self._broadcast(m.Leased(centre.epoch)))
        actions += map(self._broadcast, self._waiting.look(centre, self._at))
        asked = map(_wide, witness.questions(centre, settings))
        actions += [SendPacket(settings.witness, each) for each in asked]
        for name in self.watch.automatic(self._at, self._takes_part()):
            actions += self._on_operator(DeclareWanted(self._at, name))
        return actions

    def _takes_part(self) -> list[str]:
        centre = self.centre
        if centre.role is Role.OUT:
            return []
        groups = centre.configuration.groups
        return [each.name for each in groups if each.name not in centre.declarations and each.name != centre.name]

    def _on_operator(self, event: Event) -> list[Action]:
        centre = self.centre
        match event:
            case DeclareWanted():
                return self._on_declare_wanted(event)
            case FoundWanted():
                return [self._broadcast(m.Found())]
            case HandoverWanted(centre=name):
                leader = centre.configuration.named(centre.leader)
                if leader is None:
                    return []
                handover = m.Handover(name)
                if leader.number == centre.number:
                    return [self._broadcast(handover)]
                return [SendPacket(self.contacts.of(leader.name), _wide(handover))]
        return [self._broadcast(m.Rejoin(self._token()))]

    def _on_declare_wanted(self, event: DeclareWanted) -> list[Action]:
        centre = self.centre
        group = centre.configuration.named(event.centre)
        if group is None or event.centre == centre.name or centre.role is Role.OUT:
            return []
        if event.operator:
            wish = m.Petitioned(group.name, group.admitted_at, event.operator, event.override, event.withdrawn)
            return [self._broadcast(wish)]
        told = m.Declaration(group.name, group.admitted_at, centre.name, (centre.name,), event.override, centre.epoch)
        return [self._broadcast(m.Declare(told))]

    def _on_snapshot(self, position: int, state: bytes) -> list[Action]:
        """Of this process' application; one that is not confirmed yet waits, until the next one takes its place."""
        if self.settings.snapshots and len(state) <= self.settings.snapshot_bytes_max:
            self._offer = m.KeepSnapshot(0, position, state)
        return self._keep_snapshot()

    def _keep_snapshot(self) -> list[Action]:
        offer, centre = self._offer, self.centre
        if offer is None or offer.position > centre.log.position_at(min(centre.confirmed, centre.delivered)):
            return []
        self._offer = None
        for entry in centre.log.entries:
            if entry.position == offer.position and entry.kind is m.Kind.RECORD:
                return [self._broadcast(m.KeepSnapshot(entry.index, offer.position, offer.state))]
        return []


def _wide(message: ControlMessage) -> bytes:
    return m.WIDE.encode(message)
