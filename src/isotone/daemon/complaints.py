"""What peers did wrongly, in the log: once for each peer and reason in a while, so that it fills no disk."""

from __future__ import annotations

import logging

from isotone.core.addresses import host_of
from isotone.core.contract import Address, DatagramsReceived, Event
from isotone.core.ids import DaemonId
from isotone.daemon.engine import Lane
from isotone.daemon.security.packets import Kind
from isotone.evs.membership.messages import MARK

log = logging.getLogger("isotone.daemon")

AGAIN_US = 60_000_000
REMEMBERED_MAX = 1024
REASON_CHARACTERS = 120


OURS = frozenset({MARK, *Kind})
SPREAD_MARK = 0x80


def is_of_spread(datagram: bytes) -> bool:
    """Whether it begins as packets of Spread's daemons and its monitor do: with a type marked by their byte order."""
    first = datagram[0]
    return first & SPREAD_MARK > 0 and first not in OURS and len(datagram) > 3 and datagram[3] & SPREAD_MARK > 0


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

    def heard_spread(self, source: Address, at: int) -> None:
        """A datagram that is Spread's, and nobody answers it."""
        host = host_of(source)
        if self.is_news(host, "spread", at):
            log.warning(
                "daemon %s: UDP from %s looks like that of Spread's daemons or its monitor, which do not talk to this "
                "daemon; `isotone status` shows what the monitor did",
                self._me,
                host,
            )

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
