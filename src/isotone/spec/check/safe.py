"""SAFE: when one process delivers, all members have it, or those who go on together.

Implements: [Spread 2.14.2], [Spread 2.14.3]. Deviations: none.
"""

from __future__ import annotations

from isotone.core.services import Service
from isotone.spec.check.agreement import Agreement
from isotone.spec.check.people import People
from isotone.spec.check.records import Left, Piece, Process, Stay, View
from isotone.spec.check.tally import Tally
from isotone.spec.verdicts import EventId


class Safe:
    """Judges a view that is over."""

    def __init__(self, tally: Tally, people: People, agreement: Agreement) -> None:
        self._tally = tally
        self._people = people
        self._agreement = agreement

    def judge(self, view: View, *, settled: bool) -> None:
        """Both clauses, for all that is not yet known to be with all members."""
        before: dict[Piece, list[Stay]] = {}
        for stay in view.stays.values():
            for piece in stay.before:
                if piece.bundle.service is Service.SAFE:
                    before.setdefault(piece, []).append(stay)
            if stay.after and stay.left is Left.MOVED:
                self._judge_after(view, stay, settled=settled)
        for piece, holders in before.items():
            self._judge_before(view, piece, holders, settled=settled)

    def _judge_before(self, view: View, piece: Piece, holders: list[Stay], *, settled: bool) -> None:
        for text in view.members:
            state, row = self._state(view, piece, text, settled=settled)
            others = [stay for stay in holders if stay.process.text != text]
            if others and state is not None:
                self._tally.exercised.add("2.14.2")
            if state is not False:
                continue
            for stay in others:
                delivery = stay.process.event(piece.by[stay.process])
                self._tally.accuse(
                    "2.14.2",
                    (delivery, *row),
                    (
                        f"{stay.process.text} delivered {piece}, which is safe, before the signal of view {view.id}; "
                        f"the member {text} did not."
                    ),
                )

    def _judge_after(self, view: View, stay: Stay, *, settled: bool) -> None:
        for piece in stay.after:
            if piece.bundle.service is not Service.SAFE:
                continue
            for text in stay.next_transitional:
                if text == stay.process.text or text not in view.members:
                    continue
                state, row = self._state(view, piece, text, settled=settled)
                if state is not None:
                    self._tally.exercised.add("2.14.3")
                if state is False:
                    self._accuse_after(view, stay, piece, text, row)

    def _accuse_after(self, view: View, stay: Stay, piece: Piece, text: str, row: tuple[EventId, ...]) -> None:
        event = stay.process.event
        self._tally.accuse(
            "2.14.3",
            (event(stay.signal or 0), event(piece.by[stay.process]), event(stay.left_at), *row),
            (
                f"{stay.process.text} delivered {piece}, which is safe, after the signal of view {view.id}; "
                f"{text}, of its next transitional set, did not."
            ),
        )

    def _state(self, view: View, piece: Piece, text: str, *, settled: bool) -> tuple[bool | None, tuple[EventId, ...]]:
        """Whether the member has it, owes it (false) or is excused (none); and the row of its installation."""
        process = self._people.find(text)
        if process is None:
            lossy = self._home_lossy(text)
            return (False if settled and not lossy and not self._people.over(text) else None), ()
        stay = view.stays.get(process)
        if stay is None:
            return self._absent(view, process, settled=settled), ()
        if piece in stay.before or piece in stay.after or piece.by.get(process, stay.left_at) < stay.left_at:
            return True, ()
        if stay.left in (Left.ENDED, Left.LOST) or not stay.complete:
            return None, ()
        if stay.left is Left.OPEN and (process.home.lossy or not settled):
            return None, ()
        return False, (process.event(stay.at),)

    def _absent(self, view: View, process: Process, *, settled: bool) -> bool | None:
        """A member that never came to the view: excused if it ended first, or if it is disputed what the view was."""
        if self._agreement.disputed(view, process.home):
            return None
        surely = process.surely.get(view.group)
        if surely is not None and surely > view.id:
            return False
        return False if settled and not process.ended and not process.home.lossy else None

    def _home_lossy(self, text: str) -> bool:
        home = self._people.homes.get(self._people.home_of(text)[0])
        return home is not None and home.lossy
