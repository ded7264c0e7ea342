"""What passes between a replica and the application above it.

Implements: [COReL 3.3], the service levels. Deviations: none.
"""

from __future__ import annotations

from enum import Enum

from isotone.core.contract import Action, Event
from isotone.corel.message import Message


class AppendWanted(Event, frozen=True, gc=False):
    """The application wants this record in the order; ``request`` is its own number for it."""

    request: int
    record: bytes


class AppendRefused(Action, frozen=True, gc=False):
    """There is no room: the record will not be ordered."""

    request: int
    reason: str


class AppendNamed(Action, frozen=True, gc=False):
    """These requests travel in this message, in its order of records; it becomes red, green and white."""

    requests: tuple[int, ...]
    message: Message


class DeliverRed(Action, frozen=True, gc=False):
    """Messages of which no order is known yet; they are on this server's disk."""

    messages: tuple[Message, ...]


class DeliverGreen(Action, frozen=True, gc=False):
    """Messages in their final order: their records have dense positions from ``position`` on.

    After a restart some may come again, the same at the same positions.
    """

    position: int
    messages: tuple[Message, ...]


class DeliverWhite(Action, frozen=True, gc=False):
    """Every server has everything green up to this position."""

    position: int


class Standing(Enum):
    """Where a replica stands in the handling of a view."""

    DETACHED = "detached"  # no session, or no view yet
    WAITING = "waiting"  # in a view in which nothing can be done, or signalled
    EXCHANGE = "exchange"
    PRIORITY = "priority"
    RETRANSMIT = "retransmit"
    ATTEMPT = "attempt"
    COMMIT = "commit"
    REGULAR = "regular"


class StandingChanged(Action, frozen=True, gc=False):
    """The application may want to know: whether messages are ordered now, who is here, and why not."""

    standing: Standing
    primary: bool
    servers: tuple[str, ...]
    reason: str


ApplicationAction = AppendRefused | AppendNamed | DeliverRed | DeliverGreen | DeliverWhite | StandingChanged
