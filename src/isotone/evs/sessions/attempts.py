"""Where and when a client looks for its daemon: each address in turn, then a pause that grows, until time is up."""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.choice import Choice
from isotone.core.contract import Address
from isotone.evs.sessions.settings import ClientSettings


class Attempts:
    """The search for one daemon, or for any of several."""

    def __init__(self, addresses: Sequence[Address], settings: ClientSettings, choice: Choice) -> None:
        assert addresses, "at least one address"
        self.last_reason = "no attempt was made"
        self.give_up_at: int | None = None  # None while nothing is looked for
        self._addresses = tuple(addresses)
        self._settings = settings
        self._choice = choice
        self._place = 0  # the address of the present or next attempt
        self._left = 0  # attempts before the next pause
        self._pause_us = 0
        self._hopeless: set[int] = set()  # places where trying again makes no sense; only looked up

    def begin(self, at: int, within_us: int) -> None:
        """Look for the daemon from now on, first where it was last."""
        self.give_up_at = at + within_us
        self._left = len(self._addresses)
        self._pause_us = self._settings.retry_first_us
        self._hopeless = set()

    def found(self) -> None:
        """There it is."""
        self.give_up_at = None

    def address(self) -> Address:
        """Where to try now."""
        return self._addresses[self._place]

    def failed(self, reason: str, *, hopeless: bool = False) -> int | None:
        """This attempt came to nothing; how long to wait before the next, or None if none makes sense."""
        self.last_reason = f"{self.address()}: {reason}"
        if hopeless:
            self._hopeless.add(self._place)
            if len(self._hopeless) == len(self._addresses):
                return None
        while True:
            self._place = (self._place + 1) % len(self._addresses)
            self._left -= 1
            if self._place not in self._hopeless:
                break
        if self._left > 0:
            return 0
        self._left = len(self._addresses)
        pause, self._pause_us = self._pause_us, min(2 * self._pause_us, self._settings.retry_max_us)
        return pause // 2 + self._choice.below(pause // 2 + 1)
