"""The messages under way: bundles by sender, cut into pieces only where deliveries disagree about them.

Retention: a bundle is held while it is in an open view that not all members had it in, or owed; of the others the last
``linger`` that were delivered and four times as many that nobody delivered yet. What is forgotten is known to have been
sent (the sequences of clients are dense; those of daemons only grow: it may have been sent) and no more: a later
delivery of it makes the verdicts of `FORGOTTEN` *not judged* instead of *holds*. The causal past of a forgotten bundle
is folded into the next one of its sender.

Implements: [Spread 2.6]. Deviations: none.
"""

from __future__ import annotations

from collections import deque

from isotone.spec.check.records import Bundle, Piece, Process, Sender
from isotone.spec.check.tally import Tally
from isotone.spec.check.terms import Content, StampKey
from isotone.spec.verdicts import EventId

FORGOTTEN = ("D2.7", "2.5", "2.6", "2.9.1", "2.9.2", "2.11.2", "2.12.2", "2.13.2", "2.18", "2.19.1", "2.19.2")

WHOLE_EVERY = 16
"""Every so many bundles of a sender hold their whole causal past, so that newcomers need not walk the chain."""


class Store:
    """All bundles that are held, at one boundary."""

    def __init__(self, tally: Tally, linger: int) -> None:
        self._tally = tally
        self._linger = linger
        self._flight: dict[Bundle, None] = {}  # sent, delivered by nobody
        self._idle: deque[Bundle] = deque()  # delivered, and in no open view
        self.unsent: dict[Bundle, None] = {}  # delivered, and no send is recorded
        self.early: dict[Bundle, None] = {}  # delivered before their sends
        self.by_stamp: dict[StampKey, Bundle] = {}
        self.forgotten: dict[tuple[str, int], int] = {}  # by stamper: the highest Lamport time of what was forgotten
        self.troubled: dict[Bundle, None] = {}
        self.late: list[tuple[int, int]] = []  # what the row at hand delivers of what is forgotten
        self.held = 0
        self.splits = 0

    # --- sending -------------------------------------------------------------------------------------------------

    def send(self, sender: Sender, first: int, content: Content, event: EventId) -> Bundle | None:
        """A send; none if it was refused: its sequences do not follow those of the send before.

        Where rows of the sender were lost, they may be those in between.
        """
        last = first + len(content[2]) - 1
        if not sender.sparse and not sender.lossy and first != sender.high + 1:
            return None
        if not _claim(sender, first, last):
            return None
        for early in sender.held.overlapping(first, last) if self.unsent else ():
            if early.sent is None:
                self._sent_late(early, event)
        bundle = self._hold(sender, first, content)
        self._flight[bundle] = None
        bundle.sent = event
        if len(self._flight) > 4 * self._linger:
            self._forget(next(iter(self._flight)))
        return bundle

    def link(self, process: Process, bundle: Bundle) -> None:
        """Give the bundle its place among the sends of its process, and what the process knew."""
        sender = bundle.sender
        sender.ordinal += 1
        bundle.ordinal = sender.ordinal
        bundle.increment, process.pending = process.pending, {}
        process.past.update(bundle.increment)
        if sender.ordinal % WHOLE_EVERY == 0:
            bundle.whole_past = dict(process.past)
        bundle.floor_stamp, bundle.floor_at = process.high_stamp, process.high_at
        bundle.before = sender.last
        if sender.last is not None:
            sender.last.after = bundle
        sender.last = bundle

    def _hold(self, sender: Sender, first: int, content: Content) -> Bundle:
        bundle = Bundle(sender, first, content)
        sender.held.add(bundle)
        self.held += 1
        return bundle

    def _sent_late(self, early: Bundle, event: EventId) -> None:
        """The send of what was delivered already, wrongly; what was delivered stays a message of its own."""
        early.sender.held.take(early.first)
        self.unsent.pop(early, None)
        self.early[early] = None
        for piece in early.pieces:
            for process, index in piece.by.items():
                if process.home.node == event[0]:
                    self._tally.accuse(
                        "2.6", (process.event(index), event), f"{process.text} delivered {piece} before it was sent."
                    )

    # --- delivering ----------------------------------------------------------------------------------------------

    def pieces(self, sender: Sender, first: int, content: Content, event: EventId, receiver: str) -> list[Piece]:
        """The pieces that a delivery row is about; compares its content with what was sent."""
        bundle = sender.held.get(first)
        service, groups, lengths, digests = content
        if (
            bundle is not None
            and bundle.digests == digests
            and bundle.lengths == lengths
            and bundle.service is service
            and bundle.groups == groups
            and len(bundle.pieces) == 1
        ):
            return bundle.pieces
        return self._cut_out(sender, first, content, event, receiver)

    def landed(self, bundle: Bundle) -> None:
        """The first delivery of a bundle."""
        self._flight.pop(bundle, None)

    def _cut_out(self, sender: Sender, first: int, content: Content, event: EventId, receiver: str) -> list[Piece]:
        found: list[Piece] = []
        last = first + len(content[2]) - 1
        free = first
        for bundle in sender.held.overlapping(first, last):
            found += self._fill(sender, free, bundle.first - 1, first, content)
            self._compare(bundle, first, content, event, receiver)
            self._split(bundle, first)
            self._split(bundle, last + 1)
            found += [piece for piece in bundle.pieces if first <= piece.first <= last]
            free = bundle.last + 1
        return found + self._fill(sender, free, last, first, content)

    def _fill(self, sender: Sender, low: int, high: int, first: int, content: Content) -> list[Piece]:
        """Pieces for what is not held: not sent, or forgotten."""
        if low > high:
            return []
        if all_sent(sender, low, high):
            self._tally.doubt(*FORGOTTEN)
            self.late.append((low, high))
            return []
        service, groups, lengths, digests = content
        part = slice(low - first, high - first + 1)
        bundle = self._hold(sender, low, (service, groups, lengths[part], digests[part]))
        self.unsent[bundle] = None
        return list(bundle.pieces)

    def _compare(self, bundle: Bundle, first: int, content: Content, event: EventId, receiver: str) -> None:
        service, groups, lengths, digests = content
        low, high = max(first, bundle.first), min(first + len(lengths) - 1, bundle.last)
        said = slice(low - first, high - first + 1)
        sent = slice(low - bundle.first, high - bundle.first + 1)
        wrong = [
            what
            for what, one, other in (
                ("service", service, bundle.service),
                ("groups", groups, bundle.groups),
                ("lengths", lengths[said], bundle.lengths[sent]),
                ("content", digests[said], bundle.digests[sent]),
            )
            if one != other
        ]
        if wrong and bundle.sent is not None:
            self._tally.accuse(
                "2.6",
                (bundle.sent, event),
                f"{receiver} delivered {Piece(bundle, low, high)} with another {' and '.join(wrong)} than was sent.",
            )

    def _split(self, bundle: Bundle, at: int) -> None:
        """Cut so that a piece begins at this sequence."""
        for place, piece in enumerate(bundle.pieces):
            if piece.first < at <= piece.last:
                self.splits += 1
                rest = Piece(bundle, at, piece.last)
                piece.last = at - 1
                rest.by = dict(piece.by)
                rest.open = list(piece.open)
                rest.placed = dict(piece.placed or {})
                rest.views = {group: dict(views) for group, views in (piece.views or {}).items()}
                _share_places(piece, rest)
                bundle.pieces.insert(place + 1, rest)
                return

    # --- forgetting ----------------------------------------------------------------------------------------------

    def release(self, bundle: Bundle) -> None:
        """The bundle may be in no open view any more; it lingers for a while."""
        if bundle.idle or bundle.pins or _is_open(bundle):
            return
        bundle.idle = True
        self._idle.append(bundle)
        while len(self._idle) > self._linger:
            old = self._idle.popleft()
            old.idle = False
            suspicious = old.trouble or old.sender.disordered  # judged at the end of the run
            if not (old.pins or suspicious or _is_open(old)):
                self._forget(old)

    def _forget(self, bundle: Bundle) -> None:
        if bundle in self.early or (bundle in self.unsent and not bundle.sender.lossy):
            return  # an accusation waits for the end of the run
        self.unsent.pop(bundle, None)
        self._flight.pop(bundle, None)
        sender = bundle.sender
        if sender.held.take(bundle.first) is None:
            return
        self.held -= 1
        if bundle.sent is not None and bundle.last > sender.forgotten_last:
            sender.forgotten_last = bundle.last
        if sender.process is not None:
            self._forget_own(sender.process, bundle)
        if bundle.stamp is not None:
            self._forget_stamp(bundle, bundle.stamp)
        if bundle.ordinal:
            _unlink(bundle)
        for piece in bundle.pieces:
            for process, index in piece.by.items():
                mark = process.marks.get(sender)
                if mark is not None:
                    mark.forget(piece.first, piece.last, index)
            piece.by = {}
        if sender.newest_stamped is bundle:
            bundle.pieces = bundle.pieces[:1]

    def _forget_stamp(self, bundle: Bundle, stamp: StampKey) -> None:
        """No stamp above these can be that of a forgotten bundle."""
        if self.by_stamp.get(stamp) is bundle:
            del self.by_stamp[stamp]
        lamport, stamper = stamp
        self.forgotten[stamper] = max(lamport, self.forgotten.get(stamper, 0))
        first, highest = bundle.sender.forgotten
        if bundle.sent is not None:
            bundle.sender.forgotten = (max(first, bundle.first), max(highest, stamp))

    def _forget_own(self, process: Process, bundle: Bundle) -> None:
        """Whether its sender delivered it, and whoever was with it, can no longer be told."""
        if process.own.pop(bundle, None) is not None:
            self._tally.doubt("2.15")
        for stay in process.stays.values():
            if bundle in stay.sends:
                del stay.sends[bundle]
                self._tally.doubt("2.17")


def _is_open(bundle: Bundle) -> bool:
    """Whether one of its pieces is in an open view."""
    pieces = bundle.pieces
    return bool(pieces[0].open) if len(pieces) == 1 else any(piece.open for piece in pieces)


def all_sent(sender: Sender, first: int, last: int) -> bool:
    """Whether all these sequences were sent; of sparse ones below those that are forgotten: may have been."""
    if sender.sparse:
        return last <= sender.forgotten_last or _covers(sender, first, last)
    return sender.high >= last and not any(low <= last and first <= high for low, high in sender.holes)


def _covers(sender: Sender, first: int, last: int) -> bool:
    """Whether what is held was sent with all these sequences."""
    for bundle in sender.held.overlapping(first, last):
        if bundle.sent is None or bundle.first > first:
            return False
        first = bundle.last + 1
    return first > last


def _claim(sender: Sender, first: int, last: int) -> bool:
    """Note the sequences as sent; false if one of them was (or, where they only grow, a later one)."""
    if first > sender.high:
        if first > sender.high + 1 and not sender.sparse:
            sender.holes.append((sender.high + 1, first - 1))
        sender.high = last
        return True
    for place, (low, high) in enumerate(sender.holes):
        if low <= first and last <= high:
            sender.holes[place : place + 1] = [
                part for part in ((low, first - 1), (last + 1, high)) if part[0] <= part[1]
            ]
            return True
    return False


def _unlink(bundle: Bundle) -> None:
    """Take the bundle out of its sender's chain; what it knew passes to the one behind it, whose news are newer."""
    sender, past = bundle.sender, bundle.increment
    if bundle.ordinal % WHOLE_EVERY == 0:
        past = {other: sequence for other, sequence in past.items() if not other.gone}
    if bundle.after is not None:
        bundle.after.before = bundle.before
        past.update(bundle.after.increment)
        bundle.after.increment = past
    else:
        sender.last = bundle.before
        if sender.process is not None and not sender.process.ended:
            past.update(sender.process.pending)
            sender.process.pending = past
    if bundle.before is not None:
        bundle.before.after = bundle.after
    bundle.before = bundle.after = None
    bundle.increment, bundle.whole_past = {}, None


def _share_places(piece: Piece, rest: Piece) -> None:
    """Put the second half wherever the first is."""
    for view in piece.open:
        view.pending[rest] = view.pending[piece]
        for stay in view.stays.values():
            for held in (stay.before, stay.after, stay.weak):
                if piece in held:
                    held[rest] = None
