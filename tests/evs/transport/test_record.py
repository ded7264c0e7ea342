"""What a daemon records of its network: the same of a unit wherever it comes, with its content or without."""

from __future__ import annotations

from isotone.core.services import Service
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.transport.record import NetworkRecord
from tests.evs.transport.cluster import Cluster


def unit(body: bytes) -> Unit:
    return Unit(UnitKind.BUNDLE, Service.AGREED, 0, 0, 1, 5, 0, body)


def test_what_is_recorded_tells_contents_apart_unless_sites_may_get_none() -> None:
    view = Cluster("a b", "a-b").view
    for pruning in (False, True):
        record = NetworkRecord(view, "b", enabled=True, pruning=pruning)
        one, other = record.received([unit(b"one")]), record.received([unit(b"other")])
        assert (one == other) is pruning
        assert (record.received([unit(b"one").pruned()]) == one) is pruning
