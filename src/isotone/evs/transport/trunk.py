"""One link to a neighbouring site, with what waits for room on it.

Units of different source sites take turns, and fragments of large messages stand behind everything else, so that bulk
does not hold up the others; in the link's own queue they are of another kind of frame, which takes turns too. Of line
updates only the newest of a site waits, because it says all that the older ones said. UNRELIABLE units never wait: they
are dropped. Metadata of pruned units waits for company a little, since alone in a packet it would save too little; then
it takes turns with units, so that it does not stand behind content that fills the link.

Memory: units that wait are not stable, so the flow windows of all sites bound them. The site of this trunk stamps
nothing that crosses it while units of its own wait here, and nothing at all while `PLACES_QUANTA` of metadata do.

Implements: [Spread 3.3], a link of the overlay as its gateway sends on it. Deviations: D-hold of
docs/protocols/ordering.md; line updates replace each other, because lines only rise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from isotone.core.contract import Action, Event
from isotone.evs.links.contract import FRAME_HEADER_BYTES, Frame, FramesOffered
from isotone.evs.links.hop import Hop
from isotone.evs.links.tcp import Hello, TcpLink
from isotone.evs.ordering.metadata import encode_metadata
from isotone.evs.ordering.pruning import DIRECTED_BULK_FRAME
from isotone.evs.ordering.stamper import BULK_FRAME
from isotone.evs.ordering.units import Unit

PACKET_BYTES = 1400
WINDOW_PARTS = 16
STREAM_QUANTUM_BYTES = 32 * 1024
METADATA_COMPANY = 16  # so many leave at once
PLACES_QUANTA = 4  # more metadata than so many quanta is too much
BULK = (BULK_FRAME, DIRECTED_BULK_FRAME)


class Trunk:
    """The link towards one site; ``name`` is the link's, for people."""

    def __init__(self, *, name: str, site: int, link: Hop | TcpLink, caller: Hello, metadata_hold_us: int) -> None:
        self.name, self.site, self.link = name, site, link
        self._caller = caller  # how the other end would greet if this is a byte stream that it opens
        self.waiting_bytes = 0  # of units that wait for room
        self.dropped = 0  # UNRELIABLE units that found no room
        self._lanes: dict[int, deque[Frame]] = {}  # by source site, never empty; the first has its turn
        self._places: dict[int, deque[Frame]] = {}  # the same for metadata that waited for company
        self._places_bytes = 0  # of these
        self._places_next = True  # whether they come before units at the next turn
        self._bulk: dict[int, deque[Frame]] = {}  # the same for fragments
        self._bulk_bytes: dict[int, int] = {}  # by source, of these
        self._last_bulk = -1  # whose fragment was taken last
        self._metadata: dict[int, list[Unit]] = {}  # by source site: what leaves without its content
        self._cleared: dict[int, Frame] = {}  # by source site: clearances that wait with it
        self._metadata_count = 0
        self._metadata_passing = False  # some of it waited already
        self._metadata_since: int | None = None  # when the first of it came
        self._metadata_hold_us = metadata_hold_us
        self._updates: dict[tuple[int, int], Frame] = {}  # by kind of frame and source site

    def handle(self, event: Event) -> list[Action]:
        """The link's own events."""
        return self.link.handle(event)

    def answers(self, hello: Hello) -> bool:
        """Whether a stream that begins with this greeting is for this link."""
        return isinstance(self.link, TcpLink) and hello == self._caller

    def is_open(self, source: int) -> bool:
        """Whether a unit of this source would be the next of its source to leave."""
        return source not in self._lanes

    @property
    def is_swamped(self) -> bool:
        """Whether even metadata is more than the link takes."""
        return self._places_bytes > PLACES_QUANTA * self.quantum

    def is_open_for_bulk(self, source: int) -> bool:
        """Whether a fragment of this source would be the next to leave: those of several sources take turns."""
        if source in self._bulk or self._lanes or self._places or self.link.waiting_bytes:
            return False
        return not self._bulk or self._last_bulk != source

    def bulk_bytes(self, source: int) -> int:
        """What waits here of fragments of this source."""
        return self._bulk_bytes.get(source, 0)

    @property
    def quantum(self) -> int:
        """Offered at a time, so that the link's own queue stays as short as it wants it: whatever is in there, nobody
        overtakes."""
        if isinstance(self.link, TcpLink):
            return STREAM_QUANTUM_BYTES
        return max(PACKET_BYTES, self.bulk_quantum)

    @property
    def bulk_quantum(self) -> int:
        """The same for fragments: a small part of a round trip's worth, and at least one."""
        if isinstance(self.link, TcpLink):
            return STREAM_QUANTUM_BYTES
        return max(1, int(self.link.congestion.window) // WINDOW_PARTS)

    def queue(self, source: int, frame: Frame) -> None:
        """A unit of this source shall leave when it can."""
        lanes = self._lanes
        if frame.kind in BULK:
            lanes = self._bulk
            self._bulk_bytes[source] = self._bulk_bytes.get(source, 0) + frame.size
        lanes.setdefault(source, deque()).append(frame)
        self.waiting_bytes += frame.size

    def queue_metadata(self, unit: Unit, *, passing: bool) -> None:
        """Metadata of this unit shall leave soon; at once if it waited elsewhere and is only ``passing``."""
        self._metadata.setdefault(unit.site, []).append(unit)
        self._metadata_count += 1
        self._metadata_passing = self._metadata_passing or passing

    def metadata_wait_us(self, at: int) -> int | None:
        """How long metadata waits for company at most; none when there is none."""
        if self._metadata_since is None:
            return None
        return max(0, self._metadata_since + self._metadata_hold_us - at)

    def queue_update(self, source: int, frame: Frame) -> None:
        """A line update of this source, or a word about bulk, shall leave when it can."""
        self._updates[frame.kind, source] = frame

    def queue_cleared(self, source: int, frame: Frame) -> None:
        """A clearance of this source leaves with the metadata that waits, since it speaks of that; or at once."""
        if source in self._metadata:
            self._cleared[source] = frame
        else:
            self.queue_update(source, frame)

    def queue_unreliable(self, source: int, frame: Frame) -> None:
        """It leaves now or never."""
        if self.waiting_bytes + frame.size + FRAME_HEADER_BYTES <= self.link.room:
            self.queue(source, frame)
        else:
            self.dropped += 1

    def pump(self, at: int) -> list[Action]:
        """Offer the link what it has room for."""
        actions: list[Action] = []
        self._release_metadata(at)
        while (self._lanes or self._places or self._updates or self._bulk) and (frames := self._take(self.link.room)):
            actions += self.link.handle(FramesOffered(at, frames))
        return actions

    def _release_metadata(self, at: int) -> None:
        """It leaves with others, or when it is many, or when it waited long enough."""
        if not self._metadata:
            return
        if self._metadata_since is None:
            self._metadata_since = at
        wait = self.metadata_wait_us(at) or 0
        company = self._lanes or self._places or (self._updates and wait <= self._metadata_hold_us // 4)
        if company or self._metadata_passing or self._metadata_count >= METADATA_COMPANY or not wait:
            for source, units in self._metadata.items():
                frames = encode_metadata(units)
                self._places.setdefault(source, deque()).extend(frames)
                size = sum(frame.size for frame in frames)
                self._places_bytes += size
                self.waiting_bytes += size
            for source, frame in self._cleared.items():
                self.queue_update(source, frame)
            self._cleared = {}
            self._metadata = {}
            self._metadata_count, self._metadata_passing, self._metadata_since = 0, False, None

    def _take(self, room: int) -> Sequence[Frame]:
        """A quantum of what waits, or one frame that is larger than that."""
        out: list[Frame] = []
        for key in list(self._updates):
            cost = self._updates[key].size + FRAME_HEADER_BYTES
            if cost > room:
                return out
            out.append(self._updates.pop(key))
            room -= cost
        before = room
        self._places_next = not self._places_next
        for lanes in (self._lanes, self._places) if self._places_next else (self._places, self._lanes):
            room = self._take_turns(lanes, out, room=room, quantum=self.quantum)
        if room == before and not self.link.waiting_bytes:
            self._take_turns(self._bulk, out, room=room, quantum=self.bulk_quantum)
        return out

    def _take_turns(self, lanes: dict[int, deque[Frame]], out: list[Frame], *, room: int, quantum: int) -> int:
        """Lane by lane, until the quantum is spent or nothing fits; what is left of the room."""
        stuck = 0  # lanes in a row whose first frame does not fit
        while stuck < len(lanes) and quantum > 0:
            source, lane = next(iter(lanes.items()))
            del lanes[source]
            cost = lane[0].size + FRAME_HEADER_BYTES
            if cost > room:
                stuck += 1
                lanes[source] = lane
                continue
            out.append(lane.popleft())
            self.waiting_bytes -= cost - FRAME_HEADER_BYTES
            if lanes is self._bulk:
                self._bulk_bytes[source] -= cost - FRAME_HEADER_BYTES
                self._last_bulk = source
            elif lanes is self._places:
                self._places_bytes -= cost - FRAME_HEADER_BYTES
            room -= cost
            quantum -= cost
            stuck = 0
            if lane:
                lanes[source] = lane
        return room
