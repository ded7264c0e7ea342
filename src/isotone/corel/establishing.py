"""Establishing a primary component: attempt, commit, establish.

Implements: [COReL 5.6.1], [COReL Figure 2]. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core.errors import RemoteProtocolError
from isotone.corel.quorum import Primary


@dataclass
class Establishing:
    """Who attempted and who committed, in one view."""

    primary: Primary
    attempted: set[str] = field(default_factory=set)
    committed: set[str] = field(default_factory=set)
    all_accept: bool = True  # the last order proposal, or are not asked, as far as they said [COReL 7.1.4]

    def on_attempt(self, server: str, number: int, *, accepts: bool = False) -> bool:
        """True when this was the last one: commit now."""
        is_last = self._count(self.attempted, server, number)
        self.all_accept &= accepts
        return is_last

    def on_commit(self, server: str, number: int) -> bool:
        """True when this was the last one: establish now."""
        if len(self.attempted) < len(self.primary.servers):
            raise RemoteProtocolError(f"{server} committed before all attempted")
        return self._count(self.committed, server, number)

    def _count(self, told: set[str], server: str, number: int) -> bool:
        if number != self.primary.number or server not in self.primary.servers or server in told:
            raise RemoteProtocolError(f"{server} speaks of primary {number}, not of {self.primary.number}")
        told.add(server)
        return len(told) == len(self.primary.servers)
