"""Doubt of oneself: how late our own wake-ups are, and whether we slept.

The detector always has one timer armed. When the first event after it comes much later than the timer asked for,
the process was stopped (a paused machine, a long collection, a starved core), and the silence it believes to see is
its own. Lateness below that threshold is measured and enters every timeout; it rises at once and falls slowly.

Implements: DESIGN's rule that a daemon that slept doubts itself first. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass

from isotone.detector.settings import DetectorSettings

DECAY = 8


@dataclass(slots=True)
class WakeUps:
    """When we last were awake, when we wanted to be, and how late we usually are."""

    settings: DetectorSettings
    awake_at: int | None = None  # the time of the last event
    due_at: int | None = None  # what the timer is armed for, None when it is not
    lateness_us: int = 0  # a decaying maximum

    @property
    def pause_above_us(self) -> int:
        """Lateness from which on we call it a pause."""
        usual = self.settings.pause_factor * self.lateness_us
        return min(max(self.settings.pause_min_us, usual), self.settings.pause_max_us)

    def woke(self, at: int, *, by_timer: bool) -> int:
        """An event came at this time; returns how long we slept, 0 when nothing was unusual.

        After a pause the whole time since the last event counts as slept: we cannot know when it began. That makes
        others' silence look shorter by at most one timer's length, never longer.
        """
        assert self.awake_at is None or at >= self.awake_at, "time goes backwards"
        late = 0 if self.due_at is None else at - self.due_at
        limit = self.pause_above_us
        slept = at - self.awake_at if self.awake_at is not None and late > limit else 0
        self.awake_at = at
        if by_timer or slept:
            self._learn(min(max(late, 0), limit))
            self.due_at = None
        return slept

    def _learn(self, late_us: int) -> None:
        decayed = self.lateness_us - -(-self.lateness_us // DECAY)
        self.lateness_us = max(late_us, decayed)
