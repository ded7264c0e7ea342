"""What the application tells an automaton, and who hears that it makes no sense: its caller, or the log.

An event that is told from within a callback of the host waits its turn, and its caller is gone by then.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from isotone.core.contract import Action, Automaton, Event
from isotone.core.errors import LocalProtocolError

log = logging.getLogger("isotone.host")


class Telling:
    """Stands before the automaton, and knows which events the application told."""

    def __init__(self, name: str, automaton: Automaton) -> None:
        self._name, self._automaton = name, automaton
        self._told: Event | None = None  # until it is handled
        self._later: deque[Event] = deque()  # told, and not handled before `tell` returned; in order
        self._misuse: LocalProtocolError | None = None

    def tell(self, event: Event, take: Callable[[Event], None]) -> None:
        """Have it taken; raises `LocalProtocolError` if it was handled at once, and makes no sense."""
        self._told = event
        take(event)
        if self._told is not None:
            self._later.append(self._told)
            self._told = None
        misuse, self._misuse = self._misuse, None
        if misuse is not None:
            raise misuse

    def handle(self, event: Event) -> list[Action]:
        """Any event, of whoever it is."""
        told = event is self._told
        late = bool(self._later) and event is self._later[0]
        if told:
            self._told = None
        elif late:
            self._later.popleft()
        try:
            return self._automaton.handle(event)
        except LocalProtocolError as error:
            if told:
                self._misuse = error
            elif late:
                log.error("host %s: a callback told what makes no sense: %s", self._name, error)
            else:
                raise
            return []
