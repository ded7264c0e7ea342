"""What a line that rises costs, whatever is kept above it: the lines of code that run grow in proportion to the units.

A fast wide-area link keeps thousands of units; looking at all of them each time a line rises would cost their square.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from isotone.core.services import Service
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.lines import Lines, SiteLine
from isotone.evs.ordering.pruning import Pruner
from isotone.evs.ordering.units import Unit, UnitKind

FEW, MANY = 100, 1_000


def steps(work: Callable[[], None]) -> int:
    """How many lines of Python run, those of comprehensions and generators for each of their turns."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def unit(sequence: int, service: Service, weak_before: tuple[int, ...] = ()) -> Unit:
    return Unit(UnitKind.BUNDLE, service, 0, 0, sequence, 10 * sequence, 0, b"", weak_before)


def stable_units_are_forgotten(count: int) -> None:
    pruner = Pruner(0)
    for sequence in range(1, count + 1):
        pruner.pruned(unit(sequence, Service.AGREED), ("g",), 1)
    pruner.joined(1, "g")
    for sequence in range(1, count + 1):
        pruner.stable_through(10 * sequence)


def metadata_is_cleared(count: int) -> None:
    line = SiteLine()
    for sequence in range(1, count + 1):
        line.bare(sequence, 10 * sequence)
        line.advance(sequence, 10 * sequence)
    for sequence in range(1, count + 1):
        line.clear(10 * sequence, [])
    assert line.line == 10 * count


def causal_units_wait_for_their_past(count: int) -> None:
    """The other site is silent, so nothing is walked."""
    delivery = Delivery(Lines.of(2))
    delivered = [
        each for sequence in range(count) for each in delivery.take([unit(sequence + 1, Service.CAUSAL, (sequence, 0))])
    ]
    assert len(delivered) == count and delivery.streams[0].walked == 0


@pytest.mark.parametrize("work", [stable_units_are_forgotten, metadata_is_cleared, causal_units_wait_for_their_past])
def test_ten_times_the_units_take_ten_times_the_steps(work: Callable[[int], None]) -> None:
    few, many = steps(lambda: work(FEW)), steps(lambda: work(MANY))
    assert many < 1.1 * MANY / FEW * few, (few, many)
