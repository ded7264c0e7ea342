"""A thousand mad clients; 100,000 by ``python -m tests.daemon.spread.fuzz --count 100000``."""

from __future__ import annotations

from tests.daemon.spread.fuzz import Fuzz


def test_a_thousand_mutated_handshakes_and_frames_disturb_nobody() -> None:
    fuzz = Fuzz(seed=1)
    fuzz.run(1000)
    counters = fuzz.house.gateway().counters
    assert fuzz.taken["handshakes"] > 200
    assert {"version", "illegal_name", "authentication"} <= set(counters.turned_away)
    assert len(counters.malformed) >= 8, counters.malformed
    assert counters.messages_sent > 100
