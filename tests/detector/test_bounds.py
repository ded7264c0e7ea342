"""The promised worst times, against runs of the detector under random conditions that keep to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.core.choice import Choice
from isotone.detector.bounds import (
    Conditions,
    idle_core_ppm,
    one_way_suspected_within_us,
    refusal_confirmed_within_us,
    silence_suspected_within_us,
    suspected_after_pause_within_us,
    trusted_within_us,
)
from isotone.detector.detector import Detector
from isotone.detector.evidence import Reason
from isotone.detector.settings import DetectorSettings
from isotone.detector.signals import EvidenceReported, Heard, PeerAdded, Suspect, Trust
from tests.detector.network import Network, never

SECOND = 1_000_000
SETTINGS = DetectorSettings()
LAN = Conditions(peers=7, round_trip_us=2_000, lateness_us=5_000)
# Later wake-ups than pause_min_us would be pauses, and these bounds are for a daemon that is awake.
CONDITIONS = st.builds(
    lambda peers, round_trip_us, lateness_us: Conditions(
        peers=peers, round_trip_us=round_trip_us, lateness_us=lateness_us
    ),
    st.integers(1, 12),
    st.sampled_from([300, 2_000, 40_000, 300_000]),
    st.sampled_from([0, 3_000, 20_000, 60_000]),
)


def running(conditions: Conditions, seed: int, warm_up_us: int) -> Network:
    """A detector whose peers answer and whose wake-ups are late, within the conditions."""
    choice = Choice(seed)
    network = Network(
        Detector(SETTINGS),
        answer=lambda probe, at: choice.between(conditions.round_trip_us // 2, conditions.round_trip_us),
        lateness=lambda: choice.below(conditions.lateness_us + 1),
    )
    for number in range(conditions.peers):
        network.feed(PeerAdded(0, f"peer{number}"))
    network.run_until(10 * SECOND + warm_up_us)
    assert network.count(Suspect) == 0
    return network


def suspected_at(network: Network, peer: str) -> int:
    """When the peer was suspected; runs on until it was."""
    limit = network.now + 60 * SECOND
    while peer not in network.detector.suspected:
        network.run_until(network.now + 10_000)
        assert network.now < limit
    return next(at for at, action in network.log if isinstance(action, Suspect) and action.peer == peer)


@settings(max_examples=40)
@given(CONDITIONS, st.integers(0, 1_000), st.integers(0, SECOND))
def test_silence_is_suspected_in_time(conditions: Conditions, seed: int, warm_up_us: int) -> None:
    network = running(conditions, seed, warm_up_us)
    network.answer = never
    network.feed(Heard(network.now, "peer0"))
    last_heard = network.now - network.detector.report("peer0", network.now).silent_us
    network.run_until(network.now + conditions.round_trip_us + 1)  # answers that were under way
    last_heard = max(last_heard, network.now - network.detector.report("peer0", network.now).silent_us)
    took = suspected_at(network, "peer0") - last_heard
    assert took <= silence_suspected_within_us(SETTINGS, conditions)


@settings(max_examples=40)
@given(CONDITIONS, st.integers(0, 1_000), st.integers(0, SECOND))
def test_a_refusal_is_confirmed_in_time(conditions: Conditions, seed: int, warm_up_us: int) -> None:
    network = running(conditions, seed, warm_up_us)
    network.answer = never
    network.run_until(network.now + conditions.round_trip_us + 1)
    if network.detector.suspected:
        return
    refused = network.now
    network.feed(EvidenceReported(refused, "peer0", Reason.REFUSED_PORT))
    took = suspected_at(network, "peer0") - refused
    assert took <= refusal_confirmed_within_us(SETTINGS, conditions)


@settings(max_examples=15)
@given(CONDITIONS, st.integers(0, 1_000))
def test_a_one_way_link_is_found_in_time(conditions: Conditions, seed: int) -> None:
    network = running(conditions, seed, 0)
    network.answer = never
    network.run_until(network.now + conditions.round_trip_us + 1)
    cut = network.now
    while "peer0" not in network.detector.suspected:
        network.feed(Heard(network.now + 50_000, "peer0"))
        assert network.now < cut + 60 * SECOND
    assert suspected_at(network, "peer0") - cut <= one_way_suspected_within_us(SETTINGS, conditions)


@settings(max_examples=40)
@given(CONDITIONS, st.integers(0, 1_000), st.integers(1, 100 * SECOND))
def test_after_a_pause_the_dead_are_found_in_time(conditions: Conditions, seed: int, pause_us: int) -> None:
    network = running(conditions, seed, 0)
    network.answer = never
    network.run_until(network.now + conditions.round_trip_us + 1)
    network.sleep(network.now + pause_us)
    resumed = network.now
    if network.detector.suspected:
        return
    took = suspected_at(network, "peer0") - resumed
    assert took <= suspected_after_pause_within_us(SETTINGS, conditions)


@settings(max_examples=15)
@given(CONDITIONS, st.integers(0, 1_000), st.integers(0, SECOND))
def test_who_comes_back_is_trusted_in_time(conditions: Conditions, seed: int, gone_us: int) -> None:
    network = running(conditions, seed, 0)
    answer, network.answer = network.answer, never
    network.run_until(network.now + 20 * SECOND + gone_us)
    network.answer = answer
    back = network.now
    network.run_until(back + trusted_within_us(SETTINGS, conditions) + 1)
    assert network.count(Trust, back) == conditions.peers


def test_the_defaults_keep_the_promises_of_the_page() -> None:
    assert silence_suspected_within_us(SETTINGS, LAN) < SECOND
    assert refusal_confirmed_within_us(SETTINGS, LAN) < 100_000


PAGE = Path(__file__).parents[2] / "docs" / "protocols" / "detector.md"
ROWS = {
    "LAN: round trip 2 ms, wake-ups 5 ms late": LAN,
    "WAN: 60 ms ± 5 ms, 5 ms late": Conditions(peers=7, round_trip_us=60_000, variation_us=5_000, lateness_us=5_000),
    "30 % of packets lost each way": Conditions(peers=7, round_trip_us=2_000, lost_ppm=510_000, lateness_us=5_000),
    "saturated: wake-ups 50 ms late": Conditions(peers=7, round_trip_us=2_000, lateness_us=50_000),
}
PROMISES = (
    silence_suspected_within_us,
    refusal_confirmed_within_us,
    one_way_suspected_within_us,
    suspected_after_pause_within_us,
    trusted_within_us,
)


@pytest.mark.parametrize("name", ROWS)
def test_the_table_on_the_page_is_what_the_functions_say(name: str) -> None:
    cells = [str(promise(SETTINGS, ROWS[name]) // 1000) for promise in PROMISES]
    assert f"| {' | '.join([name, *cells])} |" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("peers", [1, 7, 8, 20, 100])
def test_idle_keep_alives_take_less_than_one_per_cent_of_a_core(peers: int) -> None:
    assert idle_core_ppm(SETTINGS, Conditions(peers=peers)) < 10_000
