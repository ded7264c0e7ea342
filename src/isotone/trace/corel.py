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
    servers: tuple[str, ...] = ()
    vouches: bool = True
    accepted: int = 0  # the last order proposal, if it accepted that
    fence: int = 0  # how often an operator forced a primary, as far as it knows
    log: str = ""  # the identity of its log; another one is right only behind `DiskLost`
    rule: str = ""  # of its quorums, as JSON


class DiskLost(Entry, frozen=True, gc=False, tag="lost"):
    """All that a server had on disk is gone; said by whoever took it away, never by the server."""

    server: str


class OrderDue(Entry, frozen=True, gc=False, tag="due"):
    """These servers alone were together for as long as is promised, and their rule lets them order: by now they have.

    At each of them; said by whoever parted the network, never by a server.
    """

    server: str
    servers: tuple[str, ...]


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
    """A recovery set the lines and the order, or inserted red messages; ``committed`` may have been adopted.

    A server that catches up does not ``vouch`` for what was green in the last primary that it knows of.
    """

    server: str
    committed: int
    green: int
    yellow: int
    queue: tuple[str, ...]
    vouches: bool = True


class Greened(Entry, frozen=True, gc=False, tag="green"):
    """Messages from this place on are in the total order, known in the context of this primary component.

    With a ``proposal`` they are so because all servers accepted it, and not by that primary component.
    """

    server: str
    primary: int
    place: int
    messages: tuple[str, ...]
    digests: tuple[int, ...]
    proposal: int = 0


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


class Reconfigured(Entry, frozen=True, gc=False, tag="reconfigure"):
    """The reconfiguration at this place is green: from here on these servers vote, and white asks for them."""

    server: str
    place: int
    number: int
    servers: tuple[str, ...]
    rule: str = ""  # of their quorums, as JSON


class SnapshotKept(Entry, frozen=True, gc=False, tag="snapshot"):
    """A server keeps its application's state at this position; it stands for all messages up to this place."""

    server: str
    place: int
    position: int
    digest: int


class StateInstalled(Entry, frozen=True, gc=False, tag="install"):
    """A server that catches up has such a state from another: everything up to this place is green by it."""

    server: str
    place: int
    position: int
    digest: int
    servers: tuple[str, ...] = ()


class Fenced(Entry, frozen=True, gc=False, tag="fence"):
    """A server that has nothing yet learns from those whom an operator forced: from here on these vote."""

    server: str
    fence: int
    servers: tuple[str, ...]


class Voted(Entry, frozen=True, gc=False, tag="vote"):
    """A server accepted or rejected an order proposal, and wrote that down."""

    server: str
    proposal: int
    accepts: bool
