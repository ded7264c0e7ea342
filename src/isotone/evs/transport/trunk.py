"""One link to a neighbouring site, with what waits for room on it.

Units of different source sites take turns, so that bulk of one does not hold up the others. Of line updates only the
newest of a site waits, because it says all that the older ones said. UNRELIABLE units never wait: they are dropped.

Memory: units that wait are not stable, so the flow windows of all sites bound them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from isotone.core.contract import Action, Event
from isotone.evs.links.contract import FRAME_HEADER_BYTES, Frame, FramesOffered
from isotone.evs.links.hop import Hop
from isotone.evs.links.tcp import Hello, TcpLink

QUANTUM_BYTES = 4096  # offered at a time, so that the link's own queue stays as short as it wants it


class Trunk:
    """The link towards one site; ``name`` is the link's, for people."""

    def __init__(self, *, name: str, site: int, link: Hop | TcpLink, caller: Hello) -> None:
        self.name, self.site, self.link = name, site, link
        self._caller = caller  # how the other end would greet if this is a byte stream that it opens
        self.waiting_bytes = 0  # of units that wait for room
        self.dropped = 0  # UNRELIABLE units that found no room
        self._lanes: dict[int, deque[Frame]] = {}  # by source site, never empty; the first has its turn
        self._updates: dict[int, Frame] = {}  # by source site

    def handle(self, event: Event) -> list[Action]:
        """The link's own events."""
        return self.link.handle(event)

    def answers(self, hello: Hello) -> bool:
        """Whether a stream that begins with this greeting is for this link."""
        return isinstance(self.link, TcpLink) and hello == self._caller

    @property
    def is_open(self) -> bool:
        """Whether what is queued now would leave at once."""
        return not self._lanes and self.link.room > 0

    def queue(self, source: int, frame: Frame) -> None:
        """A unit of this source shall leave when it can."""
        self._lanes.setdefault(source, deque()).append(frame)
        self.waiting_bytes += frame.size

    def queue_update(self, source: int, frame: Frame) -> None:
        """A line update of this source shall leave when it can."""
        self._updates[source] = frame

    def queue_unreliable(self, source: int, frame: Frame) -> None:
        """It leaves now or never."""
        if self.waiting_bytes + frame.size + FRAME_HEADER_BYTES <= self.link.room:
            self.queue(source, frame)
        else:
            self.dropped += 1

    def pump(self, at: int) -> list[Action]:
        """Offer the link what it has room for."""
        actions: list[Action] = []
        while (self._lanes or self._updates) and (frames := self._take(self.link.room)):
            actions += self.link.handle(FramesOffered(at, frames))
        return actions

    def _take(self, room: int) -> Sequence[Frame]:
        """A quantum of what waits, or one frame that is larger than that."""
        out: list[Frame] = []
        left = QUANTUM_BYTES
        for source in list(self._updates):
            cost = self._updates[source].size + FRAME_HEADER_BYTES
            if cost > room:
                return out
            out.append(self._updates.pop(source))
            room -= cost
        stuck = 0  # lanes in a row whose first frame does not fit
        while stuck < len(self._lanes) and left > 0:
            source, lane = next(iter(self._lanes.items()))
            del self._lanes[source]
            cost = lane[0].size + FRAME_HEADER_BYTES
            if cost > room:
                stuck += 1
                self._lanes[source] = lane
                continue
            out.append(lane.popleft())
            self.waiting_bytes -= cost - FRAME_HEADER_BYTES
            room -= cost
            left -= cost
            stuck = 0
            if lane:
                self._lanes[source] = lane
        return out
