"""One daemon's end of a view by hand: holdings on the wire, lies about them, coarsening, and commitments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.membership.messages import HOLDING_PIECE_BYTES_MAX, HOLDING_PIECES_MAX
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.holding import (
    RUNS_MAX,
    Holding,
    Run,
    SiteHolding,
    coarse,
    contains,
    packed,
    runs_of,
    shared,
    united,
    unpacked,
    without,
)
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.recovery import Recovery
from isotone.evs.ordering.units import Unit, UnitKind

sequences = st.sets(st.integers(1, 40)).map(lambda each: runs_of(sorted(each)))
EMPTY = SiteHolding(0, 0)


def unit(
    site: int, sequence: int, lamport: int, service: Service = Service.AGREED, *, daemon: int | None = None
) -> Unit:
    past = (0, 0) if service < Service.AGREED else ()
    return Unit(UnitKind.BUNDLE, service, site, site if daemon is None else daemon, sequence, lamport, 0, b"body", past)


def recovery(me: int, *units: Unit, sites: int = 2, line: int = 0, runs_max: int = RUNS_MAX) -> Recovery:
    """Of a daemon that has these units; every site promised all that is here up to a time."""
    delivery = Delivery(Lines.of(sites))
    delivery.take(list(units))
    for site in delivery.lines.sites:
        site.promise(site.contiguous, line)
    delivery.lines_moved()
    return Recovery(delivery, me=me, lamport=100, runs_max=runs_max)


def exchange(*all_of_them: Recovery) -> None:
    holdings = {each.me: each.holding() for each in all_of_them}
    sent = [unit for each in all_of_them for unit in each.begin(holdings)]
    for each in all_of_them:
        each.take(sent)


def members(runs: list[Run]) -> set[int]:
    return {each for first, last in runs for each in range(first, last + 1)}


@given(sequences, sequences)
def test_runs_are_sets(some: list[Run], others: list[Run]) -> None:
    assert members(united(some, others)) == members(some) | members(others)
    assert members(without(some, others)) == members(some) - members(others)
    assert members(shared(some, others)) == members(some) & members(others)
    assert unpacked(packed(some), known=40) == some
    assert all(contains(some, each) == (each in members(some)) for each in range(42))


def test_too_many_runs_are_told_in_part() -> None:
    """What was settled goes first, then the highest."""
    runs = [[(each, each) for each in range(1, 20, 2)], [(each, each) for each in range(1, 20, 2)]]
    less = coarse(runs, [9, 0], limit=12)
    assert less[0] == runs[0][5:] and less[1] == runs[1][:7]
    assert coarse(runs, [9, 0]) == runs
    odd = [unit(0, each, each, Service.RELIABLE) for each in range(3, 400, 2)]
    told = recovery(0, *odd, runs_max=100).holding()
    assert len(told.sites[0].content) == 2 * 100
    assert HOLDING_PIECE_BYTES_MAX * HOLDING_PIECES_MAX > 2 * RUNS_MAX * 18, "a run takes two numbers"


def test_what_is_not_claimed_is_as_if_it_had_never_come() -> None:
    """Everybody who comes along delivers the same, also where a daemon has more than it said."""
    odd = [unit(0, each, each, Service.RELIABLE, daemon=1) for each in range(3, 209, 2)]
    some, other = recovery(0, *odd, runs_max=100), recovery(1)
    exchange(some, other)
    assert some.is_complete and other.is_complete
    assert len(other.conclude(frozenset({0, 1})).before) == 100


def test_content_that_is_settled_and_not_claimed_leaves_its_place() -> None:
    """Another daemon, at which it is not settled, waits for the metadata, and gets it."""
    units = [unit(0, each, each) if each % 2 else unit(0, each, each).pruned() for each in range(1, 9)]
    some, other = recovery(0, *units, line=8, runs_max=2), recovery(1, *[each.pruned() for each in units[:3]])
    exchange(some, other)
    assert some.is_complete and other.is_complete
    some.commit()
    other.commit()


@pytest.mark.parametrize("count", [1, 10_000])
def test_what_was_delivered_is_told_in_as_many_runs_as_it_takes(count: int) -> None:
    """Every second unit of a site was pruned here: the other, which has none of them, delivers the same in the view."""
    units = [
        Unit(UnitKind.BUNDLE, Service.RELIABLE, 0, 0, each, each, each - 1, b"m", (each - 1, 0))
        for each in range(1, 2 * count + 1)
    ]
    mixed = [each if each.sequence % 2 else each.pruned() for each in units]
    some, other = recovery(0, *mixed), recovery(1)
    exchange(some, other)
    assert sum(each.kind is UnitKind.BUNDLE for each in other.conclude(frozenset({0, 1})).before) == count


def test_the_lowest_that_has_a_unit_sends_it_again() -> None:
    first, second = unit(0, 1, 1), unit(0, 2, 2)
    daemons = [recovery(0, first), recovery(1, first, second), recovery(2, first, second), recovery(3)]
    holdings = {each.me: each.holding() for each in daemons}
    assert [each.begin(holdings) for each in daemons] == [[first], [second], [], []]
    assert [each.is_complete for each in daemons] == [False, True, True, False]


def test_units_may_come_before_the_last_holding_did() -> None:
    mine, theirs = recovery(0), recovery(1, unit(0, 1, 1))
    holdings = {0: mine.holding(), 1: theirs.holding()}
    mine.take(theirs.begin(holdings))
    assert not mine.is_complete
    assert mine.begin(holdings) == [] and mine.is_complete


def test_a_unit_that_comes_twice_counts_once() -> None:
    mine, theirs = recovery(0), recovery(1, unit(0, 1, 1), unit(0, 2, 2))
    holdings = {0: mine.holding(), 1: theirs.holding()}
    mine.begin(holdings)
    sent = theirs.begin(holdings)
    mine.take([sent[0], sent[0]])
    assert not mine.is_complete
    mine.take(sent)
    assert mine.is_complete


def test_nothing_is_concluded_before_everything_is_there() -> None:
    mine, theirs = recovery(0), recovery(1, unit(0, 1, 1))
    with pytest.raises(LocalProtocolError):
        mine.conclude(frozenset())
    mine.begin({0: mine.holding(), 1: theirs.holding()})
    with pytest.raises(LocalProtocolError):
        mine.commit()
    with pytest.raises(LocalProtocolError):
        mine.begin({1: theirs.holding()})


def test_before_the_signal_stands_what_one_of_us_may_have_delivered() -> None:
    """Reference: [Spread Theorem 6.14 (b)]."""
    units = [unit(0, 1, 1), unit(1, 1, 2), unit(0, 2, 3, Service.SAFE), unit(1, 2, 4)]
    far, near = recovery(0, *units, line=4), recovery(1, units[0])
    exchange(far, near)
    for each in (far, near):
        concluded = each.conclude(frozenset({0, 1}))
        before = [] if each is far else units[:2]
        assert (concluded.before, concluded.after) == (before, units[2:]), (
            "a SAFE unit that is not stable is the border"
        )


def test_behind_a_hole_only_the_committed_are_delivered() -> None:
    """Reference: [Spread Figure 6.16]."""
    lost, theirs, mine = unit(0, 1, 1), unit(0, 2, 2, daemon=7), unit(1, 1, 3)
    reliable = unit(0, 3, 4, Service.RELIABLE, daemon=7)
    each = recovery(1, theirs, mine, reliable)
    exchange(each)
    assert lost not in each._units[0].values()
    assert each.conclude(frozenset()).after == [mine], "reliable was delivered on arrival"
    assert each.conclude(frozenset({7})).after == [theirs, mine]


def test_a_commitment_outlives_its_attempt() -> None:
    """Two committed, one of them installed; the other meets a third, who knows of a hole before what was promised."""
    known, safe = unit(0, 1, 1), unit(1, 1, 5, Service.SAFE, daemon=8)
    installed, other = recovery(2, known, safe), recovery(3, known, safe)
    third = recovery(4, known, unit(0, 3, 3))  # the second of site 0 is nowhere
    exchange(installed, other)
    installed.commit()
    other.commit()
    assert installed.conclude(frozenset({2, 3})).after == [safe]
    exchange(other, third)
    for each in (other, third):
        each.commit()
        assert safe in each.conclude(frozenset({2, 3, 4})).after
    uncommitted, third = recovery(3, known, safe), recovery(4, known, unit(0, 3, 3))
    exchange(uncommitted, third)
    assert safe not in uncommitted.conclude(frozenset({2, 3, 4})).after


def test_committing_raises_the_lines() -> None:
    far, near = recovery(0, unit(0, 1, 1), unit(1, 1, 2), line=2), recovery(1)
    exchange(far, near)
    near.commit()
    told = near.holding()
    assert told.agreed_line == 2 and [site.settled for site in told.sites] == [1, 1]


def test_pruned_content_is_a_hole_unless_it_was_passed() -> None:
    whole = unit(0, 1, 1)
    passed, waits = recovery(0, whole.pruned()), recovery(1, whole.pruned())
    assert passed.holding().sites[0] == SiteHolding(0, 1, (), (0, 1))
    exchange(passed, waits)
    assert waits.conclude(frozenset({0, 1})).after == []
    has = recovery(2, whole)
    exchange(waits, has)
    assert waits.conclude(frozenset({1, 2})).after == [whole]


# --- lies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "told",
    [
        Holding(0, 0, 0, 0, (EMPTY,)),
        Holding(0, 0, 0, 0, (EMPTY,) * 3),
        Holding(0, 1, 0, 0, (EMPTY, EMPTY)),
        Holding(-1, -1, 0, 0, (EMPTY, EMPTY)),
        Holding(1 << 63, 0, 0, 0, (EMPTY, EMPTY)),
        Holding(0, 0, 0, 0, (SiteHolding(2, 1), EMPTY)),
        Holding(0, 0, 0, 0, (SiteHolding(0, 5, (0,)), EMPTY)),
        Holding(0, 0, 0, 0, (SiteHolding(0, 5, (0, 6)), EMPTY)),
        Holding(0, 0, 0, 0, (SiteHolding(0, 5, (0, 0)), EMPTY)),
        Holding(0, 0, 0, 0, (SiteHolding(0, 5, (-1, 2)), EMPTY)),
        Holding(0, 0, 0, 0, (SiteHolding(0, 5, (0, 1, 0, 1)), EMPTY)),
        Holding(0, 0, 0, 0, (SiteHolding(0, 5, (), (0, 9)), EMPTY)),
        Holding(9, 9, 0, 0, (SiteHolding(1, 1), EMPTY)),  # stable, though not even agreed at the other
        Holding(9, 0, 0, 0, (SiteHolding(0, 1), EMPTY)),  # a foreign line: what is below it is not settled
        Holding(0, 0, 0, 0, (SiteHolding(1, 1), EMPTY)),  # settled above the line
        Holding(0, 0, 0, 0, (SiteHolding(0, 1 << 40, (0, 1) * (4 * RUNS_MAX)), EMPTY)),
    ],
)
def test_a_holding_that_cannot_be_is_refused_and_changes_nothing(told: Holding) -> None:
    each = recovery(0, unit(0, 1, 1))
    with pytest.raises(RemoteProtocolError):
        each.begin({0: each.holding(), 1: told})
    assert not each.is_complete
    assert each.begin({0: each.holding()}) == [] and each.is_complete


def test_claims_of_no_end_cost_nothing() -> None:
    each = recovery(0, unit(0, 1, 1))
    top = (1 << 63) - 1
    told = Holding(0, 0, 0, 0, (SiteHolding(0, top, (0, top)), SiteHolding(0, top, (1 << 62, 1))))
    assert each.begin({0: each.holding(), 1: told}) == []
    assert not each.is_complete


numbers = st.integers(-2, 12) | st.integers(0, 1 << 65)
site_holdings = st.builds(SiteHolding, numbers, numbers, st.lists(numbers, max_size=6).map(tuple))


@given(st.builds(Holding, numbers, numbers, numbers, numbers, st.lists(site_holdings, max_size=3).map(tuple)))
def test_whatever_is_told_is_taken_or_refused(told: Holding) -> None:
    each = recovery(1, unit(0, 1, 1), unit(0, 3, 3), unit(1, 1, 2, Service.RELIABLE))
    try:
        each.begin({0: told, 1: each.holding()})
    except RemoteProtocolError:
        return
    if each.is_complete:
        each.commit()
        each.conclude(frozenset({0, 1}))


@pytest.mark.parametrize(
    "sent",
    [unit(2, 1, 1), unit(0, 1, 9).pruned(), unit(0, 1, 9), unit(0, 1, 1, Service.SAFE), unit(0, 1, 1, daemon=4)],
)
def test_a_unit_that_nobody_sends_again_is_refused(sent: Unit) -> None:
    with pytest.raises(RemoteProtocolError):
        recovery(0, unit(0, 1, 1)).take([sent])
