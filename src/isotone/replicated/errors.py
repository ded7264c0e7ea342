"""What an operation on a replicated object may answer instead of a result. `Maybe` and `Refused` are the log's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from isotone.core.errors import IsotoneError
from isotone.core.ordered_log import Maybe


class Rejected(IsotoneError):
    """The command stands in the order and was refused there, by every replica alike: nothing was changed."""


class SessionLost(IsotoneError):
    """The session ran out or was closed: what belonged to it is released, and the command was not applied."""


class Unsettled(Maybe):
    """Nobody can say yet whether the command will be applied; it is applied at most once.

    ``outcome()`` waits for the answer: the result, or `SessionLost` when it is certain that it never will be.
    """

    def __init__(self, reason: str, message: str, outcome: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(reason, message)
        self.outcome = outcome


class ReadNotSettled(IsotoneError):
    """A linearizable read could not go behind all that was ordered: there is no quorum, or not in time.

    ``stale_ok=True`` reads what is known here.
    """


class ChangesForgotten(IsotoneError):
    """Changes since that revision are not kept any more: read the whole, and watch from its revision."""


class TimedOut(IsotoneError):
    """It was not granted in time, and is not wanted any more."""
