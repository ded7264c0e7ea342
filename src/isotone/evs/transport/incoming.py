"""Frames that came over a link, sorted into what they are.

Implements: [Spread 3.3, 4.3], receipt from the overlay, in whatever order frames come. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import Frame, frame_of
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.metadata import METADATA_FRAME, decode_metadata
from isotone.evs.ordering.pruning import (
    CLEARED_FRAME,
    CONTENT_FRAME,
    DIRECTED_BULK_FRAME,
    DIRECTED_FRAME,
    Cleared,
    decode_cleared,
    split_mask,
)
from isotone.evs.ordering.stamper import BULK_FRAME, UNIT_FRAME, frame_kind
from isotone.evs.ordering.units import Unit, decode_unit, encode_unit
from isotone.evs.ordering.updates import LINE_FRAME, Update, decode_update
from isotone.evs.transport.held_bulk import HELD_FRAME, Held, decode_held
from isotone.evs.transport.pressure import PRESSURE_FRAME, LinkRoom, decode_pressure


@dataclass
class Arrival:
    """A unit with the frame in which it travels on; ``mask`` are the sites that get its content, none if all do."""

    unit: Unit
    frame: Frame
    mask: int | None = None

    def plain(self) -> Frame:
        """As the daemons of one site hand it to each other."""
        return self.frame if self.mask is None else frame_of(frame_kind(self.unit), self.frame.body()[8:])


@dataclass
class Incoming:
    """What one batch of frames held; malformed ones are counted and dropped."""

    units: list[Arrival] = field(default_factory=list)
    contents: list[Arrival] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    cleared: list[Cleared] = field(default_factory=list)
    pressure: list[tuple[int, LinkRoom]] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    malformed: int = 0

    def keep_contents_for(self, site: int) -> None:
        """Content that is owed to others only passes by: this site got, or will get, its own."""
        self.contents = [each for each in self.contents if each.mask is not None and each.mask >> site & 1]

    def drop_foreign(self, site: int) -> int:
        """Keep only what comes from this site; how much was dropped."""
        before = len(self.units) + len(self.contents) + len(self.updates) + len(self.cleared)
        self.units = [each for each in self.units if each.unit.site == site]
        self.contents = [each for each in self.contents if each.unit.site == site]
        self.updates = [each for each in self.updates if each.site == site]
        self.cleared = [each for each in self.cleared if each.site == site]
        return before - len(self.units) - len(self.contents) - len(self.updates) - len(self.cleared)

    def tell(self, lines: Lines, site: int) -> None:
        """What it says about lines, to those of a daemon of this site."""
        for update in self.updates:
            lines.sites[update.site].promise(update.sequence, update.lamport)
            lines.report(update.site, update.line, sequence=update.sequence)
        for cleared in self.cleared:
            owed = [sequence for sequence, mask in cleared.owed if mask >> site & 1]
            lines.sites[cleared.site].clear(cleared.lamport, owed)

    def sources(self) -> set[int]:
        """The sites that any of it comes from."""
        units = {arrival.unit.site for arrival in (*self.units, *self.contents)}
        return units | {update.site for update in self.updates} | {cleared.site for cleared in self.cleared}


def sort_frames(frames: Sequence[Frame], *, sites: int, daemons: int) -> Incoming:
    """For a daemon view of this many sites and daemons."""
    incoming = Incoming()
    for frame in frames:
        try:
            _sort(frame, incoming, sites, daemons)
        except RemoteProtocolError:
            incoming.malformed += 1
    return incoming


def _sort(frame: Frame, incoming: Incoming, sites: int, daemons: int) -> None:
    body = frame.body()
    if frame.kind in (UNIT_FRAME, BULK_FRAME):
        incoming.units.append(Arrival(decode_unit(body, sites=sites, daemons=daemons), frame))
    elif frame.kind == METADATA_FRAME:
        units = decode_metadata(body, sites=sites, daemons=daemons)
        incoming.units += [Arrival(unit, frame_of(UNIT_FRAME, *encode_unit(unit))) for unit in units]
    elif frame.kind == LINE_FRAME:
        incoming.updates.append(decode_update(body, sites=sites))
    elif frame.kind == PRESSURE_FRAME:
        incoming.pressure.append(decode_pressure(body))
    elif frame.kind == CLEARED_FRAME:
        incoming.cleared.append(decode_cleared(body, sites=sites))
    elif frame.kind == HELD_FRAME:
        incoming.held.append(decode_held(body, sites=sites))
    elif frame.kind in (DIRECTED_FRAME, DIRECTED_BULK_FRAME, CONTENT_FRAME):
        mask, rest = split_mask(body)
        arrival = Arrival(decode_unit(rest, sites=sites, daemons=daemons), frame, mask)
        (incoming.contents if frame.kind == CONTENT_FRAME else incoming.units).append(arrival)
    else:
        raise RemoteProtocolError(f"a frame of unknown kind {frame.kind}")
