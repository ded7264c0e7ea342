"""How long lines may stand still while somebody waits for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from isotone.core.contract import CancelTimer, SetTimer
from isotone.evs.ordering.lines import Lines
from isotone.evs.transport.patience import PATIENCE_TIMER, Patience

STALL_US = 1_000


def waiting(lines: SimpleNamespace) -> Patience:
    return Patience(cast(Lines, lines), STALL_US)


def test_lines_that_move_have_the_whole_time_again() -> None:
    lines = SimpleNamespace(agreed=0, stable=0, slowest=lambda: [1])
    patience = waiting(lines)
    assert patience.look(0, top=5) == [SetTimer(PATIENCE_TIMER, STALL_US)]
    lines.agreed = 3
    assert patience.look(600, top=5) == []
    assert patience.fired(STALL_US) is None
    assert patience.rearm(STALL_US) == [SetTimer(PATIENCE_TIMER, 600)]
    assert "no line moved for 1 ms" in (patience.fired(1_600) or "")


def test_nobody_looks_when_nothing_waits() -> None:
    lines = SimpleNamespace(agreed=0, stable=0)
    patience = waiting(lines)
    assert patience.look(0, top=0) == [] and patience.rearm(0) == []
    patience.look(0, top=5)
    lines.stable = 5
    assert patience.look(10, top=5) == [CancelTimer(PATIENCE_TIMER)]
    assert patience.fired(STALL_US) is None and patience.rearm(STALL_US) == []
