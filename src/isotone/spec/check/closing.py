"""What is judged when a view is over: who came to it, who left it together, and what they delivered in it.

Implements: [Spread 2.4.3], [Spread 2.4.4], [Spread 2.7], [Spread 2.8.2]. Deviations: D-weak.
"""

from __future__ import annotations

from itertools import combinations, permutations

from isotone.core.ids import NO_STAMP
from isotone.spec.check.holes import Holes
from isotone.spec.check.overtaking import is_behind_join
from isotone.spec.check.records import Bundle, Debt, Piece, Stay, View, pieces_between
from isotone.spec.check.rules import Rules
from isotone.spec.check.safe import Safe
from isotone.spec.check.store import Store
from isotone.spec.check.tally import Tally
from isotone.spec.check.terms import NEVER, Before, Left, ViewId
from isotone.spec.verdicts import EventId


class Closing:
    """Judges and frees one view after the other."""

    def __init__(self, rules: Rules, tally: Tally, store: Store, holes: Holes, safe: Safe) -> None:
        self._rules = rules
        self._tally = tally
        self._store = store
        self._holes = holes
        self._safe = safe
        self.owing: dict[Debt, None] = {}

    def close(self, view: View, *, final: bool = False, settled: bool = False) -> None:
        """Judge and free. ``final``: the trace is over; ``settled``: and its end was stable and quiet."""
        if not view.detached:
            self._judge_arrival(view)
            self._judge_departure(view)
            self._holes.judge(view, settled=settled)
            self._safe.judge(view, final=final, settled=settled)
        if not final:
            self._follow_debts(view)
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
        strong = [self._covered(stay) for stay in together]
        if view.settled_senders or any(strong):
            self._tally.exercised.add("2.7")
        union: dict[Piece, None] = {}
        for held in strong:
            union.update(held)
        for stay, held in zip(together, strong):
            for piece in union if len(held) < len(union) else ():
                if piece not in held:
                    self._accuse_missing(piece, stay, together, strong)
        if not self._rules.daemons:
            self._judge_weak(view, together)

    def _covered(self, stay: Stay) -> dict[Piece, None]:
        """What others who leave with this one must have had in this view too."""
        held = stay.before | stay.after if stay.after else stay.before
        return held | stay.weak if self._rules.daemons and stay.weak else held

    def _accuse_missing(self, piece: Piece, lacks: Stay, together: list[Stay], strong: list[dict[Piece, None]]) -> None:
        for stay, held in zip(together, strong):
            if piece in held:
                self.accuse_virtual_synchrony(piece, stay, lacks)

    def accuse_virtual_synchrony(self, piece: Piece, has: Stay, lacks: Stay) -> None:
        """One delivered a message in a view that both left together, and the other did not."""
        self._tally.accuse(
            "2.7",
            (has.process.event(piece.by[has.process]), *_moves(has, lacks)),
            (
                f"{has.process.text} delivered {piece} in view {has.view.id}; {lacks.process.text}, which moved on "
                f"with it, did not."
            ),
        )

    # --- weak messages ---------------------------------------------------------------------------------------------

    def _judge_weak(self, view: View, together: list[Stay]) -> None:
        """R, F and C at EVS-C, owed by those whose join the message cannot have overtaken.

        The network makes a view of a later daemon view when all of the earlier one is delivered: owed there. A join,
        leave or kill may be overtaken: owed when both come to the next daemon view.
        """
        if together[0].next is None:
            return
        following = together[0].next.id
        due = following.stamp == NO_STAMP and following.daemon_view > view.id.daemon_view
        old = {stay for stay in together if stay.membership.first_view.daemon_view < view.id.daemon_view}
        if due and view.settled_weak and (old or any(stay.process in view.settled_for for stay in together)):
            self._tally.exercised.add("2.7")
        for has in together:
            for piece in has.weak:
                for stay in together:
                    if stay is not has and (stay in old or is_behind_join(piece, stay)):
                        self._judge_debt(piece, has, stay, due=due)

    def _judge_debt(self, piece: Piece, has: Stay, lacks: Stay, *, due: bool) -> None:
        if due:
            self._tally.exercised.add("2.7")
            if piece.by.get(lacks.process, lacks.left_at) >= lacks.left_at:
                self.accuse_virtual_synchrony(piece, has, lacks)
        elif piece not in lacks.weak:
            debt = Debt(piece, has, lacks)
            self.owing[debt] = None
            debt.bundle.pins += 1
            self._follow(debt)

    def _follow_debts(self, view: View) -> None:
        debts, view.debts = view.debts, []
        for debt in debts:
            self._follow(debt)

    def _follow(self, debt: Debt) -> None:
        """Go along with both as far as is known: they part, or come to a later daemon view, or stay where they are."""
        while True:
            one, other = debt.has_now, debt.lacks_now
            for stay in (one, other):
                if stay.left is not Left.OPEN and stay.left is not Left.MOVED:
                    self._settle(debt)
                    return
            for stay in (one, other):
                if stay.left is Left.OPEN:
                    stay.view.debts.append(debt)
                    return
            assert one.following is not None and other.following is not None
            if one.following.view.id != other.following.view.id:
                self._settle(debt)
                return
            debt.has_now, debt.lacks_now = one.following, other.following
            if debt.lacks_now.view.id.daemon_view > debt.target:
                self._claim(debt, debt.lacks_now.at)
                return

    def _claim(self, debt: Debt, deadline: int) -> None:
        """They stayed together: it is owed."""
        self._tally.exercised.add("2.7")
        for piece in pieces_between(debt.bundle, debt.first, debt.last):
            if piece.by.get(debt.lacks.process, deadline) >= deadline:
                self.accuse_virtual_synchrony(piece, debt.has, debt.lacks)
        self._settle(debt)

    def _settle(self, debt: Debt) -> None:
        del self.owing[debt]
        debt.bundle.pins -= 1
        self._store.release(debt.bundle)

    def finish(self, *, settled: bool) -> None:
        """The run is over: those who are still together owe it at a stable, quiet end only."""
        for debt in list(self.owing):
            self._follow(debt)
            if debt in self.owing and settled and debt.has_now.left is Left.OPEN and debt.lacks_now.left is Left.OPEN:
                self._claim(debt, NEVER)

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
