"""What the checker of one boundary remembers: homes, processes, senders, bundles, stays and views.

A *process* is a client's session (EVS-C) or a daemon's incarnation (EVS-S); its *home* is the incarnation of the node
that records it. A *stay* is one process in one view of one group. A *piece* is the largest range of a bundle's messages
to which the same happened: normally the whole bundle. Plain slotted objects, because the checkers live on them.
"""

from __future__ import annotations

from array import array
from typing import Any

from isotone.spec.check.ranges import Ranges
from isotone.spec.check.terms import (
    NEVER,
    NO_STAMP,
    NOWHERE,
    TOP_STAMP,
    Before,
    Content,
    Left,
    StampKey,
    ViewId,
    comparable,
)
from isotone.spec.check.trails import Trail
from isotone.spec.verdicts import EventId


class Home:
    """One incarnation of one node."""

    __slots__ = ("ended", "incarnation", "lossy", "node", "processes", "truncated")

    def __init__(self, node: str, incarnation: int) -> None:
        self.node = node
        self.incarnation = incarnation
        self.processes: dict[str, Process] = {}
        self.ended = self.lossy = False
        self.truncated = False  # no more rows of it will come

    def event(self, index: int) -> EventId:
        """The id of a row of this home."""
        return (self.node, self.incarnation, index)


class Mark:
    """What one process had from one sender."""

    __slots__ = ("fifo", "fifo_at", "forgotten", "low", "seen", "seen_weak")

    def __init__(self) -> None:
        self.fifo = self.fifo_at = 0  # the highest sequence of a FIFO message delivered, and where
        self.low = NEVER  # the lowest sequence of a reliable message delivered
        self.seen = 0  # ordinal of the last bundle whose causal past is in the floor
        self.seen_weak = 0  # … is known
        self.forgotten: array[int] | None = None  # of what is held no more: first and last sequence, and the row

    def forget(self, first: int, last: int, index: int) -> None:
        """These were delivered here, and nobody holds them any more."""
        if self.forgotten is None:
            self.forgotten = array("q")
        self.forgotten.extend((first, last, index))

    def row_of_forgotten(self, first: int, last: int) -> int | None:
        """The first row that delivered any of these."""
        known = self.forgotten or array("q")
        rows = [
            known[place + 2] for place in range(0, len(known), 3) if known[place] <= last and first <= known[place + 1]
        ]
        return min(rows, default=None)


class Heights(dict["Sender", int]):
    """The highest sequence by sender; 0 of those it has not."""

    __slots__ = ()

    def __missing__(self, sender: Sender) -> int:
        return 0


class Process:
    """One process and its place in every order."""

    __slots__ = (
        "agreed_at",
        "agreed_stamp",
        "blind",
        "ended",
        "floor",
        "floor_at",
        "ghost",
        "high_at",
        "high_stamp",
        "highest",
        "home",
        "joining",
        "leaving",
        "marks",
        "name",
        "own",
        "past",
        "pending",
        "private",
        "purge_at",
        "sender",
        "stays",
        "sure",
        "surely",
        "text",
        "trails",
        "weak",
    )

    def __init__(self, text: str, name: str, private: str, home: Home, sender: Sender | None) -> None:
        self.text = text
        self.name = name  # lasts across sessions and incarnations
        self.private = private
        self.home = home
        self.sender = sender
        self.ghost = sender is None  # recorded at a node that is not its own
        self.ended = False
        self.blind = home.lossy  # rows of its home were lost; only of ``sure`` groups is its view known
        self.sure: set[str] = set()
        self.stays: dict[str, Stay] = {}
        self.highest: dict[str, ViewId] = {}
        self.surely: dict[str, ViewId] = {}  # the same, as long as no row was lost
        self.joining: dict[str, int] = {}  # groups it asked to join and has no view of, with the row
        self.leaving: dict[str, int] = {}  # groups it asked to leave, and how often more than it left
        self.trails: dict[str, Trail] = {}  # by group; only of clients
        self.own: dict[Bundle, list[str]] = {}  # sends to groups it is in, not yet delivered here
        self.marks: dict[Sender, Mark] = {}
        self.floor = Heights()  # what causally precedes a causal message delivered here …
        self.floor_at: dict[Sender, int] = {}  # … and the row of the delivery that says so
        self.weak = Heights()  # what is known beyond the floor, by deliveries that are not causal
        self.pending: dict[Sender, int] = {}  # news since the last send
        self.past: dict[Sender, int] = {}  # all that was known at the last send
        self.high_stamp = self.agreed_stamp = NO_STAMP
        self.high_at = self.agreed_at = 0
        self.purge_at = 64

    def event(self, index: int) -> EventId:
        """The id of a row of this process."""
        return (self.home.node, self.home.incarnation, index)


class Sender:
    """A process as the source of messages; outlives its home's records because others still deliver."""

    __slots__ = (
        "disordered",
        "ended",
        "forgotten",
        "forgotten_last",
        "held",
        "high",
        "holes",
        "home_key",
        "last",
        "latest",
        "lossy",
        "name",
        "newest_stamped",
        "ordinal",
        "process",
        "returned",
        "sparse",
        "text",
    )

    def __init__(self, text: str, name: str, home_key: tuple[str, int], *, sparse: bool) -> None:
        self.text = text
        self.sparse = sparse  # its sequences grow, but not by one
        self.name = name
        self.home_key = home_key
        self.process: Process | None = None
        self.ended = self.lossy = False  # lossy: rows of its home were lost
        self.high = 0  # the highest sequence sent; if they are dense, all below were, but for the holes
        self.holes: list[tuple[int, int]] = []
        self.held: Ranges[Bundle] = Ranges()
        self.last: Bundle | None = None  # the latest bundle that is held, in the order of sending
        self.ordinal = 0
        self.newest_stamped: Bundle | None = None
        self.disordered = False
        self.forgotten = (0, NO_STAMP)  # the highest first sequence and the highest stamp of what was forgotten
        self.forgotten_last = 0  # the highest sequence of what was forgotten
        self.latest: dict[str, tuple[Any, EventId, EventId, ViewId]] = {}  # per group: highest view, delivery, send, id
        self.returned: dict[str, tuple[ViewId, EventId]] = {}  # per group: first view of a later session

    @property
    def gone(self) -> bool:
        """Nothing of it can matter any more."""
        return self.ended and not self.held


class Bundle:
    """Messages that were sent together, from the send until no delivery is to be expected."""

    __slots__ = (
        "after",
        "before",
        "digests",
        "first",
        "floor_at",
        "floor_stamp",
        "groups",
        "idle",
        "increment",
        "last",
        "lengths",
        "odd",
        "ordinal",
        "pieces",
        "pins",
        "sender",
        "sent",
        "sent_in",
        "service",
        "shared",
        "stamp",
        "stamp_event",
        "stamps",
        "trouble",
        "whole_past",
    )

    def __init__(self, sender: Sender, first: int, content: Content) -> None:
        self.sender = sender
        self.first = first
        self.service, self.groups, self.lengths, self.digests = content
        self.last = first + len(self.lengths) - 1
        self.sent: EventId | None = None  # none: no send was recorded
        self.sent_in: dict[str, ViewId] = NOWHERE
        self.floor_stamp = NO_STAMP  # the highest stamp that the sender had delivered before
        self.floor_at = self.ordinal = self.pins = 0
        self.increment: dict[Sender, int] = {}  # the causal past, without that of the bundle before
        self.whole_past: dict[Sender, int] | None = None
        self.before: Bundle | None = None
        self.after: Bundle | None = None
        self.stamp: StampKey | None = None
        self.stamp_event: EventId = ("", 0, 0)
        self.stamps: dict[StampKey, EventId] | None = None  # only if they differ
        self.odd: dict[Process, StampKey] = {}  # deliveries with another stamp than ``stamp``
        self.shared = self.trouble = False  # shared: its stamp belongs to another bundle too
        self.idle = False
        self.pieces = [Piece(self, first, self.last)]

    def __str__(self) -> str:
        numbers = str(self.first) if self.first == self.last else f"{self.first}–{self.last}"
        return f"message {numbers} of {self.sender.text}"


class Piece:
    """Messages of a bundle that were delivered alike."""

    __slots__ = ("bundle", "by", "first", "last", "open", "placed", "views")

    def __init__(self, bundle: Bundle, first: int, last: int) -> None:
        self.bundle = bundle
        self.first = first
        self.last = last
        self.by: dict[Process, int] = {}  # who delivered it, in which row
        self.placed: dict[str, Process] | None = None  # per group: a process that delivered it in a view
        self.open: list[View] = []  # in which views, as far as these are open and not all members have it
        self.views: dict[str, dict[ViewId, EventId]] | None = None  # per group: views, the first row of each

    def __str__(self) -> str:
        return f"message {self.first} of {self.bundle.sender.text}"  # however the rest is cut


class Membership:
    """A process in a group from its first view to its leave."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = False  # something reliable, and did not ask to leave since


def pieces_between(bundle: Bundle, first: int, last: int) -> list[Piece]:
    """The pieces of these messages, as they are cut now."""
    return [piece for piece in bundle.pieces if first <= piece.first <= last]


class Stay:
    """One process in one view."""

    __slots__ = (
        "after",
        "after_at",
        "after_high",
        "at",
        "before",
        "complete",
        "high",
        "high_at",
        "left",
        "left_at",
        "low",
        "membership",
        "next",
        "next_transitional",
        "previous",
        "process",
        "sends",
        "sent",
        "signal",
        "transitional",
        "view",
        "weak",
    )

    def __init__(
        self,
        process: Process,
        view: View,
        at: int,
        *,
        previous: View | Before,
        transitional: tuple[str, ...],
        membership: Membership,
    ) -> None:
        self.process = process
        self.view = view
        self.at = at
        self.previous = previous
        self.transitional = transitional
        self.membership = membership
        self.signal: int | None = None
        self.before: dict[Piece, None] = {}  # agreed, before the signal; without what all members have
        self.after: dict[Piece, None] = {}  # agreed, after the signal
        self.weak: dict[Piece, None] = {}  # reliable but not agreed
        self.high = self.after_high = NO_STAMP  # the highest agreed stamp before and after the signal
        self.high_at = self.after_at = 0
        self.low = TOP_STAMP  # the lowest stamp that virtual synchrony covers
        self.sends: dict[Bundle, None] = {}  # own reliable sends that not all members have
        self.sent = False
        self.left = Left.OPEN
        self.left_at = NEVER
        self.complete = True
        self.next: View | None = None
        self.next_transitional: tuple[str, ...] = ()


class View:
    """A view of a group: the same id and the same members."""

    __slots__ = (
        "awaiting",
        "closed",
        "comparable",
        "detached",
        "group",
        "id",
        "members",
        "pending",
        "settled_senders",
        "size",
        "stays",
    )

    def __init__(self, group: str, id: ViewId, members: tuple[str, ...], *, detached: bool) -> None:
        self.group = group
        self.id = id
        self.comparable = comparable(id)
        self.members = members
        self.size = 0 if detached else len(set(members))
        self.detached = detached  # an installation that breaks 2.2 or 2.3 stands alone
        self.closed = False
        self.stays: dict[Process, Stay] = {}
        self.awaiting: dict[str, None] = {}  # members that may still be in it or come to it
        self.pending: dict[Piece, int] = {}  # deliveries in it, with the number of members that have them
        self.settled_senders: dict[Sender, StampKey] = {}  # lowest stamps of what all members have
