"""What peers did wrongly, in the log: once for each peer and reason in a while, so that it fills no disk."""

from __future__ import annotations

import logging

from isotone.core.contract import DatagramsReceived, Event
from isotone.core.ids import DaemonId
from isotone.daemon.engine import Lane

log = logging.getLogger("isotone.daemon")

AGAIN_US = 60_000_000
REMEMBERED_MAX = 1024
REASON_CHARACTERS = 120


class Complaints:
    """All that is counted by its reason is said here, as far as it was not said of late."""

    def __init__(self, me: DaemonId) -> None:
        self._me = me
        self._said: dict[tuple[str, str], int] = {}  # peer and reason, when last

    def refused(self, lane: Lane, event: Event, reason: str) -> None:
        """An automaton refused an input."""
        peer = event.source if isinstance(event, DatagramsReceived) else f"stream {getattr(event, 'stream', '?')}"
        reason = reason[:REASON_CHARACTERS]
        if self.is_news(peer, reason, event.at):
            log.warning("daemon %s: %s dropped an input from %s: %s", self._me, lane.label, peer, reason)

    def is_news(self, peer: str, reason: str, at: int) -> bool:
        """Whether this was not said of late; then it is said now."""
        key = (peer, reason)
        last = self._said.get(key)
        if last is not None and at - last < AGAIN_US:
            return False
        if len(self._said) >= REMEMBERED_MAX:
            self._said = {each: said for each, said in self._said.items() if at - said < AGAIN_US}
            if len(self._said) >= REMEMBERED_MAX:
                return False
        self._said[key] = at
        return True
