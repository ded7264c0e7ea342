"""One link to a neighbouring site, with what waits for room on it.

Units of different source sites take turns, and fragments of large messages stand behind everything else, so that bulk
does not hold up the others; in the link's own queue they are of another kind of frame, which takes turns too. Of line
updates only the newest of a site waits, because it says all that the older ones said. UNRELIABLE units never wait: they
are dropped. Metadata of pruned units waits for company a little, since alone in a packet it would save too little.

Memory: units that wait are not stable, so the flow windows of all sites bound them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from isotone.core.contract import Action, Event
from isotone.evs.links.contract import FRAME_HEADER_BYTES, Frame, FramesOffered
from isotone.evs.links.hop import Hop
from isotone.evs.links.tcp import Hello, TcpLink
from isotone.evs.ordering.stamper import BULK_FRAME

PACKET_BYTES = 1400
WINDOW_PARTS = 16
STREAM_QUANTUM_BYTES = 32 * 1024
METADATA_COMPANY = 16  # so many leave at once


class Trunk:
    """The link towards one site; ``name`` is the link's, for people."""

    def __init__(self, *, name: str, site: int, link: Hop | TcpLink, caller: Hello, metadata_hold_us: int) -> None:
        self.name, self.site, self.link = name, site, link
        self._caller = caller  # how the other end would greet if this is a byte stream that it opens
        self.waiting_bytes = 0  # of units that wait for room
        self.dropped = 0  # UNRELIABLE units that found no room
        self._lanes: dict[int, deque[Frame]] = {}  # by source site, never empty; the first has its turn
        self._bulk: dict[int, deque[Frame]] = {}  # the same for fragments
        self._metadata: deque[tuple[int, Frame]] = deque()  # source site and frame
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

    def is_open_for_bulk(self, source: int) -> bool:
        """Whether a fragment of this source would leave at once; those of other sources do not stand before it."""
        return source not in self._bulk and source not in self._lanes and self.link.room > 0

    @property
    def quantum(self) -> int:
        """Offered at a time, so that the link's own queue stays as short as it wants it: whatever is in there, nobody
        overtakes."""
        if isinstance(self.link, TcpLink):
            return STREAM_QUANTUM_BYTES
        return max(PACKET_BYTES, int(self.link.congestion.window) // WINDOW_PARTS)

    def queue(self, source: int, frame: Frame) -> None:
        """A unit of this source shall leave when it can."""
        lanes = self._bulk if frame.kind == BULK_FRAME else self._lanes
        lanes.setdefault(source, deque()).append(frame)
        self.waiting_bytes += frame.size

    def queue_metadata(self, source: int, frame: Frame) -> None:
        """Metadata of a pruned unit shall leave soon."""
        self._metadata.append((source, frame))

    def metadata_wait_us(self, at: int) -> int | None:
        """How long metadata waits for company at most; none when there is none."""
        if self._metadata_since is None:
            return None
        return max(0, self._metadata_since + self._metadata_hold_us - at)

    def queue_update(self, source: int, frame: Frame) -> None:
        """A line update or a clearance of this source shall leave when it can."""
        self._updates[frame.kind, source] = frame

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
        while (self._lanes or self._updates or self._bulk) and (frames := self._take(self.link.room)):
            actions += self.link.handle(FramesOffered(at, frames))
        return actions

    def _release_metadata(self, at: int) -> None:
        """It leaves with others, or when it is many, or when it waited long enough."""
        if not self._metadata:
            return
        if self._metadata_since is None:
            self._metadata_since = at
        if self._lanes or len(self._metadata) >= METADATA_COMPANY or self.metadata_wait_us(at) == 0:
            while self._metadata:
                self.queue(*self._metadata.popleft())
            self._metadata_since = None

    def _take(self, room: int) -> Sequence[Frame]:
        """A quantum of what waits, or one frame that is larger than that."""
        out: list[Frame] = []
        for key in list(self._updates):
            cost = self._updates[key].size + FRAME_HEADER_BYTES
            if cost > room:
                return out
            out.append(self._updates.pop(key))
            room -= cost
        left = self._take_turns(self._lanes, out, room=room, quantum=self.quantum)
        if left == self.quantum:
            self._take_turns(self._bulk, out, room=room, quantum=left)
        return out

    def _take_turns(self, lanes: dict[int, deque[Frame]], out: list[Frame], *, room: int, quantum: int) -> int:
        """Lane by lane, until the quantum is spent or nothing fits; what is left of the quantum."""
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
            room -= cost
            quantum -= cost
            stuck = 0
            if lane:
                lanes[source] = lane
        return quantum
