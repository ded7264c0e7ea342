"""Which state an event is for: the table of [Spread Figures 6.3 to 6.15], row by row.

What a figure calls impossible cannot come here, because entering a state ends the timers of the one before. What it
calls ignored is ignored, but that every message's card is looked at.

Implements: [Spread 6.1.3 to 6.1.10], which event does what in which state. Deviations: D-first a first view works and
is left when others are found, because a daemon alone serves its clients; D-evs-join a JOIN of a member in EVS is a loss
only if its card says that the sender stands elsewhere, because it may be late.
"""

from __future__ import annotations

from isotone.core.contract import Address
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import DaemonViewId
from isotone.core.views import DaemonView
from isotone.evs.boundary import DeliverDaemonView
from isotone.evs.membership.events import PeersChanged
from isotone.evs.membership.gather import Gather
from isotone.evs.membership.messages import (
    DAEMONS_MAX,
    Alive,
    Answer,
    Datagram,
    Join,
    Leave,
    NewMemb,
    Probe,
    Refer,
    Refuse,
    Relay,
)
from isotone.evs.membership.network import Network
from isotone.evs.membership.node import Node
from isotone.evs.membership.operating import Operating
from isotone.evs.membership.past import past_of
from isotone.evs.membership.peers import Peer
from isotone.evs.membership.segment import Segment
from isotone.evs.membership.settings import KnownDaemon
from isotone.evs.membership.states import Reason, State
from isotone.evs.membership.transfer import Transfer
from isotone.evs.overlay.topology import make_site, make_topology
from isotone.evs.transport.view import TransportView


class Dispatch:
    """Events to states."""

    def __init__(self, node: Node, operating: Operating, segment: Segment, gather: Gather, transfer: Transfer) -> None:
        self.node, self.operating, self.segment = node, operating, segment
        self.gather, self.transfer = gather, transfer

    # --- datagrams -------------------------------------------------------------------------------------------------

    def on_datagram(self, data: memoryview, source: Address) -> None:
        """A message of the membership."""
        node = self.node
        message = node.envelope.open(data)
        if message is None:
            node.peers.foreign += 1
            return
        peer = node.learn(message.card, source)
        if peer is None:
            return
        match message:
            case Probe(nonce=nonce):
                node.watch.probed(peer, nonce, node.at)
            case Answer(nonce=nonce):
                peer.refuses = ""  # who refuses us does not answer
                node.watch.answered(peer, nonce, node.at)
            case _:
                node.watch.heard(peer, node.at)
                try:
                    self._on_message(peer, message)
                except RemoteProtocolError:
                    node.peers.malformed += 1  # its card was taken already: too late to refuse the datagram

    def _on_relayed(self, message: Datagram) -> None:
        """A word of a daemon that others handed on; it is no sign that the daemon is reached."""
        peer = self.node.learn(message.card, None)
        if peer is not None and not isinstance(message, Probe | Answer | Relay):
            self._on_message(peer, message)

    def _on_message(self, peer: Peer, message: Alive | Join | Refer | NewMemb | Refuse | Leave | Relay) -> None:
        node = self.node
        match message:
            case Join():
                node.mention(message.members)
                self._on_join(peer, message)
            case NewMemb():
                self.transfer.on_newmemb(message)
            case Refer():
                node.mention([message.representative])  # the next JOIN goes there, once it is reached
            case Refuse():
                self._on_refuse(peer, message)
            case Leave():
                peer.gone = True
                node.watch.judge(peer, node.at)
                node.news = True
            case Relay():
                if (word := node.relays.take(message)) is not None:
                    self._on_relayed(word)
            case Alive():
                pass  # its card says it all

    def _on_join(self, peer: Peer, join: Join) -> None:
        match self.node.state:
            case State.OP:
                self.operating.on_join(peer, join)
            case State.SEG | State.REP:
                self.segment.on_join(peer, join)
            case State.GATHER:
                self.gather.on_join(peer, join)
            case State.STATETRANS | State.EVS:
                self.transfer.on_join(peer, join)

    def _on_refuse(self, peer: Peer, message: Refuse) -> None:
        node = self.node
        if message.about is None:
            peer.refuses = message.reason
        elif node.state in (State.STATETRANS, State.EVS) and message.about.id == node.accepted:
            self.transfer.on_refused(peer, message.reason)

    # --- time ------------------------------------------------------------------------------------------------------

    def on_end(self) -> None:
        """The timer that ends a state."""
        match self.node.state:
            case State.SEG | State.REP:
                self.segment.on_end()
            case State.GATHER:
                self.gather.on_end()
            case State.STATETRANS | State.EVS:
                self.transfer.on_end()

    def on_repeat(self) -> None:
        """The timer that repeats what a state sends."""
        match self.node.state:
            case State.SEG:
                self.segment.on_repeat()
            case State.GATHER:
                self.gather.on_repeat()
            case State.STATETRANS | State.EVS:
                self.transfer.on_repeat()

    def on_doubt(self) -> None:
        """This daemon slept: what it waited for may have come meanwhile, so its patience begins anew."""
        settings, node = self.node.settings, self.node
        match node.state:
            case State.STATETRANS | State.EVS:
                node.end_within(settings.exchange_us)
            case State.REP:
                node.end_within(settings.represented_us)
            case State.GATHER:
                node.end_within(settings.gather_us)
            case State.SEG:
                node.end_within(settings.segment_us)

    def review(self) -> None:
        """Something changed about somebody."""
        match self.node.state:
            case State.OP:
                self.operating.review()
            case State.SEG | State.REP:
                self.segment.review()
            case State.GATHER:
                self.gather.review()
            case State.STATETRANS | State.EVS:
                self.transfer.review()

    # --- settings and the first view -------------------------------------------------------------------------------

    def add_known(self, known: KnownDaemon) -> None:
        """The settings name a daemon."""
        if self.node.peers.configure(known):
            self.node.watch.add(self.node.peers.by_name[known.name], self.node.at)

    def on_peers_changed(self, event: PeersChanged) -> None:
        """The settings changed at run time."""
        node = self.node
        for known in event.known:
            node.peers.unwanted.discard(known.name)
            self.add_known(known)
        for name in event.removed:
            node.peers.unwanted.add(name)
            if node.peers.remove(name) is not None:
                node.watch.remove(name, node.at)
        if event.seeds is not None:
            node.seeds = event.seeds[:DAEMONS_MAX]
            node.call_seeds()
        node.stands_elsewhere()

    def install_alone(self) -> None:
        """The first daemon view is oneself [Spread Figure 6.2]."""
        node = self.node
        id = DaemonViewId(node.epoch + 1, node.me)
        node.epoch, node.accepted = id.epoch, id
        topology = make_topology([make_site(node.site, [node.me.name])], [])
        view = TransportView(id, (node.me,), topology, {node.me.name: node.address})
        node.network = network = Network(
            node.me,
            view,
            version=node.settings.versions.high,
            settings=node.settings,
            lamport=node.lamport,
            first_stream=node.next_stream,
        )
        network.installed = True
        node.past = past_of(network)
        outcome = network.start(node.at)
        daemon_view = DaemonView(id, (node.me,), (node.me,))
        node.out += node.record.view(daemon_view)
        node.out.append(DeliverDaemonView(daemon_view, topology, network.version, network.lamport))
        self.operating.take(outcome)
        self.operating.enter(Reason.STARTED_ALONE)
