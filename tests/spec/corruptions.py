"""Corruptions of recorded runs, drawn at random places: what a faulty system, or a faulty recorder, might write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from isotone.core.choice import Choice
from isotone.core.services import Service
from isotone.trace import events as trace
from isotone.trace.events import Row

replace = msgspec.structs.replace
DELIVERIES = (trace.Delivered, trace.DaemonDelivered)
VIEWS = (trace.ViewDelivered, trace.DaemonViewDelivered)
SENDS = (trace.Sent, trace.DaemonSent)
SIGNALS = (trace.SignalDelivered, trace.DaemonSignalDelivered)


def renumbered(rows: Sequence[Row]) -> list[Row]:
    """Dense indices again."""
    counts: dict[tuple[str, int], int] = {}
    found = []
    for row in rows:
        key = (row.node, row.incarnation)
        index = counts.get(key, 0)
        counts[key] = index + 1
        found.append(replace(row, index=index))
    return found


def interleaved(rows: Sequence[Row], choice: Choice) -> list[Row]:
    """The same run, its nodes interleaved anew."""
    queues: dict[str, list[Row]] = {}
    for row in rows:
        queues.setdefault(row.node, []).append(row)
    left = {node: list(reversed(queue)) for node, queue in sorted(queues.items())}
    found: list[Row] = []
    while left:
        node = choice.pick(list(left))
        for _ in range(1 + choice.below(30)):
            if left[node]:
                found.append(left[node].pop())
        if not left[node]:
            del left[node]
    return found


def _places(rows: Sequence[Row], kinds: Any) -> list[int]:
    return [place for place, row in enumerate(rows) if isinstance(row.entry, kinds)]


def _edit(rows: list[Row], place: int, **changes: Any) -> list[Row]:
    rows[place] = replace(rows[place], entry=replace(rows[place].entry, **changes))
    return rows


def _pick(rows: Sequence[Row], kinds: Any, choice: Choice) -> int | None:
    places = _places(rows, kinds)
    return choice.pick(places) if places else None


def drop(kinds: Any) -> Callable[[list[Row], Choice], list[Row] | None]:
    def apply(rows: list[Row], choice: Choice) -> list[Row] | None:
        place = _pick(rows, kinds, choice)
        return None if place is None else rows[:place] + rows[place + 1 :]

    return apply


def duplicate(kinds: Any) -> Callable[[list[Row], Choice], list[Row] | None]:
    def apply(rows: list[Row], choice: Choice) -> list[Row] | None:
        place = _pick(rows, kinds, choice)
        if place is None:
            return None
        target = place + 1 + choice.below(min(40, len(rows) - place))
        target = min([target, *(i for i in range(place, len(rows)) if _is_end(rows, place, i))])
        return [*rows[:target], rows[place], *rows[target:]]

    return apply


def _is_end(rows: Sequence[Row], place: int, other: int) -> bool:
    """Whether the incarnation of the row at ``place`` is over at the other place."""
    row, candidate = rows[place], rows[other]
    return candidate.node == row.node and (
        candidate.incarnation > row.incarnation or isinstance(candidate.entry, trace.Crashed)
    )


def swap(rows: list[Row], choice: Choice) -> list[Row] | None:
    """Two rows of one node, one after the other."""
    place = choice.below(len(rows))
    for other in range(place + 1, len(rows)):
        if rows[other].node == rows[place].node and rows[other].incarnation == rows[place].incarnation:
            if isinstance(rows[place].entry, trace.Recovered) or isinstance(rows[other].entry, trace.Crashed):
                return None
            rows[place], rows[other] = rows[other], rows[place]
            return rows
    return None


def move(rows: list[Row], choice: Choice) -> list[Row] | None:
    """A delivery, to some other place of its node's record."""
    place = _pick(rows, DELIVERIES, choice)
    if place is None:
        return None
    row = rows[place]
    same = [i for i, other in enumerate(rows) if (other.node, other.incarnation) == (row.node, row.incarnation)]
    near = [i for i in same if abs(same.index(i) - same.index(place)) < 30 and i != place]
    near = [i for i in near if not isinstance(rows[i].entry, trace.Recovered | trace.Crashed)]
    if not near:
        return None
    target = choice.pick(near)
    rest = rows[:place] + rows[place + 1 :]
    return [*rest[:target], row, *rest[target:]]


def alter_members(rows: list[Row], choice: Choice) -> list[Row] | None:
    place = _pick(rows, VIEWS, choice)
    if place is None:
        return None
    members = list(rows[place].entry.members)  # type: ignore[attr-defined]
    members.remove(choice.pick(members))
    return _edit(rows, place, members=tuple(members)) if members else None


def alter_transitional(rows: list[Row], choice: Choice) -> list[Row] | None:
    place = _pick(rows, VIEWS, choice)
    if place is None:
        return None
    entry: Any = rows[place].entry
    current = list(entry.transitional)
    others = [each for each in entry.members if each not in current]
    if others and choice.chance(0.5):
        current = sorted([*current, choice.pick(others)])
    elif current:
        current.remove(choice.pick(current))
    return _edit(rows, place, transitional=tuple(current))


def alter_stamp(rows: list[Row], choice: Choice) -> list[Row] | None:
    place = _pick(rows, DELIVERIES, choice)
    if place is None:
        return None
    entry: Any = rows[place].entry
    return _edit(rows, place, lamport=max(1, entry.lamport + choice.pick((-20, -3, -1, 1, 3, 20))))


def alter_stamp_everywhere(rows: list[Row], choice: Choice) -> list[Row] | None:
    """The same wrong stamp on all deliveries of one bundle."""
    place = _pick(rows, DELIVERIES, choice)
    if place is None:
        return None
    entry: Any = rows[place].entry
    shift = choice.pick((-20, -3, -1, 1, 3, 20))
    for i in _places(rows, type(entry)):
        other: Any = rows[i].entry
        if (other.sender, other.first_sequence) == (entry.sender, entry.first_sequence):
            _edit(rows, i, lamport=max(1, other.lamport + shift))
    return rows


def alter_digest(rows: list[Row], choice: Choice) -> list[Row] | None:
    place = _pick(rows, DELIVERIES, choice)
    if place is None:
        return None
    digests = list(rows[place].entry.digests)  # type: ignore[attr-defined]
    digests[choice.below(len(digests))] ^= 1
    return _edit(rows, place, digests=tuple(digests))


def alter_service(rows: list[Row], choice: Choice) -> list[Row] | None:
    """Another service on a send and all its deliveries: other promises for the same course of things."""
    place = _pick(rows, SENDS, choice)
    if place is None:
        return None
    entry: Any = rows[place].entry
    sender = entry.client if isinstance(entry, trace.Sent) else entry.daemon
    kind = trace.Delivered if isinstance(entry, trace.Sent) else trace.DaemonDelivered
    service = Service(choice.below(6))
    _edit(rows, place, service=service)
    for i in _places(rows, kind):
        other: Any = rows[i].entry
        if (other.sender, other.first_sequence) == (sender, entry.first_sequence):
            _edit(rows, i, service=service)
    return rows


def drop_receiver(rows: list[Row], choice: Choice) -> list[Row] | None:
    places = [i for i in _places(rows, trace.Delivered) if len(rows[i].entry.receivers) > 1]  # type: ignore[attr-defined]
    if not places:
        return None
    place = choice.pick(places)
    receivers = list(rows[place].entry.receivers)  # type: ignore[attr-defined]
    receivers.remove(choice.pick(receivers))
    return _edit(rows, place, receivers=tuple(receivers))


def deliver_part(rows: list[Row], choice: Choice) -> list[Row] | None:
    """Some messages of a bundle do not arrive, or arrive in a row of their own."""
    places = [i for i in _places(rows, DELIVERIES) if len(rows[i].entry.lengths) > 1]  # type: ignore[attr-defined]
    if not places:
        return None
    place = choice.pick(places)
    entry: Any = rows[place].entry
    cut = 1 + choice.below(len(entry.lengths) - 1)
    head = replace(entry, lengths=entry.lengths[:cut], digests=entry.digests[:cut])
    tail = replace(
        entry, first_sequence=entry.first_sequence + cut, lengths=entry.lengths[cut:], digests=entry.digests[cut:]
    )
    parts = choice.pick(([head], [tail], [head, tail], [tail, head]))
    return rows[:place] + [replace(rows[place], entry=part) for part in parts] + rows[place + 1 :]


def forge_sender(rows: list[Row], choice: Choice) -> list[Row] | None:
    places = _places(rows, trace.Delivered)
    if not places:
        return None
    place, other = choice.pick(places), choice.pick(places)
    entry: Any = rows[place].entry
    sender = rows[other].entry.sender  # type: ignore[attr-defined]
    return _edit(rows, place, sender=sender) if sender != entry.sender else None


def alter_view_id(rows: list[Row], choice: Choice) -> list[Row] | None:
    """A view under the id of another one of its group, or the signal of another view."""
    place = _pick(rows, (*VIEWS, *SIGNALS), choice)
    if place is None:
        return None
    entry: Any = rows[place].entry
    ids = [rows[i].entry.view for i in _places(rows, VIEWS) if type(rows[i].entry.view) is type(entry.view)]  # type: ignore[attr-defined]
    return _edit(rows, place, view=choice.pick(ids))


CORRUPTIONS: dict[str, Callable[[list[Row], Choice], list[Row] | None]] = {
    "drop a delivery": drop(DELIVERIES),
    "drop a send": drop(SENDS),
    "drop a view": drop(VIEWS),
    "drop a signal": drop(SIGNALS),
    "remove a crash": drop(trace.Crashed),
    "remove a leave": drop((trace.SelfLeft, trace.Disconnected)),
    "duplicate a delivery": duplicate(DELIVERIES),
    "duplicate a signal": duplicate(SIGNALS),
    "duplicate a view": duplicate(VIEWS),
    "swap rows": swap,
    "move a delivery": move,
    "alter members": alter_members,
    "alter a transitional set": alter_transitional,
    "alter a stamp": alter_stamp,
    "alter a stamp everywhere": alter_stamp_everywhere,
    "alter a digest": alter_digest,
    "alter a service": alter_service,
    "drop a receiver": drop_receiver,
    "deliver a part": deliver_part,
    "forge a sender": forge_sender,
    "alter a view id": alter_view_id,
}


def corrupt(rows: Sequence[Row], kind: str, choice: Choice) -> list[Row] | None:
    """A corrupted copy, or none where this kind finds no place."""
    found = CORRUPTIONS[kind](list(rows), choice)
    return renumbered(found) if found is not None else None
