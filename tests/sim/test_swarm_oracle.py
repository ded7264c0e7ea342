"""75 standard runs on the oracle: no violation, every safety property exercised, every kind of free choice taken.

The seeds come in chunks, so that they spread over the cores of the machine; each chunk must cover everything by itself.
"""

from __future__ import annotations

import pytest

from isotone.sim.plan import SCALES, Size
from isotone.sim.swarm import run_swarm, summarise_swarm
from isotone.sim.system import Setting
from isotone.spec.oracle import CHOICES
from isotone.spec.properties import PROPERTIES, Boundary, Form

SETTING = Setting()
CHUNK = 25
SAFETY = [
    each.label(Boundary.CLIENTS)
    for each in PROPERTIES
    if each.form is Form.SAFETY and Boundary.CLIENTS in each.boundaries
]


@pytest.mark.parametrize("first", range(1, 76, CHUNK))
def test_the_oracle_keeps_every_promise_and_takes_every_choice(first: int) -> None:
    results = run_swarm(SETTING, range(first, first + CHUNK), workers=1)
    summary = summarise_swarm(SETTING, results)
    assert summary.failures == (), [f"{failure.property}: {failure.replay}" for failure in summary.failures]
    assert [label for label in SAFETY if not summary.properties[label]["holds"]] == [], "never exercised"
    assert [kind for kind in CHOICES if not summary.choices.get(kind)] == [], "never taken"
    scale = SCALES[Size.STANDARD]
    for result in results:
        assert result.sends >= scale.sends_min
        assert result.faults >= scale.faults_min
        assert result.view_changes >= 5
    assert summary.bounds["live"] <= 1
