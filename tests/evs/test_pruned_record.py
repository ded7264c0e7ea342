"""Where sites may get places without content, daemons do not record units: clients are where that is judged."""

from __future__ import annotations

import pytest

from isotone.core.services import Service
from isotone.trace.events import DaemonDelivered, DaemonSent
from tests.evs.explain.house import House


@pytest.mark.parametrize("pruning", [False, True])
def test_units_are_recorded_only_without_pruning(pruning: bool) -> None:
    house = House("a b", pruning=pruning).start()
    house.send("a", Service.AGREED)
    house.run(200)
    assert any(isinstance(row.entry, DaemonSent | DaemonDelivered) for row in house.rows) is not pruning
