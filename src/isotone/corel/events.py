"""What passes between a replica and the application above it.

Implements: [COReL 3.3], the service levels. Deviations: none.
"""

from __future__ import annotations

from enum import Enum

from isotone.core.contract import Action, Event
from isotone.corel.message import Message
from isotone.corel.quorum import Rule


class AppendWanted(Event, frozen=True, gc=False):
    """The application wants this record in the order; ``request`` is its own number for it."""

    request: int
    record: bytes


class AppendsWanted(Event, frozen=True, gc=False):
    """Several at once, each with its number: they travel together as far as they fit."""

    appends: tuple[tuple[int, bytes], ...]


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


class SnapshotOffered(Event, frozen=True, gc=False):
    """The application's state at this position: what stands before it may be forgotten once it is white."""

    position: int
    state: bytes
    digest: int = 0  # over what it means; 0: its bytes say all


class InstallSnapshot(Action, frozen=True, gc=False):
    """The application's state is this now; green messages go on from here, some perhaps for a second time."""

    position: int
    state: bytes


class ReconfigurationWanted(Event, frozen=True, gc=False):
    """One server shall be added or removed, or none; ``rule``: another rule than the present one, carried over."""

    request: int
    add: str = ""
    remove: str = ""
    rule: Rule | None = None
    votes: tuple[tuple[str, int], ...] = ()


class ReconfigurationAnswered(Action, frozen=True, gc=False):
    """It is being ordered, with this rule, or why it is not."""

    request: int
    accepted: bool
    reason: str
    encoded_rule: bytes = b""


class ConfigurationChanged(Action, frozen=True, gc=False):
    """A reconfiguration is green: these servers vote from here on."""

    number: int
    servers: tuple[str, ...]
    rule: str
    encoded_rule: bytes = b""


class DiskRoom(Event, frozen=True, gc=False):
    """The disk is nearly full, or has room again."""

    is_low: bool


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
    LEARNING = "learning"  # it catches up, and does not vote
    FENCED = "fenced"  # an operator forced a primary without it
    STRANGER = "stranger"  # its log is not the one that its name stands for
    REMOVED = "removed"  # the others go on without it


class StandingChanged(Action, frozen=True, gc=False):
    """The application may want to know: whether messages are ordered now, who is here, and why not."""

    standing: Standing
    primary: bool
    servers: tuple[str, ...]
    reason: str


ApplicationAction = (
    AppendRefused
    | AppendNamed
    | DeliverRed
    | DeliverGreen
    | DeliverWhite
    | StandingChanged
    | InstallSnapshot
    | ReconfigurationAnswered
    | ConfigurationChanged
)
