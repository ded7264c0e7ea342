"""How a session of a Spread client begins, from 3.1 on: version and name, then the choice of an authentication method.

A rejection is one byte and then the end. Bytes are put together however they come: Spread's daemon wants each step in
one piece. Every answer is one write, because old libraries do not read on.

Implements: the connection set-up of Spread's client protocol. Deviations: D-pieces as said.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from isotone.core.contract import Address
from isotone.daemon.spread.authentication import PASSWORD, Authentication, Rejected
from isotone.daemon.spread.constants import (
    CHOICE_BYTES,
    PASSWORD_BYTES,
    PRIVATE_NAME_MAX,
    USER_BYTES,
    VERSION_MIN,
    VERSION_WITH_CHOICE,
    VERSION_WITH_PATCH,
    Code,
)
from isotone.daemon.spread.settings import HANDSHAKE_BYTES_MAX

WANTS_MEMBERSHIP = 0x01
RIGHT, WRONG = b"\x01", b"\x00"

Claim = Callable[[str], str]
"""Takes a name for this client, or invents one for an empty name; raises `Rejected` if it is in use."""


class Phase(Enum):
    """What is waited for."""

    VERSION = "version"
    NAME = "name"
    CHOICE = "choice of methods"
    METHODS = "methods run"
    PASSWORD = "user and password"
    DONE = "the client is who it says"


class Handshake:
    """Of one stream, until the client is authenticated."""

    def __init__(self, peer: Address, authentication: Authentication, claim: Claim) -> None:
        self.peer = peer
        self.phase = Phase.VERSION
        self.version = 0  # major, minor and patch as one number
        self.name = ""  # once it is claimed
        self.wants_membership = False
        self.credential = b""
        self.rejection: Rejected | None = None
        self._authentication = authentication
        self._claim = claim
        self._methods: list[str] = []  # still to be run
        self._held = bytearray()
        self._steps = {
            Phase.VERSION: self._on_version,
            Phase.NAME: self._on_name,
            Phase.CHOICE: self._on_choice,
            Phase.METHODS: self._on_methods,
            Phase.PASSWORD: self._on_password,
        }

    @property
    def is_done(self) -> bool:
        """Whether nothing is missing."""
        return self.phase is Phase.DONE

    def take(self, data: bytes | memoryview) -> list[bytes]:
        """What to answer, each a write of its own; afterwards see ``rejection`` and ``is_done``."""
        answers: list[bytes] = []
        try:
            if len(self._held) + len(data) > HANDSHAKE_BYTES_MAX:
                raise Rejected(Code.ILLEGAL_NAME, "too many bytes before an answer")
            self._held += data
            while not self.is_done and (answer := self._steps[self.phase]()) is not None:
                answers.append(answer)
        except Rejected as rejected:
            self.rejection = rejected
            if self.phase is Phase.PASSWORD:
                answers.append(WRONG)
        return [answer for answer in answers if answer]

    def left(self) -> bytes:
        """What came behind; it belongs to the session."""
        rest, self._held = bytes(self._held), bytearray()
        return rest

    # --- steps: an answer, an empty one, or None if bytes are missing ----------------------------------------------

    def _on_version(self) -> bytes | None:
        held = self._held
        if len(held) < 2:
            return None
        version = _signed(held[0]) * 10_000 + _signed(held[1]) * 100
        size = 3 if version >= VERSION_WITH_PATCH else 2
        if len(held) < size:
            return None
        self.version = version + (_signed(held[2]) if size == 3 else 0)
        if self.version < VERSION_MIN:
            raise Rejected(Code.VERSION, f"version {self.version}")
        del held[:size]
        self.phase = Phase.NAME
        return b""

    def _on_name(self) -> bytes | None:
        held = self._held
        if len(held) < 2:
            return None
        options, length = held[0], held[1]
        if length > PRIVATE_NAME_MAX:
            raise Rejected(Code.ILLEGAL_NAME, f"a name of {length} bytes")
        if len(held) < 2 + length:
            return None
        name = bytes(held[2 : 2 + length])
        if any(not 0x24 <= byte <= 0x7E for byte in name):
            raise Rejected(Code.ILLEGAL_NAME, f"the name {name!r}")
        del held[: 2 + length]
        self.name = self._claim(name.decode("ascii"))
        self.wants_membership = bool(options & WANTS_MEMBERSHIP)
        return self._offer()

    def _offer(self) -> bytes:
        """The list of methods, to those who know of it."""
        if self.version < VERSION_WITH_CHOICE:
            self._methods = self._authentication.without_choice()
            self.phase = Phase.METHODS
            return b""
        self.phase = Phase.CHOICE
        return self._authentication.offer

    def _on_choice(self) -> bytes | None:
        if not self._authentication.is_open:
            raise Rejected(Code.AUTHENTICATION, "no method is offered")
        if len(self._held) < CHOICE_BYTES:
            return None
        self._methods = self._authentication.chosen(bytes(self._held[:CHOICE_BYTES]))
        del self._held[:CHOICE_BYTES]
        self.phase = Phase.METHODS
        return b""

    def _on_methods(self) -> bytes | None:
        """Run what asks the client nothing, up to what does."""
        while self._methods:
            method = self._methods.pop(0)
            if method == PASSWORD and self.version >= VERSION_WITH_CHOICE:
                self.phase = Phase.PASSWORD
                return b""
            self._authentication.run(method, self.peer)
        self.phase = Phase.DONE
        return b""

    def _on_password(self) -> bytes | None:
        held, size = self._held, USER_BYTES + PASSWORD_BYTES
        if len(held) < size:
            return None
        user, password = bytes(held[:USER_BYTES]), bytes(held[USER_BYTES:size])
        del held[:size]
        if not self._authentication.is_right(user, password):
            raise Rejected(Code.AUTHENTICATION, "the password is wrong")
        self.credential = b"\0".join(each.partition(b"\0")[0] for each in (user, password))
        self.phase = Phase.METHODS
        return RIGHT


def _signed(byte: int) -> int:
    return byte - 256 if byte >= 0x80 else byte
