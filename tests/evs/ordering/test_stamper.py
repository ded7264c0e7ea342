"""Stamping: windows, room, turns of sessions, promises, and what a unit says about its past."""

from __future__ import annotations

import pytest

from isotone.core.choice import Choice
from isotone.core.services import Service
from isotone.evs.links.ring import Origination
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.stamper import PLACE, TICK, UNIT_OVERHEAD_BYTES, Draft, Stamper
from isotone.evs.ordering.units import BEFORE_ALL, Unit, UnitKind


def stamper(window: int = 1_000_000) -> Stamper:
    return Stamper(site=0, daemon=0, delivery=Delivery(Lines.of(2)), window_bytes=window)


def draft(session: str, body: bytes = b"", service: Service = Service.AGREED) -> Draft:
    return Draft(session, UnitKind.BUNDLE, service, body)


def visit(each: Stamper, sequence: int = 0, lamport: int = 0, bytes_max: int = 1 << 30) -> list[Unit]:
    each.originate(site_sequence=sequence, site_lamport=lamport, bytes_max=bytes_max)
    return each.take_born()


def test_stamps_go_on_from_the_token_and_above_all_that_was_seen() -> None:
    """Reference: [Spread Lemma 5.1]."""
    each = stamper()
    each.seen([Unit(UnitKind.BUNDLE, Service.AGREED, 1, 1, 1, 40 * TICK + 7, 0)])
    each.submit([draft("s"), draft("s")])
    born = visit(each, sequence=7, lamport=30 * TICK)
    assert [(unit.sequence, unit.lamport) for unit in born] == [(8, 41 * TICK), (9, 42 * TICK)]
    assert each.promise == (9, 42 * TICK)


def test_fragments_hardly_move_the_clock() -> None:
    """Reference: D-tick. A site that sends bulk does not run ahead of the others, who would have to catch up first."""
    each = stamper()
    each.submit([draft("s"), *[Draft("bulk", UnitKind.FRAGMENT, Service.AGREED, b"x")] * 3])
    assert [unit.lamport for unit in visit(each)] == [TICK, TICK + 1, TICK + 2, TICK + 3]
    each.submit([draft("s")])
    assert [unit.lamport for unit in visit(each, 4, TICK + 3)] == [2 * TICK], "later than all before it"


def test_a_visit_promises_even_when_nothing_is_stamped() -> None:
    each = stamper()
    each.want_line()
    assert each.is_waiting()
    each.seen([Unit(UnitKind.BUNDLE, Service.AGREED, 1, 1, 1, 40, 0)])
    assert each.originate(site_sequence=3, site_lamport=5, bytes_max=0) == Origination([], 3, 40, urgent=True)
    assert each.promise == (3, 40) and not each.is_waiting()


def test_unreliable_units_take_no_place_in_the_sequence() -> None:
    each = stamper()
    each.submit([draft("s", service=Service.UNRELIABLE), draft("s"), draft("s", service=Service.RELIABLE)])
    born = visit(each)
    assert [(unit.sequence, unit.lamport, unit.previous) for unit in born] == [
        (0, TICK, 0),
        (1, 2 * TICK, 0),
        (2, 3 * TICK, 1),
    ]


def test_an_unreliable_unit_carries_its_past_too() -> None:
    """Who hears it knows what its sender knew; otherwise a causal message could overtake what it follows."""
    each = stamper()
    each.submit([draft("s"), draft("s", service=Service.RELIABLE), draft("s", service=Service.UNRELIABLE)])
    unreliable = visit(each)[-1]
    assert unreliable.weak_before == (2, 0) and unreliable.agreed_before == (TICK, 0)
    receiver = Delivery(Lines.of(2))
    assert receiver.take([unreliable]) == [unreliable]
    assert receiver.weak_past == [2, 0] and receiver.agreed_past == (TICK, 0)


def test_the_window_stops_stamping_until_what_was_stamped_is_stable() -> None:
    each = stamper(window=3 * UNIT_OVERHEAD_BYTES)
    each.submit([draft("s")] * 10)
    assert len(visit(each)) == 3 and not each.is_waiting()
    each.stable_through(TICK)
    assert each.is_waiting() and len(visit(each, 3, 3 * TICK)) == 1
    each.stable_through(4 * TICK)
    assert each.unstable_bytes == 0


def test_room_on_the_links_stops_stamping() -> None:
    """Reference: D-hold."""
    each = stamper()
    each.submit([draft("s")] * 10)
    each.room = 0
    assert not each.is_waiting() and visit(each) == []
    each.room = 2 * UNIT_OVERHEAD_BYTES
    assert len(visit(each)) == 2


def test_sessions_take_turns_and_fragments_come_last() -> None:
    each = stamper()
    each.submit([Draft("bulk", UnitKind.FRAGMENT, Service.AGREED, b"x")] * 3)
    each.submit([draft("a", b"1"), draft("a", b"2"), draft("a", b"3"), draft("b", b"4")])
    assert [bytes(unit.body) for unit in visit(each)] == [b"1", b"4", b"2", b"3", b"x", b"x", b"x"]
    assert each.waiting_bytes == 0


def test_drafts_of_one_session_keep_their_order_around_fragments() -> None:
    each = stamper()
    each.submit([draft("a", b"1"), Draft("a", UnitKind.FRAGMENT, Service.AGREED, b"2"), draft("a", b"3")])
    each.submit([draft("b", b"4")])
    assert [bytes(unit.body) for unit in visit(each)] == [b"1", b"4", b"2", b"3"]


def test_the_reported_line_stands_still_while_too_much_is_kept() -> None:
    each = stamper()
    each.kept_bytes_max = 10
    delivery = each.delivery
    delivery.lines.sites[1].promise(0, 100)
    delivery.take([Unit(UnitKind.BUNDLE, Service.AGREED, 0, 0, 1, 1, 0, b"12345")])
    assert each.agreed_line() == 1
    delivery.take([Unit(UnitKind.BUNDLE, Service.AGREED, 0, 0, 2, 2, 0, b"123456")])
    assert each.agreed_line() == 1, "11 bytes are kept: senders have to wait"
    delivery.lines.report(0, 1)
    delivery.lines.report(1, 1)
    delivery.lines_moved()
    assert each.agreed_line() == 2


def test_names_are_forgotten_once_an_agreed_unit_stands_behind_them() -> None:
    """Reference: D-forget."""
    each = stamper()
    each.names_max = 2
    each.submit([draft("a", service=Service.FIFO), draft("b", service=Service.FIFO), draft("c"), draft("c")])
    assert [unit.previous for unit in visit(each)] == [0, 0, 0, 3], "three are kept: nothing agreed is behind the first"
    each.submit([draft("d", service=Service.FIFO), draft("a", service=Service.FIFO)])
    fresh, returned = visit(each, 4, 4 * TICK)
    assert fresh.previous == 0, "nobody was forgotten before it came"
    assert returned.previous == 4, "behind the last agreed unit, which is behind all that was forgotten"
    assert returned.weak_before == (2, 0), "with the past of the forgotten"
    for number in range(100):
        each.submit([draft(f"new{number}")])
    visit(each, 6, 6 * TICK)
    assert len(each._pasts) == 2


@pytest.mark.parametrize("seed", range(60))
def test_a_name_that_was_forgotten_still_stands_behind_its_former_self(seed: int) -> None:
    """Reference: [Spread 2.9.2], D-forget."""
    choice = Choice(f"forget/{seed}")
    each = stamper()
    each.names_max = 2
    sent: dict[int, tuple[str, int]] = {}
    units: list[Unit] = []
    for number in range(60):
        name = choice.pick(["a", "b", "c", "d", "e"])
        service = choice.pick([Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE])
        each.submit([draft(name, service=service)])
        units += visit(each, number, number * TICK)
        sent[units[-1].sequence] = (name, number)
    receiver, delivered = Delivery(Lines.of(2)), list[Unit]()
    arriving = list(units)
    choice.shuffle(arriving)
    while arriving:
        delivered += receiver.take([arriving.pop()])
        if choice.chance(0.3):
            line = receiver.lines.sites[0].promised * TICK
            receiver.lines.sites[1].promise(0, line)
            receiver.lines.report(0, choice.below(line + 1))
            receiver.lines.report(1, choice.below(line + 1))
            delivered += receiver.lines_moved()
    receiver.lines.sites[1].promise(0, 100 * TICK)
    receiver.lines.report(0, 100 * TICK)
    receiver.lines.report(1, 100 * TICK)
    delivered += receiver.lines_moved()
    assert sorted(unit.sequence for unit in delivered) == sorted(sent), "everything, once"
    seen: set[int] = set()
    for unit in delivered:
        name, number = sent[unit.sequence]
        if unit.service.is_fifo:
            assert all(before in seen for before, (other, at) in sent.items() if other == name and at < number)
        seen.add(unit.sequence)


# --- full links: D-hold ----------------------------------------------------------------------------------------------

EAST, WEST = 1, 2
CROSSED = {"e": EAST | PLACE, "w": WEST | PLACE, "n": PLACE}


def crossing() -> Stamper:
    """What a draft crosses is said by the first letter of its body."""
    each = stamper()
    each.crossed = lambda waiting: CROSSED[chr(waiting.body[0])]
    return each


def bodies(each: Stamper) -> list[str]:
    return [bytes(unit.body).decode() for unit in visit(each)]


def test_what_crosses_a_full_link_waits_for_that_link_only() -> None:
    each = crossing()
    each.submit([draft("a", b"e1"), draft("b", b"w1"), draft("c", b"n1"), draft("d", b"e2")])
    each.full = EAST
    assert bodies(each) == ["w1", "n1"] and not each.is_waiting()
    assert each.is_held("a") and each.has_waiting("d") and not each.has_waiting("b")
    each.full = 0
    assert each.is_waiting() and bodies(each) == ["e1", "e2"]


def test_nothing_of_a_session_overtakes_what_waits_for_a_link() -> None:
    each = crossing()
    each.submit([draft("a", b"e1"), draft("a", b"n1"), draft("b", b"n2")])
    each.full = EAST
    assert bodies(each) == ["n2"]
    each.full = 0
    assert bodies(each) == ["e1", "n1"]


def test_only_what_crosses_links_uses_up_their_room() -> None:
    each = crossing()
    each.submit([draft("a", b"n1"), draft("b", b"e1"), draft("c", b"w1"), draft("d", b"n2")])
    each.room = 1
    assert bodies(each) == ["n1", "e1", "n2"] and not each.is_waiting()


def test_nothing_goes_on_when_a_link_has_no_room_even_for_places() -> None:
    each = crossing()
    each.submit([draft("a", b"n1")])
    each.full = PLACE
    assert not each.is_waiting() and bodies(each) == []


def test_sessions_keep_their_turns_whatever_links_they_cross() -> None:
    each = crossing()
    each.submit([draft("a", b"n1"), draft("a", b"n2"), draft("b", b"e1"), draft("b", b"e2"), draft("c", b"w1")])
    assert bodies(each) == ["n1", "e1", "w1", "n2", "e2"]
    assert each.waiting_bytes == 0


def test_what_is_below_agreed_names_the_last_cut_before_which_nothing_is_missing() -> None:
    each = stamper()
    own, other = (Unit(UnitKind.GROUPS, Service.SAFE, 1, 1, sequence, 40 * sequence, 0) for sequence in (1, 2))
    each.seen([own, other])
    each.submit([draft("s", service=Service.RELIABLE)])
    (before,) = visit(each)
    assert before.behind == BEFORE_ALL
    for site in each.delivery.lines.sites:
        site.promise(0, 50)
    each.submit([draft("s", service=Service.RELIABLE)])
    (behind,) = visit(each, 1, 100)
    assert behind.behind == own.position


def test_cuts_are_forgotten_though_nothing_below_agreed_is_stamped() -> None:
    each = stamper()
    for sequence in range(1, 500):
        each.seen([Unit(UnitKind.GROUPS, Service.SAFE, 1, 1, sequence, 40 * sequence, 0)])
        for site in each.delivery.lines.sites:
            site.promise(0, 40 * sequence)
    assert len(each._cuts) == 1
