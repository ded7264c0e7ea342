"""Pruning at the source: which sites get the content of a unit, what is owed to a site that joins meanwhile.

The gateway of the source's site decides alone, by the interest that it knows, and says so in the unit's frame; sites on
the way follow. It keeps content until it is stable. A join that it sees later makes it send what the joiner is owed.
Where only metadata of an AGREED or SAFE unit came, the line of its site stands below it until the source has *cleared*
it: the source has heard everything up to that time, so every join that could have an earlier place, and it names what
it sent in addition. RELIABLE, FIFO and CAUSAL units are not owed to members that the sender did not know of.

Bounds: what is kept is not stable, so the site's flow window bounds it. A clearance names at most `OWED_MAX` units;
what is behind more of them is cleared when the first of them are stable.

Implements: [Spread 3.4.2]. Deviations: D-clear as above, because the thesis' rule, to add a site as soon as its join is
seen, lets a receiver pass content that it is owed while the sender has not seen the join: docs/protocols/pruning.md.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, nsmallest

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import Frame, frame_of
from isotone.evs.ordering.units import Unit, UnitKind, encode_unit

DIRECTED_FRAME = 5  # content for some sites; the others below get metadata
CONTENT_FRAME = 6  # content that is owed to some sites; the others get nothing
CLEARED_FRAME = 7
DIRECTED_BULK_FRAME = 9  # as DIRECTED_FRAME, for fragments of large messages
SITES_MAX = 64
OWED_MAX = 1_000  # in one clearance
_MASK = struct.Struct(">Q")
_CLEARED = struct.Struct(">HQH")  # site, time, how many are owed
_OWED = struct.Struct(">QQ")  # sequence, sites


class Peeked(msgspec.Struct, frozen=True, gc=False):
    """What the transport must know of a unit's body: groups it is for (none: everybody), groups its sender joins."""

    groups: tuple[str, ...] | None = None
    joins: tuple[str, ...] = ()


class Cleared(msgspec.Struct, frozen=True, gc=False):
    """A source has heard all up to this time; ``owed`` are sequences with the sites that were sent their content."""

    site: int
    lamport: int
    owed: tuple[tuple[int, int], ...] = ()


def encode_masked(kind: int, mask: int, unit: Unit) -> Frame:
    """A frame of content for the sites of this mask."""
    return frame_of(kind, _MASK.pack(mask), *encode_unit(unit))


def directed_kind(unit: Unit) -> int:
    """The kind of frame for a unit whose content is not for all."""
    return DIRECTED_BULK_FRAME if unit.kind is UnitKind.FRAGMENT else DIRECTED_FRAME


def split_mask(body: memoryview) -> tuple[int, memoryview]:
    """The mask of such a frame, and the unit behind it."""
    if len(body) < _MASK.size:
        raise RemoteProtocolError("a frame without its mask")
    return _MASK.unpack_from(body)[0], body[_MASK.size :]


def encode_cleared(cleared: Cleared) -> Frame:
    """The clearance as a frame."""
    head = _CLEARED.pack(cleared.site, cleared.lamport, len(cleared.owed))
    return frame_of(CLEARED_FRAME, head + b"".join(_OWED.pack(*each) for each in cleared.owed))


def decode_cleared(body: memoryview, *, sites: int) -> Cleared:
    """The inverse of `encode_cleared`."""
    if len(body) < _CLEARED.size:
        raise RemoteProtocolError("a clearance cut short")
    site, lamport, count = _CLEARED.unpack_from(body)
    if site >= sites or len(body) != _CLEARED.size + count * _OWED.size:
        raise RemoteProtocolError("a clearance that contradicts itself")
    owed = [_OWED.unpack_from(body, _CLEARED.size + place * _OWED.size) for place in range(count)]
    return Cleared(site, lamport, tuple((sequence, mask) for sequence, mask in owed))


@dataclass
class _Pruned:
    unit: Unit
    groups: tuple[str, ...]
    sent_to: int


@dataclass
class Pruner:
    """The memory of one source's gateway; what is stable is forgotten. Units of other daemons of the site come late."""

    site: int
    _pruned: dict[int, _Pruned] = field(default_factory=dict)  # AGREED and SAFE, by sequence
    _groups: dict[str, dict[int, _Pruned]] = field(default_factory=dict)  # the same by group
    _times: list[tuple[int, int]] = field(default_factory=list)  # a heap: time and sequence of all of them
    _owed: dict[int, int] = field(default_factory=dict)  # sequence to the sites that were sent content late
    _first_owed: list[int] | None = None  # the first of these, one more than a clearance names; None: to be looked up
    _top: int = 0  # the highest time of a unit that was pruned
    _cleared: int = 0

    def pruned(self, unit: Unit, groups: tuple[str, ...], mask: int) -> None:
        """A unit left with content for these sites only."""
        if unit.service.is_agreed:
            entry = self._pruned[unit.sequence] = _Pruned(unit, groups, mask)
            for group in groups:
                self._groups.setdefault(group, {})[unit.sequence] = entry
            heappush(self._times, (unit.lamport, unit.sequence))
            self._top = max(self._top, unit.lamport)

    def joined(self, site: int, group: str) -> list[Unit]:
        """A site has a member of the group: what it may be owed, and is sent now."""
        found = [each for _, each in sorted(self._groups.get(group, {}).items()) if not each.sent_to >> site & 1]
        for each in found:
            each.sent_to |= 1 << site
            self._owed[each.unit.sequence] = self._owed.get(each.unit.sequence, 0) | 1 << site
            self._first_owed = None
        return [each.unit for each in found]

    def stable_through(self, line: int) -> None:
        """Everybody has everything up to here: nothing of it is owed any more."""
        while self._times and self._times[0][0] <= line:
            _, sequence = heappop(self._times)
            if self._owed.pop(sequence, None) is not None:
                self._first_owed = None
            for group in dict.fromkeys(self._pruned.pop(sequence).groups):
                entries = self._groups[group]
                del entries[sequence]
                if not entries:
                    del self._groups[group]

    def is_due(self, heard: int) -> bool:
        """Whether more can be cleared; ``heard``: everything up to this time was heard here."""
        if self._cleared >= min(self._top, heard):
            return False
        return len(self._owed) <= OWED_MAX or self._cleared < self._named(heard)[0]

    def clear(self, heard: int) -> Cleared:
        """Clear what can be."""
        line, owed = self._named(heard)
        self._cleared = max(self._cleared, line)
        return Cleared(self.site, self._cleared, tuple((sequence, self._owed[sequence]) for sequence in owed))

    def _named(self, heard: int) -> tuple[int, list[int]]:
        """How far a clearance can reach, and the sequences that it names: as many as fit, the first ones."""
        if self._first_owed is None:
            self._first_owed = nsmallest(OWED_MAX + 1, self._owed)
        if len(self._owed) <= OWED_MAX:
            return heard, self._first_owed
        *owed, beyond = self._first_owed
        return min(heard, self._pruned[beyond].unit.lamport - 1), owed


def mask_of(sites: Sequence[int]) -> int:
    """A set of sites as bits."""
    return sum(1 << site for site in sites)
