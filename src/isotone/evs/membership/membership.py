"""The membership of one daemon: six states composed on this page.

```
              lost: link, member, attempt                   smallest of the site
   ┌───────────────────────────────────────▶ SEG ────────────────────────────▶ GATHER ◀── others are reached ── OP
   │                                          │ ▲ silent                          │ ▲                           ▲
   │                                 smaller  ▼ │                                 │ └──── nothing found ────────┤
   │                                          REP                                 │ forms NEWMEMB               │
   │                                           │ NEWMEMB                          ▼                             │
   └────────────────────────────────────────── └───────────────────────────▶ STATETRANS ──▶ EVS ── installed ───┘
```
Datagrams that begin with the membership's mark are its own, all others belong to the network of the daemon view that
forms or works. Every event ends with a look at what changed: `news`.

Implements: [Spread 6.1]. Deviations: D-… of the parts, listed in docs/protocols/membership.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    DatagramsReceived,
    DatagramsRefused,
    Event,
    Persisted,
    PersistFailed,
    Started,
    Stop,
    Stopping,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
)
from isotone.core.errors import InputError, LocalProtocolError, RemoteProtocolError
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.detector.evidence import Reason as Evidence
from isotone.evs.membership.callers import Callers
from isotone.evs.membership.dispatch import Dispatch
from isotone.evs.membership.events import PeersChanged
from isotone.evs.membership.floors import LAMPORT_BLOCK
from isotone.evs.membership.gather import Gather
from isotone.evs.membership.messages import MARK, Leave
from isotone.evs.membership.node import LOOKUP_TIMER, REPEAT_TIMER, REPORT_TIMER, STATE_TIMER, Node
from isotone.evs.membership.operating import Operating
from isotone.evs.membership.recovering import Recovering
from isotone.evs.membership.segment import Segment
from isotone.evs.membership.settings import MembershipSettings
from isotone.evs.membership.standing import standing_of
from isotone.evs.membership.states import Reason, Standing, State
from isotone.evs.membership.transfer import Transfer
from isotone.evs.membership.watch import DETECTOR_TIMER, PENALTY_TIMER
from isotone.evs.ordering.stamper import Draft
from isotone.evs.overlay.interest import InterestChanged
from isotone.evs.transport.events import InterestStated, Submitted
from isotone.evs.transport.settings import UNIT_BYTES_MAX

REVIEWS_MAX = 16  # state changes that one event can cause


class Membership:
    """The automaton. ``me`` names this start of the daemon, ``identity`` the daemon for all time (16 bytes)."""

    periodic_timers = (DETECTOR_TIMER[0], LOOKUP_TIMER[0])

    def __init__(
        self,
        *,
        me: DaemonId,
        identity: bytes,
        site: str,
        address: Address,
        settings: MembershipSettings | None = None,
    ) -> None:
        assert len(identity) == 16, "an identity is a UUID"
        self.settings = settings or MembershipSettings()
        self.node = Node(me=me, identity=identity, site=site, address=address, settings=self.settings)
        self.operating, self.segment = Operating(self.node), Segment(self.node)
        self.gather, self.transfer, self.recovering = Gather(self.node), Transfer(self.node), Recovering(self.node)
        self._compose()
        self._dispatch = Dispatch(self.node, self.operating, self.segment, self.gather, self.transfer)
        self._callers = Callers(self.settings.caller_us)
        self.stopped = False

    def _compose(self) -> None:
        operating, segment, gather = self.operating, self.segment, self.gather
        transfer, recovering = self.transfer, self.recovering
        operating.segment, operating.gather = segment, gather
        segment.gather = gather
        gather.segment, gather.operating, gather.transfer = segment, operating, transfer
        transfer.segment, transfer.operating, transfer.recovering = segment, operating, recovering
        recovering.transfer, recovering.operating, recovering.segment = transfer, operating, segment

    # --- looking ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """Where it stands."""
        return self.node.state

    @property
    def view(self) -> DaemonViewId:
        """The daemon view that was installed last."""
        return self.node.past.id

    @property
    def members(self) -> tuple[DaemonId, ...]:
        """Of that daemon view."""
        return self.node.past.members

    @property
    def room(self) -> int:
        """Bytes of drafts that may be submitted now; below 0 when more waits than should."""
        network = self.node.network
        if network is not None and network.installed:
            return network.transport.room
        return self.settings.waiting_bytes_max - self.node.waiting_bytes

    def has_waiting(self, session: str) -> bool:
        """Whether drafts of a session wait for their stamps; those that wait for a daemon view may be anybody's."""
        network = self.node.network
        if network is not None and network.installed:
            return network.transport.stamper.has_waiting(session)
        return self.node.waiting_bytes > 0

    def standing(self, at: int) -> Standing:
        """All of it, for people."""
        return standing_of(self.node, self.segment, self.transfer, at)

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Action]:
        """Take one event, then look until nothing changes any more."""
        if self.stopped:
            return []
        node = self.node
        node.at = event.at
        try:
            self._on(event)
            self._settle()
        except BaseException:
            node.out.clear()
            raise
        return self._take_out()

    def takes(self, drafts: Sequence[Draft]) -> bool:
        """Take drafts that only have to wait for the token, which is under way; False: hand them over as an event.

        A busy sender's bundles come a dozen to a visit of the token, and each spares the way through five layers.
        """
        network = self.node.network
        return not self.stopped and network is not None and network.installed and network.transport.takes(drafts)

    def _on(self, event: Event) -> None:
        match event:
            case DatagramsReceived():
                self._on_datagrams(event)
            case TimerFired():
                self._on_timer(event)
            case Submitted():
                self._on_submitted(event)
            case StreamOpened() | StreamReceived() | StreamWritable() | StreamClosed():
                self._on_stream(event)
            case InterestChanged() | InterestStated():
                if self._is_installed:
                    self.operating.handle(event)
            case DatagramsRefused(destination=destination):
                if (peer := self.node.peers.by_address.get(destination)) is not None and not peer.suspected:
                    self.node.watch.accuse(peer, Evidence.REFUSED_PORT, event.at)
            case PeersChanged():
                self._dispatch.on_peers_changed(event)
            case Started():
                self._on_started(event)
            case PersistFailed(reason=reason):
                self._stop(f"the floors cannot be kept: {reason}")
            case Stopping():
                self._on_stopping()
            case Persisted():
                pass
            case _:
                raise AssertionError(f"a membership knows no {type(event).__name__}")

    def _on_started(self, event: Started) -> None:
        node = self.node
        try:
            node.epoch, node.lamport = node.floors.start(event.storage)
        except InputError as error:
            self._stop(str(error))
            return
        node.accepted = DaemonViewId(node.epoch, DaemonId("", 0))
        for known in self.settings.known:
            self._dispatch.add_known(known)
        self.operating.look_within(self.settings.lookup_us)
        if self.settings.first_wait_us:
            self.segment.enter_seg(Reason.STARTED)
            node.end_within(self.settings.first_wait_us)
        else:
            self._dispatch.install_alone()
            node.announce()

    def _on_stopping(self) -> None:
        """Say good-bye, so that nobody waits for a timeout."""
        node = self.node
        node.detach()
        node.send_all([*node.peers.by_name], Leave(node.card()))
        node.out += self._callers.drop_all()
        timers = (DETECTOR_TIMER, PENALTY_TIMER, LOOKUP_TIMER, REPORT_TIMER, STATE_TIMER, REPEAT_TIMER)
        node.out += [CancelTimer(each) for each in timers]
        self.stopped = True

    def _stop(self, reason: str) -> None:
        self.node.out.append(Stop(reason))
        self.stopped = True

    # --- packets and streams ---------------------------------------------------------------------------------------

    @property
    def _is_installed(self) -> bool:
        network = self.node.network
        return network is not None and network.installed

    def _network_event(self, event: Event) -> None:
        """To the network that forms or works."""
        if self._is_installed:
            self.operating.handle(event)
        elif self.node.network is not None:
            self.transfer.handle(event)

    def _on_datagrams(self, event: DatagramsReceived) -> None:
        data, size = memoryview(event.data), event.segment_size
        if not data:
            return
        marks = bytes(data[::size])
        if MARK not in marks:
            self._on_packets(event)
            return
        for place, mark in enumerate(marks):
            part = data[place * size : (place + 1) * size]
            if mark == MARK:
                self._on_datagram(part, event.source, alone=len(marks) == 1)
            else:
                self._on_packets(DatagramsReceived(event.at, event.source, part, size))

    def _on_datagram(self, data: memoryview, source: Address, *, alone: bool) -> None:
        """A message of the membership; one that came together with others cannot be refused alone."""
        try:
            self._dispatch.on_datagram(data, source)
        except RemoteProtocolError:
            self.node.peers.malformed += 1
            if alone:
                raise

    def _on_packets(self, event: DatagramsReceived) -> None:
        """Of a link; those of networks that are over, or not here yet, are dropped."""
        network = self.node.network
        if network is None or not network.transport.knows(event.source):
            return
        peer = self.node.peers.by_address.get(event.source)
        if peer is not None:
            self.node.watch.heard(peer, event.at)
        self._network_event(event)

    def _on_stream(self, event: StreamOpened | StreamReceived | StreamWritable | StreamClosed) -> None:
        node, stream = self.node, event.stream
        if node.network is not None and node.network.owns_stream(stream):
            self._network_event(event)
        elif isinstance(event, StreamOpened) and event.accepted:
            node.out += self._callers.opened(event)
        elif stream in self._callers:
            if isinstance(event, StreamClosed):
                self._callers.closed(stream)
            elif isinstance(event, StreamReceived):
                _, actions = self._callers.received(event)
                node.out += actions
                self._admit_callers()

    def _admit_callers(self) -> None:
        """Those who greet a link of the present network."""
        node = self.node
        for stream, hello in self._callers.waiting():
            network = node.network
            if network is not None and network.transport.answers(hello):
                outcome = network.adopt(*self._callers.take(stream, node.at))
                (self.operating if network.installed else self.transfer).take(outcome)

    # --- time ------------------------------------------------------------------------------------------------------

    def _on_timer(self, event: TimerFired) -> None:
        node = self.node
        match event.key:
            case key if key in (DETECTOR_TIMER, PENALTY_TIMER):
                node.watch.on_timer(event)
                if node.network is not None:
                    node.out += node.network.counts(event.at)
            case key if key == LOOKUP_TIMER:
                self.operating.on_lookup()
            case key if key == REPORT_TIMER:
                node.report()
            case key if key == STATE_TIMER:
                self._dispatch.on_end()
            case key if key == REPEAT_TIMER:
                self._dispatch.on_repeat()
            case key:
                if node.network is not None and node.network.owns_timer(key):
                    self._network_event(event)

    def _on_submitted(self, event: Submitted) -> None:
        if self._is_installed:
            self.operating.handle(event)
        elif any(len(draft.body) > UNIT_BYTES_MAX for draft in event.drafts):
            raise LocalProtocolError(f"a draft of more than {UNIT_BYTES_MAX} bytes: split it into fragments")
        else:
            self.node.wait(list(event.drafts))

    # --- after every event -----------------------------------------------------------------------------------------

    def _settle(self) -> None:
        node = self.node
        for _ in range(REVIEWS_MAX):
            if node.watch.doubted:
                node.watch.doubted = False
                self._dispatch.on_doubt()
            if node.watch.changed:
                node.watch.changed = False
                node.reach_changed()
            if not node.news or self.stopped:
                break
            node.news = False
            self._dispatch.review()
            self._admit_callers()
        else:
            raise AssertionError("the membership does not come to rest")

    def _take_out(self) -> list[Action]:
        """Whatever uses a number above the floors stands behind the `Persist` that raises them."""
        node = self.node
        lamport = max(node.lamport, node.network.lamport if node.network is not None else 0)
        floors = node.floors.reserve(epoch=node.accepted.epoch + 1, lamport=lamport + LAMPORT_BLOCK // 4)
        out = [*floors, *node.out]
        node.out.clear()
        return out
