"""Whether the peer still takes what is for it, and when to tell it what came.

Each end reports how many bytes of frames it has received, also of a frame that is not complete. So progress is what
reached the peer, byte by byte, whatever the buffers of the systems between swallow, and a frame may take as long as it
needs. Reports stand in the stream behind what was written before them: a peer that is heard may have its report on the
way behind a full buffer, and gets more time than a silent one.

Implements: [Spread 4.2], detection of failed connections. Deviations: Dt1, see docs/protocols/tcp.md.
"""

from __future__ import annotations

from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.tcp.settings import TcpSettings
from isotone.evs.links.tcp.wire import WORD


class Progress:
    """The accounts of both directions; counts are bytes of frames with their headers."""

    __slots__ = ("_heard_at", "_moved_at", "_offered", "_reported", "_reported_at", "_settings", "_taken")

    def __init__(self, settings: TcpSettings) -> None:
        self._settings = settings
        self._offered = 0  # to the peer, since the beginning
        self._taken = 0  # of it by the peer, as it says; never above what was offered
        self._moved_at = 0  # when that rose, or when something was offered to a peer that had everything
        self._heard_at = 0  # when anything came
        self._reported = 0  # what we said to have received
        self._reported_at = -settings.report_us

    @property
    def waits(self) -> bool:
        """Whether there is something that the peer did not take yet."""
        return self._offered > self._taken

    @property
    def judge_at(self) -> int | None:
        """When the link is to be failed, unless something happens before."""
        if not self.waits:
            return None
        settings = self._settings
        silent_at = max(self._moved_at, self._heard_at) + settings.stall_us
        return min(silent_at, self._moved_at + max(settings.stall_us, settings.unreported_us))

    def opened(self, at: int) -> None:
        """Frames pass from now on: what was offered before could not move."""
        self._moved_at = self._heard_at = at

    def offered(self, cost: int, at: int) -> None:
        """Frames that cost so much were offered."""
        if not self.waits:
            self._moved_at = at
        self._offered += cost

    def heard(self, report: int | None, at: int) -> None:
        """Something came, and a report among it."""
        if report is not None:
            taken = self._taken + ((report - self._taken) & WORD)
            if taken > self._offered:
                raise RemoteProtocolError("a report of bytes that were never sent")
            if taken > self._taken:
                self._taken, self._moved_at = taken, at
        self._heard_at = at

    def slept(self, slept_us: int) -> None:
        """This process did not run for so long: that does not count, and what came meanwhile is still to be read."""
        self._moved_at += slept_us + self._settings.report_us
        self._heard_at += slept_us + self._settings.report_us

    def verdict(self, at: int) -> str:
        """What to say when `judge_at` came."""
        silence_us = at - max(self._moved_at, self._heard_at)
        if silence_us >= self._settings.stall_us:
            return f"the peer took nothing and said nothing for {silence_us // 1000} ms"
        return f"the peer took nothing for {(at - self._moved_at) // 1000} ms"

    def report_at(self, received: int) -> int | None:
        """When to report that so much was received: at once, if there was no report for some time."""
        return None if received == self._reported else self._reported_at + self._settings.report_us

    def reported(self, received: int, at: int) -> None:
        """A report was written."""
        self._reported, self._reported_at = received, at
