"""Timeouts: what they are made of, and that they can say so."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isotone.detector.settings import DetectorSettings
from isotone.detector.timeouts import Limit, Limits, Measured, Term, Timeout, limits_for

SETTINGS = DetectorSettings()
VALUES = Measured(
    minimum_us=10_000, smoothed_us=30_000, variation_us=5_000, probes=8, lateness_us=7_000, keep_alive_us=250_000
)


def test_the_terms_of_silence() -> None:
    silence = limits_for(SETTINGS, VALUES).silence
    assert dict(silence.terms) == {
        Term.KEEP_ALIVE: 250_000,
        Term.PROBES: 6 * 40_000,
        Term.PROPAGATION: 20_000,
        Term.QUEUEING: 40_000,
        Term.VARIATION: 2 * 22_000,
        Term.LATENESS: 14_000,
    }
    assert (silence.us, silence.limit, silence.dominant) == (608_000, Limit.NONE, Term.KEEP_ALIVE)
    assert silence.grown_by_jitter_us == 58_000


def test_the_terms_of_confirmation_and_grace() -> None:
    limits = limits_for(SETTINGS, VALUES)
    assert limits.confirm.us == 7 * 5_000 + 52_000 + 14_000
    assert limits.grace.us == limits.silence.us - 250_000
    assert limits.one_way.us == 8 * 250_000 + 2 * 52_000 + 14_000


def test_an_explanation_names_every_term_and_the_limit() -> None:
    timeout = Timeout(400, ((Term.KEEP_ALIVE, 250), (Term.PROBES, 0), (Term.LATENESS, 50)), Limit.FLOOR)
    assert timeout.explain() == (
        "0.4 ms: 0.25 ms keep-alive interval + 0.05 ms own late wake-ups = 0.3 ms, raised to the floor"
    )


NUMBERS = st.integers(0, 5_000_000)
MEASURED = st.builds(
    lambda minimum, queueing, variation, probes, lateness, keep_alive: Measured(
        minimum, minimum + queueing, variation, probes, lateness, keep_alive
    ),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.integers(8, 40),
    st.integers(0, 200_000),
    st.integers(250_000, 5_000_000),
)


@given(MEASURED)
def test_every_timeout_lies_between_its_limits(values: Measured) -> None:
    limits = limits_for(SETTINGS, values)
    assert SETTINGS.silence_floor_us <= limits.silence.us <= SETTINGS.silence_ceiling_us
    assert SETTINGS.confirm_floor_us <= limits.confirm.us <= SETTINGS.confirm_ceiling_us
    assert SETTINGS.one_way_floor_us <= limits.one_way.us <= SETTINGS.one_way_ceiling_us
    for timeout in (limits.silence, limits.confirm, limits.grace, limits.one_way):
        total = sum(us for _, us in timeout.terms)
        assert all(us >= 0 for _, us in timeout.terms)
        assert (timeout.us == total) == (timeout.limit is Limit.NONE)
        assert (timeout.us < total) == (timeout.limit is Limit.CEILING)


@given(MEASURED, MEASURED)
def test_worse_measurements_never_shorten_a_timeout(one: Measured, other: Measured) -> None:
    pairs = [(getattr(one, name), getattr(other, name)) for name in Measured.__struct_fields__]
    better, worse = (limits_for(SETTINGS, Measured(*map(pick, pairs))) for pick in (min, max))
    for name in Limits.__struct_fields__[:4]:
        assert getattr(better, name).us <= getattr(worse, name).us
