"""What is judged when a view is over: who came to it, who left it together, and what they delivered in it.

Implements: [Spread 2.4.3], [Spread 2.4.4], [Spread 2.7], [Spread 2.8.2]. Deviations: D-cut.
"""

from __future__ import annotations

from itertools import combinations, permutations

from isotone.spec.check.holes import Holes
from isotone.spec.check.records import Bundle, Piece, Stay, View
from isotone.spec.check.safe import Safe
from isotone.spec.check.store import Store
from isotone.spec.check.tally import Tally
from isotone.spec.check.terms import Before, Left, ViewId
from isotone.spec.verdicts import EventId


class Closing:
    """Judges and frees one view after the other."""

    def __init__(self, tally: Tally, store: Store, holes: Holes, safe: Safe) -> None:
        self._tally = tally
        self._store = store
        self._holes = holes
        self._safe = safe

    def close(self, view: View, *, final: bool = False, settled: bool = False) -> None:
        """Judge and free. ``final``: the trace is over; ``settled``: and its end was stable and quiet."""
        if not view.detached:
            self._judge_arrival(view)
            self._judge_departure(view)
            self._holes.judge(view, settled=settled)
            self._safe.judge(view, final=final, settled=settled)
        if not final:
            self._free(view)

    def _free(self, view: View) -> None:
        for piece in view.pending:
            piece.open.remove(view)
        bundles: dict[Bundle, None] = dict.fromkeys(piece.bundle for piece in view.pending)
        view.pending = {}
        view.stays = {}
        for bundle in bundles:
            self._store.release(bundle)

    # --- arriving together -----------------------------------------------------------------------------------------

    def _judge_arrival(self, view: View) -> None:
        stays = [stay for stay in view.stays.values() if stay.previous is not Before.UNKNOWN]
        came: dict[ViewId, list[Stay]] = {}
        for stay in stays:
            key = stay.previous.id if isinstance(stay.previous, View) else stay
            came.setdefault(key, []).append(stay)
        if len(stays) > 1 or any(isinstance(stay.previous, View) for stay in stays):
            self._tally.exercised.add("2.4.3")
        everyone = {stay.process.text for stay in stays}
        for key, together in came.items():
            expected = {stay.process.text for stay in together}
            for stay in together:
                found = everyone.intersection(stay.transitional)
                if isinstance(key, Stay):
                    found.add(stay.process.text)  # 2.4.1 says the rest
                if found != expected:
                    self._accuse_arrival(stay, stays, found ^ expected)
            if len(together) > 1:
                self._judge_equal(view, together)

    def _accuse_arrival(self, stay: Stay, stays: list[Stay], wrong: set[str]) -> None:
        for other in stays:
            if other.process.text in wrong:
                self._tally.accuse(
                    "2.4.3",
                    (stay.process.event(stay.at), other.process.event(other.at)),
                    _not_exact(stay, other),
                )

    def _judge_equal(self, view: View, together: list[Stay]) -> None:
        self._tally.exercised.add("2.4.4")
        sets = {frozenset(stay.transitional) for stay in together}
        if len(sets) == 1:
            return
        for one, other in combinations(together, 2):
            if set(one.transitional) != set(other.transitional):
                self._tally.accuse(
                    "2.4.4",
                    (one.process.event(one.at), other.process.event(other.at)),
                    f"{' and '.join(sorted((one.process.text, other.process.text)))} came to view {view.id} "
                    "from the same view with different transitional sets.",
                )

    # --- leaving together ------------------------------------------------------------------------------------------

    def _judge_departure(self, view: View) -> None:
        went: dict[ViewId, list[Stay]] = {}
        for stay in view.stays.values():
            if stay.left is Left.MOVED and stay.next is not None and stay.complete:
                went.setdefault(stay.next.id, []).append(stay)
        for together in went.values():
            if len(together) > 1:
                self._judge_messages(view, together)
                self._judge_signals(together)

    def _judge_messages(self, view: View, together: list[Stay]) -> None:
        covered = [stay.before | stay.after | stay.weak for stay in together]
        if view.settled_senders or any(covered):
            self._tally.exercised.add("2.7")
        union: dict[Piece, None] = {}
        for held in covered:
            union.update(held)
        for stay, held in zip(together, covered):
            for piece in union if len(held) < len(union) else ():
                if piece not in held:
                    self._accuse_missing(piece, stay, together, covered)

    def _accuse_missing(
        self, piece: Piece, lacks: Stay, together: list[Stay], covered: list[dict[Piece, None]]
    ) -> None:
        for has, held in zip(together, covered):
            if piece in held:
                self._tally.accuse(
                    "2.7",
                    (has.process.event(piece.by[has.process]), *_moves(has, lacks)),
                    (
                        f"{has.process.text} delivered {piece} in view {has.view.id}; {lacks.process.text}, which "
                        f"moved on with it, did not."
                    ),
                )

    # --- signals -----------------------------------------------------------------------------------------------------

    def _judge_signals(self, together: list[Stay]) -> None:
        if all(stay.signal is None for stay in together):
            return
        self._tally.exercised.add("2.8.2")
        first = together[0]
        if all(
            stay.signal is not None
            and stay.before.keys() == first.before.keys()
            and stay.after.keys() == first.after.keys()
            for stay in together
        ):
            return
        for one, other in permutations(together, 2):
            if one.signal is not None:
                self._compare_signals(one, other)

    def _compare_signals(self, one: Stay, other: Stay) -> None:
        signal = one.process.event(one.signal or 0)
        if other.signal is None:
            self._tally.accuse(
                "2.8.2",
                (signal, *_moves(one, other)),
                (
                    f"{one.process.text} had a signal in view {one.view.id}, and {other.process.text}, "
                    "which moved on with it, had none."
                ),
            )
            return
        both = (signal, other.process.event(other.signal), *_moves(one, other))
        for side, mine, theirs in (("before", one.before, other.before), ("after", one.after, other.after)):
            for piece in mine:
                if piece not in theirs:
                    self._accuse_side(piece, one, other, side, both)

    def _accuse_side(self, piece: Piece, one: Stay, other: Stay, side: str, both: tuple[EventId, ...]) -> None:
        rows = [one.process.event(piece.by[one.process])]
        if piece in other.before or piece in other.after:
            rows.append(other.process.event(piece.by[other.process]))
        self._tally.accuse(
            "2.8.2",
            (*rows, *both),
            (
                f"{one.process.text} delivered {piece} {side} the signal of view {one.view.id}, "
                f"{other.process.text}, which moved on with it, did not."
            ),
        )


def _moves(one: Stay, other: Stay) -> tuple[EventId, EventId]:
    """The rows by which both moved on."""
    return one.process.event(one.left_at), other.process.event(other.left_at)


def _not_exact(one: Stay, other: Stay) -> str:
    if one is other:
        return f"{one.process.text} is not in its own transitional set of view {one.view.id}."
    verb = "is" if other.process.text in one.transitional else "is not"
    return (
        f"{other.process.text} {verb} in the transitional set of {one.process.text} for view {one.view.id}; "
        f"they came from {_origin(other)} and {_origin(one)}."
    )


def _origin(stay: Stay) -> str:
    return f"view {stay.previous.id}" if isinstance(stay.previous, View) else "no view"
