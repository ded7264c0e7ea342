"""A flow that behaves like TCP Reno with selective acknowledgements: what hop must be fair to. Small, not complete."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.evs.links.pair import SECOND, Path, World

PACKET = bytes(1400)
ACKNOWLEDGEMENT = bytes(40)


@dataclass
class Reno:
    """Sends for ever; loss is what three later packets overtook."""

    world: World
    there: Path
    back: Path
    window: float = 10.0
    threshold: float = 1e9
    received_bytes: int = 0
    _next: int = 0
    _recover: int = -1
    _flight: dict[int, int] = field(default_factory=dict)  # packet to how many later ones were acknowledged
    _last_heard: int = 0

    def start(self) -> None:
        """Begin, and look for silence now and then."""
        self._send()
        self._watch()

    def _watch(self) -> None:
        if self.world.now - self._last_heard > SECOND:
            self.threshold, self.window = max(2.0, self.window / 2), 1.0
            self._flight.clear()
            self._send()
        self.world.at(self.world.now + SECOND // 2, self._watch)

    def _send(self) -> None:
        while len(self._flight) < int(self.window):
            number = self._next
            self._next += 1
            self._flight[number] = 0
            for when in self.there.arrivals(PACKET, self.world.now):
                self.world.at(when, lambda number=number: self._arrive(number))  # type: ignore[misc]

    def _arrive(self, number: int) -> None:
        self.received_bytes += len(PACKET)
        for when in self.back.arrivals(ACKNOWLEDGEMENT, self.world.now):
            self.world.at(when, lambda: self._acknowledge(number))

    def _acknowledge(self, number: int) -> None:
        self._last_heard = self.world.now
        if self._flight.pop(number, None) is not None:
            self.window += 1.0 if self.window < self.threshold else 1.0 / self.window
        for other in [other for other in self._flight if other < number]:
            self._flight[other] += 1
            if self._flight[other] >= 3:
                del self._flight[other]
                self._lose(other)
        self._send()

    def _lose(self, number: int) -> None:
        if number > self._recover:
            self._recover = self._next
            self.threshold = self.window = max(2.0, self.window / 2)
