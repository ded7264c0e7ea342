"""The state that somebody fetches stays, with all messages behind it, while the application offers newer ones.

Else whoever needs longer for a state than there is between two of them would begin anew for ever: and the state alone
is not enough, since the messages behind it are what comes next. What that may cost is bounded: one state, in memory,
and behind it no more than what is about as large as a state. If more came meanwhile than the one who fetches could
take, it would not catch up by waiting either.

Implements: docs/protocols/corel-growth.md, state transfer. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.corel.ledger import Ledger
from isotone.corel.session import Session
from isotone.corel.snapshot import Snapshot

BEHIND_BYTES_MIN = 64 * 1024 * 1024  # of messages: so many stay also behind a small state


@dataclass
class Lending:
    """Of one server that helps others; a crash ends it."""

    ledger: Ledger
    session: Session
    _lent: Snapshot | None = None
    _fence: int = 0  # when it was lent
    _borrowers: set[str] = field(default_factory=set)
    _counted: int = 0  # the messages behind it up to this place …
    _behind_bytes: int = 0  # … have so many bytes

    def snapshot_for(self, position: int, digest: bytes) -> Snapshot | None:
        """What to send to whoever needs a state: the newest, if it has some of that; else the one that is lent."""
        newest = self.ledger.snapshot
        if newest is not None and (newest.head.position, newest.head.digest) == (position, digest):
            return newest
        return self._lent or newest

    def lend(self, server: str, snapshot: Snapshot) -> None:
        """This one fetches it now."""
        if self._lent is None:
            self._lent, self._fence = snapshot, self.ledger.fence
            self._counted, self._behind_bytes = snapshot.head.place, 0
        self._borrowers.add(server)

    def limit(self, place: int) -> int:
        """Up to where messages may be forgotten, of those up to this place; asked in a view that is recovered."""
        if self._lent is None:
            return place
        if not self._is_needed() or self._is_outdated(self._lent, place):
            self._lent = None
            self._borrowers.clear()
            return place
        return min(place, self._lent.head.place)

    def _is_needed(self) -> bool:
        """Whether somebody who fetches it is still here, and does not take part yet."""
        return bool(self._borrowers & self.session.present - {*self.session.servers})

    def _is_outdated(self, lent: Snapshot, place: int) -> bool:
        """Whether this server came to stand elsewhere, or too much waits."""
        queue = self.ledger.queue
        if self._fence != self.ledger.fence or lent.head.place < queue.forgotten:
            return True
        if place > self._counted:
            self._behind_bytes += sum(message.size for message in queue.walk(self._counted, place))
            self._counted = place
        return self._behind_bytes > max(BEHIND_BYTES_MIN, len(lent.state))
