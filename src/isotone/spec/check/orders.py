"""FIFO, causal and agreed order at each process, one delivery after the other.

Rows come with every send before its deliveries, so the causal past of a message is known when it is delivered. It is
downward closed per sender, hence a vector from senders to sequences; each bundle holds only what its sender learned
since its bundle before, and a process takes in what it has not seen of a sender's chain. A process has a *floor*: what
precedes the causal messages that it delivered, and must not come any more.

Implements: [Spread 2.11.2], [Spread 2.12.2], [Spread 2.13.2]. Deviations: order is judged among first deliveries; a
repeated one is a matter of 2.5 alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.services import Service
from isotone.spec.check.records import Bundle, Mark, Piece, Process, Sender
from isotone.spec.check.stamps import told
from isotone.spec.check.store import WHOLE_EVERY, Store
from isotone.spec.check.tally import Tally
from isotone.spec.check.terms import NO_STAMP, StampKey


class Orders:
    """Judges the order in which processes deliver."""

    def __init__(self, tally: Tally, store: Store) -> None:
        self._tally = tally
        self._store = store
        self.causality_known = True  # false from the first row on that had to be taken before its past
        self.work = 0  # entries of vectors looked at

    def deliver(self, fresh: list[Process], piece: Piece, index: int, stamp: StampKey) -> None:
        """These processes deliver a reliable piece for the first time."""
        bundle = piece.bundle
        agreed = bundle.service >= Service.AGREED
        sent = bundle.sent is not None  # what was not sent stands in no order of sends
        exercised = self._tally.exercised
        news = "2.11.2" not in exercised or "2.12.2" not in exercised
        for process in fresh:
            if stamp < process.agreed_stamp:
                self._accuse_agreed(process, piece, stamp, index)
            if process.agreed_stamp is not NO_STAMP and process.agreed_at != index:
                exercised.add("2.13.2")
            if sent:
                self._follow_sender(process, piece, index, news=news)
            if stamp > process.high_stamp:
                process.high_stamp, process.high_at = stamp, index
            if agreed and stamp > process.agreed_stamp:
                process.agreed_stamp, process.agreed_at = stamp, index

    def _follow_sender(self, process: Process, piece: Piece, index: int, *, news: bool) -> None:
        """FIFO and causal order."""
        bundle = piece.bundle
        sender, service = bundle.sender, bundle.service
        first, last = piece.first, piece.last
        mark = process.marks.get(sender)
        if mark is None:
            mark = process.marks[sender] = Mark()
        if first < mark.fifo:
            self._accuse_fifo(process, piece, mark, index)
        if first <= process.floor[sender]:
            self._accuse_causal(process, piece, index)
        if news:
            self._exercise(process, piece, mark)
        mark.low = min(mark.low, first)
        if service is not Service.RELIABLE and last > mark.fifo:
            mark.fifo, mark.fifo_at = last, index
        if service >= Service.CAUSAL:
            self._absorb(process, mark, bundle, last, index)
        else:
            self._learn(process, mark, bundle, last)

    def deliver_unreliable(self, fresh: list[Process], piece: Piece) -> None:
        """UNRELIABLE messages are in no order, but who has them knows what their senders knew."""
        sender = piece.bundle.sender
        for process in fresh if piece.bundle.sent is not None else ():
            mark = process.marks.get(sender)
            if mark is None:
                mark = process.marks[sender] = Mark()
            self._learn(process, mark, piece.bundle, piece.last)

    # --- causality -----------------------------------------------------------------------------------------------

    def _news(self, bundle: Bundle, seen: int) -> Sequence[dict[Sender, int]]:
        """The causal past of a bundle, without that of the sender's bundles up to the one seen."""
        if bundle.ordinal == seen + 1:  # so it is mostly
            self.work += 1 + len(bundle.increment)
            return (bundle.increment,)
        found = []
        walk: Bundle | None = bundle
        while walk is not None and walk.ordinal > seen:
            if walk.whole_past is not None and walk.ordinal > seen + WHOLE_EVERY:
                found.append(walk.whole_past)
                break
            if walk.increment:
                found.append(walk.increment)
            walk = walk.before
        self.work += 1 + sum(map(len, found))
        return found

    def _absorb(self, process: Process, mark: Mark, bundle: Bundle, last: int, index: int) -> None:
        """Raise the floor to the past of a causal message and to the message itself."""
        floor, floor_at, weak, pending = process.floor, process.floor_at, process.weak, process.pending
        sender, ordinal = bundle.sender, bundle.ordinal
        for news in self._news(bundle, mark.seen):
            for other, sequence in news.items():
                if sequence > floor[other]:
                    floor[other] = sequence
                    floor_at[other] = index
                    if sequence > weak[other]:
                        pending[other] = sequence
        mark.seen = max(mark.seen, ordinal)
        if last > floor[sender]:
            floor[sender] = last
            floor_at[sender] = index
            if last > weak[sender]:
                pending[sender] = last

    def _learn(self, process: Process, mark: Mark, bundle: Bundle, last: int) -> None:
        """Know the past of a message that is not causal; its later sends carry it on."""
        floor, weak, pending = process.floor, process.weak, process.pending
        sender, ordinal = bundle.sender, bundle.ordinal
        seen, seen_weak = mark.seen, mark.seen_weak
        for news in self._news(bundle, seen if seen > seen_weak else seen_weak):
            for other, sequence in news.items():
                if sequence > floor[other] and sequence > weak[other]:
                    weak[other] = pending[other] = sequence
        if ordinal > seen_weak:
            mark.seen_weak = ordinal
        if last > floor[sender] and last > weak[sender]:
            weak[sender] = pending[sender] = last

    def _exercise(self, process: Process, piece: Piece, mark: Mark) -> None:
        """Whether this delivery could have come in a wrong order; looked at until it once could."""
        service = piece.bundle.service
        follows = mark.low < piece.last or piece.first < piece.last
        if service >= Service.FIFO and follows:
            self._tally.exercised.add("2.11.2")
        if service >= Service.CAUSAL and (follows or self._knows_delivered(process, piece.bundle, mark)):
            self._tally.exercised.add("2.12.2")

    def _knows_delivered(self, process: Process, bundle: Bundle, mark: Mark) -> bool:
        for news in self._news(bundle, mark.seen):
            for other, sequence in news.items():
                had = process.marks.get(other)
                if had is not None and had.low <= sequence:
                    return True
        return False

    # --- accusations ---------------------------------------------------------------------------------------------

    def _accuse_fifo(self, process: Process, piece: Piece, mark: Mark, index: int) -> None:
        self._tally.accuse(
            "2.11.2",
            (process.event(mark.fifo_at), process.event(index)),
            f"{process.text} delivered {piece} after message {mark.fifo} of the same sender, which is FIFO.",
        )

    def _accuse_causal(self, process: Process, piece: Piece, index: int) -> None:
        if not self.causality_known:
            return
        sender: Sender = piece.bundle.sender
        at = process.floor_at[sender]
        self._tally.accuse(
            "2.12.2",
            (process.event(at), process.event(index)),
            (
                f"{process.text} delivered {piece} after a causal message (row {at}) "
                f"whose sender already knew of messages up to {process.floor[sender]} of that sender."
            ),
        )

    def _accuse_agreed(self, process: Process, piece: Piece, stamp: StampKey, index: int) -> None:
        piece.bundle.trouble = True
        self._store.troubled[piece.bundle] = None
        before = process.agreed_stamp
        self._tally.accuse(
            "2.13.2",
            (process.event(process.agreed_at), process.event(index)),
            (
                f"{process.text} delivered {piece} with stamp {told(stamp)} after an agreed message "
                f"with the higher stamp {told(before)}."
            ),
        )
