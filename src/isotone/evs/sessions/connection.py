"""The present stream of a client's session, and the search for the next one."""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.choice import Choice
from isotone.core.contract import Action, Address, CloseStream, OpenStream
from isotone.evs.sessions.attempts import Attempts
from isotone.evs.sessions.client_stream import ClientStream, Stage
from isotone.evs.sessions.settings import ClientSettings


class Connection:
    """At most one stream at a time; streams are numbered ``first``, ``first + stride`` …"""

    def __init__(
        self, addresses: Sequence[Address], settings: ClientSettings, choice: Choice, *, first: int, stride: int
    ) -> None:
        self.stream: ClientStream | None = None
        self.attempts = Attempts(addresses, settings, choice)
        self.retry_at: int | None = None
        self._next, self._stride = first, stride
        self._settings = settings

    @property
    def is_open(self) -> bool:
        """Whether frames pass."""
        return self.stream is not None and self.stream.stage is Stage.OPEN

    def seek(self, at: int, within_us: int, out: list[Action]) -> None:
        """Look for the daemon from now on."""
        self.attempts.begin(at, within_us)
        self.open(at, out)

    def open(self, at: int, out: list[Action]) -> None:
        """Try the next address."""
        self.retry_at = None
        self.stream = ClientStream(self._next, self._settings, at + self._settings.attempt_us)
        self._next += self._stride
        out.append(OpenStream(self.stream.number, self.attempts.address()))

    def fail(self, reason: str, at: int, out: list[Action], *, hopeless: bool) -> bool:
        """The attempt came to nothing: try again, at once or later; whether that makes sense."""
        self.drop(out)
        wait = self.attempts.failed(reason, hopeless=hopeless)
        if wait:
            self.retry_at = at + wait
        elif wait == 0:
            self.open(at, out)
        return wait is not None

    def drop(self, out: list[Action]) -> None:
        """Close the stream, if there is one."""
        if self.stream is not None:
            out.append(CloseStream(self.stream.number))
            self.stream = None

    def dues(self) -> list[int]:
        """When to look at it."""
        stream = self.stream
        until = stream.until if stream is not None and stream.stage is not Stage.OPEN else None
        return [due for due in (self.attempts.give_up_at, self.retry_at, until) if due is not None]
