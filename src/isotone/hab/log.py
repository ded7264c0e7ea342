"""The order as one centre has it: entries behind a base, dense indexes.

Implements: [HAB Figure 3], ``local`` and ``global``. Deviations: Dh4 what is confirmed and covered is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isotone.hab.messages import Entry, Kind


class Diverged(Exception):
    """Two logs have different entries at one index: one of them belongs to a centre that was declared lost."""


class Log(msgspec.Struct, array_like=True):
    """Entries ``base + 1 … end``."""

    base: int = 0
    base_epoch: int = 0  # of the entry at the base
    base_position: int = 0
    entries: list[Entry] = []

    @property
    def end(self) -> int:
        """The last index."""
        return self.base + len(self.entries)

    @property
    def position(self) -> int:
        """How many records there are up to the end."""
        return self.entries[-1].position if self.entries else self.base_position

    def epoch_at(self, index: int) -> int:
        """The epoch that ordered the entry at this index, which is not forgotten, or is the base."""
        return self.base_epoch if index == self.base else self.entries[index - self.base - 1].epoch

    def position_at(self, index: int) -> int:
        """How many records there are up to this index."""
        return self.base_position if index == self.base else self.entries[index - self.base - 1].position

    def behind(self, index: int, count: int | None = None, bytes_max: int | None = None) -> tuple[Entry, ...]:
        """Entries behind this index, as many as asked for; at least one, if there is one."""
        place = index - self.base
        assert place >= 0, f"entries behind {index} are asked for and those up to {self.base} are forgotten"
        found = self.entries[place:] if count is None else self.entries[place : place + count]
        if bytes_max is not None:
            size = 0
            for number, entry in enumerate(found):
                size += len(entry.record) + 64
                if number and size > bytes_max:
                    return tuple(found[:number])
        return tuple(found)

    def append(self, *, epoch: int, kind: Kind, origin: str, incarnation: int, counter: int, record: bytes) -> Entry:
        """Order one more."""
        position = self.position + (kind is Kind.RECORD)
        entry = Entry(self.end + 1, epoch, kind, position, origin, incarnation, counter, record)
        self.entries.append(entry)
        return entry

    def adopt(self, first: int, before: int, entries: Sequence[Entry]) -> tuple[Entry, ...] | None:
        """Take a range that another has; what was new, or None if there is a gap. `Diverged` before any change."""
        if first > self.end + 1:
            return None
        if first - 1 >= self.base and self.epoch_at(first - 1) != before:
            raise Diverged(f"entry {first - 1} is of epoch {self.epoch_at(first - 1)} here and of {before} there")
        for entry in entries:
            if self.base < entry.index <= self.end and self.epoch_at(entry.index) != entry.epoch:
                raise Diverged(
                    f"entry {entry.index} is of epoch {self.epoch_at(entry.index)} here, {entry.epoch} there"
                )
        new = tuple(entry for entry in entries if entry.index > self.end)
        self.entries.extend(new)
        return new

    def forget(self, through: int) -> None:
        """Entries up to here are not needed any more."""
        count = min(through, self.end) - self.base
        if count > 0:
            last = self.entries[count - 1]
            self.base, self.base_epoch, self.base_position = last.index, last.epoch, last.position
            del self.entries[:count]
