"""No holes: what a process must have delivered below an agreed message, before and after the signal of its view.

Implements: [Spread 2.13.3], [Spread 2.13.4]; the stamp of a message is that of the delivery at hand.
Deviations: D-cut.
"""

from __future__ import annotations

from isotone.spec.check.records import Piece, Stay, View
from isotone.spec.check.tally import Tally
from isotone.spec.check.terms import NO_STAMP, TOP_STAMP, Left, StampKey


class Holes:
    """Judges a view that is over."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def judge(self, view: View, *, settled: bool) -> None:
        """Compare what each had with what anyone had below its highest agreed stamps."""
        judged = [stay for stay in view.stays.values() if _judged(stay, settled=settled)]
        self._exercise_before(view, judged)
        union: dict[Piece, None] = {}
        for stay in view.stays.values():
            union.update(stay.before)
            union.update(stay.after)
            union.update(stay.weak)
        if not union and not view.settled_senders:
            return
        for stay in judged:
            moved = stay.left is Left.MOVED
            if moved and stay.after_high is not NO_STAMP:
                self._exercise_after(view, union, stay)
            high = max(stay.high, stay.after_high) if moved else stay.high
            for piece in union:
                bundle = piece.bundle
                if bundle.stamp is not None and (bundle.stamp < high or bundle.odd) and not _has(stay, piece):
                    self._judge_hole(view, stay, piece)

    def _judge_hole(self, view: View, stay: Stay, piece: Piece) -> None:
        mine = stay.process.event
        for other in view.stays.values():
            if not _in(other, piece):
                continue
            stamp, row = _stamp(piece, other), other.process.event(piece.by[other.process])
            missing = f"{stay.process.text} did not deliver {piece}, which {other.process.text} did in view {view.id}"
            if stamp < stay.high:
                explanation = f"{missing}, but an agreed message of a higher stamp before the signal."
                self._tally.accuse("2.13.3", (mine(stay.high_at), row), explanation)
            coming = stay.left is Left.MOVED and piece.bundle.sender.text in stay.next_transitional
            if stamp < stay.after_high and coming and stay.signal is not None:
                self._tally.accuse(
                    "2.13.4",
                    (mine(stay.signal), mine(stay.after_at), mine(stay.left_at), row),
                    f"{missing}, but an agreed message of a higher stamp after the signal; "
                    "the sender of the missing one moved on with it.",
                )

    def _exercise_before(self, view: View, judged: list[Stay]) -> None:
        """Somebody delivered something below the highest agreed message of somebody else."""
        if "2.13.3" in self._tally.exercised or len(view.stays) < 2:
            return
        lows = sorted((stay.low, stay.process.text) for stay in view.stays.values())[:2]
        for stay in judged:
            if any(low < stay.high and text != stay.process.text for low, text in lows):
                self._tally.exercised.add("2.13.3")

    def _exercise_after(self, view: View, union: dict[Piece, None], stay: Stay) -> None:
        if "2.13.4" in self._tally.exercised:
            return
        high, coming = stay.after_high, stay.next_transitional
        lows = [(sender.text, stamp) for sender, stamp in view.settled_senders.items() if len(view.stays) > 1]
        for piece in union:
            text = piece.bundle.sender.text
            lows += [
                (text, _stamp(piece, other)) for other in view.stays.values() if other is not stay and _in(other, piece)
            ]
        if any(stamp < high and text in coming for text, stamp in lows):
            self._tally.exercised.add("2.13.4")


def _judged(stay: Stay, *, settled: bool) -> bool:
    """Whether all that the process did in the view is known."""
    if stay.left is Left.OPEN:
        return settled and not stay.process.home.lossy
    return stay.complete and stay.left is not Left.LOST


def _stamp(piece: Piece, stay: Stay) -> StampKey:
    """The stamp with which the process delivered it."""
    return piece.bundle.odd.get(stay.process) or piece.bundle.stamp or TOP_STAMP


def _in(stay: Stay, piece: Piece) -> bool:
    return piece in stay.before or piece in stay.after or piece in stay.weak


def _has(stay: Stay, piece: Piece) -> bool:
    """Delivered in the view, or before it."""
    return _in(stay, piece) or piece.by.get(stay.process, stay.left_at) < stay.left_at
