"""Light-weight process groups on top of daemon views: boundary B3 below, boundary B4 above.

The state of all groups is a function of the units that were delivered, in their order, so daemons that deliver the same
know the same. A join or a leave is one SAFE unit, and a cut: what is below AGREED stands on the same side of it at all
daemons (`isotone.evs.ordering.delivery`), so a view holds the same messages everywhere. Only where daemons come
together that did not deliver the same before, they tell each other what they bring (GROUPS); until all have, everything
that is delivered waits.

Implements: [Spread 6.4], Figures 6.17 to 6.27. Deviations, besides those of the modules around:
D-hold   units that are delivered in GGATHER and GGT wait for the views of that daemon view: others may finish first,
         and drafts from before are stamped at once.
D-signal a signal in GGATHER is kept with its place among what waits. Figure 6.25, line 14, signals groups at once; who
         gathered before its signal has the same two views then and no signal in the first (2.8.2).
D-skip   a gathering that is given up has its signal then, and what waited is delivered behind it as behind any lossy
         signal; changes by daemons that did not come along before are in their own GROUPS next time.
         All of it then stands in total order: each daemon had heard what is below AGREED in an order of its own.
D-agreed GROUPS are AGREED, not SAFE: those who move on together deliver the same agreed units before their signals.
"""

from __future__ import annotations

from collections.abc import Iterable

from isotone.core.boundary import Indicate, Message, Requested
from isotone.core.codec.bundle import decode_bundle
from isotone.core.contract import Action
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import NO_DAEMON_VIEW, ClientId, DaemonId, GroupViewId, Stamp
from isotone.core.services import Service
from isotone.core.views import DaemonView
from isotone.evs.boundary import DeliverDaemonView, DeliverSignal, DeliverUnits
from isotone.evs.groups.actions import GroupsSettings, Submit
from isotone.evs.groups.changes import Changes, Era
from isotone.evs.groups.desk import Desk
from isotone.evs.groups.gather import Gathering, Merge
from isotone.evs.groups.holds import Holds
from isotone.evs.groups.interest import Sites
from isotone.evs.groups.messages import (
    CODEC,
    Change,
    GroupsMessage,
    HoldMessage,
    JoinMessage,
    KillMessage,
    Share,
    cut_shares,
    decode_message,
)
from isotone.evs.groups.roster import Roster
from isotone.evs.groups.states import TRANSITIONS, Reason, State
from isotone.evs.ordering.large import HEAD_BYTES, PIECE_BYTES_MAX, Joining
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.transport.view import fragment_bytes

GROUPS_SESSION = ""  # under which GROUPS are sent; no client has an empty name


class Groups:
    """All groups as one daemon knows them."""

    measurements = ("entries", "refused")

    def __init__(self, me: DaemonId, settings: GroupsSettings | None = None) -> None:
        self.me = me
        self.settings = settings or GroupsSettings()
        self.state = State.GTRANS
        self.reason = Reason.STARTED
        self.entries: dict[tuple[State, Reason], int] = {}
        self.refused: dict[str, int] = {}  # units that no correct daemon sends, by reason
        self.roster = Roster(me)
        self.desk = Desk(self.roster, self.settings)
        self.holds = Holds(self.roster)
        self.view = DaemonView(NO_DAEMON_VIEW, (me,), (me,))
        self.lineage: tuple[DaemonId, ...] = (me,)  # of the view: those who know the same about groups; sorted
        self.waiting_bytes = 0
        self._came_from = NO_DAEMON_VIEW  # the daemon view before
        self._waiting: list[Draft] = []  # until the groups are gathered
        self._changes = Changes(self.roster, Era(NO_DAEMON_VIEW, frozenset((me,))))
        self._gathering = Gathering.of(NO_DAEMON_VIEW, ())
        self._held: list[Unit] = []  # delivered in GGATHER and GGT, in order
        self._signal: DeliverSignal | None = None  # that came in GGATHER
        self._signal_place = 0  # how many of the held units came before it
        self._joining = Joining(1)
        self._sites = Sites.none()

    # --- from above: boundary B4 -----------------------------------------------------------------------------------

    def handle(self, event: Requested) -> list[Action]:
        """A client asks something."""
        out: list[Action] = []
        busy = self.waiting_bytes > self.settings.waiting_bytes_max
        drafts = self.desk.take(event.client, event.request, busy=busy, out=out)
        if drafts and self.state is State.GOP:
            out.append(Submit(tuple(drafts)))
        elif drafts:
            self._waiting += drafts
            self.waiting_bytes += sum(len(draft.body) for draft in drafts)
        return out

    # --- from below: boundary B3 -----------------------------------------------------------------------------------

    def on_signal(self, action: DeliverSignal, at: int) -> list[Action]:
        """The daemon view ends; what follows is promised among ``transitional`` only."""
        del at
        out: list[Action] = []
        if self.state is State.GOP:
            self._on_signal(action, out)
        else:
            assert self.state is State.GGATHER, f"a signal in {self.state.name}"
            self._signal, self._signal_place = action, len(self._held)
            self._enter(Reason.SIGNALLED_IN_GATHER)
        return out

    def on_units(self, action: DeliverUnits, at: int) -> list[Action]:
        """Units are delivered in the current daemon view."""
        del at
        out: list[Action] = []
        for unit in action.units:
            if self.state is State.GGATHER or self.state is State.GGT:
                self._hold(unit, out)
            else:
                self._take(unit, out)
        return out

    def on_daemon_view(self, action: DeliverDaemonView, at: int) -> list[Action]:
        """The next daemon view is installed."""
        del at
        out: list[Action] = []
        if self.state is State.GGT:
            self._give_up(out)
        assert self.state is State.GTRANS, f"a daemon view in {self.state.name}"
        self._changes.drop_absent()
        coming = frozenset(action.view.members)
        self.lineage = tuple(sorted(self._changes.era.together))
        assert coming.issuperset(self.lineage), "who comes along is in the next daemon view"
        self._came_from, self.view = self.view.id, action.view
        self._changes.era = Era(action.view.id, coming)
        self._joining = Joining(len(action.view.members))
        self._sites = Sites.of(action.topology, action.view)
        self.holds.move_on(action.view)
        self.desk.piece_bytes = min(PIECE_BYTES_MAX, fragment_bytes(action.topology) - HEAD_BYTES)
        if len(self.lineage) == len(coming):
            self._changes.network_views(GroupViewId(action.view.id), out)
            self._enter(Reason.ALL_CAME_ALONG)
            self._resume(out)
        else:
            self._gathering = Gathering.of(action.view.id, action.view.members)
            self._enter(Reason.OTHERS_CAME)
            out.append(self._groups())
        return out

    def missing(self) -> tuple[DaemonId, ...]:
        """The daemons whose GROUPS are waited for."""
        return self._gathering.missing() if self.state in {State.GGATHER, State.GGT} else ()

    # --- daemon views ----------------------------------------------------------------------------------------------

    def _on_signal(self, action: DeliverSignal, out: list[Action]) -> None:
        """Groups whose members do not all come along are signalled [Figure 6.19]."""
        self._changes.era = self._transition(action)
        self._changes.signal(out)
        self._enter(Reason.SIGNALLED)

    def _transition(self, signal: DeliverSignal) -> Era:
        assert signal.view == self.view.id and self.me in signal.transitional
        together = frozenset(signal.transitional)
        along = sorted(daemon for daemon in self.lineage if daemon in together)
        lossy = len(along) < len(self.view.members)
        return Era(self.view.id, frozenset(along), signal.following, lossy, along[0])

    def _groups(self) -> Submit:
        """GROUPS: what this daemon brings."""
        shares = []
        for client in self.roster.clients_at(self.me):
            for name in self.roster.groups_of(client):
                shares.append((name, client))
        by_name: dict[str, list[ClientId]] = {}
        for name, client in sorted(shares):
            by_name.setdefault(name, []).append(client)
        groups = self.roster.by_name
        told = [Share(name, groups[name].id, groups[name].marked, tuple(each)) for name, each in by_name.items()]
        pieces = cut_shares(self.view.id, self.lineage[0], told)
        return Submit(
            tuple(Draft(GROUPS_SESSION, UnitKind.GROUPS, Service.AGREED, CODEC.encode(piece)) for piece in pieces)
        )

    def _hold(self, unit: Unit, out: list[Action]) -> None:
        """Everything that has an order waits in it; GROUPS are read at once."""
        if unit.kind is UnitKind.GROUPS and not unit.service.is_agreed:
            self._take_statement(unit)
            return
        self._held.append(unit)
        if unit.kind is UnitKind.GROUPS and self._gather(unit):
            late = self.state is State.GGT
            out += self._merged()
            self.lineage = self.view.members
            self.holds.merged()
            self._enter(Reason.GATHERED_LATE if late else Reason.GATHERED)
            self._take_held(out)

    def _merged(self) -> list[Action]:
        """ComputeNotify [Figure 6.24]."""
        first = self.lineage[0]
        parted = GroupViewId(self._came_from, self.view.id, Stamp(0, first))
        merge = Merge(self.roster, first, id=GroupViewId(self.view.id), parted=parted)
        for daemon in self.view.members:
            report = self._gathering.report(daemon)
            if daemon in self.lineage:
                merge.take_own(report)
            else:
                merge.take(report)
        return merge.views()

    def _gather(self, unit: Unit) -> bool:
        try:
            message = decode_message(unit.body)
            return isinstance(message, GroupsMessage) and self._gathering.take(message, self._sender(unit))
        except RemoteProtocolError as error:
            self._refuse(error)
            return False

    def _take_held(self, out: list[Action]) -> None:
        """What waited takes effect in its order, the signal in its place."""
        held, self._held = self._held, []
        signal, self._signal = self._signal, None
        if signal is None:
            self._take_all(held, out)
            self._resume(out)
            return
        self._take_all(held[: self._signal_place], out)
        self._on_signal(signal, out)
        self._take_all(held[self._signal_place :], out)

    def _give_up(self, out: list[Action]) -> None:
        """Not all GROUPS came: D-skip."""
        held, self._held = self._held, []
        signal, self._signal = self._signal, None
        assert signal is not None
        self._enter(Reason.GIVEN_UP)
        self._changes.era = self._transition(signal)
        self._changes.signal(out)
        self._take_all(sorted(held, key=lambda unit: unit.position), out)

    def _resume(self, out: list[Action]) -> None:
        """The groups of this daemon view are known: what clients asked meanwhile goes out."""
        out += self._sites.state(self.roster)
        if self._waiting:
            out.append(Submit(tuple(self._waiting)))
            self._waiting = []
            self.waiting_bytes = 0

    def _enter(self, reason: Reason) -> None:
        self.state = TRANSITIONS[self.state][reason]
        self.reason = reason
        self.entries[self.state, reason] = self.entries.get((self.state, reason), 0) + 1

    # --- units -----------------------------------------------------------------------------------------------------

    def _take_all(self, units: Iterable[Unit], out: list[Action]) -> None:
        for unit in units:
            self._take(unit, out)

    def _take(self, unit: Unit, out: list[Action]) -> None:
        """A unit takes effect in the current era."""
        try:
            if unit.kind is UnitKind.FRAGMENT:
                for whole in self._joining.join((unit,)):
                    self._bundle(whole, out)
            elif unit.kind is UnitKind.BUNDLE:
                self._bundle(unit, out)
            elif unit.kind is UnitKind.GROUPS and not unit.service.is_agreed:
                self._take_statement(unit)
            elif unit.kind is UnitKind.GROUPS:
                self._change(unit, out)
        except RemoteProtocolError as error:
            self._refuse(error)

    def _bundle(self, unit: Unit, out: list[Action]) -> None:
        bundle, stamp = decode_bundle(unit.body, payload_max=self.settings.message_bytes_max)
        daemon = self._sender(unit)
        if bundle.sender.daemon != daemon or bundle.service is not unit.service or stamp is not None:
            raise RemoteProtocolError("a bundle that is not what its unit says")
        if self._changes.era.lossy and unit.service is not Service.UNRELIABLE:
            self._changes.touch(bundle.sender, bundle.groups, out)
        receivers = self.roster.receivers(bundle.groups)
        if receivers:
            out.append(Indicate(receivers, Message(bundle, Stamp(unit.lamport, daemon))))

    def _change(self, unit: Unit, out: list[Action]) -> None:
        message = decode_message(unit.body)
        daemon = self._sender(unit)
        if isinstance(message, HoldMessage):
            raise RemoteProtocolError("HOLD in the total order")
        if isinstance(message, GroupsMessage) is unit.is_cut:
            raise RemoteProtocolError(f"{type(message).__name__} with the service {unit.service.name}")
        if isinstance(message, GroupsMessage) or daemon not in self.lineage:
            return  # gathered already, or of a gathering that was given up; or it is in its sender's GROUPS
        client = ClientId(daemon, message.client, message.session)
        self._changed(client, message, unit, out)
        self.holds.changed(client)

    def _take_statement(self, unit: Unit) -> None:
        """HOLD: it stands in no order with anything but those before it, and counts at once."""
        try:
            self.holds.take(unit, self._sender(unit))
        except RemoteProtocolError as error:
            self._refuse(error)

    def _changed(self, client: ClientId, message: Change, unit: Unit, out: list[Action]) -> None:
        stamp = Stamp(unit.lamport, client.daemon)
        if isinstance(message, KillMessage):
            names = self.roster.groups_of(client)
            self._changes.kill(client, stamp, out)
            out += self._sites.left(self.roster, client, names)
            return
        joins, name = isinstance(message, JoinMessage), message.group
        if self.roster.has(client, name) is joins:
            raise RemoteProtocolError("a join of a member, or a leave of somebody else")
        if joins:
            self.desk.joining.pop((client, name), None)
            out += self._sites.joined(self.roster, client, name)
            self._changes.join(client, name, stamp, out)
        else:
            self._changes.leave(client, name, stamp, out)
            out += self._sites.left(self.roster, client, [name])

    def _sender(self, unit: Unit) -> DaemonId:
        return self.view.members[unit.daemon]

    def _refuse(self, error: RemoteProtocolError) -> None:
        self.refused[str(error)] = self.refused.get(str(error), 0) + 1
