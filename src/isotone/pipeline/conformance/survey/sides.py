"""One boundary of a record while it is read: who is where, what they asked for, what their sends still owe.

Implements: the terms of [Spread 2.2.1], of [Spread 2.9.1] and of [Spread 2.15]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable

from isotone.pipeline.conformance.survey.cohorts import AGREED, CAUSAL, FIFO, RELIABLE, Entries, Together
from isotone.pipeline.conformance.survey.facts import (
    ENDED,
    INSTALLED,
    LEFT,
    LOST,
    Cohort,
    Facts,
    Side,
    Stamp,
    Stay,
    View,
    ViewId,
)
from isotone.pipeline.conformance.survey.people import DAEMONS, home, lasting_name

_NO_STAMP: Stamp = (-1, "", 0)


class Odd(Exception):
    """This record is not of the ordinary kind; the text says why."""


class Place:
    """One process in one group."""

    __slots__ = ("asked", "joining", "leaving", "stay")

    def __init__(self) -> None:
        self.stay: Stay | None = None
        self.joining: int | None = None
        self.leaving = 0
        self.asked = -1  # the last request to leave, or leave


class Gathered:
    """One boundary of a record."""

    def __init__(self, boundary: int, node: str, incarnation: int, entries: Entries) -> None:
        self.boundary = boundary
        self._home = (node, incarnation)
        self._entries = entries
        self.is_seen = self.is_active = False
        self.is_learning = True
        self.doubts: dict[str, None] = {}
        self.rows = 0
        self.now: dict[tuple[str, str], Together] = {}
        self.reached: dict[str, int] = {}  # per sender: the highest sequence of a FIFO message delivered
        self._reached_by: dict[frozenset[str], dict[str, int]] = {}  # the same, per receivers of the same rows
        self.sent: dict[str, int] = {}  # per process here: the last sequence sent
        self.own: dict[str, dict[int, list[tuple[str, int]]]] = {}  # reliable sends not delivered at home: group, row
        self.agreed = self.causal = _NO_STAMP
        self._exercised: dict[str, None] = {}
        self._had_agreed: set[str] = set()
        self._had_of: dict[str, dict[str, int]] = {}  # per sender and receiver: the lowest sequence delivered
        self._weak: dict[str, set[int]] = {}  # per sender: messages that others may overtake
        self._has_causal = False
        self._places: dict[str, dict[str, Place]] = {}
        self._views: dict[tuple[str, int], View] = {}
        self._stays: list[Stay] = []
        self._cohorts: list[Cohort] = []
        self._heard: dict[tuple[str, int], dict[str, Stamp | None]] = {}
        self._met: dict[str, None] = {}
        self._ended: dict[str, int] = {}
        self._last_sends: dict[tuple[str, str], int] = {}

    def recognise(self, processes: tuple[str, ...]) -> None:
        """Something other than a delivery is recorded of them."""
        if len(set(processes)) != len(processes):
            raise Odd("a process that is twice in a row")
        for process in processes:
            self._check_alive(process)
            self._met[process] = None
        self.is_seen = True

    def _check_alive(self, process: str) -> None:
        """It is at home here, and has not ended."""
        if home(self.boundary, process) != self._home:
            raise Odd("a process of another home")
        if process in self._ended:
            raise Odd("rows behind the end of a process")

    def _place(self, process: str, group: str) -> Place:
        groups = self._places.setdefault(process, {})
        if group not in groups:
            groups[group] = Place()
        return groups[group]

    # --- deliveries ------------------------------------------------------------------------------------------------

    def meet(self, key: tuple[str, str], groups: tuple[str, ...], clients: tuple[str, ...]) -> Together:
        """Receivers that have not delivered together since the last change."""
        if len(set(clients)) != len(clients) or not clients:
            raise Odd("receivers that are twice in a row, or none")
        for process in clients:
            self._check_alive(process)
        stays: list[Stay] = []
        entries: list[int] = []
        inside: set[str] = set()
        for group in groups:
            for cohort, theirs in self._gathered(group, clients):
                entries.append(self._add_cohort(cohort))
                stays += theirs
                inside.update(cohort.clients)
        for process in clients:
            if process not in inside and not self._is_private(process, groups):
                raise Odd("a delivery outside views")
        if not entries:
            entries.append(self._entries.nowhere(self.boundary, min(groups)))
        reached = self._reached_by.setdefault(frozenset(clients), {})
        self.now[key] = together = Together(clients, stays, entries, reached)
        self.is_active = self.is_seen = True
        self._exercised["2.1"] = self._exercised["2.5"] = self._exercised["2.6"] = None
        return together

    def _is_private(self, process: str, groups: tuple[str, ...]) -> bool:
        return self.boundary != DAEMONS and lasting_name(self.boundary, process) in groups

    def _gathered(self, group: str, clients: tuple[str, ...]) -> Iterable[tuple[Cohort, list[Stay]]]:
        found: dict[tuple[int, bool], list[Stay]] = {}
        for process in clients:
            place = self._places.get(process, {}).get(group)
            if place is not None and place.stay is not None:
                found.setdefault((place.stay.hash, place.stay.signal >= 0), []).append(place.stay)
        for (hash, is_late), stays in found.items():
            yield Cohort(group, hash, is_late, tuple(stay.process for stay in stays)), stays

    def _add_cohort(self, cohort: Cohort) -> int:
        self._cohorts.append(cohort)
        size = len(self._views[(cohort.group, cohort.hash)].members)
        return self._entries.deliveries(self.boundary, cohort, len(self._cohorts) - 1, size)

    def follow_sender(self, had: Together, sender: str, service: int, first: int, last: int) -> None:
        """2.5 and 2.11.2: nothing twice, and nothing reliable behind a later message that is FIFO."""
        if service >= RELIABLE:
            if first <= self.reached.get(sender, -1) and self._has_reached(had, sender, first):
                raise Odd("messages of a sender out of order")
            if self.is_learning:
                self._learn(had, service, sender, first, last)
        if service < FIFO:
            weak = self._weak.setdefault(sender, set())
            if first in weak:
                raise Odd("a message twice")
            weak.add(first)
            return
        had.reached[sender] = last
        if last > self.reached.get(sender, -1):
            self.reached[sender] = last

    def _has_reached(self, had: Together, sender: str, first: int) -> bool:
        """Whether one of these receivers has delivered a FIFO message of the sender that is not below."""
        return any(
            reached.get(sender, -1) >= first and not clients.isdisjoint(had.clients)
            for clients, reached in self._reached_by.items()
        )

    def _learn(self, had: Together, service: int, sender: str, first: int, last: int) -> None:
        """Whether this delivery could have come in a wrong order; looked at until all of them once could."""
        lows = self._had_of.setdefault(sender, {})
        follows = first < last or any(lows.get(client, last) < last for client in had.clients)
        if not self._had_agreed.isdisjoint(had.clients):
            self._exercised["2.13.2"] = None
        if follows and service >= FIFO:
            self._exercised["2.11.2"] = None
        if follows and service >= CAUSAL:
            self._exercised["2.12.2"] = None
        self._has_causal |= service >= CAUSAL
        lows.update((client, min(first, lows.get(client, first))) for client in had.clients)
        if service >= AGREED:
            self._had_agreed |= had.clients
        self.is_learning = not {"2.11.2", "2.12.2", "2.13.2"} <= self._exercised.keys()

    def _flush(self) -> None:
        """Something changes: what was had up to here belongs to the stays as they were."""
        for together in self.now.values():
            together.settle(self._heard)
        self.now.clear()

    # --- sends -----------------------------------------------------------------------------------------------------

    def sent_to(self, process: str, group: str, first: int, index: int, service: int) -> int:
        """A send to one group; the entry that says where it took place."""
        place = self._places.get(process, {}).get(group)
        if place is None or place.stay is None:
            return self._entries.send(self.boundary, group, 0, is_counting=False)
        if service >= RELIABLE:
            place.stay.last_send = index
            self._last_sends[(process, group)] = index
            self.own.setdefault(process, {}).setdefault(first, []).append((group, index))
        return self._entries.send(self.boundary, group, place.stay.hash, is_counting=place.leaving == 0)

    # --- turns -----------------------------------------------------------------------------------------------------

    def install(self, clients: tuple[str, ...], view: View, transitional: tuple[str, ...], index: int) -> None:
        """A view."""
        self._flush()
        group = view.group
        known = self._views.setdefault((group, view.hash), view)
        for process in clients:
            place = self._place(process, group)
            before = place.stay
            stay = Stay(
                process, group, index, view.hash, transitional,
                before.hash if before else None,
                before.membership if before else index,
            )  # fmt: skip
            if before:
                before.left, before.left_at, before.next = INSTALLED, index, known.id
                before.next_transitional = stay.transitional
            place.stay = stay
            if place.leaving == 0:
                place.joining = None
            self._stays.append(stay)

    def signal(self, clients: tuple[str, ...], group: str, view: ViewId, index: int) -> None:
        """A transitional signal."""
        self._flush()
        self._exercised["2.1"] = None
        for process in clients:
            stay = self._place(process, group).stay
            if stay is None or self._views[(group, stay.hash)].id != view:
                raise Odd("a signal outside its view")
            if stay.signal >= 0:
                raise Odd("two signals in a view")
            stay.signal = index
            self._exercised["2.8.1"] = None

    def leave(self, clients: tuple[str, ...], group: str, index: int) -> None:
        """A leave takes effect."""
        self._flush()
        for process in clients:
            place = self._place(process, group)
            self._close(place, LEFT, index)
            place.leaving = max(0, place.leaving - 1)
            place.asked = index

    def _close(self, place: Place, how: str, index: int) -> None:
        if place.stay is not None:
            place.stay.left, place.stay.left_at = how, index
            place.stay = None

    def ask(self, clients: tuple[str, ...], group: str, kind: str, index: int) -> None:
        """Somebody asks to join or to leave, or a daemon begins."""
        for process in clients:
            place = self._place(process, group)
            is_inside = place.stay is not None
            if kind == "recover":
                place.joining = index
            elif kind == "join":
                if not is_inside or place.leaving > 0:
                    place.joining = index if place.joining is None else place.joining
            else:
                if is_inside or place.joining is not None:
                    place.leaving += 1
                place.joining = None
                place.asked = index

    def end(self, clients: Iterable[str], index: int) -> None:
        """Sessions end."""
        self._flush()
        for process in clients:
            self._ended[process] = index
            for place in self._places.get(process, {}).values():
                self._close(place, ENDED, index)
                place.joining, place.leaving = None, 0

    def end_all(self, index: int) -> None:
        """The daemon crashed."""
        self.end([process for process in self._met if process not in self._ended], index)

    def lose(self, index: int) -> None:
        """What comes from here on is not known."""
        self._flush()
        for groups in self._places.values():
            for place in groups.values():
                self._close(place, LOST, index)

    # --- the end ---------------------------------------------------------------------------------------------------

    def finish(self, facts: Facts) -> Side:
        """What is left of it."""
        self._flush()
        if not facts.has_crashed:
            self._owe()
        is_unsure = self._has_causal and "2.12.2" not in self._exercised  # something may precede it by a longer chain
        places = [(process, group, place) for process, all in self._places.items() for group, place in all.items()]
        return Side(
            self.is_seen, self.is_active, tuple(self._exercised), tuple(self.doubts), self.rows,
            tuple(self._views.values()), tuple(self._stays), tuple(self._cohorts),
            tuple((*place, senders) for place, senders in self._heard.items()),
            self._ended,
            tuple((process, group) for process, group, place in places if place.joining is not None),
            tuple((process, group, place.asked) for process, group, place in places if place.asked >= 0),
            is_unsure,
            self.sent if facts.is_lossy else {},
        )  # fmt: skip

    def _owe(self) -> None:
        """2.15: what the living sent to groups that they did not ask to leave since, they have delivered."""
        for (process, group), index in self._last_sends.items():
            if process not in self._ended and self._places[process][group].asked < index:
                self._exercised["2.15"] = None
        for process, waiting in self.own.items():
            for group, index in (each for sent in waiting.values() for each in sent):
                if process not in self._ended and self._places[process][group].asked < index:
                    self.doubts["2.15"] = None
