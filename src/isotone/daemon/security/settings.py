"""Settings and counters of the Guard."""

from __future__ import annotations

from collections import Counter

import msgspec


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults suit a LAN and a WAN alike. All times in microseconds."""

    renew_us: int = 3_600_000_000
    """A session older than this is followed by a new one."""
    silent_us: int = 1_500_000
    """A peer that answers nothing for so long may have forgotten the session: call it anew."""
    streams_max: int = 256
    """Accepted streams that have not said who they are; the oldest gives way."""
    stream_us: int = 10_000_000
    """After so long without a finished handshake a stream is closed when the next one comes."""


class GuardCounters(msgspec.Struct, kw_only=True):
    """What happened so far; all of it only grows."""

    sealed: int = 0
    opened: int = 0
    handshakes: int = 0
    streams: int = 0
    keys_missed: int = 0
    """Multicasts that came before the key to read them."""
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    """By reason."""
