"""What a gateway brings into the ring of its site: units and lines from other sites, and whether its links are full.

Memory: what waits here is not stable, so the flow windows of all sites bound it.

Implements: [Spread 3.3], what leaves the overlay for a site. Deviations: D-hold of docs/protocols/ordering.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from isotone.core.contract import Action
from isotone.evs.links.contract import FRAME_HEADER_BYTES, Frame, FramesOffered
from isotone.evs.links.ring import Ring
from isotone.evs.ordering.pruning import encode_cleared
from isotone.evs.ordering.updates import encode_update
from isotone.evs.transport.incoming import Incoming
from isotone.evs.transport.pressure import LinkRoom, encode_pressure


class Injection:
    """The queue in front of the ring; at the other daemons of a site, what the gateway last said."""

    def __init__(self, ring: Ring) -> None:
        self.waiting_bytes = 0
        self.link_room = LinkRoom()  # of the site's links, as its gateway said last
        self._ring = ring
        self._count = 0  # changes of that, so that an old word is not taken for the newest
        self._queue: deque[Frame] = deque()

    def queue(self, frames: Sequence[Frame]) -> None:
        """These shall reach the other daemons of the site."""
        self._queue.extend(frames)
        self.waiting_bytes += sum(frame.size for frame in frames)

    def bring(self, incoming: Incoming) -> None:
        """What came from other sites."""
        self.queue([arrival.plain() for arrival in incoming.units])
        self.queue([content.frame for content in incoming.contents])
        self.queue([encode_update(update) for update in incoming.updates])
        self.queue([encode_cleared(cleared) for cleared in incoming.cleared])

    def press(self, room: LinkRoom) -> None:
        """The gateway's links have no room for units of the site, or have it again."""
        told = room.as_told()
        if told != self.link_room:
            self.pressed(self._count + 1, told)
            self.queue([encode_pressure(self._count, told)])

    def pressed(self, count: int, room: LinkRoom) -> None:
        """The gateway said so."""
        if count > self._count:
            self._count, self.link_room = count, room

    def pump(self, at: int) -> list[Action]:
        """Offer the ring what it has room for."""
        room, frames = self._ring.room, []
        while self._queue and (cost := self._queue[0].size + FRAME_HEADER_BYTES) <= room:
            frames.append(self._queue.popleft())
            room -= cost
            self.waiting_bytes -= cost - FRAME_HEADER_BYTES
        return self._ring.handle(FramesOffered(at, frames)) if frames else []
