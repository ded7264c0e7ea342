"""The simulated network: addresses, sites, cuts and datagrams.

Every ordered pair of nodes has a link of its own (`isotone.sim.links`), so any direction can be cut alone and cuts need
not be transitive. A cut loses what is sent and what would arrive while it lasts. A process is reached at its address;
its automata beside the default one at ``address/label``, as at a port. LAN multicast reaches the automata of the same
label in all living processes of the sender's site, each over its own link, with its own losses.

Datagrams that were sent together, arrive together and are of one size become one `DatagramsReceived`, as with the
kernel's receive offload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Address, DatagramsReceived, DatagramsRefused, Event
from isotone.core.errors import LocalProtocolError
from isotone.sim.agenda import Agenda, Call
from isotone.sim.links import Link, LinkSettings
from isotone.sim.process import Lane, Phase, Process
from isotone.sim.streams import Streams, StreamSettings

DATAGRAM_BYTES_MAX = 65_507
RECEIVE_OFFLOAD_BYTES_MAX = 65_535
TRAIN_GAP_US = 50
"""Packets that a slow link sends further apart than this arrive one by one."""
REFUSAL_BYTES = 64

Post = Callable[[Lane, Event], None]
Parts = Sequence[bytes | memoryview]


class NetworkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How links behave within a site and between sites, before anybody changes single ones."""

    lan: LinkSettings = LinkSettings()
    wan: LinkSettings = LinkSettings(latency_us=20_000, jitter_us=2_000)
    refuses: bool = True
    """A living host without a listener at the address says so, as a port that is closed does."""
    receive_buffer_bytes_max: int = 4 * 1024 * 1024
    """Datagrams that a paused process cannot take wait up to this size; what comes later is lost."""
    streams: StreamSettings = StreamSettings()


class Network:
    """All links, and who is where."""

    def __init__(self, settings: NetworkSettings, agenda: Agenda, choice: Choice, post: Post) -> None:
        self.settings = settings
        self.datagrams_sent = 0  # one per receiver of a multicast
        self.datagrams_received = 0
        self.agenda = agenda
        self._choice = choice
        self._post = post
        self._links: dict[tuple[str, str], Link] = {}
        self._places: dict[str, str] = {}  # node name to site, in the order of joining
        self._doors: dict[Address, Lane] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._sides: dict[str, int] = {}
        self._hosts: dict[Address, str] = {}  # which node was last at an address
        self.streams = Streams(self, settings.streams, post)

    # --- who is where --------------------------------------------------------------------------------------------

    def place(self, name: str, site: str) -> None:
        """A node is on this LAN."""
        self._places[name] = site

    def open_doors(self, process: Process) -> None:
        """The automata of this process can be reached from now on."""
        for lane in process.lanes.values():
            door = self.door(lane)
            if door in self._doors:
                raise LocalProtocolError(f"address {door} is taken by {self._doors[door].process.daemon}")
            self._doors[door] = lane
            self._hosts[door] = process.node.name

    def close_doors(self, process: Process) -> None:
        """Nothing can be reached there any more."""
        self.streams.drop(process)
        for lane in process.lanes.values():
            del self._doors[self.door(lane)]

    def door(self, lane: Lane) -> Address:
        """The address of one automaton."""
        process = lane.process
        if lane.label == process.default_label:
            return process.address
        return lane.door or Address(f"{process.address}/{lane.label}")

    def behind(self, address: Address) -> Lane | None:
        """The automaton that is reached at this address now."""
        return self._doors.get(address)

    def host(self, address: Address) -> str | None:
        """The node that was last at this address."""
        return self._hosts.get(address)

    # --- links and cuts ------------------------------------------------------------------------------------------

    def link(self, source: str, destination: str) -> Link:
        """The link from one node to another."""
        link = self._links.get((source, destination))
        if link is None:
            self._check((source, destination))
            near = self._places[source] == self._places[destination]
            settings = self.settings.lan if near else self.settings.wan
            link = Link(settings, self._choice.derive(f"{source}>{destination}"))
            link.cut = self.is_cut(source, destination)
            self._links[source, destination] = link
        return link

    def cut(self, source: str, destination: str, *, one_way: bool = False) -> None:
        """Cut one link, or both directions of it."""
        self._check((source, destination))
        self._cuts.add((source, destination))
        if not one_way:
            self._cuts.add((destination, source))
        self._refresh()

    def mend(self, source: str, destination: str, *, one_way: bool = False) -> None:
        """Undo `cut`."""
        self._check((source, destination))
        self._cuts.discard((source, destination))
        if not one_way:
            self._cuts.discard((destination, source))
        self._refresh()

    def partition(self, sides: Sequence[Iterable[str]]) -> None:
        """Cut all links between the sides; who is named in none forms one more. Replaces an earlier partition."""
        placed: dict[str, int] = {}
        for number, side in enumerate(sides, start=1):
            for name in side:
                if name in placed:
                    raise LocalProtocolError(f"{name} stands on two sides")
                placed[name] = number
        self._check(placed)
        self._sides = placed
        self._refresh()

    def heal(self) -> None:
        """Undo all cuts and partitions."""
        self._cuts.clear()
        self._sides = {}
        self._refresh()

    def is_cut(self, source: str, destination: str) -> bool:
        """Whether nothing passes in this direction."""
        apart = self._sides.get(source, 0) != self._sides.get(destination, 0)
        return apart or (source, destination) in self._cuts

    def components(self, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """The sets of these nodes that are connected by links open both ways, possibly over others of them."""
        left, components = sorted(names), []
        while left:
            component, edge = [], [left.pop(0)]
            while edge:
                here = edge.pop()
                component.append(here)
                near = [there for there in left if not (self.is_cut(here, there) or self.is_cut(there, here))]
                left = [there for there in left if there not in near]
                edge.extend(near)
            components.append(tuple(sorted(component)))
        return tuple(components)

    def _check(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._places:
                raise LocalProtocolError(f"there is no node {name!r}")

    def _refresh(self) -> None:
        for (source, destination), link in self._links.items():
            link.cut = self.is_cut(source, destination)

    def carry(self, source: str, destination: str, size: int, call: Call, argument: object) -> None:
        """Take one packet of a stream from node to node, and call when it arrives, if it does."""
        link, now = self.link(source, destination), self.agenda.now
        if link.cut:
            return
        departure = -1 if link.loses() else link.departure(now, size)
        if departure < 0:
            return
        if link.duplicates():
            self.agenda.push(link.late_arrival(departure), self._land, (link, call, argument))
        arrival = link.late_arrival(departure) if link.reorders() else link.arrival(departure)
        self.agenda.push(arrival, self._land, (link, call, argument))

    def _land(self, flight: tuple[Link, Call, object]) -> None:
        link, call, argument = flight
        if not link.cut:
            call(argument)

    # --- datagrams -----------------------------------------------------------------------------------------------

    def send(self, lane: Lane, destination: Address, datagrams: Sequence[Parts]) -> None:
        """Send datagrams to one address."""
        target = self._doors.get(destination)
        if target is not None:
            self._transmit(lane, target, _joined(datagrams))
        elif self.settings.refuses:
            self._refuse(lane, destination)

    def _refuse(self, lane: Lane, destination: Address) -> None:
        """The host there answers that nobody listens; the answer travels as any packet does."""
        me, host = lane.process.node.name, self.host(destination)
        if host is None or host == me:
            return
        self.carry(me, host, REFUSAL_BYTES, self._answer_refusal, (lane, destination, host))

    def _answer_refusal(self, refusal: tuple[Lane, Address, str]) -> None:
        lane, destination, host = refusal
        if destination not in self._doors:
            self.carry(host, lane.process.node.name, REFUSAL_BYTES, self._hear_refusal, (lane, destination))

    def _hear_refusal(self, refusal: tuple[Lane, Address]) -> None:
        lane, destination = refusal
        if lane.process.phase is not Phase.ENDED:
            self._post(lane, DatagramsRefused(lane.process.clock.read(self.agenda.now), destination))

    def multicast(self, lane: Lane, site: str, datagrams: Sequence[Parts]) -> None:
        """Send datagrams to all others on the LAN; a foreign LAN cannot be reached so."""
        me = lane.process
        if me.node.site != site:
            return
        packets = _joined(datagrams)
        for target in list(self._doors.values()):
            if target.label == lane.label and target.process is not me and target.process.node.site == site:
                self._transmit(lane, target, packets)

    def _transmit(self, lane: Lane, target: Lane, packets: Sequence[bytes]) -> None:
        self.datagrams_sent += len(packets)
        source = self.door(lane)
        me, other = lane.process.node.name, target.process.node.name
        if me == other:
            self._fly(None, target, source, self.agenda.now, packets)
            return
        link = self.link(me, other)
        if link.cut:
            return
        if link.is_plain and len(packets) == 1:
            departure = link.departure(self.agenda.now, len(packets[0]))
            if departure >= 0:
                self._fly(link, target, source, link.arrival(departure), packets)
            return
        self._transmit_each(link, target, source, packets)

    def _transmit_each(self, link: Link, target: Lane, source: Address, packets: Sequence[bytes]) -> None:
        """The survivors in order travel as trains of one size; reordered and doubled ones travel alone."""
        now = self.agenda.now
        train: list[bytes] = []
        left_at = now
        for packet in packets:
            departure = -1 if link.loses() else link.departure(now, len(packet))
            if departure < 0:
                continue
            if link.duplicates():
                self._fly(link, target, source, link.late_arrival(departure), [packet])
            if link.reorders():
                self._fly(link, target, source, link.late_arrival(departure), [packet])
                continue
            if train and (departure - left_at > TRAIN_GAP_US or not _fits(train, packet)):
                self._fly(link, target, source, link.arrival(left_at), train)
                train = []
            train.append(packet)
            left_at = departure
        if train:
            self._fly(link, target, source, link.arrival(left_at), train)

    def _fly(self, link: Link | None, target: Lane, source: Address, arrival: int, train: Sequence[bytes]) -> None:
        data = train[0] if len(train) == 1 else b"".join(train)
        self.agenda.push(arrival, self._arrive, (link, target, source, data, len(train[0]), len(train)))

    def _arrive(self, flight: tuple[Link | None, Lane, Address, bytes, int, int]) -> None:
        link, target, source, data, segment_size, count = flight
        process = target.process
        if (link is not None and link.cut) or process.phase is Phase.ENDED:
            return
        if process.phase is Phase.PAUSED:
            if process.inbox_bytes + len(data) > self.settings.receive_buffer_bytes_max:
                return
            process.inbox_bytes += len(data)
        self.datagrams_received += count
        at = process.clock.read(self.agenda.now)
        self._post(target, DatagramsReceived(at, source, data, segment_size))


def _joined(datagrams: Sequence[Parts]) -> list[bytes]:
    packets = [b"".join(parts) for parts in datagrams]
    for packet in packets:
        assert len(packet) <= DATAGRAM_BYTES_MAX, f"a datagram of {len(packet)} bytes"
    return packets


def _fits(train: Sequence[bytes], packet: bytes) -> bool:
    """Whether receive offload would join the packet: equal sizes, only the last may be shorter."""
    size = len(train[0])
    if not size or len(train[-1]) != size or len(packet) > size:
        return False
    return bool(packet) and (len(train) + 1) * size <= RECEIVE_OFFLOAD_BYTES_MAX
