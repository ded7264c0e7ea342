"""Round trips, their minimum and the share of lost probes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isotone.detector.estimator import PARTS, ProbeLoss, RoundTrips, RunningMinimum, probes_needed
from isotone.detector.settings import DetectorSettings

SETTINGS = DetectorSettings()
SAMPLES = st.lists(st.integers(0, 10_000_000), min_size=1, max_size=60)


def fed(samples: list[int]) -> RoundTrips:
    trips = RoundTrips(SETTINGS)
    for number, sample in enumerate(samples):
        trips.take(sample, number * 100_000)
    return trips


def test_before_the_first_sample_the_settings_speak() -> None:
    trips = RoundTrips(SETTINGS)
    assert trips.smoothed_us == trips.minimum_us == SETTINGS.round_trip_initial_us
    assert trips.answer_within_us == 100_000 + 4 * 50_000 + SETTINGS.granularity_us


def test_equal_samples_are_learnt_exactly_and_the_variation_vanishes() -> None:
    trips = fed([3_000] * 60)
    assert (trips.smoothed_us, trips.variation_us, trips.minimum_us) == (3_000, 0, 3_000)


def test_one_outlier_hardly_moves_the_estimate() -> None:
    trips = fed([1_000] * 60)
    trips.take(10_000_000, 7_000_000)
    assert trips.smoothed_us <= 1_125 and trips.answer_within_us < 1_125 + 4 * 250 + SETTINGS.granularity_us + 1


def test_a_lasting_change_is_learnt_in_few_samples_and_unlearnt_again() -> None:
    trips = fed([1_000] * 60)
    for at in range(25):
        trips.take(100_000, 7_000_000 + at)
    assert trips.answer_within_us > 100_000
    for at in range(60):
        trips.take(1_000, 8_000_000 + at)
    assert trips.answer_within_us < 5_000


@given(SAMPLES)
def test_estimates_never_exceed_what_they_were_fed(samples: list[int]) -> None:
    trips = fed(samples)
    assert min(samples) <= trips.smoothed_us <= max(samples)
    assert 0 <= trips.variation_us <= max(samples)
    assert trips.minimum_us <= trips.smoothed_us


@given(st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 700)), min_size=1))
def test_the_minimum_is_that_of_the_last_one_to_two_windows(steps: list[tuple[int, int]]) -> None:
    window = 1_000
    minimum = RunningMinimum(window)
    at, taken = 0, []
    for value, delay in steps:
        at += delay
        minimum.take(value, at)
        taken.append((at, value))
    found = minimum.value
    assert found is not None
    assert found in [value for _, value in taken]
    assert found <= taken[-1][1]
    # No older than two windows and the gap between samples in which no window can end.
    assert found >= min(value for when, value in taken if at - when <= 2 * window + 700)


def test_an_old_minimum_is_forgotten() -> None:
    minimum = RunningMinimum(1_000)
    minimum.take(5, 0)
    minimum.take(9, 1_500)
    assert minimum.value == 5
    minimum.take(8, 2_600)
    assert minimum.value == 8
    minimum.take(20, 9_000)
    assert minimum.value == 20


def test_loss_is_learnt_and_unlearnt_and_calls_for_more_probes() -> None:
    loss = ProbeLoss(SETTINGS)
    assert (loss.lost_ppm, loss.probes_needed) == (0, SETTINGS.probes_min)
    for _ in range(60):
        loss.take(answered=1, lost=1)
    assert 400_000 < loss.lost_ppm < 600_000 and loss.probes_needed > 20
    loss.take(answered=200, lost=0)
    assert (loss.lost_ppm, loss.probes_needed) == (0, SETTINGS.probes_min)
    loss.take(answered=0, lost=500)
    assert (loss.lost_ppm, loss.probes_needed) == (PARTS, SETTINGS.probes_max)


@given(st.integers(0, PARTS))
def test_the_number_of_probes_makes_losing_all_as_rare_as_asked(lost_ppm: int) -> None:
    wide = DetectorSettings(probes_min=4, probes_max=100_000)
    count = probes_needed(wide, lost_ppm)
    likely = min(lost_ppm * 1.25, PARTS) / PARTS
    assert count == wide.probes_max or likely**count <= 3e-6  # two parts in a million may be lost to whole numbers
    assert count == wide.probes_min or likely ** (count - 1) >= 1e-6


@given(st.integers(0, PARTS), st.integers(0, PARTS))
def test_more_loss_never_calls_for_fewer_probes(one: int, other: int) -> None:
    assert probes_needed(SETTINGS, min(one, other)) <= probes_needed(SETTINGS, max(one, other))
