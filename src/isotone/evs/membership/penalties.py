"""Penalties of daemons that come and go: they count as not reached for a while, which doubles and is capped.

Evidence clears a penalty before its time: enough answered probes since it began. What is counted against a daemon is
forgotten once it stayed reached for long.

Implements: USERS, "merging is an obligation": a penalty is part of the bound. Deviations: [Spread] has none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.evs.membership.settings import MembershipSettings


@dataclass
class _Record:
    strikes: int = 0
    until: int = 0  # the penalty lasts so long
    answers: int = 0  # probes answered since it began
    reached_at: int | None = None


@dataclass
class Penalties:
    """Of all daemons that one daemon watches, by name."""

    settings: MembershipSettings
    _records: dict[str, _Record] = field(default_factory=dict)

    def reached(self, name: str, at: int) -> None:
        """The daemon answers again."""
        record = self._records.setdefault(name, _Record())
        if record.reached_at is None:
            record.reached_at = at

    def lost(self, name: str, at: int) -> None:
        """The daemon is suspected; if that is soon after it was reached, it flapped."""
        record = self._records.setdefault(name, _Record())
        if record.reached_at is None:
            return
        steady = at - record.reached_at >= self.settings.steady_us
        record.reached_at = None
        if steady:
            record.strikes = 0
        else:
            self._strike(record, at)

    def failed(self, name: str, at: int) -> None:
        """An attempt failed because nothing came from the daemon, though nobody suspects it."""
        self._strike(self._records.setdefault(name, _Record()), at)

    def _strike(self, record: _Record, at: int) -> None:
        record.strikes += 1
        penalty = self.settings.penalty_us << min(record.strikes - 1, 16)
        record.until = at + min(penalty, self.settings.penalty_max_us)
        record.answers = 0

    def answered(self, name: str, at: int) -> bool:
        """A probe was answered; True when that clears a penalty."""
        record = self._records.get(name)
        if record is None or at >= record.until:
            return False
        record.answers += 1
        if record.answers < self.settings.penalty_answers:
            return False
        record.until = at
        return True

    def holds(self, name: str, at: int) -> bool:
        """Whether the daemon is under a penalty now."""
        record = self._records.get(name)
        return record is not None and at < record.until

    def next_end(self, at: int) -> int | None:
        """When the next penalty ends."""
        return min((record.until for record in self._records.values() if record.until > at), default=None)

    def forget(self, name: str) -> None:
        """Nothing is known of the daemon any more."""
        self._records.pop(name, None)
