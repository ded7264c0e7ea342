"""Delivery against randomly grown histories: whatever the order of arrival, the rules of [Spread 5.1] hold.

The history is grown by sites that really exchange units: each site stamps above all that it received and takes its
dependencies from a `Delivery` of its own. Then every site's outcome is compared with the dumb statement of each rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from isotone.core.choice import Choice
from isotone.core.services import Service
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.units import Unit, UnitKind, decode_unit, encode_unit

Id = tuple[int, int]


@dataclass
class Site:
    index: int
    delivery: Delivery
    clock: int = 0
    sequence: int = 0
    outcome: list[Unit] = field(default_factory=list)
    inbox: list[Unit] = field(default_factory=list)
    previous: dict[int, int] = field(default_factory=dict)  # session to its last reliable sequence
    last_weak: dict[int, int] = field(default_factory=dict)
    last_agreed: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass
class History:
    sites: list[Site]
    past: dict[Id, set[Id]] = field(default_factory=dict)  # all that was delivered at the sender before, and its own
    session: dict[Id, int] = field(default_factory=dict)
    units: dict[Id, Unit] = field(default_factory=dict)


def grow(seed: int, *, steps: int = 120, count: int = 3) -> History:
    choice = Choice(f"delivery/{seed}")
    sites = [Site(index, Delivery(Lines.of(count))) for index in range(count)]
    history = History(sites)
    for _ in range(steps):
        site = choice.pick(sites)
        if choice.chance(0.4):
            send(history, site, choice)
        elif choice.chance(0.2):
            exchange_lines(history)
        elif site.inbox:
            receive(site, [site.inbox.pop(choice.below(len(site.inbox)))])
    for site in sites:
        choice.shuffle(site.inbox)
        while site.inbox:
            receive(site, [site.inbox.pop() for _ in range(min(len(site.inbox), choice.between(1, 4)))])
    for _ in range(3):  # promises, then what everyone received, then what that released
        exchange_lines(history)
    return history


def send(history: History, site: Site, choice: Choice) -> None:
    service = choice.pick([Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE])
    session = choice.below(2)
    site.clock += 1
    site.sequence += 1
    weak, agreed = past_of(site, session) if service <= Service.CAUSAL else ((), (0, 0))
    unit = Unit(
        UnitKind.BUNDLE,
        service,
        site.index,
        site.index,
        site.sequence,
        site.clock,
        site.previous.get(session, 0),
        b"x",
        weak,
        agreed,
    )
    me = (site.index, site.sequence)
    history.past[me] = {(each.site, each.sequence) for each in site.outcome} | {
        other for other in history.units if other[0] == site.index and history.session[other] == session
    }
    history.session[me], history.units[me] = session, unit
    site.previous[session] = site.sequence
    if service.is_agreed:
        site.last_agreed[session] = unit.position
    else:
        site.last_weak[session] = site.sequence
    for other in history.sites:
        (receive(other, [unit]) if other is site else other.inbox.append(unit))


def past_of(site: Site, session: int) -> tuple[tuple[int, ...], tuple[int, int]]:
    weak = list(site.delivery.weak_past)
    weak[site.index] = max(weak[site.index], site.last_weak.get(session, 0))
    return tuple(weak), max(site.delivery.agreed_past, site.last_agreed.get(session, (0, 0)))


def receive(site: Site, units: list[Unit]) -> None:
    site.clock = max([site.clock, *(unit.lamport for unit in units)])
    site.outcome += site.delivery.take(units)


def exchange_lines(history: History) -> None:
    for teller in history.sites:
        for hearer in history.sites:
            hearer.delivery.lines.sites[teller.index].promise(teller.sequence, teller.clock)
            hearer.delivery.lines.report(teller.index, teller.delivery.lines.agreed)
            hearer.clock = max(hearer.clock, teller.clock)
            hearer.outcome += hearer.delivery.lines_moved()


def ids(units: list[Unit]) -> list[Id]:
    return [(unit.site, unit.sequence) for unit in units]


@pytest.mark.parametrize("seed", range(150))
def test_every_rule_holds_whatever_the_order_of_arrival(seed: int) -> None:
    history = grow(seed)
    for site in history.sites:
        order = ids(site.outcome)
        assert sorted(order) == sorted(history.units), "everything is delivered once"
        place = {each: index for index, each in enumerate(order)}
        agreed = [unit.position for unit in site.outcome if unit.service.is_agreed]
        assert agreed == sorted(agreed), "agreed order is order of position"
        for index, unit in enumerate(site.outcome):
            if unit.service.is_agreed:
                assert all(later.position > unit.position for later in site.outcome[index:] if later is not unit)
        for me, unit in history.units.items():
            earlier = [
                each for each in history.past[me] if each[0] == me[0] and history.session[each] == history.session[me]
            ]
            if unit.service.is_fifo:
                assert all(place[each] < place[me] for each in earlier if each[1] < me[1]), "FIFO"
    for me, unit in history.units.items():
        if unit.service.is_causal:
            for site in history.sites:
                place = {each: index for index, each in enumerate(ids(site.outcome))}
                assert all(place[each] < place[me] for each in closure(history, me)), "causal"


def closure(history: History, me: Id) -> set[Id]:
    seen: set[Id] = set()
    stack = [me]
    while stack:
        for each in history.past[stack.pop()]:
            if each not in seen:
                seen.add(each)
                stack.append(each)
    return seen


def test_everything_is_forgotten_once_stable() -> None:
    history = grow(7)
    assert [site.delivery.kept_bytes for site in history.sites] == [0, 0, 0]


def test_safe_waits_until_every_site_has_reported() -> None:
    """Reference: [Spread 5.1, Figure 5.2]."""
    delivery = Delivery(Lines.of(2))
    safe = Unit(UnitKind.BUNDLE, Service.SAFE, 0, 0, 1, 5, 0)
    assert delivery.take([safe]) == []
    delivery.lines.sites[1].promise(0, 5)
    assert delivery.lines_moved() == [], "agreed is not enough"
    delivery.lines.report(0, 5)
    assert delivery.lines_moved() == []
    delivery.lines.report(1, 5)
    assert delivery.lines_moved() == [safe]


def test_causal_does_not_wait_for_a_silent_site() -> None:
    delivery = Delivery(Lines.of(3))
    causal = Unit(UnitKind.BUNDLE, Service.CAUSAL, 0, 0, 1, 9, 0, b"", (0, 0, 0))
    assert delivery.take([causal]) == [causal]


def test_a_promise_counts_once_its_sequence_is_reached() -> None:
    delivery = Delivery(Lines.of(2))
    agreed = Unit(UnitKind.BUNDLE, Service.AGREED, 0, 0, 1, 5, 0)
    assert delivery.take([agreed]) == []
    delivery.lines.sites[1].promise(1, 8)
    assert delivery.lines_moved() == [], "the promise names a unit that has not come"
    weak = Unit(UnitKind.BUNDLE, Service.RELIABLE, 1, 1, 1, 3, 0, b"", (0, 0))
    assert delivery.take([weak]) == [weak, agreed]


def test_units_survive_the_wire() -> None:
    for site in grow(3).sites:
        for unit in site.outcome:
            header, body = encode_unit(unit)
            assert decode_unit(memoryview(header + bytes(body)), sites=3, daemons=3) == unit


class Watched(deque[Unit]):
    """A queue that counts the units that somebody looks at."""

    looks = 0

    def __getitem__(self, place: int) -> Unit:  # type: ignore[override]
        self.looks += 1
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[Unit]:
        for unit in super().__iter__():
            self.looks += 1
            yield unit


def test_causal_units_behind_a_line_that_stands_cost_the_same_each() -> None:
    """On a wide-area link many wait to be walked: none of them is looked at again for each that arrives."""
    delivery, count = Delivery(Lines.of(2)), 500
    queue = delivery.streams[0].queue = Watched()
    for each in range(1, count + 1):
        (out,) = delivery.take([Unit(UnitKind.BUNDLE, Service.CAUSAL, 0, 0, each, each, each - 1, b"", (each - 1, 0))])
        assert out.sequence == each
    assert len(queue) == count and queue.looks <= 10 * count
