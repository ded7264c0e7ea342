"""How long the lines may stand still while something waits for them.

A link notices that its peer takes nothing. It does not notice a peer whose system takes everything and whose process is
dead, when the flow windows are smaller than the buffers of the system. So who waits for lines has an end of patience.

Implements: [Spread 2.2.7], linkfailed. Deviations: in the thesis links alone declare it.
"""

from __future__ import annotations

from dataclasses import dataclass

from isotone.core.contract import Action, CancelTimer, SetTimer, TimerKey
from isotone.evs.ordering.lines import Lines

PATIENCE_TIMER: TimerKey = ("transport", "patience")


@dataclass
class Patience:
    """Watches the lines of one daemon."""

    measurements = ("_agreed_at", "_stable_at")  # nothing depends on them

    lines: Lines
    stall_us: int
    _seen: tuple[int, int] = (0, 0)
    _moved_at: int = 0
    _agreed_at: int = 0  # the agreed line stands where it is since then, while somebody waits; for `explain`
    _stable_at: int = 0  # the same for the stable line
    _armed: bool = False

    def look(self, at: int, *, top: int) -> list[Action]:
        """After every event: ``top`` is the highest time that anybody waits for."""
        if top <= self.lines.stable:
            armed, self._armed = self._armed, False
            return [CancelTimer(PATIENCE_TIMER)] if armed else []
        seen = (self.lines.agreed, self.lines.stable)
        if seen != self._seen or not self._armed:
            if seen[0] != self._seen[0] or not self._armed:
                self._agreed_at = at
            if seen[1] != self._seen[1] or not self._armed:
                self._stable_at = at
            self._seen, self._moved_at = seen, at
        if self._armed:
            return []
        self._armed = True
        return [SetTimer(PATIENCE_TIMER, self.stall_us)]

    @property
    def since(self) -> tuple[int | None, int | None]:
        """Since when the agreed and the stable line stand still while something waits for them; for `explain`."""
        return (self._agreed_at, self._stable_at) if self._armed else (None, None)

    def fired(self, at: int) -> str | None:
        """The timer ran out: why everything ends, or nothing if lines moved meanwhile."""
        if not self._armed:
            return None
        if at - self._moved_at >= self.stall_us:
            return f"no line moved for {self.stall_us // 1000} ms, sites {self.lines.slowest()} hold them back"
        return None

    def rearm(self, at: int) -> list[Action]:
        """Look again when the time since the last move is over."""
        return [SetTimer(PATIENCE_TIMER, self._moved_at + self.stall_us - at)] if self._armed else []
