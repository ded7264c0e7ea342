"""Acknowledgements and Order Rule 1, and what all servers are known to have green.

Implements: [COReL 5.2, Order Rule 1], [COReL 3.3, white]. Deviations: D-cumulative an acknowledgement is a place: all
members of a primary component have the same messages at the same places until the signal, so one number says it all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core.errors import RemoteProtocolError


@dataclass
class Acknowledgements:
    """Of one primary component in its view: up to which place each member has everything yellow on disk."""

    places: dict[str, int]

    def take(self, server: str, place: int) -> None:
        """It never falls."""
        known = self.places.get(server)
        if known is None or place < known:
            raise RemoteProtocolError(f"{server} acknowledged {place} after {known}")
        self.places[server] = place

    def by_all(self) -> int:
        """Order Rule 1: up to here a message may be green."""
        return min(self.places.values())


@dataclass
class Greens:
    """Up to which place each server is known to have everything green, on disk, on one side of a fence: a log that was
    restored has fewer places, under the same names.

    Of those that vote: another server may lose its log and come back with an empty one, under the same name.
    """

    places: dict[str, int] = field(default_factory=dict)
    fence: int = 0

    def stand_behind(self, fence: int) -> None:
        """What was known on another side counts no more."""
        if fence != self.fence:
            self.places, self.fence = {}, fence

    def take(self, server: str, place: int) -> None:
        """What a server, or another about it, says; only the highest counts."""
        if place > self.places.get(server, 0):
            self.places[server] = place

    def behind(self, servers: tuple[str, ...], place: int) -> tuple[str, ...]:
        """Who of these is not known to have everything up to there."""
        return tuple(server for server in servers if self.places.get(server, 0) < place)

    def white(self, servers: tuple[str, ...]) -> int:
        """Up to here every one of these has it: the servers of the green prefix."""
        return min(self.places.get(server, 0) for server in servers)
