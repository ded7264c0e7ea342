"""Two data centres through one disaster, explored to the end; the numbers of reachable states are pinned."""

from __future__ import annotations

import pytest

from isotone.hab.centre import Centre
from isotone.hab.settings import HabSettings, Mode
from isotone.sim.explorer import explore
from tests.model.hab_model import TwoCentres


@pytest.mark.parametrize(("mode", "states"), [(Mode.WAITING, 542), (Mode.AT_ONCE, 506)])
def test_every_interleaving_keeps_the_order(mode: Mode, states: int) -> None:
    found = explore(TwoCentres(mode))
    assert found.violation is None, str(found.violation)
    assert (found.states, found.deadlocks, found.complete) == (states, 0, True)


def test_a_primary_that_does_not_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_it(centre: Centre, settings: HabSettings) -> int:
        return centre.log.end

    monkeypatch.setattr(Centre, "ahead", all_of_it)
    found = explore(TwoCentres(Mode.WAITING))
    assert found.violation is not None and "the primary delivered" in found.violation.problem
