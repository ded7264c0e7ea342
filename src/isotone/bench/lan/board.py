"""What the bench and its client processes share while they run: a page of memory, so that looking costs nobody a call.

The bench writes the phase, each client its own words. A word is eight bytes, written and read as a whole.
"""

from __future__ import annotations

import mmap
import time
from enum import IntEnum
from pathlib import Path

WORD_BYTES = 8
HEADER_WORDS, SLOT_WORDS = 4, 12


class Phase(IntEnum):
    """What the clients do."""

    WAIT = 0
    GO = 1
    STOP = 2


class State(IntEnum):
    """How far a client is."""

    STARTING = 0
    READY = 1
    DONE = 2
    FAILED = 3


class Word(IntEnum):
    """What stands where in a client's slot."""

    STATE = 0
    DELIVERED = 1
    SENT = 2
    VIEW_MEMBERS = 3
    VIEW_AT = 4
    """When the newest view came, in nanoseconds of the monotonic clock."""
    LAST_AT = 5
    """When something was delivered last."""
    LONGEST_GAP = 6
    """Between two deliveries, in nanoseconds, since the watch began that the header numbers."""
    WATCH = 7
    LEFT_AT = 8
    ENTERED_AT = 9


class Board:
    """The page. Made by the bench, opened by each client."""

    def __init__(self, path: Path, slots: int, *, create: bool = False) -> None:
        size = (HEADER_WORDS + SLOT_WORDS * slots) * WORD_BYTES
        if create:
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self.words = memoryview(self._map).cast("Q")

    @property
    def phase(self) -> Phase:
        """What is to be done now."""
        return Phase(self.words[0])

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self.words[0] = phase

    def watch_anew(self) -> None:
        """Gaps between deliveries count from now on."""
        self.words[2] = time.monotonic_ns()
        self.words[1] += 1

    def slot(self, place: int) -> Slot:
        """That of one client."""
        return Slot(self, place)

    def close(self) -> None:
        """Give the page back."""
        self.words.release()
        self._map.close()


class Slot:
    """The words of one client."""

    def __init__(self, board: Board, place: int) -> None:
        self._words = board.words
        self._base = HEADER_WORDS + SLOT_WORDS * place

    def get(self, word: Word) -> int:
        """What stands there."""
        return self._words[self._base + word]

    def set(self, word: Word, value: int) -> None:
        """Write it."""
        self._words[self._base + word] = value

    @property
    def is_going(self) -> bool:
        """Whether senders send."""
        return self._words[0] == Phase.GO

    @property
    def phase(self) -> int:
        """As the bench wants it."""
        return self._words[0]

    def view(self, members: int) -> None:
        """A view came."""
        words, base, now = self._words, self._base, time.monotonic_ns()
        before = words[base + Word.VIEW_MEMBERS]
        words[base + Word.VIEW_MEMBERS] = members
        words[base + Word.VIEW_AT] = now
        words[base + (Word.LEFT_AT if members < before else Word.ENTERED_AT)] = now

    def heard(self, delivered: int) -> None:
        """So many messages came, with these; the time is noted, for gaps."""
        words, base = self._words, self._base
        words[base + Word.DELIVERED] = delivered
        now = time.monotonic_ns()
        last = words[base + Word.LAST_AT]
        words[base + Word.LAST_AT] = now
        if words[base + Word.WATCH] != words[1]:
            words[base + Word.WATCH] = words[1]
            words[base + Word.LONGEST_GAP] = 0
            last = max(last, words[2])
        words[base + Word.LONGEST_GAP] = max(words[base + Word.LONGEST_GAP], now - last)
