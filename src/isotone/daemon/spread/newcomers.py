"""Streams of Spread's clients that are not accepted yet, and the private names at this daemon.

Their number, time and bytes are bounded, and none holds up another. A name is taken from the moment a client asks for
it. Names are invented for clients that have none.

Implements: Spread's client protocol, private names. Deviations: none holds up another.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from isotone.core.contract import Address
from isotone.daemon.spread.authentication import Authentication, Rejected
from isotone.daemon.spread.constants import Code
from isotone.daemon.spread.handshake import Handshake
from isotone.daemon.spread.settings import GatewaySettings

INVENTED_MAX = 9


class Newcomer:
    """One such stream."""

    __slots__ = ("began_at", "handshake", "stream")

    def __init__(self, stream: int, began_at: int, handshake: Handshake) -> None:
        self.stream = stream
        self.began_at = began_at
        self.handshake = handshake


class Names:
    """Private names of Spread's clients, and those of others by a callable."""

    def __init__(self, in_use: Callable[[str], bool], seed: bytes) -> None:
        self._taken: set[str] = set()  # only looked up
        self._in_use = in_use
        self._seed = seed
        self._invented = 0

    def claim(self, name: str) -> str:
        """Take this name, or one that is invented."""
        if not name:
            name = self._invent()
        elif self._is_taken(name):
            raise Rejected(Code.NOT_UNIQUE, f"the name {name} is in use")
        self._taken.add(name)
        return name

    def free(self, name: str) -> None:
        """The name may be used again."""
        self._taken.discard(name)

    def _is_taken(self, name: str) -> bool:
        return name in self._taken or self._in_use(name)

    def _invent(self) -> str:
        while True:
            self._invented += 1
            digest = blake2b(self._invented.to_bytes(8, "little"), digest_size=8, key=self._seed[:64]).digest()
            name = f"r{int.from_bytes(digest, 'little') % 9999}-{self._invented}"[:INVENTED_MAX]
            if not self._is_taken(name):
                return name


class Newcomers:
    """All of them, oldest first."""

    def __init__(self, settings: GatewaySettings, authentication: Authentication, names: Names) -> None:
        self.names = names
        self._all: dict[int, Newcomer] = {}
        self._settings = settings
        self._authentication = authentication

    def enter(self, stream: int, peer: Address, at: int) -> int | None:
        """One more; the stream that must go for it, if there are too many."""
        gone = next(iter(self._all)) if len(self._all) >= self._settings.handshakes_max else None
        if gone is not None:
            self.leave(gone)
        self._all[stream] = Newcomer(stream, at, Handshake(peer, self._authentication, self.names.claim))
        return gone

    def get(self, stream: int) -> Newcomer | None:
        """The newcomer on this stream."""
        return self._all.get(stream)

    def remove(self, stream: int) -> None:
        """It became a session; its name stays taken."""
        del self._all[stream]

    def leave(self, stream: int) -> bool:
        """It came to nothing; whether it was one."""
        newcomer = self._all.pop(stream, None)
        if newcomer is None:
            return False
        if newcomer.handshake.name:
            self.names.free(newcomer.handshake.name)
        return True

    @property
    def first_expiry(self) -> int | None:
        """When the oldest had its time."""
        oldest = next(iter(self._all.values()), None)
        return None if oldest is None else oldest.began_at + self._settings.handshake_us

    def expire(self, at: int) -> list[int]:
        """Streams whose time is over."""
        gone = []
        while (due := self.first_expiry) is not None and due <= at:
            gone.append(next(iter(self._all)))
            self.leave(gone[-1])
        return gone

    def streams(self) -> list[int]:
        """All streams."""
        return list(self._all)
