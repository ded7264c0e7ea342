"""What a COReL server does, as entries of the trace. Messages stand by name: ``server.life:counter``.

A row stands where its effect does: ``red``, ``yellow`` and ``arrange`` when the messages are on disk. Places are those
of the message queue, dense from 1; a ``queue`` is what is not green, in its order.

Implements: [COReL 3.3], [COReL 5.5], [COReL 5.6].
"""

from __future__ import annotations

from isotone.trace.events import Entry


class ReplicaStarted(Entry, frozen=True, gc=False, tag="replica"):
    """A life of a server began, with this found on its disk."""

    server: str
    life: int
    committed: int
    attempted: int
    green: int
    yellow: int
    queue: tuple[str, ...]


class Initiated(Entry, frozen=True, gc=False, tag="initiate"):
    """A message was sent for the first time."""

    server: str
    message: str
    lamport: int
    records: int
    digest: int


class Reddened(Entry, frozen=True, gc=False, tag="red"):
    """Messages were received outside of a primary component: they stand at the end of the queue."""

    server: str
    messages: tuple[str, ...]


class Yellowed(Entry, frozen=True, gc=False, tag="yellow"):
    """Messages were received in a primary component: they stand at the end of the queue, and all of it is yellow."""

    server: str
    messages: tuple[str, ...]


class QueueArranged(Entry, frozen=True, gc=False, tag="arrange"):
    """A recovery set the lines and the order, or inserted red messages; ``committed`` may have been adopted."""

    server: str
    committed: int
    green: int
    yellow: int
    queue: tuple[str, ...]


class Greened(Entry, frozen=True, gc=False, tag="green"):
    """Messages from this place on are in the total order, known in the context of this primary component."""

    server: str
    primary: int
    place: int
    messages: tuple[str, ...]
    digests: tuple[int, ...]


class Whitened(Entry, frozen=True, gc=False, tag="white"):
    """Every server has everything up to this place green, and it may be forgotten."""

    server: str
    place: int


class PrimaryAttempted(Entry, frozen=True, gc=False, tag="attempt"):
    """A server wrote down that it attempts this primary component."""

    server: str
    primary: int
    servers: tuple[str, ...]


class PrimaryCommitted(Entry, frozen=True, gc=False, tag="commit"):
    """A server committed to it, and made all its messages yellow, in one step."""

    server: str
    primary: int
    servers: tuple[str, ...]


class PrimaryEstablished(Entry, frozen=True, gc=False, tag="establish"):
    """A server is in the primary component now."""

    server: str
    primary: int
    servers: tuple[str, ...]
