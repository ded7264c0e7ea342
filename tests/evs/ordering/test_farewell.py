"""What stands before the transitional signal, and what CAUSAL waits for behind it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.ordering.farewell import Farewell, Progress
from isotone.evs.ordering.holding import Holding, SiteHolding, packed
from isotone.evs.ordering.union import Union
from isotone.evs.ordering.units import BEFORE_ALL, Unit, UnitKind

SITES = 2


def unit(service: Service, site: int, sequence: int, lamport: int, weak_before: tuple[int, ...] = (0, 0)) -> Unit:
    return Unit(UnitKind.BUNDLE, service, site, site, sequence, lamport, 0, b"x", weak_before, BEFORE_ALL)


def no_hole(site: int) -> int | None:
    return None


def every_content(site: int, sequence: int) -> bool:
    return True


def parted(units: Sequence[Unit], **union: object) -> tuple[list[int], list[int]]:
    """The times of what is delivered before and after the signal."""
    said = {"agreed": 0, "stable": 0, "committed": 0, "hole": no_hole, "has_content": every_content} | union
    empty = [[] for _ in range(SITES)]  # type: ignore[var-annotated]
    known = SimpleNamespace(settled=[0] * SITES, metadata=empty, content=empty, **said)
    farewell = Farewell(cast(Union, known), units, Progress([0] * SITES, [frozenset()] * SITES), frozenset())
    before, after = farewell.delivered()
    return [each.lamport for each in before], [each.lamport for each in after]


def test_the_signal_stands_before_the_first_that_is_not_stable_and_whose_content_nobody_has() -> None:
    units = [unit(Service.AGREED, 0, number, number) for number in range(1, 7)]
    lines = {"agreed": 6, "stable": 2}
    assert parted(units, **lines) == ([1, 2, 3, 4, 5, 6], [])
    for lost in (1, 2, 3, 4, 5, 6):

        def has_content(site: int, sequence: int, lost: int = lost) -> bool:
            return sequence != lost

        border = lost if lost > 2 else 7
        found = parted(units, **lines, has_content=has_content)
        assert found == (list(range(1, border)), list(range(border, 7))), (
            "what is agreed somewhere may be SAFE elsewhere"
        )


def test_a_weak_unit_whose_content_nobody_has_is_no_border() -> None:
    units = [unit(Service.RELIABLE, 0, 1, 1), unit(Service.AGREED, 0, 2, 2)]
    assert parted(units, agreed=2, has_content=lambda site, sequence: sequence == 2) == ([1, 2], [])


def test_causal_is_delivered_behind_a_weak_past_that_is() -> None:
    past = [unit(Service.FIFO, 0, 1, 1), unit(Service.FIFO, 0, 2, 2)]
    causal = unit(Service.CAUSAL, 1, 1, 3, weak_before=(2, 0))
    assert parted([*past, causal]) == ([1, 2, 3], [])
    assert parted([*past[:1], causal]) == ([1], [])


def test_an_agreed_message_that_is_lost_does_not_hold_up_a_weak_one() -> None:
    units = [unit(Service.AGREED, 0, 1, 9), unit(Service.FIFO, 0, 2, 10)]
    causal = unit(Service.CAUSAL, 1, 1, 11, weak_before=(2, 0))
    assert parted([*units, causal], hole={0: None, 1: 1}.get) == ([10, 11], [])


def told(agreed: int, stable: int, *sites: SiteHolding, committed: int = 0) -> Holding:
    return Holding(agreed, stable, committed, 0, sites)


def test_a_union_is_the_most_that_anybody_knows() -> None:
    union = Union(
        {
            1: told(10, 5, SiteHolding(3, 9, packed([(1, 4), (6, 6)])), committed=7),
            0: told(8, 8, SiteHolding(2, 7, packed([(3, 3), (7, 7)]), packed([(5, 5)]))),
        },
        sites=1,
    )
    assert (union.agreed, union.stable, union.committed) == (10, 8, 7)
    assert union.settled == [3] and union.places == [[(1, 3), (5, 5)]]
    assert union.content == [[(1, 4), (6, 7)]] and union.metadata == [[(5, 5)]]
    assert union.lacked_by(0, 0) == [(4, 4), (6, 6)] and union.lacked_by(1, 0) == [(7, 7)]
    assert union.resent_by(0, 0) == [(7, 7)] and union.resent_by(1, 0) == [(4, 4), (6, 6)]
    assert union.hole(0) == 5
    assert [union.has_content(0, each) for each in (4, 5, 6)] == [True, False, True]


def test_metadata_below_a_line_whose_content_nobody_has_is_sent_again_by_the_first_that_is_settled() -> None:
    union = Union(
        {
            0: told(9, 0, SiteHolding(2, 9, packed([(3, 3)]), packed([(5, 5)]))),
            1: told(9, 0, SiteHolding(6, 9)),
            2: told(9, 0, SiteHolding(7, 9)),
        },
        sites=1,
    )
    assert [union.metadata_resent_by(daemon, 0) for daemon in range(3)] == [[], [(4, 4), (6, 6)], [(7, 7)]]
    assert [union.metadata_lacked_by(daemon, 0) for daemon in range(3)] == [[(4, 4), (6, 7)], [(7, 7)], []]


def test_the_first_hole_of_a_site() -> None:
    for settled, known, content, hole in (
        (0, 0, [], None),
        (0, 1, [], 1),
        (0, 3, [(2, 3)], 1),
        (0, 3, [(1, 3)], None),
        (0, 4, [(1, 3)], 4),
        (2, 3, [(3, 3)], None),
        (2, 4, [(4, 4)], 3),
        (1, 5, [(3, 5)], 2),
    ):
        union = Union({0: told(9, 0, SiteHolding(settled, known, packed(content)))}, sites=1)
        assert union.hole(0) == hole


def test_who_is_below_what_another_knows_to_be_everywhere_lies() -> None:
    Union({0: told(5, 5, SiteHolding(0, 0)), 1: told(9, 5, SiteHolding(0, 0))}, sites=1)
    with pytest.raises(RemoteProtocolError):
        Union({0: told(5, 5, SiteHolding(0, 0)), 1: told(9, 6, SiteHolding(0, 0))}, sites=1)


def test_everything_stands_before_the_signal_up_to_the_agreed_line_and_the_first_safe_that_is_not_stable() -> None:
    units = [unit(Service.AGREED, 0, 1, 1), unit(Service.SAFE, 0, 2, 2), unit(Service.AGREED, 0, 3, 3)]
    assert parted(units, agreed=2, stable=2) == ([1, 2], [3])
    assert parted(units, agreed=3, stable=1) == ([1], [2, 3])
    assert parted(units, agreed=3, stable=2) == ([1, 2, 3], [])


def test_agreed_units_are_delivered_below_the_least_time_that_a_hole_can_have() -> None:
    units = [unit(Service.AGREED, 0, 1, 10), unit(Service.AGREED, 1, 1, 11), unit(Service.AGREED, 1, 2, 12)]
    hole = {0: 2, 1: None}.get
    assert parted(units, hole=hole) == ([], [10]), "the second of site 0 may have the time 11"
    assert parted(units, hole=hole, committed=11) == ([], [10, 11])
    assert parted(units, hole=hole, agreed=11, stable=0) == ([10, 11], [])
    assert parted(units, hole={0: 1, 1: None}.get) == ([], [])


def test_how_far_everything_is_delivered() -> None:
    def clear_through(*units: Unit, **union: object) -> int:
        said = {"agreed": 3, "stable": 0, "committed": 4, "hole": no_hole, "has_content": every_content} | union
        empty = [[] for _ in range(SITES)]  # type: ignore[var-annotated]
        known = SimpleNamespace(settled=[0] * SITES, metadata=empty, content=empty, **said)
        return Farewell(
            cast(Union, known), units, Progress([0] * SITES, [frozenset()] * SITES), frozenset()
        ).clear_through()

    assert clear_through() == 4
    assert clear_through(unit(Service.AGREED, 0, 1, 9)) == 9
    assert clear_through(agreed=7) == 7
    assert clear_through(unit(Service.AGREED, 0, 1, 9), hole={0: 2, 1: None}.get) == 9
    assert clear_through(unit(Service.AGREED, 0, 1, 9), hole={0: 1, 1: None}.get) == 4
    assert clear_through(agreed=0, committed=0, hole={0: 1, 1: None}.get) == 0, "nothing: what is missing may be first"


def test_a_causal_unit_waits_for_an_agreed_past_below_the_hole() -> None:
    agreed = unit(Service.AGREED, 0, 1, 10)
    for before, delivered in ((10, [10, 12]), (11, [10])):
        causal = Unit(UnitKind.BUNDLE, Service.CAUSAL, 1, 1, 1, 12, 0, b"x", (0, 0), (before, 0))
        assert parted([agreed, causal], hole={0: 2, 1: None}.get) == ([], delivered)


def test_a_fifo_unit_waits_for_its_session() -> None:
    first = Unit(UnitKind.BUNDLE, Service.FIFO, 0, 0, 1, 1, 0, b"x", (0, 0))
    second = Unit(UnitKind.BUNDLE, Service.FIFO, 0, 0, 3, 3, 1, b"x", (1, 0))
    third = Unit(UnitKind.BUNDLE, Service.FIFO, 0, 0, 4, 4, 2, b"x", (1, 0))
    assert parted([first, second, third]) == ([1, 3], []), "what the third stands behind is not here"
    assert parted([second]) == ([], [])
