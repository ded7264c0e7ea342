"""Which messages a damaged record may have held: what others have and this server did not, chosen to fit its length.

The order in which they stood there need not be the order that they have now: red messages stand as they came until a
recovery puts them by timestamp, and another one may put those of another component between them.

Implements: docs/protocols/corel.md, Durability. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from isotone.corel import records as r
from isotone.corel.message import Message, Origin

CHOICES_MAX = 50_000  # so many ways to put messages of several origins together are tried
ARRIVALS_MAX = 24  # so many messages at most, in any order of arrival
FIXED_ARRAY_MAX, SHORT_ARRAY_MAX = 15, 65_535

Run = tuple[Message, ...]


def size_of(value: object) -> int:
    """In bytes, in a record."""
    return len(msgspec.msgpack.encode(value))


def array_bytes(count: int) -> int:
    """What an array of so many elements begins with."""
    return 1 if count <= FIXED_ARRAY_MAX else 3 if count <= SHORT_ARRAY_MAX else 5


def room_in(empty: r.Record, length: int) -> int:
    """What is left for the array of messages in a record of this length that is this one else."""
    return length - len(r.encode_record(empty)) + array_bytes(0)


def runs(messages: Sequence[Message], room: int) -> Iterator[Run]:
    """Those that stand together and fill the room."""
    sizes = list(map(size_of, messages))
    stop = total = 0
    for start in range(len(messages)):
        while stop < len(messages) and array_bytes(stop - start + 1) + total + sizes[stop] <= room:
            total += sizes[stop]
            stop += 1
        if stop == start:
            stop += 1  # it alone is too large
            continue
        if array_bytes(stop - start) + total == room:
            yield tuple(messages[start:stop])
        total -= sizes[start]


def by_timestamp(messages: Sequence[Message], room: int) -> Iterator[Run]:
    """Of every origin its first ones, any number of them, that fill the room together; as a recovery has them."""
    origins = _by_origin(messages)
    budget = CHOICES_MAX
    waiting: list[tuple[int, int, Run]] = [(0, 0, ())]
    while waiting and budget:
        budget -= 1
        index, total, chosen = waiting.pop()
        if index == len(origins):
            if chosen and array_bytes(len(chosen)) + total == room:
                yield tuple(sorted(chosen, key=lambda message: message.stamp))
            continue
        waiting.append((index + 1, total, chosen))
        for message, size in origins[index]:
            total, chosen = total + size, (*chosen, message)
            if total >= room:
                break
            waiting.append((index + 1, total, chosen))


def by_arrival(messages: Sequence[Message], room: int) -> Iterator[Run]:
    """The same in any order in which they may have come: each origin's own in theirs."""
    origins = _by_origin(messages)
    budget = CHOICES_MAX
    waiting: list[tuple[tuple[int, ...], int, Run]] = [((0,) * len(origins), 0, ())]
    while waiting and budget:
        budget -= 1
        taken, total, chosen = waiting.pop()
        if chosen and array_bytes(len(chosen)) + total == room:
            yield chosen
        if len(chosen) >= ARRIVALS_MAX:
            continue
        for index, own in enumerate(origins):
            if taken[index] < len(own) and total + own[taken[index]][1] < room:
                message, size = own[taken[index]]
                more = (*taken[:index], taken[index] + 1, *taken[index + 1 :])
                waiting.append((more, total + size, (*chosen, message)))


def _by_origin(messages: Sequence[Message]) -> list[list[tuple[Message, int]]]:
    """With their sizes."""
    found: dict[Origin, list[tuple[Message, int]]] = {}
    for message in sorted(messages, key=lambda each: each.counter):
        found.setdefault(message.origin, []).append((message, size_of(message)))
    return list(found.values())


def held_in(records: Sequence[r.Record]) -> Iterator[Message]:
    """The messages that records hold."""
    for record in records:
        if isinstance(record, r.Received | r.Inserted | r.Kept | r.Transferred):
            yield from record.messages
