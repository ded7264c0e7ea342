"""Bulk waits at its source, not on the way.

Whatever is stamped holds up everything of a later time until it has come everywhere. So fragments of large messages
shall not queue at gateways far from their source: a gateway that has more of them waiting than its link takes at a time
says so to the gateway before it in the tree of the source, which passes it on, and the source stamps no further
fragments until the queue is empty again. The word takes as long as the path, so what gathers meanwhile is at most what
the source sent above the rate of the slow link in that time.

Implements: nothing of the thesis, which has no fragments. Deviations: D-hold of docs/protocols/ordering.md.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import Frame, frame_of

HELD_FRAME = 8
_HELD = struct.Struct(">HI?")


class Held(msgspec.Struct, frozen=True, gc=False):
    """Whether fragments of this source wait somewhere beyond; ``count`` tells the newest word of a neighbour."""

    site: int
    count: int
    is_held: bool


def encode_held(held: Held) -> Frame:
    """The word as a frame."""
    return frame_of(HELD_FRAME, _HELD.pack(held.site, held.count & 0xFFFFFFFF, held.is_held))


def decode_held(body: memoryview, *, sites: int) -> Held:
    """The inverse of `encode_held` for a daemon view of this many sites."""
    if len(body) != _HELD.size:
        raise RemoteProtocolError("a word about bulk of the wrong length")
    held = Held(*_HELD.unpack(body))
    if held.site >= sites:
        raise RemoteProtocolError(f"site {held.site} is not in this view")
    return held


@dataclass
class HeldBulk:
    """What one gateway knows of fragments that wait beyond it, and what it said to the one before it."""

    _beyond: dict[tuple[int, int], Held] = field(default_factory=dict)  # by source and neighbour: its newest word
    _said: dict[int, Held] = field(default_factory=dict)  # by source

    def heard(self, neighbour: int, held: Held) -> bool:
        """A neighbour further on in the tree of this source said so; links may reorder its words. Is it news?"""
        newest = self._beyond.get((held.site, neighbour))
        if newest is not None and held.count <= newest.count:
            return False
        self._beyond[held.site, neighbour] = held
        return True

    def is_held(self, source: int) -> bool:
        """Whether fragments of this source wait at some gateway beyond this one."""
        return any(held.is_held for (site, _), held in self._beyond.items() if site == source)

    def said(self, source: int) -> bool:
        """What this gateway last told of fragments of this source."""
        return source in self._said and self._said[source].is_held

    def change(self, source: int, *, is_held: bool) -> Held:
        """The word that is to be sent now."""
        count = self._said[source].count + 1 if source in self._said else 1
        self._said[source] = Held(source, count, is_held)
        return self._said[source]
