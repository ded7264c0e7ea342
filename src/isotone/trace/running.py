"""The part of a run's record that is complete while daemons still write it.

Daemons write their rows on their own, so at any moment some are ahead of the others: one has recorded a delivery whose
sender has not written the send yet. Such a delivery is left out, with all that its daemon recorded behind it, until no
row that is left needs one that is not there. What is left is a record that could have been broken off there, and every
safety property is judged on it as on any run that was broken off.

Only what the senders that are still writing lack is left out: rows that were lost elsewhere stay lost.

Implements: [DESIGN 4], verdicts only over rows that are there. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from isotone.trace.events import (
    DaemonDelivered,
    DaemonSent,
    Delivered,
    Ended,
    Entry,
    NetworkReceived,
    NetworkSent,
    Row,
    Sent,
    Truncated,
)
from isotone.trace.record import STILL_WRITTEN

Life = tuple[str, int]
"""A node and its incarnation."""
Rows = Callable[[], Iterable[Row]]
"""Reads the rows of the run, from the beginning."""


@dataclass
class CompletePart:
    """Of a run that is still written: up to which row of each life, the first that is left out."""

    limits: dict[Life, int] = field(default_factory=dict)
    rows: int = 0  # that are there
    left_out: int = 0

    def rows_of(self, read: Rows) -> Iterator[Row]:
        """The rows that are complete, and the end of a run that was broken off."""
        last = None
        for row in read():
            if row.index < self.limits.get((row.node, row.incarnation), 0) or not row.node:
                last = row
                yield row
        if last is not None:
            yield Row("", 0, last.index + 1 if not last.node else 0, last.at, Ended(False))


def complete_part(read: Rows) -> CompletePart | None:
    """What can be judged of a run that is still written; None where nobody writes any more."""
    part = CompletePart()
    still_written: set[Life] = set()
    for row in read():
        life = (row.node, row.incarnation)
        if isinstance(row.entry, Truncated) and row.entry.reason == STILL_WRITTEN:
            still_written.add(life)
        elif row.node:
            part.limits[life] = row.index + 1
            part.rows += 1
    if not still_written:
        return None
    there = dict(part.limits)
    while _cut(part.limits, still_written, read):
        pass
    part.left_out = sum(there[life] - part.limits[life] for life in there)
    return part


def _cut(limits: dict[Life, int], still_written: set[Life], read: Rows) -> bool:
    """Leave out what was received and whose send is not there; whether anything was."""
    sent: dict[tuple[str, str], int] = {}
    for row in _within(limits, read):
        if (known := _sent(row.entry)) is not None:
            channel, last = known
            sent[channel] = max(last, sent.get(channel, 0))
    was_cut = False
    for row in _within(limits, read):
        needed = _received(row.entry)
        if needed is None:
            continue
        life, channel, last = needed
        if life in still_written and sent.get(channel, 0) < last:
            limits[row.node, row.incarnation] = row.index
            was_cut = True
    return was_cut


def _within(limits: dict[Life, int], read: Rows) -> Iterator[Row]:
    for row in read():
        if row.index < limits.get((row.node, row.incarnation), 0):
            yield row


def _sent(entry: Entry) -> tuple[tuple[str, str], int] | None:
    """By whom, over which network if over one, and the last number."""
    match entry:
        case Sent():
            return ("", entry.client), entry.first_sequence + len(entry.lengths) - 1
        case DaemonSent():
            return ("", entry.daemon), entry.first_sequence
        case NetworkSent():
            return (entry.network, entry.daemon), entry.sequence
    return None


def _received(entry: Entry) -> tuple[Life, tuple[str, str], int] | None:
    """The life that must have recorded the send, and the send."""
    match entry:
        case Delivered():
            return _life(entry.sender), ("", entry.sender), entry.first_sequence + len(entry.lengths) - 1
        case DaemonDelivered():
            return _life(entry.sender), ("", entry.sender), entry.first_sequence
        case NetworkReceived():
            return _life(entry.sender), (entry.network, entry.sender), entry.sequence
    return None


def _life(sender: str) -> Life:
    """Of a daemon, ``d1#3``, or of a client's daemon, ``#alice#d1#3#17``."""
    parts = sender.split("#")
    name, incarnation = parts[2:4] if sender.startswith("#") and len(parts) > 3 else (parts[0], parts[-1])
    return name, int(incarnation) if incarnation.isdecimal() else 0
