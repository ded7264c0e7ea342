"""The state of the oracle's world: daemons, their views with one shared order each, and what they still owe.

A daemon view has one log, sorted by stamps. Its daemons walk along it, each with a cursor of its own: everything below
the cursor is delivered (or dropped, if UNRELIABLE); weak bundles beyond it may be delivered early, which is a bit per
daemon in the entry. Position 0 of every log is the merge of the group states, so a daemon that has not passed it is,
in the thesis' words, in GGATHER.

Implements: [Spread 2.2.5] as data. Deviations: none.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from isotone.core.boundary import Message
from isotone.core.bundles import Bundle
from isotone.core.choice import Choice
from isotone.core.contract import Action, SetTimer
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.services import Service
from isotone.spec.oracle.groups import Groups, MergedGroup, Snapshot
from isotone.spec.oracle.settings import OracleSettings

MERGE, DATA, JOIN, LEAVE, KILL = range(5)
"""Kinds of entries. From JOIN on they change groups."""

EVERYONE = -1
"""A mask with the bits of all daemons."""
NEVER = 1 << 62
"""An index that no log reaches."""

Pending = tuple[int, ClientId, str | Bundle, int]
"""A request that is taken and not yet stamped: kind, client, group or bundle, serial of the view it was taken in."""


class Entry:
    """One place in the total order of a daemon view."""

    __slots__ = (
        "ahead",
        "bundle",
        "client",
        "early",
        "extras",
        "group",
        "groups",
        "kind",
        "lamport",
        "lost",
        "mark",
        "message",
        "owed",
        "past",
        "previous",
        "reach",
        "seen_in",
        "service",
        "stamp",
        "stamper",
        "withheld",
    )

    def __init__(self, kind: int, stamp: Stamp, service: int, stamper: int, client: ClientId) -> None:
        self.kind = kind
        self.stamp = stamp
        self.lamport = stamp.lamport
        self.service = service
        self.stamper = stamper  # bit of the stamping daemon
        self.client = client
        self.group = ""  # of a join or leave
        self.groups: tuple[str, ...] = ()
        self.bundle: Bundle | None = None
        self.message: Message | None = None
        self.previous: Entry | None = None  # the last reliable entry of the same client's name before this one
        self.past = 0  # every entry up to this Lamport time may causally precede this one …
        self.extras: tuple[Entry, ...] = ()  # … and so may these beyond
        self.mark = 0  # how many changes of groups the stamping daemon had delivered in this view
        self.reach = EVERYONE  # bits of the daemons whom the network let have it
        self.early = 0  # bits of the daemons who delivered it beyond their cursors
        self.ahead: list[Entry] = []  # of a change: what overtook it, which everyone delivers before it
        self.owed = False  # everyone must deliver it, and before the signal
        self.lost: Transition | None = None  # the last transition for which this is a hole
        self.withheld: Transition | None = None  # only daemons of this transition may deliver it
        self.seen_in: GroupViewId | None = None  # the group view of a weak bundle's first delivery


class ViewState:
    """A daemon view: who was meant to be in it, and its order."""

    def __init__(self, serial: int, id: DaemonViewId, daemons: list[Daemon], base: int) -> None:
        self.serial = serial
        self.id = id
        self.daemons = daemons  # sorted by id; the place is the bit
        self.members = tuple(daemon.id for daemon in daemons)
        merge = Entry(MERGE, Stamp(base, id.coordinator), Service.AGREED, 0, ClientId(id.coordinator, "", 0))
        self.log: list[Entry] = [merge]
        self.received = [0] * len(daemons)  # how far each has it; a promise once a SAFE bundle was delivered on it
        self.high = 0  # nothing is ever inserted below; the farthest cursor, or planned one
        self.line = base  # Lamport time of the last entry below ``high``
        self.early_line = 0  # Lamport time of the highest early delivery; changes of groups are stamped above it
        self.safe_line = 0  # everyone owes all entries below it, because a SAFE one was delivered before the signal
        self.cap = NEVER  # where those who are not in transition must stop: the next is withheld
        self.partial_from = NEVER  # the first entry that the network did not let everyone have
        self.split = False  # whether its living daemons are in different components
        self.origins: list[Snapshot] = []  # group states at the ends of the views that came together here
        self.concerns: list[dict[str, None]] = []  # for each origin: groups that its clients were in or still send to
        self.origin_of: dict[DaemonId, int] = {}
        self.merged: dict[str, MergedGroup] | None = None  # made from ``origins`` when first needed
        self.left_for: ViewState | None = None  # where some of its daemons were sent last

    def bit_of(self, daemon: Daemon) -> int:
        """The bit by which entries of this view know the daemon."""
        return 1 << self.members.index(daemon.id)


class Transition:
    """The way of some daemons from one view to the next: the same set and the same signal for all of them."""

    def __init__(self, source: ViewState, target: ViewState, together: list[Daemon], *, settles: bool) -> None:
        self.source = source
        self.target = target
        self.together = frozenset(daemon.id for daemon in together)
        self.settles = settles  # whether the group views of ``source`` are installed (if they were not yet)
        self.mask = mask_of(source, together)
        self.line = 0  # the signal stands before this index; everything below is delivered
        self.early: list[Entry] = []  # weak bundles beyond the line that one of them had: before the signal for all
        self.tail: list[Entry] = []  # what is delivered after the signal, in order
        self.prefix = 0  # everything below this index is delivered
        self.divertible = True  # no change of groups in the tail
        self.end: Snapshot = []  # the group state in which all of them arrive


class Daemon:
    """One incarnation of one daemon."""

    def __init__(self, id: DaemonId, *, clock: int, epoch: int) -> None:
        self.id = id
        self.alive = True
        self.paused = False
        self.excluded = False  # paused for too long: others form views without it
        self.armed = False  # its step timer runs
        self.groups = Groups(id)
        self.next_sequence: dict[ClientId, int] = {}  # of each open session
        self.wanted: dict[ClientId, list[str]] = {}  # groups that each open session joined and did not leave
        self.last_session: dict[str, int] = {}  # by private name
        self.pending: deque[Pending] = deque()
        self.clock = clock  # Lamport: above all that its clients were delivered and all that it stamped
        self.epoch = epoch  # of the last daemon view it was meant to be in
        self.view: ViewState | None = None
        self.bit = 0
        self.place = 0  # in the view's members
        self.transition: Transition | None = None
        self.signalled = False  # has passed the signal of its transition
        self.after_signal = 0  # place in the tail
        self.parted: frozenset[DaemonId] = frozenset()  # left behind since group views were last installed
        self.reach = EVERYONE  # bits of those in its view and component
        self.enter_order(base=0)

    def enter_order(self, *, base: int) -> None:
        """Begin at the start of a log whose merge has this Lamport time."""
        self.cursor = 0
        self.low = base  # Lamport time of the last entry below the cursor
        self.mark = 0  # changes of groups delivered in this view
        self.raised = 0  # a bound of the causal past that early deliveries brought
        self.extras: list[Entry] = []  # early deliveries beyond the cursor, and what they bring with them
        self.overtook: dict[ClientId, int] = {}  # the highest sequence of each that was delivered early
        self.last_of: dict[str, Entry] = {}  # by client name: the last reliable entry stamped in this view

    @property
    def target(self) -> ViewState | None:
        """The view it is in or on its way to."""
        return self.transition.target if self.transition else self.view


class World:
    """Everything the oracle knows, and the source of its choices."""

    def __init__(self, choice: Choice, settings: OracleSettings, taken: Counter[str]) -> None:
        self.choice = choice
        self.settings = settings
        self.taken = taken
        self.alive: dict[str, Daemon] = {}
        self.floors: dict[str, tuple[int, int]] = {}  # by daemon name: clock and epoch of the incarnation that ended
        self.components: tuple[tuple[str, ...], ...] | None = None
        self.component_of: dict[str, int] = {}
        self.stable = False
        self.disturbed = False  # the next forming changes something without need
        self.forming = False  # its timer runs
        self.serial = 0

    def arm(self, daemon: Daemon, out: list[Action]) -> None:
        """Let the daemon take a step soon, unless it will anyway."""
        if daemon.armed or daemon.paused:
            return
        daemon.armed = True
        choice, delay_max = self.choice, self.settings.step_us_max
        if not self.stable and choice.chance(0.1):
            delay_max *= self.settings.lag_factor_max
        out.append(SetTimer(("step", daemon.id.name, daemon.id.incarnation), 1 + choice.below(delay_max)))

    def arm_all(self, daemons: Iterable[Daemon], view: ViewState, out: list[Action]) -> None:
        """Wake those of the daemons who are in this view."""
        for daemon in daemons:
            if not daemon.armed and daemon.view is view and daemon.alive:
                self.arm(daemon, out)

    def arm_forming(self, out: list[Action]) -> None:
        """Look at the views soon, unless that will happen anyway."""
        if not self.forming:
            self.forming = True
            out.append(SetTimer("form", 1 + self.choice.below(self.settings.form_us_max)))

    def count(self, kind: str, times: int = 1) -> None:
        """Note that a free choice was taken."""
        self.taken[kind] += times


def mask_of(view: ViewState, daemons: Iterable[Daemon]) -> int:
    """The bits of these daemons in the view."""
    mask = 0
    for daemon in daemons:
        mask |= view.bit_of(daemon)
    return mask
