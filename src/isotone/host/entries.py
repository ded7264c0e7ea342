"""The green records that a replica has told, by their position, as long as they are kept."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from isotone.core.errors import LocalProtocolError
from isotone.core.ordered_log import LogEntry

CUT_MIN = 1024


class Carrier(Protocol):
    """What carried records; its text is its name."""

    @property
    def records(self) -> Sequence[bytes]:
        """In their order."""


class Entries:
    """Runs of records, each with the position of its first: the messages of the replica itself, not copies."""

    def __init__(self, first: int = 1) -> None:
        self.first = first  # the oldest position kept, or the next one when none is
        self.end = first - 1  # the last position
        self._firsts: list[int] = []  # invariant: run i holds the positions _firsts[i] … _firsts[i + 1] - 1
        self._runs: list[Sequence[bytes]] = []
        self._messages: list[Carrier] = []  # that of each run

    def extend(self, position: int, messages: Sequence[Carrier]) -> int:
        """Take messages whose records begin at this position; those told before are passed over. How many are new."""
        before = self.end
        for message in messages:
            last = position + len(message.records) - 1
            if last > self.end:
                told = self.end + 1 - position  # a snapshot may end within a message
                assert told >= 0, f"position {position} follows {self.end}"
                self._firsts.append(self.end + 1)
                self._runs.append(message.records[told:] if told else message.records)
                self._messages.append(message)
                self.end = last
            position = last + 1
        return self.end - before

    def read(self, first: int, last: int) -> list[LogEntry]:
        """The entries ``first`` … ``last`` as far as they exist."""
        if first < self.first:
            raise LocalProtocolError(f"position {first} is not kept; the oldest is {self.first}")
        last = min(last, self.end)
        found: list[LogEntry] = []
        run = bisect_right(self._firsts, first) - 1
        while first <= last:
            begin, records, name = self._firsts[run], self._runs[run], str(self._messages[run])
            for record in records[first - begin : last + 1 - begin]:
                found.append(LogEntry(first, record, name))
                first += 1
            run += 1
        return found

    def forget(self, up_to: int) -> None:
        """What is not needed any more; a run goes when all of it is."""
        up_to = min(up_to, self.end)
        if up_to < self.first:
            return
        self.first = up_to + 1
        keep = max(0, bisect_right(self._firsts, self.first) - 1) if self.first <= self.end else len(self._firsts)
        if keep >= CUT_MIN or keep == len(self._firsts):
            del self._firsts[:keep], self._runs[:keep], self._messages[:keep]

    def jump(self, position: int) -> None:
        """Somebody else's snapshot stands for everything up to this position."""
        if position > self.end:
            self._firsts.clear()
            self._runs.clear()
            self._messages.clear()
            self.first, self.end = position + 1, position
