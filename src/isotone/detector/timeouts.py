"""Timeouts as sums of what was measured, each able to say where it comes from.

A wait is long enough that a living peer is heard in it: it holds the keep-alive interval (or not, when evidence is
at hand), enough probes that not all get lost, the time an answer takes, and twice the lateness of our own wake-ups,
once for sending and once for reading. Floors and ceilings come from the settings.

Implements: DESIGN's rule that timeouts come from measurement and are shown. Deviations: none.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from isotone.detector.estimator import ProbeLoss, RoundTrips
from isotone.detector.settings import DetectorSettings


class Term(Enum):
    """What a timeout is made of."""

    KEEP_ALIVE = "keep-alive interval"
    PROBES = "time to send enough probes"
    PROPAGATION = "smallest round trip"
    QUEUEING = "usual round trip above the smallest"
    VARIATION = "variation of the round trip"
    LATENESS = "own late wake-ups"


JITTER = (Term.VARIATION, Term.LATENESS)


class Limit(Enum):
    """Whether the sum was used as it is."""

    NONE = "as measured"
    FLOOR = "raised to the floor"
    CEILING = "cut to the ceiling"


class Timeout(msgspec.Struct, frozen=True, gc=False):
    """A wait, and why it is as long as it is. ``us`` is the sum of the terms, kept between floor and ceiling."""

    us: int
    terms: tuple[tuple[Term, int], ...]
    limit: Limit = Limit.NONE

    @property
    def dominant(self) -> Term:
        """The largest term; the first of equals."""
        return max(self.terms, key=lambda term: term[1])[0]

    @property
    def grown_by_jitter_us(self) -> int:
        """How much of the sum is there only because round trips vary and because we wake up late."""
        return sum(us for term, us in self.terms if term in JITTER)

    def explain(self) -> str:
        """One line for people."""
        parts = " + ".join(f"{_milliseconds(us)} {term.value}" for term, us in self.terms if us)
        total = sum(us for _, us in self.terms)
        end = "" if self.limit is Limit.NONE else f" = {_milliseconds(total)}, {self.limit.value}"
        return f"{_milliseconds(self.us)}: {parts}{end}"


class Measured(msgspec.Struct, frozen=True, gc=False):
    """All that timeouts for one peer depend on besides the settings."""

    minimum_us: int
    smoothed_us: int
    variation_us: int
    probes: int
    lateness_us: int
    keep_alive_us: int


class Limits(msgspec.Struct, frozen=True, gc=False):
    """The timeouts for one peer as they stand."""

    silence: Timeout
    confirm: Timeout
    grace: Timeout
    one_way: Timeout
    answer_within_us: int


def measured(trips: RoundTrips, loss: ProbeLoss, *, lateness_us: int, keep_alive_us: int) -> Measured:
    """Read the estimators. Lateness, which changes all the time, counts in steps, so that timeouts can be kept."""
    return Measured(
        minimum_us=trips.minimum_us,
        smoothed_us=trips.smoothed_us,
        variation_us=trips.variation_us,
        probes=loss.probes_needed,
        lateness_us=in_steps(trips.settings, lateness_us),
        keep_alive_us=keep_alive_us,
    )


def in_steps(settings: DetectorSettings, us: int) -> int:
    """A time rounded up to what clocks and schedulers let us tell apart."""
    return -(-us // settings.granularity_us) * settings.granularity_us


def limits_for(settings: DetectorSettings, values: Measured) -> Limits:
    """The timeouts that follow from the settings and the measured values."""
    answer = values.smoothed_us + 4 * values.variation_us + settings.granularity_us
    # The first probe may be given a whole answer time before the second follows, then they go at the fast interval.
    burst = max(settings.fast_probe_us - answer, 0) + (values.probes - 2) * settings.fast_probe_us
    ceiling = settings.silence_ceiling_us
    silence = _bounded(_terms(values, settings, values.keep_alive_us, burst, 2), settings.silence_floor_us, ceiling)
    confirming = _terms(values, settings, 0, (values.probes - 1) * settings.confirm_probe_us, 1)
    talking = _terms(values, settings, values.probes * values.keep_alive_us, 0, 2)
    return Limits(
        silence=silence,
        confirm=_bounded(confirming, settings.confirm_floor_us, settings.confirm_ceiling_us),
        grace=_bounded(_terms(values, settings, 0, burst, 2), 0, ceiling),
        one_way=_bounded(talking, settings.one_way_floor_us, settings.one_way_ceiling_us),
        answer_within_us=answer,
    )


def _terms(
    values: Measured, settings: DetectorSettings, keep_alive_us: int, probes_us: int, answers: int
) -> tuple[tuple[Term, int], ...]:
    return (
        (Term.KEEP_ALIVE, keep_alive_us),
        (Term.PROBES, probes_us),
        (Term.PROPAGATION, answers * values.minimum_us),
        (Term.QUEUEING, answers * (values.smoothed_us - values.minimum_us)),
        (Term.VARIATION, answers * (4 * values.variation_us + settings.granularity_us)),
        (Term.LATENESS, 2 * values.lateness_us),
    )


def _bounded(terms: tuple[tuple[Term, int], ...], floor_us: int, ceiling_us: int) -> Timeout:
    total = sum(us for _, us in terms)
    if total < floor_us:
        return Timeout(floor_us, terms, Limit.FLOOR)
    if total > ceiling_us:
        return Timeout(ceiling_us, terms, Limit.CEILING)
    return Timeout(total, terms)


def _milliseconds(us: int) -> str:
    return f"{us / 1000:.4g} ms"
