"""A daemon with a bug, for ``isotone demo --break NAME``: so that one sees what the checkers say of it.

Its clients hear of the first AGREED message to the group of the demo otherwise than of all others. What is recorded is
what they hear, as always. Messages between the servers of the bank are left alone.
"""

from __future__ import annotations

from collections.abc import Callable

from isotone.core.boundary import Indicate, Message
from isotone.core.contract import Action, Event
from isotone.core.services import Service
from isotone.evs.stack import Stack

GROUP = "story"
BUGS = {
    "lose": "it is not told",
    "double": "it is told twice",
    "swap": "it is told behind the next one that is AGREED or SAFE",
}


class Bug:
    """What becomes of the actions of a stack."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._held: Action | None = None
        self._is_done = False

    def spoil(self, actions: list[Action]) -> list[Action]:
        """The same but for one message."""
        if self._is_done:
            return actions
        spoilt: list[Action] = []
        for action in actions:
            spoilt += self._spoilt(action)
        return spoilt

    def _spoilt(self, action: Action) -> list[Action]:
        if self._is_done or not isinstance(action, Indicate) or not isinstance(action.indication, Message):
            return [action]
        if GROUP not in action.indication.bundle.groups:
            return [action]
        service = action.indication.bundle.service
        if self._held is not None and service in (Service.AGREED, Service.SAFE):
            self._is_done = True
            return [action, self._held]
        if self._held is not None or service is not Service.AGREED:
            return [action]
        if self._name == "swap":
            self._held = action
            return []
        self._is_done = True
        return [action, action] if self._name == "double" else []


def plant(name: str) -> Callable[[Stack, Event], list[Action]]:
    """From now on every stack of this process has the bug; what it was before."""
    whole, bug = Stack.handle, Bug(name)

    def handle(self: Stack, event: Event) -> list[Action]:
        return bug.spoil(whole(self, event))

    Stack.handle = handle  # type: ignore[method-assign]
    return whole
