"""What a client raises: always a `ClientError`; for misuse of the interface `LocalProtocolError`, as elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from isotone.core.errors import IsotoneError

if TYPE_CHECKING:
    from isotone.client.events import Message
    from isotone.core.ids import MessageId


class ClientError(IsotoneError):
    """Base of what a client's session raises at run time."""


class ConnectFailed(ClientError):
    """No session could be opened. ``code`` is for programs: "refused", "certificate", "unreachable", "full" …"""

    def __init__(self, code: str, reason: str) -> None:
        hint = "; is a daemon running there?" if code == "unreachable" else ""
        super().__init__(f"could not connect ({code}): {reason}{hint}")
        self.code = code
        self.reason = reason


class Disconnected(ClientError):
    """The session ended and no other could be opened in time, or none makes sense."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"the session is over ({code}): {reason}")
        self.code = code
        self.reason = reason


class Closed(ClientError):
    """The program closed the session, or left the group, before it asked this."""


class Refused(ClientError):
    """The daemon refused a request; nothing changed."""

    def __init__(self, request: str, reason: str) -> None:
        super().__init__(f"{request}: {reason}")
        self.request = request
        self.reason = reason


class NotAMember(ClientError):
    """Only members hear what they send, so only members can have it confirmed, or know who should answer."""


class NotSent(ClientError):
    """It is certain that nobody hears the message: its deadline passed, or it was not permitted."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the message was not sent: {reason}")
        self.reason = reason


class UnknownFate(ClientError):
    """Nobody knows whether the daemon took the message: it may be delivered, once, or never.

    ``id`` is its name, for `isotone explain message`.
    """

    def __init__(self, reason: str, id: MessageId | None = None) -> None:
        super().__init__(f"it is not known whether {_named(id)} was sent: {reason}")
        self.reason = reason
        self.id = id


class Unconfirmed(ClientError):
    """There is no acknowledgement. ``reason``: "transitional", "disconnected", "deadline", "left" or "not permitted…".

    The message may still be delivered, or may have been. ``id`` is its name: `isotone explain message ID` says what it
    waits for. None means that it never left this process.
    """

    def __init__(self, reason: str, detail: str = "", id: MessageId | None = None) -> None:
        super().__init__(f"{_named(id)} is not confirmed: {reason}" + (f" ({detail})" if detail else ""))
        self.reason = reason
        self.id = id


def _named(id: MessageId | None) -> str:
    return "the message" if id is None else f"message {id}"


class NoAnswer(ClientError):
    """A call did not get the answers that it wanted; those that came are in ``answers``."""

    def __init__(self, reason: str, answers: Sequence[Message] = ()) -> None:
        super().__init__(f"{len(answers)} answers, not enough: {reason}")
        self.reason = reason
        self.answers = tuple(answers)


class Overrun(ClientError):
    """The program waits for its daemon, but does not read its events, and they fill all memory that they may have.

    What was asked may still happen. Read events in a task of their own, or raise `Settings.inbox_bytes_max`.
    """
