"""Who deliver together: the receivers of a row, each with the stay that it is in, and what they had since they met.

A row names its receivers; the same ones deliver row after row until a view, a signal, a leave or an end comes between.
So a row costs one look-up, however many receivers and messages it has.
"""

from __future__ import annotations

from isotone.pipeline.conformance.survey.facts import Cohort, Stamp, Stay

RELIABLE, FIFO, CAUSAL, AGREED, SAFE = 1, 2, 3, 4, 5


class Entries:
    """What delivery and send rows refer to by number: where they took place. Columns, for they travel as such."""

    def __init__(self) -> None:
        self.is_send: list[bool] = []
        self.boundary: list[int] = []
        self.group: list[str] = []
        self.hash: list[int] = []
        self.is_late: list[bool] = []
        self.holders: list[int] = []
        self.size: list[int] = []
        self.is_counting: list[bool] = []
        self.cohort: list[int] = []
        self._sends: dict[tuple[int, str, int, bool], int] = {}

    def __len__(self) -> int:
        return len(self.group)

    def deliveries(self, boundary: int, cohort: Cohort, number: int, size: int) -> int:
        """An entry for delivery rows; ``number`` is the place of the cohort among those of its side."""
        return self._add(
            (False, boundary, cohort.group, cohort.hash, cohort.is_late, len(cohort.clients), size), number
        )

    def nowhere(self, boundary: int, group: str) -> int:
        """An entry for delivery rows outside views."""
        return self._add((False, boundary, group, 0, False, 0, 0), -1)

    def send(self, boundary: int, group: str, hash: int, *, is_counting: bool) -> int:
        """An entry for sends; ``hash`` is 0 where the sender is in no view of the group."""
        key = (boundary, group, hash, is_counting)
        if key not in self._sends:
            self._sends[key] = self._add((True, boundary, group, hash, False, 0, 0), -1, is_counting=is_counting)
        return self._sends[key]

    def _add(
        self, values: tuple[bool, int, str, int, bool, int, int], cohort: int, *, is_counting: bool = False
    ) -> int:
        columns = (self.is_send, self.boundary, self.group, self.hash, self.is_late, self.holders, self.size)
        for column, value in zip(columns, values, strict=True):
            column.append(value)  # type: ignore[attr-defined]
        self.is_counting.append(is_counting)
        self.cohort.append(cohort)
        return len(self.group) - 1


class Together:
    """Receivers that deliver the same rows for a while."""

    __slots__ = ("clients", "entries", "high", "low", "reached", "senders", "stays")

    def __init__(
        self, clients: tuple[str, ...], stays: list[Stay], entries: list[int], reached: dict[str, int]
    ) -> None:
        self.clients = frozenset(clients)
        self.reached = reached  # per sender: the highest sequence of a FIFO message that just these receivers delivered
        self.stays = stays
        self.entries = entries
        self.low: Stamp | None = None
        self.high: Stamp | None = None
        self.senders: dict[str, Stamp | None] = {}

    def note(self, service: int, stamp: Stamp, sender: str) -> None:
        """A reliable delivery."""
        if self.low is None or stamp < self.low:
            self.low = stamp
        known = self.senders.get(sender)
        if known is None or stamp < known:
            self.senders[sender] = stamp
        if service >= AGREED and (self.high is None or stamp > self.high):
            self.high = stamp

    def settle(self, heard: dict[tuple[str, int], dict[str, Stamp | None]]) -> None:
        """Write down what they had in their stays, before something changes."""
        for stay in self.stays:
            _merge(stay, self)
        for place in {(stay.group, stay.hash): None for stay in self.stays}:
            known = heard.setdefault(place, {})
            for sender, stamp in self.senders.items():
                known[sender] = _lower(known.get(sender), stamp)


def _merge(stay: Stay, had: Together) -> None:
    stay.low = _lower(stay.low, had.low)
    if had.high is not None:
        if stay.signal < 0:
            stay.high = max(stay.high, had.high) if stay.high is not None else had.high
        else:
            stay.high_late = max(stay.high_late, had.high) if stay.high_late is not None else had.high


def _lower(one: Stamp | None, other: Stamp | None) -> Stamp | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
