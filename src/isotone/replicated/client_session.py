"""One client's end of a session: request numbers, what is open, and how long it may trust its own lease.

The lease of a session is counted by the order. The client measures with its own clock from the moment at which it
*sent* what was last heard of it, so it hears that its lease may be over before any other can be granted what it held,
as long as its clock is not slower than those of most servers by more than a margin. Fences guard the rest.

Implements: docs/protocols/replicated.md "Leases". Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from isotone.replicated.records import REMOVE, Called, Opened, Removed, Renewed, encode

ROUND_US = 1_000_000
"""A server ticks when it has seen a round last for so long."""
MARGIN = 0.2
"""So much slower than most servers' clocks a client's may be."""
OPEN_MAX = 1_024
"""Requests of one session that are open at a time; whoever wants more waits."""


@dataclass
class ClientSession:
    """Of one client; ``lease`` in rounds."""

    nonce: str
    lease: int
    round_us: int = ROUND_US
    number: int = 0  # once it is open
    is_over: bool = False
    doubt: str = ""  # why it is not certain that it will be opened
    heard_us: int = 0  # when that was sent by which it was last renewed
    last: int = 0  # the newest request
    open: dict[int, int] = field(default_factory=dict)  # requests, each with when it was sent

    def open_record(self, at: int) -> bytes:
        """What begins it."""
        self.heard_us = at
        return encode(Opened(self.nonce, self.lease))

    def request(self, at: int, kind: str, name: str, method: str, arguments: tuple[Any, ...]) -> tuple[int, bytes]:
        """The number and the record of a new request."""
        assert self.number and len(self.open) < OPEN_MAX, "the shell waits for room"
        request = self.last + 1
        settled = min(self.open, default=request)
        if method == REMOVE:
            record = encode(Removed(self.number, request, settled, kind, name, *arguments))
        else:
            record = encode(Called(self.number, request, settled, kind, name, method, arguments))
        self.last, self.open[request] = request, at
        return request, record

    def answered(self, request: int) -> None:
        """It was applied; so the session was renewed by it at least then."""
        sent = self.open.pop(request, None)
        if sent is not None:
            self.renewed(sent)

    def renew_record(self) -> bytes:
        """What says that it lives."""
        return encode(Renewed(self.number))

    def renewed(self, sent: int) -> None:
        """What was sent then is applied."""
        self.heard_us = max(self.heard_us, sent)

    @property
    def trust_us(self) -> int:
        """So long after the last renewal was sent, nobody can have been granted what this session holds."""
        return int((self.lease - 1) * self.round_us * (1 - MARGIN))

    @property
    def renew_every_us(self) -> int:
        """Often enough that one may be lost."""
        return self.trust_us // 4

    def is_trusted(self, at: int) -> bool:
        """Whether what it holds is certainly its own, by its own clock."""
        return bool(self.number) and not self.is_over and at - self.heard_us < self.trust_us
