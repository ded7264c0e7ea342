"""Line updates: when a site tells the others up to where it has stamped, and up to where it has received everything.

An update is a promise and a report of one site. It is *useful* while a reliable unit is known that it helps to deliver
or to forget. A useful update leaves at once when none left within the last *delta*; it rides with units of the site
that leave anyway when none left within half of that; it never waits longer than delta. One that only helps to forget,
or to order fragments of large messages, is *lazy* and waits four times as long, so that the next one that somebody
waits for finds the way free. When every unit that is known is covered, nothing is sent. docs/protocols/ordering.md
derives the worst cases.

Implements: [Spread 5.2], ARU_Update with the balanced rule. Deviations: D-delta delta follows from the share of a link
that updates may take instead of being a constant, and the end of a burst is not acknowledged for ever, because an idle
system shall be silent.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import FRAME_HEADER_BYTES, Frame, frame_of
from isotone.evs.ordering.units import Unit, UnitKind

LINE_FRAME = 2
_UPDATE = struct.Struct(">HQQQ")  # site, sequence, Lamport time, received everywhere
UPDATE_FRAME_BYTES = FRAME_HEADER_BYTES + _UPDATE.size
UPDATE_PACKET_BYTES = 28 + UPDATE_FRAME_BYTES  # alone in a packet of a hop link
SHARE = 20  # one part in so many of a link is for updates
RATE_UNKNOWN = 1_250_000  # bytes in a second that a link is taken for when nobody says
DELTA_MIN_US = 1_000
LAZY = 4


class Update(msgspec.Struct, frozen=True, gc=False):
    """What a site says: ``sequence`` and ``lamport`` are a promise, ``line`` is received by all its daemons."""

    site: int
    sequence: int
    lamport: int
    line: int


def encode_update(update: Update) -> Frame:
    """The update as a frame."""
    return frame_of(LINE_FRAME, _UPDATE.pack(update.site, update.sequence, update.lamport, update.line))


def decode_update(body: memoryview, *, sites: int) -> Update:
    """The inverse of `encode_update` for a daemon view of this many sites."""
    if len(body) != _UPDATE.size:
        raise RemoteProtocolError("a line update of the wrong length")
    update = Update(*_UPDATE.unpack(body))
    if update.site >= sites:
        raise RemoteProtocolError(f"site {update.site} is not in this view")
    return update


def delta_us(*, sites: int, rate_bytes_per_second: int) -> int:
    """The longest wait of an update, at which those of all other sites keep to their share of the slowest link."""
    rate = rate_bytes_per_second or RATE_UNKNOWN
    bytes_per_delta = max(UPDATE_PACKET_BYTES, 2 * UPDATE_FRAME_BYTES) * max(1, sites - 1)
    return max(DELTA_MIN_US, bytes_per_delta * SHARE * 1_000_000 // rate)


@dataclass
class Publisher:
    """The gateway's side: decides when an update of its own site leaves."""

    site: int
    delta_us: int
    top: int = 0  # the highest time of any reliable unit known here: what lines have to reach in the end
    agreed_top: int = 0  # of AGREED and SAFE ones that are no fragments: they wait for promises
    report_top: int = 0  # of SAFE ones, and of those that were pruned for some: they wait for reports too
    promise: tuple[int, int] = (0, 0)  # the newest that the site can give: sequence, time
    line: int = 0  # every daemon of the site has received everything up to here
    published_promise: int = 0
    published_line: int = 0
    published: int = 0  # updates, for metrics
    _sent_at: int | None = None

    def saw(self, unit: Unit, *, pruned: bool = False) -> None:
        """A reliable unit is known; ``pruned``: some sites have its metadata only, though this one has more."""
        self.top = max(self.top, unit.lamport)
        if unit.service.is_agreed and unit.kind is not UnitKind.FRAGMENT:
            self.agreed_top = max(self.agreed_top, unit.lamport)
            if pruned or unit.waits_for_all:
                self.report_top = max(self.report_top, unit.lamport)

    def left(self, unit: Unit, *, pruned: bool = False) -> None:
        """A unit of the site itself left, which promises its own time."""
        self.saw(unit, pruned=pruned)
        self.published_promise = max(self.published_promise, unit.lamport)

    @property
    def lacks_promise(self) -> bool:
        """Whether the token is needed for a promise that is useful."""
        return max(self.published_promise, self.promise[1]) < self.top

    def due(self, at: int, *, riding: bool) -> Update | None:
        """The update that leaves now, if one does; ``riding``: units of the site leave in the same moment."""
        wait = self.wait_us(at)
        if wait is None or wait > (self.delta_us // 2 if riding else 0):
            return None
        self._sent_at = at
        self.published += 1
        self.published_promise = max(self.published_promise, self.promise[1])
        self.published_line = self.line
        return Update(self.site, *self.promise, self.line)

    def wait_us(self, at: int) -> int | None:
        """How long the next update waits for company at most; none when there is nothing to say."""
        if self._helps(self.agreed_top, self.report_top):
            patience = self.delta_us
        elif self._helps(self.top, self.top):
            patience = LAZY * self.delta_us
        else:
            return None
        return 0 if self._sent_at is None else max(0, self._sent_at + patience - at)

    def _helps(self, promise_top: int, line_top: int) -> bool:
        """Whether an update would say more than was said about what has times up to these."""
        promises = self.published_promise < min(promise_top, self.promise[1])
        return promises or self.published_line < min(line_top, self.line)
