"""What stands before the transitional signal, and what CAUSAL waits for behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import cast

from isotone.core.services import Service
from isotone.evs.ordering.farewell import Farewell
from isotone.evs.ordering.union import Union
from isotone.evs.ordering.units import BEFORE_ALL, Unit, UnitKind

SITES = 2


def unit(service: Service, site: int, sequence: int, lamport: int, weak_before: tuple[int, ...] = (0, 0)) -> Unit:
    return Unit(UnitKind.BUNDLE, service, site, site, sequence, lamport, 0, b"x", weak_before, BEFORE_ALL)


def no_hole(site: int) -> int | None:
    return None


def parted(units: Sequence[Unit], **union: object) -> tuple[list[int], list[int]]:
    """The times of what is delivered before and after the signal."""
    said = {"agreed": 0, "stable": 0, "lowest_agreed": 0, "committed": 0, "has_bare": False, "hole": no_hole} | union
    empty = [[] for _ in range(SITES)]  # type: ignore[var-annotated]
    known = SimpleNamespace(settled=[0] * SITES, metadata=empty, content=empty, **said)
    farewell = Farewell(cast(Union, known), units, [frozenset()] * SITES, frozenset())
    before, after = farewell.delivered()
    return [each.lamport for each in before], [each.lamport for each in after]


def only(last: int) -> Callable[[int, int, int], bool]:
    """Somebody delivered the unit of this time with its content."""
    return lambda site, sequence, lamport: lamport == last


def test_where_content_is_missing_the_signal_stands_behind_the_last_that_somebody_delivered() -> None:
    units = [unit(Service.AGREED, 0, number, number) for number in range(1, 7)]
    lines = {"agreed": 6, "stable": 6, "lowest_agreed": 2}
    assert parted(units, **lines) == ([1, 2, 3, 4, 5, 6], [])
    for last in (2, 3, 4, 5, 6):
        found = parted(units, **lines, has_bare=True, was_agreed_with_content=only(last))
        assert found == (list(range(1, last + 1)), list(range(last + 1, 7)))


def test_causal_is_delivered_behind_a_weak_past_that_is() -> None:
    past = [unit(Service.FIFO, 0, 1, 1), unit(Service.FIFO, 0, 2, 2)]
    causal = unit(Service.CAUSAL, 1, 1, 3, weak_before=(2, 0))
    assert parted([*past, causal]) == ([], [1, 2, 3])
    assert parted([*past[:1], causal]) == ([], [1])


def test_an_agreed_message_that_is_lost_does_not_hold_up_a_weak_one() -> None:
    units = [unit(Service.AGREED, 0, 1, 9), unit(Service.FIFO, 0, 2, 10)]
    causal = unit(Service.CAUSAL, 1, 1, 11, weak_before=(2, 0))
    assert parted([*units, causal], hole={0: None, 1: 1}.get) == ([], [10, 11])
