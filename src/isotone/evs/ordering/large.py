"""Messages larger than a unit, above the ordering: cut into fragments that are stamped one by one, joined on delivery.

A message is encoded once, its fragments back to back, and every draft is a slice of that. A draft leads back to the
whole, so that a message of which a view saw the beginning only starts anew in the next. The message stands where its
last fragment stands. Whoever joins forgets the unfinished ones at the end of a view: the rest will never come.

Bounds: a daemon has at most `OPEN_MAX` messages begun and not completely stamped (`stamper`), so of each daemon a
receiver holds that many unfinished, and a window more of those below AGREED, because they come out of order.

Implements: large messages of DESIGN 3. Deviations: none. See docs/protocols/fragments.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isotone.core.bundles import BUNDLE_BYTES_MAX
from isotone.core.codec.fragment import WHOLE_OVERHEAD_MAX
from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.links.fragments import (
    FRAGMENT_HEADER_BYTES,
    MESSAGE_BYTES_MAX,
    OPEN_MAX,
    Reassembly,
    parse_fragment,
    split,
)
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import Unit, UnitKind

HEAD_BYTES = 1 + FRAGMENT_HEADER_BYTES  # the kind of the whole message stands before each fragment
PIECE_BYTES_MAX = BUNDLE_BYTES_MAX - HEAD_BYTES
WHOLE_BYTES_MAX = BUNDLE_BYTES_MAX + WHOLE_OVERHEAD_MAX  # a single message of the size of a bundle is not cut
ENCODED_BYTES_MAX = MESSAGE_BYTES_MAX + WHOLE_OVERHEAD_MAX  # of the largest message with what stands before it
UNFINISHED_MAX = 1 << 16  # of one daemon; bytes are what is really bounded


class LargeMessage(msgspec.Struct, frozen=True):
    """A message with its fragments back to back, ``stride`` bytes each but for the last."""

    session: str
    service: Service
    encoded: bytes
    stride: int

    def drafts(self) -> list[Draft]:
        """All its fragments."""
        whole = memoryview(self.encoded)
        starts = range(0, len(whole), self.stride)
        pieces = [whole[start : start + self.stride] for start in starts]
        return [Draft(self.session, UnitKind.FRAGMENT, self.service, piece, self) for piece in pieces]


def drafts_of(draft: Draft, *, number: int, piece_bytes: int = PIECE_BYTES_MAX) -> list[Draft]:
    """The draft itself, or fragments of it if it is too large.

    ``number`` is unique among the large messages of this daemon that are under way, over all sessions.
    """
    if len(draft.body) <= WHOLE_BYTES_MAX:
        return [draft]
    kind = bytes([draft.kind])
    parts: list[bytes | memoryview] = []
    for fragment in split(draft.body, piece_bytes, number=number, message_bytes_max=ENCODED_BYTES_MAX):
        parts += (kind, fragment.header(), fragment.body)
    return LargeMessage(draft.session, draft.service, b"".join(parts), HEAD_BYTES + piece_bytes).drafts()


class Joining:
    """Joins what is delivered in one daemon view; ``daemons`` is how many it has."""

    def __init__(self, daemons: int, *, memory_max: int | None = None) -> None:
        self.malformed = 0  # fragments that no correct daemon sends
        limit = memory_max or daemons * (OPEN_MAX + 1) * ENCODED_BYTES_MAX
        largest = min(limit, ENCODED_BYTES_MAX)
        self._reassembly = Reassembly(message_bytes_max=largest, open_max=UNFINISHED_MAX, memory_max=limit)
        self._last: dict[tuple[int, int], Unit] = {}  # by daemon and number: the highest fragment, without its body

    @property
    def held_bytes(self) -> int:
        """Of unfinished messages."""
        return self._reassembly.held_bytes

    def join(self, units: Sequence[Unit]) -> list[Unit]:
        """What was delivered, with whole messages in the places of the fragments that completed them."""
        out: list[Unit] = []
        for unit in units:
            if unit.kind is not UnitKind.FRAGMENT:
                out.append(unit)
            elif (whole := self._take(unit)) is not None:
                out.append(whole)
        return out

    def _take(self, unit: Unit) -> Unit | None:
        try:
            return self._add(unit)
        except (RemoteProtocolError, ValueError, IndexError):
            self.malformed += 1
            return None

    def _add(self, unit: Unit) -> Unit | None:
        body = memoryview(unit.body)
        kind, fragment = UnitKind(body[0]), parse_fragment(body[1:])
        message = self._reassembly.add(unit.daemon, fragment)
        key = (unit.daemon, fragment.number)
        last = self._last.get(key)
        if last is None or last.lamport < unit.lamport:
            last = msgspec.structs.replace(unit, kind=kind, body=b"")
        if message is None:
            self._last[key] = last
            return None
        self._last.pop(key, None)
        return msgspec.structs.replace(last, body=message)
