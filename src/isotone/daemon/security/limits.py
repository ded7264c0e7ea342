"""How much strangers may cost: a bucket for handshakes, counters by reason, one log line per peer and reason."""

from __future__ import annotations

from collections import Counter

from isotone.daemon.security.events import Note

NOTES_MAX = 1024
NOTE_AGAIN_US = 3_600_000_000
PATIENCE_US = 2_000_000
PATIENT = frozenset(("unknown key", "unknown handshake"))
"""These happen while daemons get to know each other: told only if they go on."""
REASONS = {
    "wrong key": "its key is not the one that the settings list under this name",
    "unknown daemon": "the settings do not list this daemon, and no authority signs for others",
    "wrong certificate": "its key is not signed by the cluster's authority for this name",
    "revoked": "the settings revoke this daemon, or its key",
    "our own name": "it has the name of this daemon",
    "unknown key": "sends under a key that is not known here: a stranger, or a daemon that this one refused",
    "unknown handshake": "goes on with a handshake that is not under way here",
    "replayed": "a packet came twice",
    "old group key": "a packet under the key of an earlier daemon view",
    "other address": "its packets come from an address at which it did not prove who it is",
    "not authentic": "a packet that is not authentic",
    "not sealed": "a packet or stream in clear: its security is off, or it is no daemon of this cluster",
    "name of another": "it speaks in the name of another daemon",
    "wrong check": "calls with the name of another cluster, or none",
    "version": "calls with another version of the handshake",
    "too many handshakes": "too many handshakes at once",
    "handshake not finished": "opened a stream and did not say who it is",
}


class Bucket:
    """So many at once, and so many each second."""

    __slots__ = ("_at", "_left", "_per_second", "_size")

    def __init__(self, size: int, per_second: int) -> None:
        self._size = self._left = float(size)
        self._per_second = per_second
        self._at = 0

    def fill(self, at: int) -> float:
        """What is in it now."""
        gained = max(0, at - self._at) * self._per_second / 1_000_000
        self._left = min(self._size, self._left + gained)
        self._at = at
        return self._left

    def take(self, at: int, *, leave: float = 0.0) -> bool:
        """Take one, if so much is left behind."""
        if self.fill(at) < 1 + leave:
            return False
        self._left -= 1
        return True

    @property
    def size(self) -> float:
        """What it holds at most."""
        return self._size


class Refusals:
    """Everything that was refused: all of it counted, little of it told."""

    def __init__(self, again_us: int = NOTE_AGAIN_US) -> None:
        self.counts: Counter[str] = Counter()
        self._told: dict[tuple[str, str], int] = {}  # when a peer and reason were last told of; oldest first
        self._first: dict[tuple[str, str], int] = {}  # when they were first seen, of those that need patience
        self._again_us = again_us

    def count(self, at: int, peer: str, reason: str, text: str = "") -> Note | None:
        """One more; the line for the log if this peer and reason had none of late."""
        self.counts[reason] += 1
        key = (peer, reason)
        told = self._told.get(key)
        if told is not None and at - told < self._again_us:
            return None
        if reason in PATIENT and at - self._seen_first(key, at) < PATIENCE_US:
            return None
        self._told.pop(key, None)
        if len(self._told) >= NOTES_MAX:
            if at - next(iter(self._told.values())) < self._again_us:
                return None  # too many strangers at once: they are counted, and that is all
            del self._told[next(iter(self._told))]
        self._told[key] = at
        return Note(peer, reason, text or f"{peer}: {REASONS.get(reason, reason)}")

    def _seen_first(self, key: tuple[str, str], at: int) -> int:
        if key not in self._first and len(self._first) >= NOTES_MAX:
            del self._first[next(iter(self._first))]
        return self._first.setdefault(key, at)
