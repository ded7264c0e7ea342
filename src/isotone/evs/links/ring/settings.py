"""Settings of a ring, each with the bound that it sets.

Implements: [Spread 4.1], the windows of its flow control and the loss of a token. Deviations: D-accelerated, D-rest,
D-linger and D-share as in `isotone.evs.links.ring.ring`.
"""

from __future__ import annotations

import msgspec


class RingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Windows count packets; times are microseconds."""

    body_bytes: int = 1_352  # of a packet, without the ring's header; fits a frame of 1,500 bytes with encryption
    personal_window: int = 200  # packets that one member may send per visit of the token
    global_window: int = 600  # packets on the whole ring per rotation, resent ones included
    late_window: int = 200  # of a visit's packets, how many leave after the token; 0 turns acceleration off
    unsettled_max: int = 2_000  # no new packet while more than this many are not received by all
    requests_max: int = 100  # sequences that one visit asks for
    token_retry_us: int = 20_000  # a token that shows no sign of life is sent again after this
    token_retries_max: int = 10  # and the ring is declared failed after so many
    request_retry_us: int = 5_000  # a resting token is asked for again after this
    requests_unanswered_max: int = 200  # and the ring is declared failed after so many without a visit
    linger_us: int = 20_000  # who sends a little while the token rests keeps it for so long; 0: not at all
    frame_bytes_max: int = 128 * 1024
    queue_bytes_max: int = 4 * 1024 * 1024  # of frames offered and not yet sent
    multicast: bool = True  # else each packet goes to each member on its own

    def on_one_machine(self) -> RingSettings:
        """Where all members share a machine, whose loopback carries 64 KiB in one packet: a bundle is one packet.

        The windows have about the same bytes. For 64 messages of 1 KiB all daemons together spend 60 us instead of 700.
        """
        return msgspec.structs.replace(
            self, body_bytes=65_400, personal_window=16, global_window=48, late_window=16, unsettled_max=192
        )

    def with_large_buffers(self) -> RingSettings:
        """Where sockets hold several megabytes: a visit of the token takes a dozen bundles instead of four."""
        return msgspec.structs.replace(
            self, personal_window=600, global_window=1_800, late_window=600, unsettled_max=5_000
        )

    @property
    def window_max(self) -> int:
        """Packets that are not received by all, at most."""
        return self.unsettled_max + self.global_window

    def allowance(self, *, members: int, others: int, unsettled: int) -> int:
        """Packets for one visit: others sent so many in the last rotation, so many are not received by all.

        D-share: an equal share of the global window is everybody's whatever others sent, or the first members after a
        pause would keep the whole of it, and the rest would never send. So a rotation has at most twice the global
        window, and that only until those who had more than their share see the others' packets.
        """
        share = max(1, self.global_window // members)
        return min(self.personal_window, max(share, self.global_window - others), self.unsettled_max - unsettled)

    @property
    def linger_max(self) -> int:
        """Packets that not all are known to have, while a token lingers."""
        return self.unsettled_max // 8 if self.linger_us else -1

    def failure_bound_us(self) -> int:
        """From the loss of a token to the declaration that the ring failed."""
        return self.token_retry_us * (self.token_retries_max + 1)

    def wait_bound_us(self) -> int:
        """From wanting the token in vain to the declaration that the ring failed."""
        return self.request_retry_us * (self.requests_unanswered_max + 2)
