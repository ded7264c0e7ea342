"""The packets of the hop protocol as bytes. The layout is on docs/protocols/hop.md.

Every packet carries both directions: what it is itself, and an acknowledgement of what came. Sequence numbers grow for
ever; 32 bits of them travel, and are read as the number nearest to one that the reader knows. A window is far smaller
than half of that range, so there is no doubt.

Implements: [Spread 4.3], the packets of Figures 4.1 and 4.2. Deviations: one header for data, acknowledgement and
request, because both directions are mostly busy; time stamps and their echoes, which Dh2, Dh6 and Dh8 need.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from isotone.core.errors import RemoteProtocolError

VERSION = 1
DATA = 1  # has a sequence number of its own and a body; other packets name the highest sequence number sent
RESENT = 2  # a copy that was asked for
ECHO = 4  # the echo field holds a time stamp that came from the other end
ANSWER = 8  # the other end shall acknowledge at once
FULL = 16  # the packet whose time stamp is echoed was at least three quarters full
FLAGS = DATA | RESENT | ECHO | ANSWER | FULL

HEADER = Struct("!BBHIIIIII")
"""Version, flags, count of ranges, link, sequence, all received up to, highest known, time stamp, echo."""
RANGE = Struct("!IH")  # first missing packet, how many
HEADER_BYTES = HEADER.size
WORD = 0xFFFFFFFF
HALF = 1 << 31
RANGE_COUNT_MAX = 0xFFFF

Range = tuple[int, int]


def expand(word: int, near: int) -> int:
    """The number whose low 32 bits are ``word`` and which is nearest to ``near``."""
    return near + ((word - near + HALF) & WORD) - HALF


def ranges_of(sequences: Sequence[int]) -> list[Range]:
    """Ascending sequence numbers as (first, count)."""
    out: list[Range] = []
    first = count = 0
    for sequence in sequences:
        if count and sequence == first + count and count < RANGE_COUNT_MAX:
            count += 1
            continue
        if count:
            out.append((first, count))
        first, count = sequence, 1
    if count:
        out.append((first, count))
    return out


def pack_ranges(ranges: Sequence[Range]) -> bytes:
    """The table of missing packets."""
    return b"".join(RANGE.pack(first & WORD, count) for first, count in ranges)


def read_ranges(packet: memoryview, count: int, near: int) -> list[Range]:
    """The table of missing packets: ascending and without overlap, so its length bounds the work it causes."""
    out: list[Range] = []
    end = None
    for start in range(HEADER_BYTES, HEADER_BYTES + count * RANGE.size, RANGE.size):
        word, length = RANGE.unpack_from(packet, start)
        first = expand(word, near)
        if not length or (end is not None and first < end):
            raise RemoteProtocolError("a table of missing packets that is not ascending")
        end = first + length
        out.append((first, length))
    return out
