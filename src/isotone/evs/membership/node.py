"""What all states of one daemon share: whom it knows and reaches, the network that works, the view that ended.

Each state is a module of its own and changes what is here; `enter` is the only way from one to the next. Two timers
belong to whatever state it is: one ends it, one repeats what it sends.

Implements: [Spread 6.1.3], the server state. Deviations: none.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from isotone.core.contract import Action, Address, CancelTimer, MulticastDatagrams, SendDatagrams, SetTimer, TimerKey
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.detector.detector import Detector
from isotone.evs.membership.floors import Floors
from isotone.evs.membership.messages import (
    DAEMONS_MAX,
    Alive,
    Answer,
    Card,
    Contact,
    Datagram,
    Envelope,
    Probe,
    Refuse,
    contact,
    view_name,
)
from isotone.evs.membership.neighbours import Neighbours
from isotone.evs.membership.network import Network
from isotone.evs.membership.past import Past, nowhere
from isotone.evs.membership.peers import Learned, Peer, Peers
from isotone.evs.membership.penalties import Penalties
from isotone.evs.membership.reach import Pair, pair
from isotone.evs.membership.record import DaemonRecord
from isotone.evs.membership.relays import Relays
from isotone.evs.membership.settings import MembershipSettings
from isotone.evs.membership.states import Entered, Reason, State
from isotone.evs.membership.watch import DETECTOR_TIMER, Watch
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.transport.events import DeliverUnits

STATE_TIMER: TimerKey = ("membership", "state")
REPEAT_TIMER: TimerKey = ("membership", "repeat")
REPORT_TIMER: TimerKey = ("membership", "report")
LOOKUP_TIMER: TimerKey = ("membership_lookup",)
REFUSE_EVERY_US = 1_000_000
AVOID_US = 10_000_000
ENTERED_MAX = 64


class Node:
    """One daemon."""

    measurements = ("at", "since", "entries", "entered", "ends_at", "ended_at", "looks_at")  # nothing depends on them

    def __init__(
        self, *, me: DaemonId, identity: bytes, site: str, address: Address, settings: MembershipSettings
    ) -> None:
        self.me, self.identity, self.site, self.address, self.settings = me, identity, site, address, settings
        self.at = 0  # of the event that is handled
        self.out: list[Action] = []
        self.envelope = Envelope(settings.cluster)
        self.floors = Floors(me.incarnation)
        self.record = DaemonRecord(me, enabled=settings.record, units=settings.record_units)
        self.peers = Peers(me, identity, settings, address)
        self.seeds = settings.seeds[:DAEMONS_MAX]
        detector = Detector(settings.detector, DETECTOR_TIMER)
        self.watch = Watch(self.peers, detector, Penalties(settings), self, self.out)
        self.neighbours = Neighbours(self)
        self.relays = Relays(self)
        self.state, self.reason, self.since = State.SEG, Reason.STARTED, 0
        self.ends_at: int | None = None  # when the state ends, or looks whether it does; for `explain`
        self.ended_at: int | None = None  # when the last daemon view that was installed ended; for `explain`
        self.looks_at: int | None = None  # when a representative looks for others next; for `explain`
        self.culprit = ""  # whose fault the last loss was
        self.entries: Counter[Reason] = Counter()
        self.entered: deque[Entered] = deque(maxlen=ENTERED_MAX)  # the latest; whoever looks often misses none
        self.network: Network | None = None  # whose links work; forming or installed
        self.past: Past = nowhere(me)
        self.epoch = 0  # the highest that anybody told of
        self.accepted = DaemonViewId(0, me)  # the highest daemon view that was ever entered
        self.lamport = 0  # the highest time of networks that ended
        self.waiting: deque[Draft] = deque()  # drafts for the next daemon view
        self.waiting_bytes = 0
        self.next_stream = 1
        self.news = False  # the state has to look again
        self.progress = 0  # units that came in the exchange of the forming daemon view
        self.failures = 0  # attempts of ours that failed, in a row
        self.not_before = 0  # the next one waits so long
        self._broken: dict[str, int] = {}  # gateways of other sites to whom our link failed; until when that counts
        self._card: Card | None = None
        self._card_is_stale = True
        self._report_armed = False
        self._refused_at: dict[Address, int] = {}

    # --- time and state --------------------------------------------------------------------------------------------

    def enter(self, state: State, reason: Reason) -> None:
        """The one way into a state."""
        self.out += [CancelTimer(STATE_TIMER), CancelTimer(REPEAT_TIMER)]
        self.state, self.reason, self.since, self.ends_at = state, reason, self.at, None
        self.entries[reason] += 1
        self.entered.append(Entered(state, reason, self.culprit))
        self.stands_elsewhere()

    def card_changed(self) -> None:
        """The card has to be made anew before it is sent; nothing that a state would look at."""
        self._card_is_stale = True

    def progressed(self) -> None:
        """Something came of the exchange; others who wait for us may know it."""
        self.progress += 1
        self._card_is_stale = True

    def stands_elsewhere(self) -> None:
        """The card may have changed."""
        self._card_is_stale = True
        self.news = True

    def end_within(self, after_us: int) -> None:
        """When the state ends, or looks whether it does."""
        self.ends_at = self.at + max(0, after_us)
        self.out.append(SetTimer(STATE_TIMER, max(0, after_us)))

    def repeat_within(self, after_us: int) -> None:
        """When the state sends again."""
        self.out.append(SetTimer(REPEAT_TIMER, after_us))

    # --- messages --------------------------------------------------------------------------------------------------

    def card(self) -> Card:
        """Who and where this daemon is, as of now."""
        if self._card is None or self._card_is_stale:
            self._card_is_stale = False
            count = 0 if self._card is None else self._card.count
            fresh = self._make_card(count)
            if fresh != self._card:
                self._card = msgspec.structs.replace(fresh, count=count + 1)
        assert self._card is not None
        return self._card

    def _make_card(self, count: int) -> Card:
        network, versions = self.network, self.settings.versions
        return Card(
            name=self.me.name,
            incarnation=self.me.incarnation,
            identity=self.identity,
            site=self.site,
            address=self.address,
            low=versions.low,
            high=versions.high,
            count=count,
            epoch=self.epoch,
            attached=None if network is None else view_name(network.id),
            installed=network is not None and network.installed,
            accepted=view_name(self.accepted),
            progress=self.progress,
            cut=self.watch.cut,
            distances=self.neighbours.told(),
            broken=tuple(sorted(self._broken)),
        )

    def send(self, address: Address, message: Datagram) -> None:
        """To one address."""
        if address and address != self.address:
            self.out.append(SendDatagrams(address, [self.envelope.seal(message)]))

    def send_all(self, names: Iterable[str], message: Datagram) -> None:
        """To daemons by name, and through others to those who are not reached."""
        names, sealed = list(names), self.envelope.seal(message)
        for name in names:
            peer = self.peers.by_name.get(name)
            if peer is not None and peer.address and peer.address != self.address:
                self.out.append(SendDatagrams(peer.address, [sealed]))
        self.relays.send(names, message)

    def announce(self) -> None:
        """To the whole site, also to daemons that nobody named."""
        if self.settings.multicast:
            self.out.append(MulticastDatagrams(self.site, [self.envelope.seal(Alive(self.card()))]))
        self.call_seeds()

    def call_seeds(self) -> None:
        """To addresses at which daemons may be whose names nobody told, until somebody there is reached."""
        for address in self.seeds:
            peer = self.peers.by_address.get(address)
            if peer is None or not self.watch.reaches(peer.name):
                self.send(address, Alive(self.card()))

    def refuse(self, address: Address, reason: str, about: DaemonViewId | None = None) -> None:
        """Say why not; about daemon views always, else not too often."""
        if about is None:
            if self.at - self._refused_at.get(address, -REFUSE_EVERY_US) < REFUSE_EVERY_US:
                return
            self._refused_at = {each: at for each, at in self._refused_at.items() if self.at - at < REFUSE_EVERY_US}
            self._refused_at[address] = self.at
        self.send(address, Refuse(self.card(), None if about is None else view_name(about), reason[:500]))

    def probe(self, peer: Peer, nonce: int) -> None:
        """The detector's question."""
        self.send(peer.address, Probe(self.card(), nonce))

    def answer(self, peer: Peer, nonce: int) -> None:
        """The answer to another's."""
        self.send(peer.address, Answer(self.card(), nonce))

    # --- learning --------------------------------------------------------------------------------------------------

    def learn(self, card: Card, source: Address | None) -> Peer | None:
        """A card came, from this address or through others; the peer it is of, or nothing if it is to be ignored."""
        known = self.peers.by_name.get(card.name)
        before = None if known is None else known.card
        where = source
        if where is None:  # where it is, it says itself; where it was seen counts more
            is_met = known is not None and known.incarnation == card.incarnation
            where = known.address if known is not None and is_met else Address(card.address)
        learned, problem = self.peers.learn(card, where, self.at)
        if learned is Learned.REFUSED:
            if source is not None:
                self.refuse(source, problem)
            if (peer := self.peers.by_name.get(card.name)) is not None:
                self.watch.judge(peer, self.at)
            return None
        if learned in (Learned.ECHO, Learned.STALE):
            return None
        peer = self.peers.by_name[card.name]
        if learned is Learned.NEWCOMER:
            self.watch.add(peer, self.at)
            self.stands_elsewhere()
        if card.epoch > self.epoch:
            self.epoch = card.epoch
            self._card_is_stale = True
        if learned is Learned.NEWS:
            self.news = True
        self.watch.judge(peer, self.at)
        if peer.card is not before and peer.card is not None and learned is not Learned.SAME:
            self.relays.pass_on(peer.card)
        return peer

    def mention(self, contacts: Iterable[Contact]) -> None:
        """Somebody tells of others: get to know them."""
        for each in contacts:
            if self.peers.mention(each, self.at):
                self.watch.add(self.peers.by_name[each.name], self.at)
                self.stands_elsewhere()

    def contact_of(self, name: str) -> Contact:
        """A daemon that was met, as others are told of it."""
        if name == self.me.name:
            return contact(self.me, self.site, self.address)
        peer = self.peers.by_name[name]
        assert peer.daemon is not None
        return contact(peer.daemon, peer.site, peer.address)

    # --- reports ---------------------------------------------------------------------------------------------------

    def reach_changed(self) -> None:
        """Somebody is reached who was not, or the reverse: those who form daemon views have to know it soon."""
        self.stands_elsewhere()
        if not self._report_armed:
            self._report_armed = True
            self.out.append(SetTimer(REPORT_TIMER, self.settings.report_us))

    def report(self) -> None:
        """Tell one's own coordinator, and every smaller one that might take us in."""
        self._report_armed = False
        names = {peer.name for peer in self.smaller_representatives()}
        if self.network is not None and self.network.id.coordinator != self.me:
            names.add(self.network.id.coordinator.name)
        self.send_all(sorted(names), Alive(self.card()))

    def site_of(self, name: str) -> str:
        """Where a daemon is that is known."""
        return self.site if name == self.me.name else self.peers.by_name[name].site

    def cut_of(self, name: str) -> frozenset[str]:
        """Whom it does not reach directly, by its card."""
        if name == self.me.name:
            return frozenset(self.watch.cut)
        card = self.peers.by_name[name].card
        return frozenset(() if card is None else card.cut)

    def reaches(self, name: str) -> bool:
        """Whether words pass both ways, directly or, from site to site, through others."""
        return self.watch.reaches(name) or name in self.relays.linked()

    @property
    def reached(self) -> list[str]:
        """Everybody who is reached, directly or through others, sorted."""
        linked = self.relays.linked()
        return sorted({*self.watch.reached, *linked}) if linked else self.watch.reached

    def smaller_representatives(self) -> list[Peer]:
        """Daemons below this one that are reached and form daemon views for themselves, smallest first."""
        found = []
        for name in self.reached:
            peer = self.peers.by_name[name]
            daemon = peer.daemon
            if (
                daemon is not None
                and daemon < self.me
                and (peer.attached is None or peer.attached.coordinator == daemon)
            ):
                found.append(peer)
        return found

    # --- the network -----------------------------------------------------------------------------------------------

    @property
    def members(self) -> Sequence[DaemonId]:
        """Of the network that works."""
        return () if self.network is None else self.network.view.members

    def others(self, members: Iterable[DaemonId]) -> list[str]:
        """Their names without one's own."""
        return [member.name for member in members if member != self.me]

    def broken_by(self) -> tuple[Reason, str] | None:
        """Why the network that works cannot go on, and who it is."""
        assert self.network is not None
        for member in self.network.view.members:
            if member != self.me and (reason := self._fault_of(member, self.network.id)) is not None:
                return reason, member.name
        return None

    def _fault_of(self, member: DaemonId, view: DaemonViewId) -> Reason | None:
        peer = self.peers.by_name.get(member.name)
        if peer is None or peer.refused:
            return Reason.MEMBER_REFUSED
        if peer.incarnation is not None and peer.incarnation > member.incarnation:
            return Reason.MEMBER_RESTARTED
        if peer.suspected and self._is_lost(member, peer):
            return Reason.MEMBER_SUSPECTED
        card = peer.card
        if card is None or card.incarnation != member.incarnation:
            return None
        if peer.gone:
            return Reason.MEMBER_STOPPED
        is_elsewhere = card.attached is None or card.attached.id != view
        return Reason.MEMBER_LEFT if is_elsewhere and card.accepted.id >= view else None

    def _is_lost(self, member: DaemonId, peer: Peer) -> bool:
        """Whether a suspected member is not reached through others either; while no card came of it, others know it."""
        if peer.site == self.site or self._is_across(member):
            return True
        is_met = peer.card is not None and peer.card.incarnation == member.incarnation
        return is_met and not self.reaches(member.name)

    def _is_across(self, member: DaemonId) -> bool:
        """Whether our link of the network ends at this daemon: nobody else can be heard for it."""
        assert self.network is not None
        topology, peer = self.network.view.topology, self.peers.by_name[member.name]
        if topology.site(self.site).gateway != self.me.name:
            return False
        return any(
            self.site in (link.a, link.b) and topology.site(link.other(self.site)).gateway == peer.name
            for link in topology.links
        )

    def accounts_for(self, members: Iterable[DaemonId]) -> bool:
        """Whether nothing more is to be learnt about these: each waits for a daemon view as we do, or is not there.

        Who is merely silent may speak again, so it is waited for: D-early.
        """
        for member in members:
            if member == self.me:
                continue
            peer = self.peers.by_name.get(member.name)
            is_here = peer is not None and peer.daemon == member and self.reaches(member.name)
            if not (is_here and peer is not None and peer.attached is None) and not self.watch.is_absent(member.name):
                return False
        return True

    def detach(self) -> None:
        """Close the network that works. If its daemon view was installed, it is over, and what it owes is kept."""
        network = self.network
        if network is None:
            return
        self.out += network.close()
        if network.installed:
            self.past.ended(network)
            self.ended_at = self.at
            self.wait(network.transport.stamper.take_unstamped(), first=True)
        self.lamport = max(self.lamport, network.lamport)
        self.next_stream = network.transport.next_stream
        self.network = None
        self.stands_elsewhere()

    def wait(self, drafts: Sequence[Draft], *, first: bool = False) -> None:
        """These wait for the next daemon view."""
        self.waiting_bytes += sum(len(draft.body) for draft in drafts)
        if first:
            self.waiting.extendleft(reversed(drafts))
        else:
            self.waiting.extend(drafts)

    def deliver(self, units: Sequence[Unit], members: Sequence[DaemonId]) -> None:
        """Hand units of the daemon view with these members up."""
        units = [unit for unit in units if unit.kind is not UnitKind.MEMBERSHIP]
        if units:
            self.out += self.record.delivered(units, members)
            self.out.append(DeliverUnits(units))

    # --- links that failed -----------------------------------------------------------------------------------------

    def link_broke(self, far: str) -> None:
        """Our link to this gateway failed: whoever forms the next daemon view tries others for a while."""
        self._broken[far] = self.at + AVOID_US
        self.card_changed()

    def forget_broken(self) -> None:
        """Links that failed long ago may be tried again."""
        if any(until <= self.at for until in self._broken.values()):
            self._broken = {far: until for far, until in self._broken.items() if until > self.at}
            self.card_changed()

    def broken_links(self, names: Iterable[str]) -> Iterator[Pair]:
        """Between which of these daemons a link failed a moment ago, by what its ends say."""
        for name in names:
            card = self.card() if name == self.me.name else self.peers.by_name[name].card
            yield from (pair(name, far) for far in (() if card is None else card.broken))
