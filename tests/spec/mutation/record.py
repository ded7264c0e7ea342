"""How a recorded run is altered so that it still looks like one: rows taken apart, moved, put in, numbered anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from isotone.trace import events as trace
from isotone.trace.events import Delivered, Entry, Row, SignalDelivered, ViewDelivered

Received = Delivered | ViewDelivered | SignalDelivered


class Recording:
    """A good run with what the corruptions look up in it, found once."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.found: dict[str, list[object]] = {}  # the applicable places of each kind
        self.deliveries: list[tuple[int, Delivered]] = []
        self.views: list[tuple[int, ViewDelivered]] = []
        self.signals: list[tuple[int, SignalDelivered]] = []
        self.clients: list[str] = []  # in the order of the connects
        self.received: dict[str, list[tuple[int, Received]]] = defaultdict(list)
        self.records: dict[tuple[str, int], list[int]] = defaultdict(list)
        for place, row in enumerate(rows):
            self._note(place, row)

    def _note(self, place: int, row: Row) -> None:
        self.records[row.node, row.incarnation].append(place)
        match row.entry:
            case Delivered() as entry:
                self.deliveries.append((place, entry))
            case ViewDelivered() as entry:
                self.views.append((place, entry))
            case SignalDelivered() as entry:
                self.signals.append((place, entry))
            case trace.Connected(client):
                self.clients.append(client)
        if isinstance(row.entry, Delivered | ViewDelivered | SignalDelivered):
            for receiver in row.entry.receivers:
                self.received[receiver].append((place, row.entry))

    def record_of(self, place: int) -> list[int]:
        """The places of all rows of the same record."""
        row = self.rows[place]
        return self.records[row.node, row.incarnation]

    def views_of(self, client: str, group: str) -> list[tuple[int, ViewDelivered]]:
        """The views that a client installs in a group."""
        received = self.received[client]
        return [(at, view) for at, view in received if isinstance(view, ViewDelivered) and view.group == group]

    def delivered_to(self, client: str) -> list[tuple[int, Delivered]]:
        """What a client delivers."""
        return [(at, entry) for at, entry in self.received[client] if isinstance(entry, Delivered)]


def renumbered(rows: Iterable[Row]) -> list[Row]:
    """Indices dense from 0 in every record, in the order in which the rows stand."""
    reached: dict[tuple[str, int], int] = defaultdict(int)
    numbered = []
    for row in rows:
        record = (row.node, row.incarnation)
        numbered.append(row if row.index == reached[record] else msgspec.structs.replace(row, index=reached[record]))
        reached[record] += 1
    return numbered


def with_entry(row: Row, entry: Entry) -> Row:
    """The row with another entry."""
    return msgspec.structs.replace(row, entry=entry)


def replaced(rows: list[Row], place: int, *instead: Row) -> list[Row]:
    """The rows with these in the place of one."""
    return renumbered([*rows[:place], *instead, *rows[place + 1 :]])


def inserted(rows: list[Row], place: int, row: Row) -> list[Row]:
    """The rows with one more in front of what stands at the place."""
    return renumbered([*rows[:place], row, *rows[place:]])


def moved(rows: list[Row], place: int, target: int) -> list[Row]:
    """One row taken out and put in front of what stood at the target."""
    rest = [*rows[:place], *rows[place + 1 :]]
    at = target - 1 if target > place else target
    return renumbered([*rest[:at], rows[place], *rest[at:]])


def exchanged(rows: list[Row], one: int, other: int) -> list[Row]:
    """Two rows of one record in each other's place."""
    changed = list(rows)
    changed[one], changed[other] = rows[other], rows[one]
    return renumbered(changed)


def isolated(rows: list[Row], place: int, receiver: str) -> tuple[list[Row], int]:
    """The rows with one receiver's part of a row as a row of its own, and its place; not yet numbered."""
    entry = rows[place].entry
    assert isinstance(entry, Delivered | ViewDelivered | SignalDelivered)
    if entry.receivers == (receiver,):
        return list(rows), place
    others = tuple(each for each in entry.receivers if each != receiver)
    own = with_entry(rows[place], msgspec.structs.replace(entry, receivers=(receiver,)))
    rest = with_entry(rows[place], msgspec.structs.replace(entry, receivers=others))
    return [*rows[:place], rest, own, *rows[place + 1 :]], place + 1


def without_receiver(rows: list[Row], place: int, receiver: str) -> list[Row]:
    """The rows with one receiver's part of a row taken out."""
    apart, at = isolated(rows, place, receiver)
    return replaced(apart, at)
