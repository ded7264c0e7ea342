"""Tickets and sequences: which submitted message is which of the session's, when some were dropped.

Tickets number all messages that a caller submitted; session sequences number those that were sent. Every drop before a
message is known by the time the message is delivered, so the tickets of what one hears of oneself can be computed.
"""

from __future__ import annotations

from bisect import insort

DROPS_MAX = 1024


class Tickets:
    """The drops of one session."""

    def __init__(self) -> None:
        self.dropped = 0
        self._drops: list[tuple[int, int]] = []  # first ticket and count, sorted, apart
        self._folded = 0  # messages dropped below all of those
        self._folded_to = 0  # sequences up to this cannot be told apart any more

    def drop(self, first: int, count: int) -> None:
        """These were not sent."""
        self.dropped += count
        insort(self._drops, (first, count))
        if len(self._drops) > DROPS_MAX:
            first, count = self._drops.pop(0)
            self._folded_to = max(self._folded_to, first - 1 - self._folded)
            self._folded += count

    def sequence_of(self, ticket: int) -> int:
        """The sequence of a message that is not dropped, as far as drops before it are known now."""
        before = sum(count for first, count in self._drops if first < ticket)
        return max(1, ticket - self._folded - before)

    def ticket_of(self, sequence: int) -> int | None:
        """The ticket of a message that was sent; None of one long before very many drops."""
        if sequence <= self._folded_to:
            return None
        ticket = sequence + self._folded
        for first, count in self._drops:
            if first > ticket:
                break
            ticket += count
        return ticket
