"""Ways to spoil a run of COReL's servers: one row of it dropped, doubled, or with something else in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from isotone.core.choice import Choice
from isotone.trace import corel as trace
from isotone.trace.events import Entry, Row

Spoil = Callable[[Any, Choice], list[Entry]]


def _dropped(entry: Entry, choice: Choice) -> list[Entry]:
    return []


def _doubled(entry: Entry, choice: Choice) -> list[Entry]:
    return [entry, entry]


def _without_one(entry: Any, choice: Choice) -> list[Entry]:
    kept = list(entry.messages)
    kept.pop(choice.below(len(kept)))
    return [replace(entry, messages=tuple(kept))] if kept else []


def _turned(entry: Any, choice: Choice) -> list[Entry]:
    names = list(entry.messages)
    choice.shuffle(names)
    return [replace(entry, messages=tuple(names))]


def _shorter_queue(entry: Any, choice: Choice) -> list[Entry]:
    queue = list(entry.queue)
    if queue:
        queue.pop(choice.below(len(queue)))
    return [replace(entry, queue=tuple(queue), yellow=min(entry.yellow, entry.green + len(queue)))]


def _turned_queue(entry: Any, choice: Choice) -> list[Entry]:
    queue = list(entry.queue)
    choice.shuffle(queue)
    return [replace(entry, queue=tuple(queue))]


def _less_yellow(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, yellow=entry.green)]


def _other_digest(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, digests=tuple(digest ^ 1 for digest in entry.digests))]


def _other_place(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, place=entry.place + 1)]


def _other_servers(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, servers=entry.servers[1:])]


def _other_log(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, log=f"{entry.log}!")]


_QUEUES = (trace.QueueArranged, trace.ReplicaStarted)
_MESSAGES = (trace.Reddened, trace.Yellowed)
CORRUPTIONS: dict[str, tuple[tuple[type[Entry], ...], Spoil]] = {
    "messages that did not come": (_MESSAGES, _dropped),
    "messages that came twice": (_MESSAGES, _doubled),
    "one message that did not come": (_MESSAGES, _without_one),
    "messages in another order": (_MESSAGES, _turned),
    "a queue without a message": (_QUEUES, _shorter_queue),
    "a queue in another order": (_QUEUES, _turned_queue),
    "a queue without yellow": (_QUEUES, _less_yellow),
    "no recovery": ((trace.QueueArranged,), _dropped),
    "green that was not told": ((trace.Greened,), _dropped),
    "green told twice": ((trace.Greened,), _doubled),
    "green at another place": ((trace.Greened,), _other_place),
    "green in another order": ((trace.Greened,), _turned),
    "green with another content": ((trace.Greened,), _other_digest),
    "another primary": ((trace.PrimaryCommitted,), _other_servers),
    "no commit": ((trace.PrimaryCommitted,), _dropped),
    "no attempt": ((trace.PrimaryAttempted,), _dropped),
    "another log": ((trace.ReplicaStarted,), _other_log),
}
"""By what is wrong: the rows that it can befall, and what stands there instead."""


def corrupted(rows: list[Row], kind: str, choice: Choice) -> list[Row] | None:
    """The run with one such row spoilt, and its rows numbered anew; nothing if there is none."""
    types, spoil = CORRUPTIONS[kind]
    places = [place for place, row in enumerate(rows) if isinstance(row.entry, types)]
    if not places:
        return None
    place = choice.pick(places)
    found: list[Row] = []
    counts: dict[tuple[str, int], int] = {}
    for each, row in enumerate(rows):
        for entry in spoil(row.entry, choice) if each == place else [row.entry]:
            index = counts.get((row.node, row.incarnation), 0)
            counts[row.node, row.incarnation] = index + 1
            found.append(Row(row.node, row.incarnation, index, row.at, entry))
    return found
