"""D-linger: who is alone to send keeps the token a little, and nobody else has to wait for that."""

from __future__ import annotations

import pytest

from isotone.core.choice import Choice
from isotone.evs.links.ring import Origination, RingSettings
from tests.evs.links.ring_pair import Lan, Numbers, lan_of
from tests.evs.links.test_ring import assert_complete, stamps

SETTINGS = RingSettings()


class UrgentNumbers(Numbers):
    """As of SAFE messages: somebody waits for the line."""

    def originate(self, *, site_sequence: int, site_lamport: int, bytes_max: int) -> Origination:
        made = super().originate(site_sequence=site_sequence, site_lamport=site_lamport, bytes_max=bytes_max)
        return Origination(made.frames, made.site_sequence, made.site_lamport, urgent=True)


def rested(members: int = 3) -> Lan:
    """The token rests with member 0, who sent last."""
    lan = lan_of(members, 1)
    lan.submit(0, b"first")
    lan.run(1_000_000)
    return lan


def test_messages_a_millisecond_apart_cost_their_own_packets_and_few_more() -> None:
    lan = rested()
    before = lan.sent
    for _ in range(15):
        lan.submit(0, b"x")
        lan.run(lan.now + 1_000)
    assert lan.sent - before == 15, "the token stays"
    assert lan.run(lan.now + 1_000_000)
    assert_complete(lan, 16)
    assert set(lan.lines.values()) == {stamps(lan)[-1][1]}, "and goes round in the end"
    assert all(len(ring._packets) == 0 for ring in lan.rings.values())


def test_it_goes_round_after_its_time_though_messages_keep_coming() -> None:
    lan = rested()
    for _ in range(4 * SETTINGS.linger_max):
        lan.submit(0, b"x")
        lan.run(lan.now + 1_000)
        assert len(lan.rings[0]._packets) <= SETTINGS.linger_max + 12
    lan.run(lan.now + 1_000_000)
    assert_complete(lan, 4 * SETTINGS.linger_max + 1)


def test_who_asks_gets_it_at_once() -> None:
    lan = rested()
    lan.submit(0, b"x")
    lan.run(lan.now + 1_000)
    start = lan.now
    lan.submit(2, b"mine")
    while not lan.origins[2].stamped:
        lan.run(lan.now + 10)
    assert lan.now - start <= 2 * (lan.latency_us + lan.jitter_us) + 10


def test_what_somebody_waits_for_goes_round_at_once() -> None:
    lan = rested()
    lan.rings[0]._origin = UrgentNumbers(0, received=lan.origins[0].received, line=lan.origins[0].line, through=1)
    lan.origins[0] = lan.rings[0]._origin  # type: ignore[assignment]
    start = lan.now
    lan.submit(0, b"x")
    top = lan.origins[0].stamped[-1][1]
    while lan.lines[0] < top:
        lan.run(lan.now + 100)
    assert lan.now - start < SETTINGS.linger_us // 2


def test_much_is_never_kept_back() -> None:
    lan = rested()
    for _ in range(SETTINGS.linger_max + 1):
        lan.submit(0, b"x" * SETTINGS.body_bytes)
    assert lan.rings[0]._custody.at_rest is None


@pytest.mark.parametrize("seed", range(20))
def test_a_line_is_claimed_only_when_all_have_it(seed: int) -> None:
    """Two visits in a row without a rotation show a line that nobody else was asked about."""
    choice = Choice(f"linger/{seed}")
    lan = lan_of(3, seed, loss=0.3, settings=RingSettings(token_retries_max=60, linger_us=choice.pick([500, 20_000])))
    for _ in range(60):
        lan.submit(choice.pick([0, 0, 0, 1]), b"x")
        lan.run(lan.now + choice.between(0, 3_000))
        slowest = min(origin.line for origin in lan.origins.values())
        assert all(line <= slowest for line in lan.lines.values()), "a claim that is not true"
