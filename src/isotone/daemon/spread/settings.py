"""What can be set for Spread's clients, the bounds that follow, and what is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum

import msgspec

from isotone.daemon.spread.constants import FRAME_BYTES_MAX, FRAME_OVERHEAD, HEAD_BYTES, MESSAGE_BYTES_MAX
from isotone.evs.sessions.settings import KIB, MIB, SlowPolicy

HANDSHAKE_BYTES_MAX = 64 * KIB
"""Of what a client writes before it is accepted; only one that does not wait for answers comes near."""


class Oversize(Enum):
    """What becomes of a message of a native client that Spread's clients cannot take."""

    SKIP = "skip"
    DISCONNECT = "disconnect"


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of all sessions of Spread's clients at one daemon."""

    methods: tuple[str, ...] = ("NULL",)
    """Offered for authentication: NULL, IP, PWORD."""
    required: tuple[str, ...] = ()
    """Run for everybody, whether offered or not."""
    networks: tuple[str, ...] = ("127.0.0.0/8", "::1/128", "unix")
    """Who passes by the method IP: networks, single addresses, ``unix``."""
    version: tuple[int, int, int] = (5, 0, 1)
    """What the daemon says of itself; libraries look at it."""
    sessions_max: int = 1024
    groups_max: int = 10_000
    """Of one session; one more join is rejected."""
    handshakes_max: int = 256
    """Streams that are not accepted yet; the oldest is closed for one more."""
    handshake_us: int = 10_000_000
    message_bytes_max: int = MESSAGE_BYTES_MAX
    """Bytes of a message and 32 for each of its groups, as these clients may be told; see ``oversize``."""
    oversize: Oversize = Oversize.SKIP
    inbox_bytes_max: int = 128 * KIB
    """Of requests that are not handed on yet; then the stream is not read."""
    buffer_bytes_max: int = 32 * MIB
    """What a client did not read yet, before it is too slow; a warning is counted at half."""
    buffers_bytes_max: int = 512 * MIB
    """The same for all clients together; what several receive is counted once. The one who holds most has to go."""
    write_bytes_max: int = 64 * KIB
    """A write ends with the frame that reaches this."""
    policy: SlowPolicy = SlowPolicy.DISCONNECT
    policies: Mapping[str, SlowPolicy] = {}
    """By group, where it differs: of the group whose message fills the buffer, the stricter of several."""
    client_policies: Mapping[str, SlowPolicy] = {}
    """By private name, where it differs; it goes before those of groups."""

    @property
    def blocked_bytes_max(self) -> int:
        """A blocked reader is disconnected here: what was under way when senders began to wait still comes."""
        return 2 * self.buffer_bytes_max

    def memory_max(self, read_bytes: int) -> int:
        """Bound of all buffers, whatever clients do, if the shell reads so many bytes at a time.

        A read may consist of the smallest frames; one that is not whole is put together.
        """
        frames = read_bytes * (HEAD_BYTES + FRAME_OVERHEAD) // HEAD_BYTES
        incoming = self.inbox_bytes_max + frames + 2 * FRAME_BYTES_MAX
        waiting = self.handshakes_max * (HANDSHAKE_BYTES_MAX + read_bytes)
        return self.sessions_max * incoming + waiting + self.buffers_bytes_max + self.message_bytes_max


class SpreadCounters:
    """What happened to Spread's clients; everything only grows."""

    def __init__(self) -> None:
        self.accepted = 0  # streams
        self.opened = 0  # sessions
        self.turned_away: Counter[str] = Counter()  # streams that came to no session, by code
        self.ended: Counter[str] = Counter()  # sessions, by code
        self.malformed: Counter[str] = Counter()  # frames for which sessions ended, by what was wrong
        self.frames_received = 0
        self.bytes_received = 0
        self.handed_on = 0  # requests
        self.messages_sent = 0  # by Spread's clients; several may share a bundle
        self.unaddressed = 0  # messages of them to no group that could have members
        self.rejected = 0  # requests that were not permitted, or to a wrong name
        self.encoded = 0  # indications
        self.messages_told = 0  # once for all receivers
        self.written = 0  # writes
        self.bytes_written = 0
        self.oversize_skipped = 0  # messages, once for each receiver
        self.warnings = 0  # half of a buffer was full
        self.blocked = 0  # times that a reader began to block
        self.paused = 0  # times that a stream was not read
