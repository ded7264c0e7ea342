"""What a link takes and gives: boundary B2. Implements: [Spread 2.2.7].

A link moves *frames* between daemons: opaque to it but for kind and size, each handed up once at every other end, in
no particular order, or the link declares itself failed with a reason. Nothing is handed up after that.

Back-pressure: whoever offers frames looks at ``link.room`` first, the bytes that the link can still take. `LinkRoomy`
says that room returned after it was short. Offering more than there is room for is our bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from isotone.core.bundles import BUNDLE_BYTES_MAX
from isotone.core.codec.fragment import WHOLE_OVERHEAD_MAX
from isotone.core.contract import Action, Event

FRAME_HEADER_BYTES = 8
FRAME_BYTES_MAX = BUNDLE_BYTES_MAX + WHOLE_OVERHEAD_MAX + 4 * 1024
"""A unit with a message of the size of a bundle and the longest names, sent again inside of a unit of the exchange."""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One unit of transfer: the parts are written one after the other and never copied before the system call."""

    kind: int
    parts: tuple[bytes | memoryview, ...]
    size: int

    def body(self) -> memoryview:
        """The bytes in one piece; free of copying when there is one part, as in every frame that was received."""
        return memoryview(self.parts[0] if len(self.parts) == 1 else b"".join(self.parts))


def frame_of(kind: int, *parts: bytes | memoryview) -> Frame:
    """A frame of these parts."""
    return Frame(kind, parts, sum(len(part) for part in parts))


class FramesOffered(Event, frozen=True, gc=False):
    """The layer above wants these frames at every other end of the link."""

    frames: Sequence[Frame]


class FramesArrived(Action, frozen=True, gc=False):
    """These frames came through the link, each for the first time."""

    frames: Sequence[Frame]


class LinkRoomy(Action, frozen=True, gc=False):
    """The link has room again after its ``room`` was below what the last offer wanted."""

    room: int


class DeclareFailed(Action, frozen=True, gc=False):
    """The link is dead; the reason is for people and for the trace."""

    reason: str


class LinkCounters(msgspec.Struct):
    """What a link counts for metrics; all grow only, but for the last two.

    A packet is what is handed to the network once: of one that goes to several members by unicast each copy counts, a
    multicast counts once, and what is sent again counts as sent too. Bytes are those of packets, headers included.
    """

    packets_sent: int = 0
    packets_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    packets_resent: int = 0
    duplicates: int = 0
    requests_sent: int = 0
    malformed: int = 0
    round_trip_us: int = 0
    buffered_bytes: int = 0


class Link(Protocol):
    """A reliable link as an automaton."""

    counters: LinkCounters

    @property
    def room(self) -> int:
        """Bytes of frames that may be offered now."""
        ...

    @property
    def memory_max(self) -> int:
        """The bound that its buffers never pass."""
        ...

    def handle(self, event: Event) -> list[Action]:
        """Take one event; see the module's text."""
        ...
