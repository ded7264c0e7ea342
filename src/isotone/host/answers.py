"""What a log answers when it cannot say yes."""

from __future__ import annotations

from isotone.core.errors import IsotoneError
from isotone.core.ordered_log import Maybe, Refused

__all__ = ["FellBehind", "Maybe", "NotYet", "Refused"]


class NotYet(IsotoneError):
    """The position is not green here within the time that was given."""


class FellBehind(IsotoneError):
    """A follower of red messages did not keep up, and has missed some."""
