"""What one pass over a record leaves of it: its stays in views and what is said about its messages in sum.

Small beside the record: it grows with the changes of views, not with the messages.

Implements: the terms of [Spread 2.2.1], for records of which at most the end is lost. Deviations: none.
"""

from __future__ import annotations

import msgspec

Stamp = tuple[int, str, int]
"""Lamport time, and the daemon that stamped; compares as `isotone.core.ids.Stamp` does."""
ViewId = tuple[int, str, int, int, str, int, int, str, int]
"""Daemon view, next daemon view and stamp, flat; compares as the ids do."""

INSTALLED, LEFT, ENDED, LOST = "I", "V", "E", "X"
"""How a stay was left, as far as is known: lost are the rows that could say so; the empty text: it was not."""


class View(msgspec.Struct, array_like=True):
    """A view as one record knows it."""

    group: str
    hash: int
    """Of id and members: views are the same when both agree."""
    id: ViewId
    members: tuple[str, ...]


class Stay(msgspec.Struct, array_like=True):
    """One process in one view of one group, and what it delivered there."""

    process: str
    group: str
    at: int
    hash: int
    transitional: tuple[str, ...]
    previous: int | None
    """The hash of the view that it came from; none: it came new."""
    membership: int
    """The row at which the process became a member."""
    left: str = ""
    left_at: int = -1
    next: ViewId | None = None
    next_transitional: tuple[str, ...] = ()
    signal: int = -1
    low: Stamp | None = None
    """Of the messages that belong to one view."""
    high: Stamp | None = None
    """Of the agreed messages before the signal."""
    high_late: Stamp | None = None
    """Of those behind it."""
    last_send: int = -1
    """The last row in it by which its process sent something reliable to the group."""


class Cohort(msgspec.Struct, array_like=True):
    """Processes of one record that are in one view of a group and deliver the same rows."""

    group: str
    hash: int
    is_late: bool
    clients: tuple[str, ...]


class Side(msgspec.Struct, array_like=True):
    """One boundary of a record."""

    is_seen: bool = False
    is_active: bool = False
    exercised: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """Properties that need an exact look."""
    rows: int = 0
    """Delivery rows of reliable messages."""
    views: tuple[View, ...] = ()
    stays: tuple[Stay, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    heard: tuple[tuple[str, int, dict[str, Stamp | None]], ...] = ()
    """By group and view: whose reliable messages were delivered in it, and the lowest stamp of those bound to it."""
    ended: dict[str, int] = {}
    joining: tuple[tuple[str, str], ...] = ()
    """Who waited to join which group at the end."""
    asked: tuple[tuple[str, str, int], ...] = ()
    """By process and group: the last row by which it asked to leave, or left."""
    is_unsure: bool = False
    """Whether a causal message came that others may precede, but none that this record knows of."""
    sent: dict[str, int] = {}
    """By process, of a record that lost rows: the last sequence that it sent."""


class Facts(msgspec.Struct, array_like=True):
    """All of a record."""

    node: str
    incarnation: int
    odd: str = ""
    """Why this record needs an exact look at everything; empty: it does not."""
    has_crashed: bool = False
    is_lossy: bool = False
    """Whether rows were lost; if it is not odd, those at its end."""
    high: Stamp | None = None
    """The highest stamp delivered at all."""
    stable_at: int = -1
    end_at: int = -1
    quiet: bool | None = None
    components: tuple[tuple[str, ...], ...] | None = None
    sides: tuple[Side, Side] = (Side(), Side())


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Facts)


def encode(facts: Facts) -> bytes:
    """As it travels from the task that reads the record to the one that judges the run."""
    return _encoder.encode(facts)


def decode(data: bytes) -> Facts:
    """The inverse."""
    return _decoder.decode(data)
