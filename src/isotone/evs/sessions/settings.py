"""What can be set for sessions, and the bounds of memory that follow."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from isotone.core.bundles import BUNDLE_BYTES_MAX, Bundle
from isotone.core.codec.fragment import MESSAGE_BYTES_MAX, WHOLE_OVERHEAD_MAX
from isotone.core.errors import RemoteProtocolError
from isotone.core.versions import PROTOCOL_VERSIONS, VersionRange

KIB, MIB = 1024, 1024 * 1024
FRAME_OVERHEAD_MAX = 8 + 8 + WHOLE_OVERHEAD_MAX
"""Of the frame of one message: head, deadline, and the bundle's own head and names."""


PINNED_PARTS = 4
WINDOW_BYTES = 128 * KIB


class SlowPolicy(Enum):
    """What becomes of a reader whose buffer is full."""

    BLOCK = "block"
    DISCONNECT = "disconnect"


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of all sessions of one daemon."""

    versions: VersionRange = PROTOCOL_VERSIONS
    sessions_max: int = 1024
    handshakes_max: int = 256
    """Streams on which nobody has said yet who he is; the oldest is closed for one more."""
    handshake_us: int = 10_000_000
    heartbeat_us: int = 2_000_000
    """Clients say something at least this often."""
    silence_us: int = 10_000_000
    """A stream on which nothing came for so long is given up by either end."""
    resume_within_us: int = 30_000_000
    """A session without a stream lasts so long."""
    resume_bytes_max: int = 32 * MIB
    """What is kept for a session without a stream; more ends it."""
    window_bytes: int = WINDOW_BYTES
    """Credit of each client: bytes of its requests that are not handed on yet."""
    wide_window_bytes: int = MIB
    """The same for the first ``wide_windows_max`` that are here: a visit of the token then takes a dozen bundles. Where
    somebody chose another window than the usual one, that is everybody's."""
    wide_windows_max: int = 64
    large_bytes_max: int = 4 * (MESSAGE_BYTES_MAX + FRAME_OVERHEAD_MAX)
    """Credit for requests above the window, shared by all clients."""
    message_bytes_max: int = MESSAGE_BYTES_MAX
    buffer_bytes_max: int = 32 * MIB
    """What a client has not acknowledged yet, before it is too slow; there is a warning at half."""
    buffers_bytes_max: int = 512 * MIB
    """The same for all clients together; what several receive is counted once. The one who holds most has to go."""
    write_bytes_max: int = 256 * KIB
    """A write ends with the frame that reaches this."""
    policy: SlowPolicy = SlowPolicy.BLOCK
    policies: Mapping[str, SlowPolicy] = {}
    """By group, where it differs: of the group whose message fills the buffer, the stricter of several."""
    client_policies: Mapping[str, SlowPolicy] = {}
    """By the private name of the reader; goes before that of the group."""

    def window_of_one_more(self, wide: int) -> int:
        """Of a session that begins while so many have a wide window."""
        if self.window_bytes != WINDOW_BYTES or wide >= self.wide_windows_max:
            return self.window_bytes
        return max(self.window_bytes, self.wide_window_bytes)

    @property
    def acknowledge_bytes(self) -> int:
        """Having heard so much a client says so; else with its next request or heartbeat."""
        return min(256 * KIB, self.buffer_bytes_max // 8)

    @property
    def blocked_bytes_max(self) -> int:
        """A blocked reader is disconnected here: what was under way when senders began to wait still comes."""
        return 2 * self.buffer_bytes_max

    def check_bundle(self, bundle: Bundle) -> None:
        """Only a single message is larger than a bundle may be."""
        if len(bundle.payload) > BUNDLE_BYTES_MAX and bundle.count > 1:
            raise RemoteProtocolError(f"{bundle.count} messages of {len(bundle.payload)} bytes in one bundle")

    @property
    def large_frame_bytes_max(self) -> int:
        """The frame of the largest message."""
        return self.message_bytes_max + FRAME_OVERHEAD_MAX

    @property
    def memory_max(self) -> int:
        """Bound of all buffers of a daemon's sessions, whatever clients do.

        Of requests four times the credit: one that is cut is joined, one that is whole stays in the buffer in which it
        came, unless that is more than four times as large.
        """
        wide = self.wide_windows_max * self.wide_window_bytes
        incoming = PINNED_PARTS * (self.sessions_max * self.window_bytes + wide + self.large_bytes_max)
        return incoming + self.buffers_bytes_max + self.large_frame_bytes_max + self.handshakes_max * 8 * KIB


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one client's session; what the daemon says in its welcome goes before."""

    versions: VersionRange = PROTOCOL_VERSIONS
    connect_within_us: int = 20_000_000
    attempt_us: int = 5_000_000
    """One stream must be open and answered within this time."""
    resume_within_us: int = 3_600_000_000
    """How long to look for the daemon after the stream broke, if the daemon does not keep the session for less.

    0: the session ends with its stream, at the daemon too.
    """
    retry_first_us: int = 50_000
    retry_max_us: int = 2_000_000
    queue_bytes_max: int = MIB
    """Messages wait here for the stream and for credit; then they are refused."""
    bundle_bytes_max: int = BUNDLE_BYTES_MAX
    packed_bytes_max: int = 64_000
    """Messages share a frame up to this, heads and tables included: so it crosses a machine in one datagram."""
    write_bytes_max: int = 256 * KIB
    message_bytes_max: int = MESSAGE_BYTES_MAX
    frame_bytes_max: int = 2 * (MESSAGE_BYTES_MAX + FRAME_OVERHEAD_MAX)
    """A larger frame of the daemon is malformed."""

    def memory_max(self, window_bytes: int) -> int:
        """Bound of all buffers of a session with this window: waiting, not yet taken, half received."""
        frame = self.message_bytes_max + FRAME_OVERHEAD_MAX
        waiting = self.queue_bytes_max + max(frame, self.queue_bytes_max)
        return waiting + max(window_bytes, frame) + window_bytes + 2 * self.frame_bytes_max
