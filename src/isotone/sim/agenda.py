"""What is to happen, in the order of virtual time, and first come first served within one instant."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any

Call = Callable[[Any], None]
Appointment = tuple[int, int, Call, Any]


class Agenda:
    """Virtual time and the calls that wait for it. A call has one argument, so that no closure is made per event."""

    __slots__ = ("heap", "now", "sequence", "timers")

    def __init__(self) -> None:
        self.now = 0
        self.sequence = 0  # of the last appointment; makes the order within one instant that of asking
        self.heap: list[Appointment] = []
        self.timers = 0  # how many of the appointments are timers of automata, which mean no work by themselves

    def push(self, when: int, call: Call, argument: Any) -> None:
        """Call then; work that keeps the world from being quiet."""
        assert when >= self.now, "virtual time does not go back"
        self.sequence = sequence = self.sequence + 1
        heappush(self.heap, (when, sequence, call, argument))

    def push_timer(self, when: int, call: Call, argument: Any) -> None:
        """Call then; the call itself must lower ``timers``."""
        assert when >= self.now, "virtual time does not go back"
        self.timers += 1
        self.sequence = sequence = self.sequence + 1
        heappush(self.heap, (when, sequence, call, argument))

    @property
    def is_idle(self) -> bool:
        """Whether nothing but timers waits."""
        return len(self.heap) == self.timers
