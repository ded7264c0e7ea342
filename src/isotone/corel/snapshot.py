"""Snapshots: the application's state at a position, with all that a server must know to go on behind it.

Implements: [DESIGN 2], the snapshot of the one ordered log; docs/protocols/corel-growth.md. Deviations: none.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated

import msgspec

from isotone.core.codec.control import Natural
from isotone.corel.configuration import Configuration
from isotone.corel.message import Origin
from isotone.corel.queue import MessageQueue

PIECE_BYTES_MAX = 32 * 1024
DIGEST_BYTES = 16


class SnapshotHead(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """What a state stands for: every record up to ``position``, every message up to ``place``, with what follows."""

    position: Natural
    place: Natural
    records: Natural  # of the messages up to the place; at most ``position``, which may lie within the next message
    size: Natural
    lamport: Natural
    counters: tuple[tuple[Origin, int], ...]
    configuration: Configuration
    changed_at: Natural
    digest: bytes = b""  # of the state's bytes: servers may write the same state in different ones
    meaning: Annotated[int, msgspec.Meta(ge=0)] = 0  # a digest by the application, the same wherever the state is


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A head with its state."""

    head: SnapshotHead
    state: bytes


def head_of(queue: MessageQueue, position: int, state: bytes, meaning: int = 0) -> SnapshotHead | None:
    """The head of a snapshot at a position; nothing if the queue no longer knows, or if its servers changed since."""
    if why_unfit(queue, position):
        return None
    place, records = place_of(queue, position)
    counters = dict(queue.counters)
    for message in reversed(queue.between(place, queue.end)):
        counters[message.origin] = message.counter - 1
    known = tuple(sorted((origin, counter) for origin, counter in counters.items() if counter))
    lines = (position, place, records, len(state), queue.lamport)
    return SnapshotHead(*lines, known, queue.configuration, queue.changed_at, digest_of(state), meaning)


def place_of(queue: MessageQueue, position: int) -> tuple[int, int]:
    """Up to which place a position stands for whole messages, and how many records those have."""
    place, records = queue.forgotten, queue.forgotten_records
    for message in queue.between(queue.forgotten, queue.green):
        if records + len(message.records) > position:
            break
        place, records = place + 1, records + len(message.records)
    return place, records


def why_unfit(queue: MessageQueue, position: int) -> str:
    """Why no state at this position could be kept; empty if one could."""
    if position > queue.green_records:
        return f"position {position} is not green here: the order ends at {queue.green_records}"
    if position < queue.forgotten_records:
        return f"what stands behind position {position} is forgotten: the oldest is {queue.forgotten_records}"
    if place_of(queue, position)[0] < queue.changed_at:
        return f"the servers changed behind position {position}: offer a later one"
    return ""


def digest_of(state: bytes) -> bytes:
    """By which two states are told apart."""
    return blake2b(state, digest_size=DIGEST_BYTES).digest()


def pieces_of(state: bytes) -> list[bytes]:
    """The state in pieces that fit into one message each."""
    return [state[start : start + PIECE_BYTES_MAX] for start in range(0, len(state), PIECE_BYTES_MAX)]
