"""What the detector knows of one peer, and the two questions it answers: when to probe it, when to suspect it.

Both are functions of the state alone, computed anew at each wake-up; nothing is scheduled for a peer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from isotone.detector.estimator import ProbeLoss, RoundTrips
from isotone.detector.evidence import Evidence, EvidenceBook, Reason
from isotone.detector.settings import DetectorSettings
from isotone.detector.timeouts import Limits, Measured, Timeout, limits_for, measured

OUTSTANDING_MAX = 64
LEARN_SHARE = 5
"""Of the keep-alive interval: so much sooner are the first round trips measured."""
NEVER = 2**62


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """When a peer will be suspected if nothing more is heard, of what, and after which wait."""

    at: int
    reason: Reason
    waited: Timeout


@dataclass(slots=True)
class WatchedPeer:
    """One peer. Times are this node's; a pause of our own moves forward those that deadlines are counted from."""

    settings: DetectorSettings
    heard_at: int
    answered_at: int  # the last proof that both directions work; never moved, since no deadline counts from it
    probed_at: int
    trips: RoundTrips
    loss: ProbeLoss
    book: EvidenceBook
    unanswered_at: int | None = None  # the first probe since answered_at
    doubted_at: int | None = None  # we slept until then, and heard nothing since
    suspected_at: int | None = None
    suspicion: tuple[Evidence, ...] = ()
    probes: int = 0  # sent since heard_at
    outstanding: dict[int, int] = field(default_factory=dict)  # nonce to time; ascending
    _limits_of: Measured | None = None
    _limits: Limits | None = None

    def limits(self, *, lateness_us: int, keep_alive_us: int) -> Limits:
        """The timeouts as they stand; computed anew only when a measured value changed."""
        values = measured(self.trips, self.loss, lateness_us=lateness_us, keep_alive_us=keep_alive_us)
        if self._limits is None or self._limits_of != values:
            self._limits_of = values
            self._limits = limits_for(self.settings, values)
        return self._limits

    @property
    def is_calm(self) -> bool:
        """Nothing speaks against the peer and no probe of this silence is unanswered: probes may go early."""
        return self.book.accused_at is None and self.doubted_at is None and not self.probes

    def next_probe_at(self, limits: Limits, keep_alive_us: int) -> int:
        """When the next probe is due."""
        if self.suspected_at is not None:
            return self.probed_at + self.settings.suspect_probe_us
        if self.book.accused_at is not None:
            return max(self.book.accused_at, self.probed_at + self.settings.confirm_probe_us)
        if self.doubted_at is not None:
            return max(self.doubted_at, self.probed_at + self.settings.fast_probe_us)
        silent_at = self.heard_at + keep_alive_us
        if self.probes:
            wait = max(limits.answer_within_us, self.settings.fast_probe_us)
            silent_at = max(silent_at, self.probed_at + (wait if self.probes == 1 else self.settings.fast_probe_us))
        return min(silent_at, self._measure_at(keep_alive_us))

    def _measure_at(self, keep_alive_us: int) -> int:
        """When a peer that talks is asked for a round trip: soon while little is known or round trips vary a lot.

        Timeouts grow with the variation; asked every two seconds, a peer that was slow once, as at its start, would
        get long ones for half a minute.
        """
        next_at = self.probed_at + keep_alive_us
        if self.unanswered_at is not None:  # one follows the other, so that a lost one is not taken for deafness
            return next_at
        if self.trips.samples < self.settings.learn_samples:
            return self.answered_at + keep_alive_us // LEARN_SHARE
        if self.trips.variation_us > self.settings.granularity_us:
            return next_at
        return max(next_at, self.answered_at + self.settings.measure_us)

    def verdict(self, limits: Limits) -> Verdict:
        """What will be concluded, and when, if nothing more is heard."""
        if self.suspected_at is not None:
            return Verdict(NEVER, Reason.SILENCE, limits.silence)
        found = Verdict(self.heard_at + limits.silence.us, Reason.SILENCE, limits.silence)
        if self.book.accused_at is not None and self.book.accused_at + limits.confirm.us < found.at:
            found = Verdict(self.book.accused_at + limits.confirm.us, Reason.SILENCE, limits.confirm)
        if self.settings.require_answers and self.unanswered_at is not None:
            if self.unanswered_at + limits.one_way.us < found.at:
                found = Verdict(self.unanswered_at + limits.one_way.us, Reason.ONE_WAY, limits.one_way)
        if self.doubted_at is not None and self.doubted_at + limits.grace.us > found.at:
            found = Verdict(self.doubted_at + limits.grace.us, found.reason, limits.grace)
        return found

    def probe_sent(self, nonce: int, at: int) -> None:
        """Remember a probe; the oldest outstanding one is forgotten when there are too many."""
        self.probes += 1
        self.probed_at = at
        if self.unanswered_at is None:
            self.unanswered_at = at
        self.outstanding[nonce] = at
        if len(self.outstanding) > OUTSTANDING_MAX:
            del self.outstanding[next(iter(self.outstanding))]

    def heard(self, at: int) -> None:
        """A sign of life: silence starts anew and all evidence is void."""
        self.heard_at = at
        self.probes = 0
        self.doubted_at = None
        if not self.book.is_empty:
            self.book.contradict(at)

    def answered(self, nonce: int, at: int) -> None:
        """An answer: measure it, and count the probes that it overtook as lost."""
        sent_at = self.outstanding.get(nonce)
        if sent_at is None:
            return
        overtaken = [older for older in self.outstanding if older <= nonce]
        for older in overtaken:
            del self.outstanding[older]
        self.loss.take(answered=1, lost=len(overtaken) - 1)
        self.round_trip(at - sent_at, at)

    def round_trip(self, sample_us: int, at: int) -> None:
        """Both directions work, and this is how long they take."""
        self.trips.take(sample_us, at)
        self.answered_at = at
        self.unanswered_at = next(iter(self.outstanding.values()), None)

    def trusted(self) -> None:
        """A suspicion is over, and what was sent meanwhile proves nothing."""
        self.suspected_at = None
        self.suspicion = ()
        self.unanswered_at = None
        self.outstanding.clear()

    def slept(self, gap_us: int, at: int) -> None:
        """We slept: no clock of this peer ran, no answer was to be had, and it gets a round of probes."""
        self.heard_at += gap_us
        self.book.postpone(gap_us)
        self.outstanding.clear()
        self.unanswered_at = None
        if self.suspected_at is None:
            self.doubt(at, gap_us)

    def doubt(self, at: int, gap_us: int) -> None:
        """Grant a round of probes; one that a pause interrupts goes on where it was."""
        self.doubted_at = at if self.doubted_at is None else self.doubted_at + gap_us
