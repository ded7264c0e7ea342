"""The exact limits of lines, units, holdings, updates and stamping."""

from __future__ import annotations

import pytest

from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import SEQUENCE_MAX
from isotone.core.services import Service
from isotone.evs.links.fragments import OPEN_MAX
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.holding import (
    RUNS_MAX,
    Holding,
    SiteHolding,
    check_holding,
    coarse,
    contains,
    packed,
    run_around,
    runs_of,
    shared,
    through,
    united,
    unpacked,
    without,
)
from isotone.evs.ordering.lines import PROMISES_MAX, Lines, SiteLine
from isotone.evs.ordering.metadata import METADATA_FRAME, RUN_MAX, decode_metadata, encode_metadata
from isotone.evs.ordering.pruning import (
    Cleared,
    Pruner,
    decode_cleared,
    directed_kind,
    encode_cleared,
    encode_masked,
    mask_of,
    split_mask,
)
from isotone.evs.ordering.stamper import BULK_FRAME, TICK, UNIT_FRAME, UNIT_OVERHEAD_BYTES, Draft, Stamper, frame_kind
from isotone.evs.ordering.units import FAR, LAMPORT_MAX, Unit, UnitKind, check_unit, decode_unit, encode_unit
from isotone.evs.ordering.updates import (
    DELTA_MIN_US,
    LAZY,
    RATE_UNKNOWN,
    Publisher,
    Update,
    decode_update,
    delta_us,
    encode_update,
)

SITES, DAEMONS = 2, 3


def unit(
    sequence: int = 1,
    service: Service = Service.AGREED,
    *,
    site: int = 0,
    daemon: int = 0,
    lamport: int = 0,
    previous: int = 0,
    past: tuple[int, ...] = (0, 0),
    kind: UnitKind = UnitKind.BUNDLE,
) -> Unit:
    weak = () if service.is_agreed else past
    return Unit(kind, service, site, daemon, sequence, lamport or 10 * sequence, previous, b"body", weak)


# --- units ---------------------------------------------------------------------------------------------------------


def test_a_unit_is_of_its_view_or_refused() -> None:
    check_unit(unit(site=1, daemon=2, lamport=LAMPORT_MAX - 1), sites=SITES, daemons=DAEMONS)
    for bad in (
        unit(site=2),
        unit(daemon=3),
        unit(lamport=LAMPORT_MAX),
        unit(service=Service.FIFO, past=(0,)),
        unit(service=Service.FIFO, past=(0, 0, 0)),
        unit(service=Service.FIFO, past=()),
        unit(0),
        unit(1, Service.UNRELIABLE),
        unit(3, previous=3),
        unit(0, Service.UNRELIABLE, lamport=5, previous=1),
    ):
        with pytest.raises(RemoteProtocolError):
            check_unit(bad, sites=SITES, daemons=DAEMONS)
    check_unit(unit(3, previous=2), sites=SITES, daemons=DAEMONS)
    check_unit(unit(0, Service.UNRELIABLE, lamport=5), sites=SITES, daemons=DAEMONS)


def decoded(data: bytes) -> Unit:
    return decode_unit(memoryview(data), sites=SITES, daemons=DAEMONS)


def test_units_cut_short_are_refused_and_never_worse() -> None:
    for whole in (
        unit(5, previous=3),
        unit(5, Service.CAUSAL, previous=3, past=(2, 7)),
        unit(5).pruned(),
        unit(5, Service.FIFO).pruned(),
    ):
        data = b"".join(map(bytes, encode_unit(whole)))
        assert decoded(data) == whole or bytes(decoded(data).body) == b"body"
        shortest = len(data) - len(whole.body)
        for size in range(shortest):
            with pytest.raises(RemoteProtocolError):
                decoded(data[:size])


@pytest.mark.parametrize("back", [0, 1, FAR - 1, FAR, FAR + 1])
def test_metadata_says_how_far_back_the_previous_is(back: int) -> None:
    made = unit(FAR + 5, previous=FAR + 5 - back if back else 0).pruned()
    data = b"".join(map(bytes, encode_unit(made)))
    assert decoded(data) == made
    with pytest.raises(RemoteProtocolError):
        decoded(data + b"x")


def test_metadata_of_a_session_that_began_before_the_view_is_refused() -> None:
    data = bytearray(encode_unit(unit(5, previous=1).pruned())[0])
    assert decoded(bytes(data)).previous == 1
    data[-1] = 5
    assert decoded(bytes(data)).previous == 0, "none"
    data[-1] = 6
    with pytest.raises(RemoteProtocolError):
        decoded(bytes(data))


# --- holdings ------------------------------------------------------------------------------------------------------


def test_runs_touch_and_join() -> None:
    assert runs_of([1, 2, 4, 5, 6, 9]) == [(1, 2), (4, 6), (9, 9)]
    assert united([(1, 2)], [(3, 4)], [(6, 6)]) == [(1, 4), (6, 6)]
    assert united([(1, 9)], [(3, 4)]) == [(1, 9)]
    assert without([(1, 9)], [(1, 1), (4, 5), (9, 9)]) == [(2, 3), (6, 8)]
    assert without([(1, 3), (5, 7)], [(3, 5)]) == [(1, 2), (6, 7)]
    assert without([(4, 5)], [(1, 3), (6, 9)]) == [(4, 5)]
    assert shared([(1, 5), (8, 9)], [(5, 8)]) == [(5, 5), (8, 8)]
    assert through(0) == [] and through(1) == [(1, 1)]


def test_a_sequence_stands_in_a_run_from_its_first_to_its_last() -> None:
    runs = [(3, 5), (8, 8)]
    assert [sequence for sequence in range(10) if contains(runs, sequence)] == [3, 4, 5, 8]
    assert run_around(runs, 5) == (3, 5) and run_around(runs, 6) is None and run_around([], 1) is None


def test_runs_survive_the_wire_and_empty_ones_are_refused() -> None:
    for runs in ([], [(1, 1)], [(2, 3), (5, 9)], [(1, 3), (5, 5)]):
        known = runs[-1][1] if runs else 0
        assert unpacked(packed(runs), known=known) == runs
        if runs:
            with pytest.raises(RemoteProtocolError):
                unpacked(packed(runs), known=known - 1)
    assert packed([(2, 3), (5, 9)]) == (1, 2, 1, 5)
    for bad in ((1,), (0, 0), (1, 2, 0, 3), (-1, 2), (1, 2, 3)):
        with pytest.raises(RemoteProtocolError):
            unpacked(bad, known=100)


def test_too_many_runs_are_told_without_the_settled_first_and_then_without_the_highest_of_the_longest() -> None:
    one, three = [(1, 1)], [(1, 1), (3, 3), (5, 5)]
    assert coarse([one, three], [0, 0], limit=4) == [one, three]
    assert coarse([one, three], [0, 0], limit=3) == [one, three[:2]]
    assert coarse([one, three], [0, 0], limit=2) == [one, three[:1]]
    assert coarse([three, one], [0, 0], limit=2) == [three[:1], one]
    assert coarse([one, three], [0, 3], limit=3) == [one, three[1:]]
    assert coarse([one, three], [1, 2], limit=2) == [[], three[1:]], "what is settled goes first"
    assert coarse([one, three], [1, 5], limit=1) == [[], three[2:]]


def test_a_holding_is_of_its_view_and_agrees_with_itself() -> None:
    site = SiteHolding(3, 5)
    check_holding(Holding(9, 9, 0, 0, (site, site)), sites=2)
    top = SEQUENCE_MAX
    check_holding(Holding(top, top, top, top, (SiteHolding(top, top), site)), sites=2)
    many = SiteHolding(0, 9, (1,) * (4 * RUNS_MAX))
    check_holding(Holding(9, 9, 0, 0, (many, site)), sites=2)
    for bad in (
        Holding(9, 9, 0, 0, (site,)),
        Holding(8, 9, 0, 0, (site, site)),
        Holding(9, -1, 0, 0, (site, site)),
        Holding(9, 9, top + 1, 0, (site, site)),
        Holding(9, 9, 0, -1, (site, site)),
        Holding(9, 9, 0, 0, (SiteHolding(6, 5), site)),
        Holding(9, 9, 0, 0, (SiteHolding(-1, 5), site)),
        Holding(9, 9, 0, 0, (SiteHolding(1, top + 1), site)),
        Holding(9, 9, 0, 0, (many, SiteHolding(0, 1, (), (1,)))),
    ):
        with pytest.raises(RemoteProtocolError):
            check_holding(bad, sites=2)


# --- lines ---------------------------------------------------------------------------------------------------------


def test_a_promise_counts_when_its_sequence_was_reached() -> None:
    line = SiteLine()
    assert not line.promise(2, 50) and (line.promised, line.heard) == (2, 0)
    line.advance(1, 10)
    assert line.heard == 10
    line.advance(2, 20)
    assert line.heard == 50 and line.promised == 2
    assert not line.promise(2, 50), "no news"
    assert line.promise(2, 51) and line.heard == 51
    assert not line.promise(1, 40) and line.heard == 51


def test_promises_out_of_reach_are_kept_in_order_and_bounded() -> None:
    line = SiteLine()
    line.promise(5, 50)
    line.promise(4, 60)
    line.promise(5, 50)
    line.promise(5, 55)
    line.promise(6, 55)
    assert line.promised == 5
    for sequence in range(1, 6):
        line.advance(sequence, sequence)
    assert line.heard == 55, "the second was overtaken, the last says nothing new"
    full = SiteLine()
    for number in range(PROMISES_MAX + 1):
        full.promise(2 + number, 10 + number)
    full.advance(1, 1)
    full.advance(2, 2)
    assert full.heard == 2, "the first was given up for the last"
    full.advance(3, 3)
    assert full.heard == 11
    few = SiteLine()
    for number in range(PROMISES_MAX):
        few.promise(2 + number, 10 + number)
    few.advance(1, 1)
    few.advance(2, 2)
    assert few.heard == 10


def test_the_line_stands_just_below_metadata_that_may_lack_content() -> None:
    line = SiteLine()
    line.bare(1, 10)
    line.advance(1, 10)
    line.bare(2, 20)
    line.advance(2, 20)
    assert (line.heard, line.line) == (20, 9)
    line.clear(10, [1])
    assert line.line == 9, "its content is owed"
    line.filled(1)
    assert line.line == 19
    line.clear(19, [])
    assert line.line == 19
    line.clear(20, [])
    assert line.line == 20
    line.bare(3, 20 + 1)
    line.advance(3, 20 + 1)
    assert line.line == 20
    line.clear(15, [])
    assert line.line == 20, "an old clearance takes nothing back"


def test_stable_is_what_the_slowest_site_reported() -> None:
    lines = Lines.of(2)
    assert lines.report(0, 5) and lines.stable == 0
    assert not lines.report(0, 5) and not lines.report(0, 4)
    assert lines.report(1, 3) and lines.stable == 3
    lines.sites[0].promise(0, 9)
    lines.sites[1].promise(0, 7)
    assert (lines.agreed, lines.heard, lines.slowest()) == (7, 7, [1])


def test_a_report_counts_when_what_its_site_had_stamped_is_here() -> None:
    lines = Lines.of(1)
    assert not lines.report(0, 5, sequence=2) and lines.stable == 0
    assert not lines.report(0, 5, sequence=3), "nothing new"
    assert not lines.sites[0].advance(1, 1)
    assert lines.sites[0].advance(2, 2)
    lines.reported()
    assert lines.stable == 5
    assert not lines.report(0, 6, sequence=4) and lines.report(0, 7, sequence=2)
    assert not lines.sites[0].advance(3, 3) and not lines.sites[0].advance(4, 4), "it was implied"


def test_of_many_reports_the_first_come_to_count_however_many_follow() -> None:
    line = SiteLine()
    for number in range(1, 10 * PROMISES_MAX):
        line.report(number, 10 * number)
    assert line.advance(1, 1) and line.received_everywhere == 10
    for sequence in range(2, 10 * PROMISES_MAX):
        line.advance(sequence, sequence)
    assert line.received_everywhere == 10 * (10 * PROMISES_MAX - 1), "the last is never given up"


# --- updates -------------------------------------------------------------------------------------------------------


def test_updates_survive_the_wire_and_bad_ones_are_refused() -> None:
    update = Update(1, 2, 3, 4)
    body = bytes(encode_update(update).body())
    assert decode_update(memoryview(body), sites=2) == update
    for bad, sites in ((body, 1), (body + b"x", 2), (body[:-1], 2)):
        with pytest.raises(RemoteProtocolError):
            decode_update(memoryview(bad), sites=sites)


def test_delta_follows_the_sites_and_the_rate_and_is_never_below_a_millisecond() -> None:
    one = delta_us(sites=2, rate_bytes_per_second=125_000)
    assert delta_us(sites=4, rate_bytes_per_second=125_000) == 3 * one
    assert delta_us(sites=1, rate_bytes_per_second=125_000) == one
    assert delta_us(sites=2, rate_bytes_per_second=0) == delta_us(sites=2, rate_bytes_per_second=RATE_UNKNOWN)
    assert delta_us(sites=2, rate_bytes_per_second=10**9) == DELTA_MIN_US


def test_an_update_leaves_at_once_then_after_delta_and_with_others_after_half_of_it() -> None:
    publisher = Publisher(0, 1_000)
    assert publisher.wait_us(0) is None and publisher.due(0, riding=True) is None
    publisher.saw(unit(1, lamport=10, site=1))
    assert publisher.lacks_promise and publisher.wait_us(0) is None
    publisher.promise = (0, 10)
    assert not publisher.lacks_promise and publisher.wait_us(0) == 0
    assert publisher.due(0, riding=False) == Update(0, 0, 10, 0) and publisher.published == 1
    assert publisher.wait_us(1) is None
    publisher.saw(unit(2, lamport=20, site=1))
    publisher.promise = (0, 20)
    assert publisher.wait_us(400) == 600
    assert publisher.due(499, riding=True) is None and publisher.due(999, riding=False) is None
    assert publisher.due(500, riding=True) == Update(0, 0, 20, 0)
    publisher.saw(unit(3, lamport=30, site=1))
    publisher.promise = (0, 30)
    assert publisher.due(1_500, riding=False) == Update(0, 0, 30, 0)


def test_what_only_helps_to_forget_waits_four_times_as_long() -> None:
    publisher = Publisher(0, 1_000)
    publisher.saw(unit(1, lamport=10, site=1))
    publisher.promise, publisher.line = (0, 10), 0
    publisher.due(0, riding=False)
    publisher.line = 10
    assert publisher.wait_us(0) == LAZY * 1_000, "an agreed unit waits for no report"
    publisher.saw(unit(2, Service.SAFE, lamport=11, site=1))
    assert publisher.wait_us(0) == 1_000, "a safe one does"


def test_fragments_and_weak_units_are_lazy_and_ones_own_units_promise_themselves() -> None:
    for made in (unit(1, lamport=10, kind=UnitKind.FRAGMENT), unit(1, Service.FIFO, lamport=10)):
        publisher = Publisher(0, 1_000)
        publisher.saw(made)
        publisher.promise = (0, 10)
        publisher.due(0, riding=False)
        publisher.saw(unit(2, made.service, lamport=20, kind=made.kind))
        publisher.promise = (0, 20)
        assert publisher.wait_us(0) == LAZY * 1_000
    own = Publisher(0, 1_000)
    own.left(unit(1, lamport=10))
    own.promise = (1, 10)
    assert not own.lacks_promise and own.wait_us(0) is None
    own.saw(unit(1, lamport=11, site=1))
    assert own.lacks_promise


# --- pruning and metadata ------------------------------------------------------------------------------------------


def test_masks_and_clearances_to_the_byte() -> None:
    assert mask_of([]) == 0 and mask_of([0, 2]) == 5
    mask, rest = split_mask(encode_masked(5, 6, unit()).body())
    assert mask == 6 and decoded(bytes(rest)).sequence == 1
    assert split_mask(memoryview(bytes(8))) == (0, memoryview(b""))
    with pytest.raises(RemoteProtocolError):
        split_mask(memoryview(bytes(7)))
    body = bytes(encode_cleared(Cleared(1, 9, ((3, 1),))).body())
    assert decode_cleared(memoryview(body), sites=2) == Cleared(1, 9, ((3, 1),))
    for bad, sites in ((body, 1), (body[:-1], 2), (body + b"x", 2), (body[:11], 2)):
        with pytest.raises(RemoteProtocolError):
            decode_cleared(memoryview(bad), sites=sites)
    assert directed_kind(unit()) != directed_kind(unit(kind=UnitKind.FRAGMENT))
    assert (frame_kind(unit()), frame_kind(unit(kind=UnitKind.FRAGMENT))) == (UNIT_FRAME, BULK_FRAME)


def test_a_clearance_is_due_once_what_was_pruned_was_heard_of() -> None:
    pruner = Pruner(0)
    assert not pruner.is_due(100)
    pruner.pruned(unit(1, lamport=10), ("g",), 1)
    assert pruner.is_due(1) and pruner.is_due(10)
    pruner.clear(9)
    assert not pruner.is_due(9) and pruner.is_due(10)
    pruner.clear(10)
    assert not pruner.is_due(50)
    pruner.pruned(unit(2, lamport=20), ("g",), 1)
    pruner.pruned(unit(3, lamport=15), ("g",), 1)
    pruner.stable_through(15)
    assert [each.sequence for each in pruner.joined(1, "g")] == [2]
    assert pruner.joined(0, "g") == [], "it was sent there"
    assert pruner.clear(20).owed == ((2, 2),)
    pruner.stable_through(20)
    assert pruner.clear(20).owed == ()


def test_runs_of_metadata_end_where_a_distance_cannot_be_said() -> None:
    def kinds(*units: Unit) -> list[bool]:
        frames = encode_metadata(units)
        found: list[Unit] = []
        for frame in frames:
            if frame.kind == METADATA_FRAME:
                found += decode_metadata(frame.body(), sites=SITES, daemons=DAEMONS)
            else:
                found.append(decoded(bytes(frame.body())))
        assert found == [each.pruned() for each in units]
        return [frame.kind == METADATA_FRAME for frame in frames]

    assert kinds(unit(1, lamport=1), unit(2, lamport=2)) == [True]
    assert kinds(unit(1, lamport=1), unit(1 + 0xFFFF, lamport=2)) == [True]
    assert kinds(unit(1, lamport=1), unit(2 + 0xFFFF, lamport=2)) == [False, False]
    assert kinds(unit(1, lamport=1), unit(2, lamport=1 + 0xFFFFFFFF)) == [True]
    assert kinds(unit(1, lamport=1), unit(2, lamport=2 + 0xFFFFFFFF)) == [False, False]
    far = 0x20000
    assert kinds(unit(far, lamport=1, previous=far - 0xFFFF), unit(far + 1, lamport=2)) == [True]
    assert kinds(unit(far, lamport=1, previous=far - 0x10000), unit(far + 1, lamport=2)) == [False, False]
    assert kinds(unit(far, lamport=1), unit(far + 1, lamport=2, previous=far + 1 - 0x10000)) == [False, False]
    assert kinds(*(unit(number, lamport=number) for number in range(1, RUN_MAX + 1))) == [True]
    assert kinds(*(unit(number, lamport=number) for number in range(1, RUN_MAX + 2))) == [True, False]


# --- stamping ------------------------------------------------------------------------------------------------------


def stamper(**changes: object) -> Stamper:
    delivery = Delivery(Lines.of(2))
    settings: dict[str, object] = {"window_bytes": 1 << 20, **changes}
    return Stamper(site=0, daemon=1, delivery=delivery, **settings)  # type: ignore[arg-type]


def draft(
    session: str = "s", service: Service = Service.AGREED, size: int = 10, kind: UnitKind = UnitKind.BUNDLE
) -> Draft:
    return Draft(session, kind, service, bytes(size))


def test_units_stand_at_ticks_and_fragments_between_them() -> None:
    made = stamper(lamport=5)
    made.submit([draft(), draft(service=Service.UNRELIABLE), draft("b", kind=UnitKind.FRAGMENT), draft("b")])
    origination = made.originate(site_sequence=7, site_lamport=TICK, bytes_max=1 << 20)
    assert [(each.sequence, each.lamport) for each in made.take_born()] == [
        (8, 2 * TICK),
        (0, 3 * TICK),
        (9, 3 * TICK + 1),
        (10, 4 * TICK),
    ]
    assert (origination.site_sequence, origination.site_lamport) == (10, 4 * TICK) == made.promise
    assert not origination.urgent and made.waiting_bytes == 0 and not made.has_born


def test_a_visit_ends_when_its_bytes_are_spent() -> None:
    cost = 10 + UNIT_OVERHEAD_BYTES
    for bytes_max, stamped in ((0, 0), (1, 1), (cost, 1), (cost + 1, 2)):
        made = stamper()
        made.submit([draft() for _ in range(3)])
        made.originate(site_sequence=0, site_lamport=0, bytes_max=bytes_max)
        assert len(made.take_born()) == stamped
        assert made.waiting_bytes == 10 * (3 - stamped)


def test_the_window_and_the_room_are_closed_when_nothing_is_left() -> None:
    cost = 10 + UNIT_OVERHEAD_BYTES
    for window, stamped in ((cost, 1), (cost + 1, 2)):
        made = stamper(window_bytes=window)
        made.submit([draft(), draft()])
        made.originate(site_sequence=0, site_lamport=0, bytes_max=1 << 20)
        assert len(made.take_born()) == stamped and made.is_waiting() is False
    made = stamper(window_bytes=cost)
    made.submit([draft(), draft()])
    made.originate(site_sequence=0, site_lamport=0, bytes_max=1 << 20)
    made.stable_through(TICK - 1)
    assert not made.is_waiting() and made.unstable_bytes == cost
    made.stable_through(TICK)
    assert made.is_waiting() and made.unstable_bytes == 0
    made.room = 0
    assert not made.is_waiting()
    made.room = 1
    assert made.is_waiting()


def test_fragments_wait_for_room_of_their_own_and_for_all_others() -> None:
    made = stamper()
    made.submit([draft("bulk", kind=UnitKind.FRAGMENT), draft("unit")])
    made.bulk_room = 0
    made.originate(site_sequence=0, site_lamport=0, bytes_max=1 << 20)
    assert [each.kind for each in made.take_born()] == [UnitKind.BUNDLE] and not made.is_waiting()
    made.bulk_room = 1
    assert made.is_waiting()


def test_only_so_many_sessions_have_large_messages_under_way() -> None:
    made = stamper()
    made.submit([draft(f"s{number}", kind=UnitKind.FRAGMENT) for number in range(OPEN_MAX + 1)])
    made.originate(site_sequence=0, site_lamport=0, bytes_max=(10 + UNIT_OVERHEAD_BYTES) * (OPEN_MAX + 1))
    assert len(made.take_born()) == OPEN_MAX + 1


def test_the_line_is_reported_only_while_not_too_much_is_kept() -> None:
    made = stamper(kept_bytes_max=100)
    lines = made.delivery.lines
    for site in lines.sites:
        site.promise(0, 50)
    made.delivery.kept_bytes = 100
    assert made.agreed_line() == 50
    for site in lines.sites:
        site.promise(0, 60)
    made.delivery.kept_bytes = 101
    assert made.agreed_line() == 50
    made.delivery.kept_bytes = 100
    assert made.agreed_line() == 60


def test_a_line_that_is_wanted_makes_a_visit_urgent_once() -> None:
    made = stamper()
    assert not made.is_waiting()
    made.want_line()
    assert made.is_waiting()
    assert made.originate(site_sequence=0, site_lamport=0, bytes_max=9).urgent
    assert not made.originate(site_sequence=0, site_lamport=0, bytes_max=9).urgent
    for urgent in (draft(service=Service.SAFE), draft(kind=UnitKind.MEMBERSHIP)):
        made.submit([urgent])
        assert made.originate(site_sequence=0, site_lamport=0, bytes_max=9).urgent


def test_the_past_of_a_session_is_its_own_and_that_of_what_was_delivered_here() -> None:
    made = stamper()
    made.submit(
        [draft("a", Service.FIFO), draft("b"), draft("a", Service.FIFO), draft("c", Service.CAUSAL), draft("a")]
    )
    made.originate(site_sequence=0, site_lamport=0, bytes_max=1 << 20)
    told = {each.sequence: (each.previous, each.weak_before, each.agreed_before) for each in made.take_born()}
    nothing = (0, 0)
    assert told == {
        1: (0, (0, 0), nothing),
        2: (0, (), nothing),
        3: (0, (0, 0), nothing),
        4: (1, (1, 0), nothing),
        5: (4, (), nothing),
    }
    made.submit([draft("b", Service.FIFO)])
    made.originate(site_sequence=5, site_lamport=0, bytes_max=9)
    (last,) = made.take_born()
    assert (last.previous, last.agreed_before) == (2, (2 * TICK, 1))


def test_names_are_forgotten_only_behind_an_agreed_unit() -> None:
    made = stamper(names_max=2)
    for number, (name, service) in enumerate(
        [("a", Service.FIFO), ("b", Service.FIFO), ("c", Service.AGREED), ("d", Service.FIFO), ("a", Service.FIFO)]
    ):
        made.submit([draft(name, service)])
        made.originate(site_sequence=number, site_lamport=0, bytes_max=1 << 20)
    born = made.take_born()
    assert [each.previous for each in born] == [0, 0, 0, 0, 3], "who was forgotten stands behind the third"


# --- delivery ------------------------------------------------------------------------------------------------------


def test_unreliable_units_are_late_when_not_newer_than_the_last_of_their_daemon_or_of_the_order() -> None:
    delivery = Delivery(Lines.of(1))

    def weak(lamport: int, daemon: int = 0) -> Unit:
        return Unit(UnitKind.BUNDLE, Service.UNRELIABLE, 0, daemon, 0, lamport, 0, b"", (0,))

    assert len(delivery.take([weak(5), weak(5), weak(6), weak(5, daemon=1)])) == 3
    assert delivery.unreliable_late == 1
    delivery.take([unit(1, lamport=10)])
    delivery.lines.sites[0].promise(1, 10)
    delivery.lines_moved()
    assert delivery.take([weak(10)]) == [] and len(delivery.take([weak(11)])) == 1


def test_what_is_stable_is_forgotten_and_what_is_above_is_kept() -> None:
    delivery = Delivery(Lines.of(1))
    delivery.take([unit(1, lamport=10), unit(2, lamport=20)])
    assert delivery.kept_bytes == 8
    delivery.lines.report(0, 10)
    delivery.lines_moved()
    assert delivery.kept_bytes == 4
    delivery.lines.report(0, 19)
    delivery.lines_moved()
    assert delivery.kept_bytes == 4
    delivery.lines.report(0, 20)
    delivery.lines_moved()
    assert delivery.kept_bytes == 0


def test_a_safe_unit_waits_until_it_is_stable_and_all_behind_it_too() -> None:
    delivery = Delivery(Lines.of(1))
    assert delivery.take([unit(1, Service.SAFE, lamport=10), unit(2, lamport=20)]) == []
    assert [each.sequence for each in delivery.undelivered()] == [1, 2]
    delivery.lines.report(0, 9)
    assert delivery.lines_moved() == []
    delivery.lines.report(0, 10)
    assert [each.sequence for each in delivery.lines_moved()] == [1, 2] and delivery.last_agreed == (20, 0)


def test_holes_and_what_is_settled_and_known() -> None:
    delivery = Delivery(Lines.of(1))
    delivery.take([unit(1, Service.SAFE), unit(2), unit(4), unit(6)])
    stream = delivery.streams[0]
    assert delivery.missing(0) == [3, 5] and stream.known == 6
    stream.line.promise(9, 1_000)
    assert stream.known == 9
    assert (stream.settled(9), stream.settled(10), stream.settled(19), stream.settled(20)) == (0, 1, 1, 2)
    assert [each.sequence for each in stream.units()] == [1, 2, 4, 6]
    assert stream.has_received(2) and stream.has_received(4) and not stream.has_received(3)


def test_content_takes_the_place_of_metadata_wherever_it_stands() -> None:
    delivery = Delivery(Lines.of(1))
    delivery.take([unit(number).pruned() for number in (1, 2, 4)])
    for number in (1, 2, 4):
        before = delivery.kept_bytes
        delivery.fill(unit(number))
        assert delivery.kept_bytes == before + 4
        delivery.fill(unit(number))
        assert delivery.kept_bytes == before + 4, "once"


def test_an_agreed_unit_that_waits_does_not_hold_up_a_causal_one_behind_weak_units() -> None:
    delivery = Delivery(Lines.of(3))
    nothing = (0, 0, 0)
    assert delivery.take([unit(1, lamport=10)]) == []
    fifo = unit(2, Service.FIFO, lamport=20, past=nothing)
    assert delivery.take([fifo]) == [fifo]
    causal = unit(1, Service.CAUSAL, site=1, daemon=1, lamport=30, past=(2, 0, 0))
    assert delivery.take([causal]) == [causal]
    waits = unit(2, Service.CAUSAL, site=1, daemon=1, lamport=40, past=(3, 0, 0))
    assert delivery.take([waits]) == [], "the third of site 0 has not come"
