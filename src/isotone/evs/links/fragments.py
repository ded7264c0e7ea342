"""Messages larger than a bundle: how large their fragments are, and how they are joined again.

Fragments may be joined in any order; the message is complete, and stands in the order, with the last of them. The
format is `isotone.core.codec.fragment`, whose names users of fragments find here too.

Implements: large messages of DESIGN 3; the thesis has none. Deviations: none. See docs/protocols/fragments.md.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from isotone.core.bundles import BUNDLE_BYTES_MAX
from isotone.core.codec.fragment import (
    FRAGMENT_HEADER_BYTES,
    MESSAGE_BYTES_MAX,
    Fragment,
    parse_fragment,
    split,
)
from isotone.core.errors import RemoteProtocolError

__all__ = [
    "FRAGMENT_HEADER_BYTES",
    "MESSAGE_BYTES_MAX",
    "OPEN_MAX",
    "Fragment",
    "Reassembly",
    "fragment_limit",
    "parse_fragment",
    "split",
]

OPEN_MAX = 4


def fragment_limit(rate_bytes_per_second: int, *, packet_bytes: int, hold_us: int = 5_000) -> int:
    """How large a fragment may be on a path of this rate so that it holds the path for about ``hold_us``.

    What is ordered behind a fragment waits until all of it came, so on a slow path fragments are single packets,
    on a fast one whole bundles.
    """
    return min(BUNDLE_BYTES_MAX, max(packet_bytes, rate_bytes_per_second * hold_us // 1_000_000))


class _Unfinished(msgspec.Struct):
    total: int
    received: int
    pieces: dict[int, bytes]


class Reassembly:
    """Joins fragments of many sources. Every fragment is expected once; one that contradicts others is refused.

    Holds at most ``memory_max`` bytes and ``open_max`` unfinished messages of each source, allocates only for bytes
    that came: a header that promises 16 MiB costs nothing.
    """

    __slots__ = ("_open", "held_bytes", "memory_max", "message_bytes_max", "open_max")

    def __init__(
        self,
        *,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        open_max: int = OPEN_MAX,
        memory_max: int = 16 * MESSAGE_BYTES_MAX,
    ) -> None:
        assert memory_max >= message_bytes_max
        self.message_bytes_max = message_bytes_max
        self.open_max = open_max
        self.memory_max = memory_max
        self.held_bytes = 0
        self._open: dict[Hashable, dict[int, _Unfinished]] = {}

    def add(self, source: Hashable, fragment: Fragment) -> bytes | None:
        """Take one fragment; the message, if this was the last that it lacked."""
        size = len(fragment.body)
        self._check(source, fragment, size)
        if size == fragment.total:
            return bytes(fragment.body)
        messages = self._open.setdefault(source, {})
        message = messages.get(fragment.number)
        if message is None:
            message = messages[fragment.number] = _Unfinished(fragment.total, 0, {})
        message.pieces[fragment.offset] = bytes(fragment.body)
        message.received += size
        self.held_bytes += size
        if message.received < message.total:
            return None
        self._close(source, fragment.number)
        return self._joined(message)

    def forget(self, source: Hashable) -> None:
        """Drop what this source left unfinished: it will send no more."""
        for message in self._open.pop(source, {}).values():
            self.held_bytes -= message.received

    def _check(self, source: Hashable, fragment: Fragment, size: int) -> None:
        if fragment.total > self.message_bytes_max:
            raise RemoteProtocolError(f"a message of {fragment.total} bytes: the limit is {self.message_bytes_max}")
        if not fragment.is_inside:
            raise RemoteProtocolError("a fragment outside its message")
        messages = self._open.get(source, {})
        message = messages.get(fragment.number)
        if message is None:
            if size < fragment.total and len(messages) >= self.open_max:
                raise RemoteProtocolError(f"more than {self.open_max} unfinished messages of one source")
        elif (
            message.total != fragment.total
            or fragment.offset in message.pieces
            or message.received + size > message.total
        ):
            raise RemoteProtocolError("a fragment that contradicts an earlier one")
        if size < fragment.total and self.held_bytes + size > self.memory_max:
            raise RemoteProtocolError("no memory left for unfinished messages")

    def _close(self, source: Hashable, number: int) -> None:
        messages = self._open[source]
        self.held_bytes -= messages.pop(number).received
        if not messages:
            del self._open[source]

    @staticmethod
    def _joined(message: _Unfinished) -> bytes:
        end = 0
        for start in sorted(message.pieces):
            if start != end:
                raise RemoteProtocolError("fragments that overlap")
            end += len(message.pieces[start])
        return b"".join(message.pieces[start] for start in sorted(message.pieces))
