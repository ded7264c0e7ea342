"""What all processes of one data centre agree on: a function of the commands that their local broadcast delivered.

`Centre.apply` takes the next command and says what follows from it: entries to deliver, and what the coordinator
answers. The behaviours of the paper are in `primary`, `backup` and `transition`; a command that means nothing in the
present role is passed over, because whoever wants something asks again.

Implements: [HAB Figure 3]. Deviations: Dh1, Dh4, Dh7, Dh9, Dh10; see docs/protocols/hab.md.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from isotone.hab.configuration import Configuration, Group, first_epoch, founding, handed_over, next_epoch
from isotone.hab.log import Log
from isotone.hab.messages import Declaration, Entry, Kind, OkSent, OkState, OkStored, Petition
from isotone.hab.settings import HabSettings, Mode

TOKENS_MAX = 8


class Role(Enum):
    """Which behaviour a centre has."""

    PRIMARY = "primary"
    BACKUP = "backup"
    TRANSITION = "transition"
    OUT = "out"  # it was declared lost, or has no state: it takes no part


class Answer(msgspec.Struct, frozen=True):
    """The coordinator sends this to a process of another centre."""

    to: str
    message: OkSent | OkStored | OkState


class Deliver(msgspec.Struct, frozen=True):
    """HA-Deliver these."""

    entries: tuple[Entry, ...]


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """The application's state behind an index and a position."""

    index: int
    position: int
    state: bytes


class Installed(msgspec.Struct, frozen=True):
    """The centre begins anew, behind this snapshot, or behind nothing."""

    snapshot: Snapshot | None


class RoleChanged(msgspec.Struct, frozen=True):
    """The role, the epoch or the leader is another one."""

    why: str


class Recorded(msgspec.Struct, frozen=True):
    """A declaration was recorded, or more is known of it."""

    declaration: Declaration
    group: Group  # that is declared lost
    effective: bool


Effect = Answer | Deliver | Installed | RoleChanged | Recorded


class Centre(msgspec.Struct):
    """The agreed state. Plain data: it is also what a snapshot of the local broadcast holds."""

    name: str
    number: int = 0  # of the group that it is, 0 while it is none
    role: Role = Role.OUT
    epoch: int = 0  # the highest that it promised
    leader: str = ""  # the centre whose epoch that is
    accepted: int = 0  # the epoch of whose order its log is a part
    start: int = 0  # where the log ended when this centre became the primary
    matched: int = 0  # the log is as that of the leader up to here
    confirmed: int = 0  # every centre that is not lost has stored so much
    delivered: int = 0
    settled: bool = False  # (primary) something was confirmed in this epoch
    yielding: bool = False  # (primary) a hand-over is ordered, nothing follows it
    joining: str = ""  # (out) the token of its wish to come back
    changed_at: int = 0  # the last entry that changed the configuration
    coordinator_epoch: int = 1
    log: Log = msgspec.field(default_factory=Log)
    configuration: Configuration = Configuration((), 1)
    declarations: dict[str, Declaration] = {}  # by the centre that is declared lost
    petitions: dict[str, Petition] = {}  # by the centre that operators want declared lost; see `petitions`
    origins: dict[str, tuple[int, int]] = {}  # of each process: its last incarnation, and the last counter of that
    tokens: dict[str, tuple[str, ...]] = {}  # the last wishes to come back that each centre was admitted for
    snapshot: Snapshot | None = None
    life: int = 0  # the entry that admitted it; 0: it was there from the beginning

    # --- who is who ----------------------------------------------------------------------------------------------

    def coordinator(self, settings: HabSettings) -> str:
        """The process that talks to other centres."""
        processes = settings.centres[self.name]
        return processes[(self.coordinator_epoch - 1) % len(processes)]

    @property
    def is_out(self) -> bool:
        """Whether it takes no part."""
        return self.role is Role.OUT

    def is_lost(self, number: int) -> bool:
        """Whether a declaration against this group is effective."""
        group = self.configuration.numbered(number)
        return group is not None and self.is_centre_lost(group.name)

    def is_centre_lost(self, name: str) -> bool:
        """Whether a declaration against this centre, as it takes part now, is effective."""
        found = self.declarations.get(name)
        return found is not None and self.is_effective(found)

    def is_effective(self, declaration: Declaration) -> bool:
        """A majority has recorded it, or a witness, or by an override, or its own word."""
        is_waived = declaration.override or declaration.confessed or declaration.witnessed
        return is_waived or declaration.counted or self.has_majority(declaration)

    def has_majority(self, declaration: Declaration) -> bool:
        """Recorded by a majority of the configuration as it is now."""
        names = {group.name for group in self.configuration.groups if group.name != declaration.centre}
        return len(names.intersection(declaration.recorders)) >= self.configuration.majority

    def is_doubtful(self, declaration: Declaration) -> bool:
        """Whether it was begun by a centre that is itself declared lost here."""
        group = self.configuration.named(declaration.begun_by)
        return group is not None and group.name in self.declarations

    def others(self) -> list[int]:
        """The groups beside this one that are not lost."""
        return [
            group.number
            for group in self.configuration.groups
            if group.number != self.number and not self.is_lost(group.number)
        ]

    def has_quorum(self) -> bool:
        """Whether those that are not lost are a majority, or the missing ones are waived."""
        missing = len(self.configuration.groups) - 1 - len(self.others())
        waived = sum(self.is_waived(group.name) for group in self.configuration.groups if self.is_lost(group.number))
        return 1 + len(self.others()) >= self.configuration.majority or missing == waived

    def is_waived(self, name: str) -> bool:
        """Whether a declaration says that nobody need wait for a majority with this centre."""
        found = self.declarations.get(name)
        return found is not None and (found.override or found.confessed or found.witnessed)

    def successor(self) -> int:
        """The group that is, or shall be, the primary: the lowest number that is not lost."""
        return min((group.number for group in self.configuration.groups if not self.is_lost(group.number)), default=0)

    # --- steps that several behaviours share -----------------------------------------------------------------------

    def become_out(self, why: str) -> list[Effect]:
        """Take no part any more, until an operator asks to rejoin."""
        self.role, self.joining, self.yielding = Role.OUT, "", False
        return [RoleChanged(why)]

    def note(self, entry: Entry, *, fresh: bool) -> list[Effect]:
        """What an entry changes as soon as it is in the log. ``fresh``: it was ordered in the present epoch."""
        effects: list[Effect] = []
        match entry.kind:
            case Kind.RECORD:
                self.origins[entry.origin] = (entry.incarnation, entry.counter)
                return []
            case Kind.ADMIT:
                self.configuration = self.configuration.admitting(entry.origin, entry.index)
                tokens = (*self.tokens.get(entry.origin, ()), entry.record.decode())
                self.tokens[entry.origin] = tokens[-TOKENS_MAX:]
            case Kind.REMOVE:
                removed = self.configuration.numbered(entry.counter)
                self.configuration = self.configuration.removing(entry.counter)
                if self.declarations.pop(entry.origin, None) is None and removed is not None:
                    told = Declaration(removed.name, removed.admitted_at, "", ())
                    effects.append(Recorded(told, removed, effective=True))  # by the order alone
            case Kind.HANDOVER:
                return self._hand_over(entry, fresh=fresh)
        self.changed_at = entry.index
        mine = self.configuration.named(self.name)
        if mine is None or mine.number != self.number:
            effects += self.become_out("the others go on without this centre")
        return effects

    def _hand_over(self, entry: Entry, *, fresh: bool) -> list[Effect]:
        self.changed_at = entry.index
        if fresh and self.role is Role.PRIMARY:
            self.yielding = True  # until all have stored it
            return []
        self._renumber(entry.counter)
        if not fresh:
            return []
        self.epoch = self.accepted = handed_over(entry.epoch)
        self.leader = entry.origin
        self.matched = entry.index
        if entry.counter == self.number:
            return self.lead("the primary role was handed over")
        return [RoleChanged("the primary role was handed over")]

    def _renumber(self, first: int) -> None:
        self.configuration = self.configuration.led_by(first)
        mine = self.configuration.named(self.name)
        self.number = mine.number if mine is not None else 0

    def yield_role(self) -> None:
        """(primary) The hand-over that was ordered counts now."""
        self._renumber(self.log.behind(self.changed_at - 1, 1)[0].counter)
        self.role, self.yielding = Role.BACKUP, False

    def lead(self, why: str) -> list[Effect]:
        """Become the primary of the present epoch."""
        self.role, self.settled, self.yielding = Role.PRIMARY, False, False
        self.start = self.matched = self.log.end
        self.accepted, self.leader = self.epoch, self.name
        return [RoleChanged(why)]

    def deliver_through(self, index: int) -> list[Effect]:
        """Deliver what is not delivered yet, up to here."""
        if index <= self.delivered:
            return []
        entries = self.log.behind(self.delivered, index - self.delivered)
        self.delivered = index
        return [Deliver(entries)]

    def forget(self, settings: HabSettings) -> None:
        """Drop entries that nobody can ask for any more."""
        line = min(self.confirmed, self.delivered)
        covered = self.snapshot.index if self.snapshot is not None else 0
        self.log.forget(min(line, covered) if settings.snapshots else line - settings.history_max)

    def has_room(self, settings: HabSettings) -> bool:
        """Whether the primary may order one more."""
        if self.log.end - self.confirmed >= settings.window_max:
            return False
        return not settings.snapshots or len(self.log.entries) < settings.history_max + settings.window_max

    def ahead(self, settings: HabSettings) -> int:
        """How far the primary may deliver."""
        if settings.mode is Mode.WAITING:
            return self.confirmed
        return min(self.log.end, self.confirmed + settings.ahead_max)

    def candidate_epoch(self) -> int:
        """The epoch that this centre would take over with."""
        return next_epoch(self.epoch, self.number)


def founded(name: str, settings: HabSettings) -> Centre:
    """A centre of a new system."""
    configuration = founding(tuple(settings.centres))
    mine = configuration.named(name)
    assert mine is not None, f"no data centre is called {name}"
    first = configuration.groups[0]
    centre = Centre(name, number=mine.number, configuration=configuration)
    centre.epoch = centre.accepted = first_epoch(first.number)
    centre.leader = first.name
    centre.role = Role.PRIMARY if first == mine else Role.BACKUP
    centre.settled = True
    return centre


def outside(name: str) -> Centre:
    """A centre that comes back without a state."""
    return Centre(name)
