"""The packets of a ring as one member holds them: what came, what is missing, what may have to be sent again.

Implements: [Spread 4.1], the packets up to the aru and those that are asked for. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Datagram = Sequence[bytes | memoryview]


@dataclass
class PacketStore:
    """Sequences are dense from 1; everything up to ``settled`` was received by all members and is forgotten."""

    through: int = 0  # every packet up to here was received
    settled: int = 0
    top: int = 0  # the highest sequence that was sent here or came
    _held: dict[int, Datagram] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing up to the highest that is known."""
        return self.top == self.through

    def extend(self, first: int, datagrams: Sequence[Datagram]) -> None:
        """Keep the next packets of a whole store."""
        self._held.update(enumerate(datagrams, first))
        self.through = self.top = first + len(datagrams) - 1

    def add(self, sequence: int, datagram: Datagram) -> bool:
        """Keep a packet; False when it was here before."""
        held = self._held
        if sequence <= self.through or sequence in held:
            return False
        held[sequence] = datagram
        self.top = max(self.top, sequence)
        if sequence == self.through + 1:
            while sequence + 1 in held:
                sequence += 1
            self.through = sequence
        return True

    def missing(self, promised: int, count_max: int) -> list[int]:
        """Up to so many sequences that were promised and did not come."""
        out: list[int] = []
        for sequence in range(self.through + 1, promised + 1):
            if sequence not in self._held:
                out.append(sequence)
                if len(out) == count_max:
                    break
        return out

    def has(self, sequence: int) -> bool:
        """Whether the packet is here and can be sent again."""
        return sequence in self._held

    def held(self, sequence: int) -> Datagram:
        """The packet; call only when it is here."""
        return self._held[sequence]

    def settle(self, through: int) -> None:
        """All members have everything up to here."""
        through = min(through, self.through)  # what all have, this member has, whatever a token says
        for sequence in range(self.settled + 1, through + 1):
            del self._held[sequence]
        self.settled = max(self.settled, through)
