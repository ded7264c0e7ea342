"""SAFE: when one process delivers, all members have it, or those who go on together.

Daemons have it in the view. Clients have it in whatever view, for a join can stand before the signal in one component
and behind it in another, under different ids, and those who leave a daemon view together may part before the next; who
has it not yet when the view is over owes it until it comes to a later daemon view.

Implements: [Spread 2.14.2], [Spread 2.14.3]. Deviations: D-other-side.
"""

from __future__ import annotations

from isotone.core.services import Service
from isotone.spec.check.agreement import Agreement
from isotone.spec.check.people import People
from isotone.spec.check.records import Piece, Process, Stay, View, pieces_between
from isotone.spec.check.rules import Rules
from isotone.spec.check.store import Store
from isotone.spec.check.tally import Tally
from isotone.spec.check.terms import Left, ViewId
from isotone.spec.check.trails import Owed, Step, Trail, is_past
from isotone.spec.verdicts import EventId

BEFORE = "2.14.2"
AFTER = "2.14.3"
State = tuple[bool | None, tuple[EventId, ...]]
"""Whether a member has it, owes it (false) or is excused (none); and the row that says so."""


class Safe:
    """Judges a view that is over, and what is still owed then."""

    def __init__(self, rules: Rules, tally: Tally, people: People, agreement: Agreement, store: Store) -> None:
        self._clients = not rules.daemons
        self._tally = tally
        self._people = people
        self._agreement = agreement
        self._store = store
        self.owing: dict[Trail, Process] = {}

    def judge(self, view: View, *, final: bool, settled: bool) -> None:
        """Both clauses, for all that is not yet known to be with all members."""
        before: dict[Piece, list[Stay]] = {}
        for stay in view.stays.values():
            for piece in stay.before:
                if piece.bundle.service is Service.SAFE:
                    before.setdefault(piece, []).append(stay)
            if stay.after and stay.left is Left.MOVED:
                self._judge_after(view, stay, final=final, settled=settled)
        for piece, holders in before.items():
            for text in view.members:
                self._judge_member(BEFORE, view, piece, text, holders, final=final, settled=settled)

    def _judge_after(self, view: View, stay: Stay, *, final: bool, settled: bool) -> None:
        for piece in stay.after:
            if piece.bundle.service is Service.SAFE:
                for text in stay.next_transitional:
                    if text in view.members:
                        self._judge_member(AFTER, view, piece, text, [stay], final=final, settled=settled)

    def _judge_member(
        self, clause: str, view: View, piece: Piece, text: str, holders: list[Stay], *, final: bool, settled: bool
    ) -> None:
        others = [stay for stay in holders if stay.process.text != text]
        if not others:
            return
        state: State = (None, ())
        if not self._clients:
            state = self._state(view, piece, text, settled=settled)
        elif (process := self._people.find(text)) is None:
            state = self._unheard(text, settled=settled), ()
        elif process in view.stays or not self._agreement.disputed(view, process.home):
            state = self._anywhere(clause, view, piece, process, settled=settled)
            if state[0] is None and not final and _may_still(view, process):
                self._owe(clause, view, piece, process, others)
        self._note(clause, piece, text, others, state)

    def _note(self, clause: str, piece: Piece, text: str, others: list[Stay], state: State) -> None:
        if state[0] is not None:
            self._tally.exercised.add(clause)
        for stay in others if state[0] is False else ():
            self._accuse(clause, piece, text, stay, state[1])

    def _accuse(self, clause: str, piece: Piece, text: str, stay: Stay, row: tuple[EventId, ...]) -> None:
        event = stay.process.event
        told = f"{stay.process.text} delivered {piece}, which is safe,"
        if clause == BEFORE:
            rows = (event(piece.by[stay.process]), *row)
            why = f"{told} before the signal of view {stay.view.id}; the member {text} did not."
        else:
            rows = (event(stay.signal or 0), event(piece.by[stay.process]), event(stay.left_at), *row)
            why = f"{told} after the signal of view {stay.view.id}; {text}, of its next transitional set, did not."
        self._tally.accuse(clause, rows, why)

    # --- clients -----------------------------------------------------------------------------------------------------

    def _anywhere(self, clause: str, view: View, piece: Piece, process: Process, *, settled: bool) -> State:
        """At EVS-C: delivered in whatever view, before the step that is too late."""
        trail = process.trails.get(view.group)
        step = trail.passed(view.id) if trail is not None else None
        at = piece.by.get(process)
        if trail is not None and step is not None:
            if trail.dropped and step is trail.steps[0]:
                self._tally.doubt(clause)  # it may have been an earlier step
                return None, ()
            return _in_time(process, at, step)
        if at is not None:
            return True, ()
        return (False if settled and not process.ended and not process.home.lossy else None), ()

    def _owe(self, clause: str, view: View, piece: Piece, process: Process, holders: list[Stay]) -> None:
        trail = process.trails[view.group]
        trail.owed.append(Owed(clause, view, piece.bundle, piece.first, piece.last, holders))
        piece.bundle.pins += 1
        self.owing[trail] = process

    # --- the ways of clients ---------------------------------------------------------------------------------------

    def came(self, process: Process, group: str, id: ViewId, at: int) -> None:
        """A client installs a view; before anything is judged by it."""
        if process.ghost or process.ended:
            return
        trail = process.trails.get(group)
        if trail is None:
            trail = process.trails[group] = Trail()
            if process.blind:
                trail.go(Left.LOST, id, at)
        if trail.come(id, at) and trail.owed:
            self._collect(process, trail)

    def left(self, process: Process, group: str, at: int) -> None:
        """A client's leave takes effect."""
        stay, trail = process.stays.get(group), process.trails.get(group)
        if stay is not None and trail is not None:
            trail.go(Left.LEFT, stay.view.id, at)
            self._collect(process, trail)

    def lost(self, process: Process, at: int) -> None:
        """Rows of the client are missing here."""
        for trail in process.trails.values():
            trail.go(Left.LOST, None, at)
            self._collect(process, trail)

    def finish(self, *, settled: bool) -> None:
        """The run is over: what is owed now is owed at a stable, quiet end only."""
        for trail, process in list(self.owing.items()):
            self._collect(process, trail, settled=settled, final=True)

    def end(self, process: Process) -> None:
        """A client that ends owes nothing."""
        for trail in process.trails.values():
            self._collect(process, trail, final=True)

    def _collect(self, process: Process, trail: Trail, *, settled: bool = False, final: bool = False) -> None:
        step = trail.steps[-1] if trail.steps else None
        kept = []
        for owed in trail.owed:
            if not (final or (step is not None and (step.how is Left.LOST or is_past(step, owed.view.id)))):
                kept.append(owed)
                continue
            for piece in pieces_between(owed.bundle, owed.first, owed.last):
                state = self._anywhere(owed.clause, owed.view, piece, process, settled=settled)
                self._note(owed.clause, piece, process.text, owed.holders, state)
            owed.bundle.pins -= 1
            self._store.release(owed.bundle)
        trail.owed = kept
        if not kept:
            self.owing.pop(trail, None)

    # --- daemons -----------------------------------------------------------------------------------------------------

    def _state(self, view: View, piece: Piece, text: str, *, settled: bool) -> State:
        """In the view itself; and the row of the member's installation."""
        process = self._people.find(text)
        if process is None:
            return self._unheard(text, settled=settled), ()
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
        """A member that never came to the view: excused if it ended first, or came to another one of the same id."""
        if self._agreement.disputed(view, process.home) or self._agreement.is_irregular(view, process.home):
            return None
        surely = process.surely.get(view.group)
        if surely is not None and surely > view.id:
            return False
        return False if settled and not process.ended and not process.home.lossy else None

    def _unheard(self, text: str, *, settled: bool) -> bool | None:
        """A member of which nothing is recorded."""
        home_key = self._people.home_of(text)
        if home_key in self._people.missing:
            return None
        home = self._people.homes.get(home_key[0])
        lossy = home is not None and home.lossy
        return False if settled and not lossy and not self._people.over(text) else None


def _in_time(process: Process, at: int | None, step: Step) -> State:
    if at is not None and at < step.at:
        return True, ()
    return (None, ()) if step.how is Left.LOST else (False, (process.event(step.at),))


def _may_still(view: View, process: Process) -> bool:
    """Whether it goes on, and may deliver what it has not."""
    trail = process.trails.get(view.group)
    return not process.ended and not process.home.lossy and trail is not None and trail.passed(view.id) is None
