"""One pass over a record, in the order of its rows: stays, the order of deliveries, what was asked for.

Everything is judged for the node as a whole where that is stricter than for each of its processes; a node that follows
one order passes. What does not pass is named, and looked at exactly elsewhere.

Implements: the terms of [Spread 2.2.1]; [Spread 2.1], [Spread 2.5], [Spread 2.8.1], [Spread 2.11.2], [Spread 2.12.2],
[Spread 2.13.2], [Spread 2.15]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isotone.pipeline.conformance.survey.cohorts import AGREED, CAUSAL, Entries
from isotone.pipeline.conformance.survey.facts import Facts, Stamp
from isotone.pipeline.conformance.survey.people import CLIENTS, DAEMONS
from isotone.pipeline.conformance.survey.sides import Gathered, Odd

CODES = {
    "send": 0, "deliver": 1, "ssend": 2, "sdeliver": 3,
    "view": 4, "sview": 5, "transsig": 6, "stranssig": 7, "selfleave": 8,
    "join": 9, "leave": 10, "recover": 11, "connect": 12, "disconnect": 13, "crash": 14,
    "gap": 15, "truncated": 16, "stable": 17, "end": 18,
}  # fmt: skip
"""The kinds that matter here, as numbers. Even and odd of the first four: sends and deliveries of both boundaries."""
OTHER = len(CODES)
"""The first row of a record, whatever it is: so that a run of which nothing else is looked at here is known too."""
MESSAGES = ("send", "deliver", "ssend", "sdeliver")
_BULK_MAX = 3
_NAMES = {code: kind for kind, code in CODES.items()} | {OTHER: ""}
_OF_DAEMONS = {"sview", "stranssig", "recover"}
_LOSSES = ("gap", "truncated")
_NO_STAMP: Stamp = (-1, "", 0)


class Told:
    """What is sent on about single rows: which row, where it took place, and, of sends, the highest time before."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.entries: list[int] = []
        self.floors: list[int | None] = []


class Record:
    """The fold. ``feed`` it the rows of one record in order, then ``finish``."""

    def __init__(self, node: str, incarnation: int) -> None:
        self.facts = Facts(node, incarnation)
        self.entries = Entries()
        self.sides = tuple(Gathered(boundary, node, incarnation, self.entries) for boundary in (CLIENTS, DAEMONS))
        self._floor = _NO_STAMP  # the highest stamp delivered so far
        self._over = ""  # behind what no more rows are expected

    def feed(self, columns: Any, start: int, stop: int) -> Told:
        """Take the rows from ``start`` up to ``stop`` of these columns; what is told on, in order."""
        told = Told()
        if self.facts.odd:
            self._skim(columns, start, stop)
            return told
        codes: Sequence[int] = columns.code
        place = start
        try:
            for place in range(start, stop):
                code = codes[place]
                if code > _BULK_MAX:
                    self._turn(columns, place, _NAMES[code])
                elif self._over:
                    raise Odd(self._over)
                elif code & 1:
                    self._deliver(columns, place, self.sides[code >> 1], told)
                else:
                    self._send(columns, place, self.sides[code >> 1], told)
        except Odd as reason:
            self.facts.odd = str(reason)
            self._skim(columns, place, stop)
        return told

    def _skim(self, columns: Any, start: int, stop: int) -> None:
        """Of a record that needs an exact look: only what is said about the run."""
        for place in range(start, stop):
            kind = _NAMES[columns.code[place]]
            if kind in _LOSSES:
                self.facts.is_lossy = True
            elif kind in ("stable", "end"):
                self._turn(columns, place, kind)

    # --- messages --------------------------------------------------------------------------------------------------

    def _deliver(self, columns: Any, place: int, side: Gathered, told: Told) -> None:
        key = (columns.groups_text[place], columns.clients_text[place])
        had = side.now.get(key) or side.meet(key, columns.groups(place), columns.clients(place))
        sender, first = columns.sender[place], columns.first[place]
        count, service = columns.count[place], columns.service[place]
        if not count:
            raise Odd("an empty bundle")
        side.follow_sender(had, sender, service, first, first + count - 1)
        stamp = (columns.lamport[place], columns.stamper[place], columns.stamper_incarnation[place])
        if service:
            self._follow(side, service, stamp)
            had.note(service, stamp, sender)
        if stamp > self._floor:  # noqa: PLR1730 - in every row, and a comparison costs less than a call
            self._floor = stamp
        if sender in side.own and sender in had.clients:
            side.own[sender].pop(first, None)
        for entry in had.entries:
            told.rows.append(place)
            told.entries.append(entry)
            told.floors.append(None)

    def _follow(self, side: Gathered, service: int, stamp: Stamp) -> None:
        """A reliable message: the orders that it must keep."""
        if stamp <= side.agreed:
            side.doubts["2.13.2"] = None
        if stamp <= side.causal:
            side.doubts["2.12.2"] = None
        side.rows += 1
        if service >= CAUSAL and stamp > side.causal:
            side.causal = stamp
        if service >= AGREED and stamp > side.agreed:
            side.agreed = stamp

    def _send(self, columns: Any, place: int, side: Gathered, told: Told) -> None:
        process = columns.sender[place]
        if columns.clients_text[place] != process:
            raise Odd("a send of several processes")
        first, count = columns.first[place], columns.count[place]
        if not count or first <= side.sent.get(process, -1):
            raise Odd("a send that does not count")
        side.recognise((process,))
        side.sent[process] = first + count - 1
        side.is_active = True
        for group in columns.groups(place):
            entry = side.sent_to(process, group, first, columns.index[place], columns.service[place])
            told.rows.append(place)
            told.entries.append(entry)
            told.floors.append(self._floor[0])

    # --- turns -----------------------------------------------------------------------------------------------------

    def _turn(self, columns: Any, place: int, kind: str) -> None:
        facts = self.facts
        index = columns.index[place]
        if not kind:
            return
        if kind in _LOSSES:
            self._lose(index)
        elif kind == "stable":
            if not facts.node:
                facts.stable_at, facts.components = index, columns.turn(place).components
        elif kind == "end":
            if not facts.node:
                facts.end_at, facts.quiet = index, columns.turn(place).quiet
        elif self._over:
            raise Odd(self._over)
        elif kind == "crash":
            facts.has_crashed, self._over = True, "rows behind the crash"
            for side in self.sides:
                side.end_all(index)
        else:
            self._side_turn(columns, place, kind, index)

    def _lose(self, index: int) -> None:
        """Rows are missing here; rows behind them would be odd, for who was where is not known then."""
        self.facts.is_lossy = True
        if self.facts.has_crashed:
            raise Odd(self._over)
        if not self._over:
            self._over = "rows behind those that are missing"
            for side in self.sides:
                side.lose(index)

    def _side_turn(self, columns: Any, place: int, kind: str, index: int) -> None:
        side = self.sides[DAEMONS if kind in _OF_DAEMONS else CLIENTS]
        clients = columns.clients(place)
        groups = columns.groups(place) or ("",)
        side.recognise(clients)
        match kind:
            case "view" | "sview":
                turn = columns.turn(place)
                side.install(clients, turn.installed(groups[0]), turn.transitional, index)
            case "transsig" | "stranssig":
                side.signal(clients, groups[0], columns.turn(place).view_id(), index)
            case "selfleave":
                side.leave(clients, groups[0], index)
            case "join" | "leave" | "recover":
                side.ask(clients, groups[0], kind, index)
            case "disconnect":
                side.end(clients, index)
        side.is_active |= kind in ("view", "sview", "transsig", "stranssig", "join")

    def finish(self) -> Facts:
        """The record is over."""
        facts = self.facts
        facts.high = None if self._floor == _NO_STAMP else self._floor
        facts.sides = (self.sides[0].finish(facts), self.sides[1].finish(facts))
        return facts
