"""CAUSAL waits for its past and for nothing else."""

from __future__ import annotations

from isotone.core.services import Service
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.units import BEFORE_ALL, Unit, UnitKind


def unit(service: Service, site: int, sequence: int, lamport: int, weak_before: tuple[int, ...] = (0, 0)) -> Unit:
    return Unit(UnitKind.BUNDLE, service, site, site, sequence, lamport, 0, b"x", weak_before, BEFORE_ALL)


def test_what_passed_in_the_total_order_holds_up_nobody() -> None:
    lines = Lines.of(2)
    delivery = Delivery(lines)
    first, second = unit(Service.FIFO, 0, 1, 1), unit(Service.FIFO, 0, 2, 2)
    assert delivery.take([first, second]) == [first, second]
    lines.sites[1].promise(0, 10)
    delivery.lines_moved()
    assert not delivery.undelivered() and lines.agreed == 2
    behind = unit(Service.CAUSAL, 1, 1, 11, weak_before=(2, 0))
    assert delivery.take([behind]) == [behind]


def test_it_waits_for_a_weak_unit_that_has_not_come() -> None:
    delivery = Delivery(Lines.of(2))
    behind = unit(Service.CAUSAL, 1, 1, 11, weak_before=(2, 0))
    assert delivery.take([unit(Service.FIFO, 0, 1, 1), behind])[1:] == []
    last = unit(Service.FIFO, 0, 2, 2)
    assert delivery.take([last]) == [last, behind]
