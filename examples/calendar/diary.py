"""A calendar as a plain class. What makes it survive is in ``serve.py``."""

from __future__ import annotations

from isotone import isis


@isis.resilient
class Diary:
    """Entries by their id: when, and what."""

    entries: dict[str, tuple[str, str]]

    def __init__(self) -> None:
        self.entries = {}

    def enter(self, id: str, when: str, what: str) -> int:
        """Enter something; the same id again is the same entry. How many there are."""
        self.entries.setdefault(id, (when, what))
        return len(self.entries)

    def cancel(self, id: str) -> bool:
        """Take an entry out."""
        return self.entries.pop(id, None) is not None

    @isis.reads
    def page(self, when: str) -> list[str]:
        """What is entered then."""
        return sorted(what for slot, what in self.entries.values() if slot == when)

    @isis.reads
    def ids(self) -> list[str]:
        """Of all entries."""
        return sorted(self.entries)
