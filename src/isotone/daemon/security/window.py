"""Each counter counts once: what was seen is refused, and so is what is older than the window can tell."""

from __future__ import annotations

from array import array

WINDOW = 2048
ROUNDS = 2**32


class Window:
    """The last counters that came under one key. Each has a slot, which holds the round in which it was last taken."""

    __slots__ = ("_first", "_slots", "highest")

    def __init__(self, first: int = 0) -> None:
        """Counters below ``first`` are not for us."""
        self._first = first
        self.highest = first - 1
        self._slots = array("I", bytes(4 * WINDOW))  # rounds count from 1; 0 is none

    def is_fresh(self, counter: int) -> bool:
        """Whether it was not seen; asked before anything is decrypted."""
        if counter > self.highest:
            return True
        oldest = max(self._first, self.highest - WINDOW + 1)
        return counter >= oldest and self._slots[counter % WINDOW] != (counter // WINDOW + 1) % ROUNDS

    def take(self, counter: int) -> None:
        """It came, and was authentic."""
        self._slots[counter % WINDOW] = (counter // WINDOW + 1) % ROUNDS
        self.highest = max(self.highest, counter)
