"""What a log answers when it cannot say yes."""

from __future__ import annotations

from isotone.core.errors import IsotoneError


class Maybe(IsotoneError):
    """Nobody can say yet: the record may still be ordered, at any time, or may never be [COReL 3.3].

    ``message`` is the name of the message that carries it, empty when it was not sent yet.
    """

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(f"maybe: {reason}")
        self.reason, self.message = reason, message


class Refused(IsotoneError):
    """The record is not taken and will never be ordered."""


class NotYet(IsotoneError):
    """The position is not green here within the time that was given."""


class FellBehind(IsotoneError):
    """A follower of red messages did not keep up, and has missed some."""
