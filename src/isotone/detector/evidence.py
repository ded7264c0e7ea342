"""Evidence against a peer: named reasons with their time, and how far they are to be believed.

Evidence other than silence shortens the wait and is never sufficient alone, since it can be forged: a refused port, a
failed link or a report by others starts a confirmation period, and only silence through all of it, under fast
probes, makes a suspicion. Evidence that a sign of life contradicts loses credit: for a time that doubles with each
contradiction, the same reason from the same reporter is noted but shortens nothing, so a forger can neither exclude
a peer that answers nor keep us probing.

Implements: DESIGN's evidence with reasons. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import msgspec

from isotone.detector.settings import DetectorSettings

CREDITS_MAX = 64


class Reason(Enum):
    """Why somebody might be suspected."""

    SILENCE = "silence"
    ONE_WAY = "heard, but answers no probe"
    REFUSED_PORT = "its port refuses packets"
    FAILED_LINK = "a link to it failed"
    REPORT = "reported by another"


OBSERVED = (Reason.SILENCE, Reason.ONE_WAY)
"""The detector's own conclusions; nobody hands them in."""


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """One reason and when it arose; ``reporter`` names who said so where it was not seen here."""

    reason: Reason
    at: int
    reporter: str = ""
    detail: str = ""

    def explain(self) -> str:
        """One line for people."""
        by = f" ({self.reporter})" if self.reporter else ""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.reason.value}{by}{detail}"


@dataclass(slots=True)
class _Credit:
    """How much the evidence of one kind and reporter is believed: not at all before ``restored_at``."""

    hold_off_us: int
    restored_at: int


@dataclass(slots=True)
class EvidenceBook:
    """The evidence against one peer since its last sign of life."""

    settings: DetectorSettings
    accused_at: int | None = None  # when the first believed evidence since the last sign of life arose
    _entries: list[Evidence] = field(default_factory=list)
    _believed: list[tuple[Reason, str]] = field(default_factory=list)
    _credits: dict[tuple[Reason, str], _Credit] = field(default_factory=dict)

    @property
    def entries(self) -> tuple[Evidence, ...]:
        """What was noted, oldest first, each reason and reporter once."""
        return tuple(self._entries)

    @property
    def is_empty(self) -> bool:
        """Whether a sign of life has nothing to clear here."""
        return not self._entries

    def note(self, evidence: Evidence) -> bool:
        """Note evidence; true when it starts a confirmation period. What was believed before changes nothing."""
        source = (evidence.reason, evidence.reporter)
        if source in self._believed:
            return False
        is_new = all((entry.reason, entry.reporter) != source for entry in self._entries)
        if is_new and len(self._entries) < self.settings.evidence_max:
            self._entries.append(evidence)
        credit = self._credits.get(source)
        if credit is not None and evidence.at < credit.restored_at:
            return False
        if len(self._believed) < self.settings.evidence_max:
            self._believed.append(source)
        if self.accused_at is not None:
            return False
        self.accused_at = evidence.at
        return True

    def contradict(self, at: int) -> None:
        """A sign of life: forget everything, and believe its sources less for a while."""
        for source in self._believed:
            self._discredit(source, at)
        self.forget()

    def forget(self) -> None:
        """Drop the evidence without a judgement on its sources."""
        self._entries.clear()
        self._believed.clear()
        self.accused_at = None

    def postpone(self, gap_us: int) -> None:
        """Time that we slept through does not count as the peer's silence."""
        if self.accused_at is not None:
            self.accused_at += gap_us

    def _discredit(self, source: tuple[Reason, str], at: int) -> None:
        credit = self._credits.pop(source, None)
        hold_off = self.settings.hold_off_min_us
        if credit is not None and at < credit.restored_at + self.settings.hold_off_max_us:
            hold_off = min(2 * credit.hold_off_us, self.settings.hold_off_max_us)
        self._credits[source] = _Credit(hold_off, at + hold_off)
        if len(self._credits) > CREDITS_MAX:
            del self._credits[next(iter(self._credits))]
