"""Messages that nobody waits for: collected here within one turn of the loop, and submitted together.

What is posted keeps its order, among itself and with everything else that is sent: whoever submits something else has
these submitted first. There is a bound: beyond it, or while the session has no room, whoever posts has to wait.
"""

from __future__ import annotations

from collections.abc import Callable

from isotone.client.ledger import Parcel
from isotone.client.streams import Loop
from isotone.core.bundles import MESSAGES_MAX
from isotone.core.codec.bundle import ENTRY_BYTES
from isotone.core.errors import LocalProtocolError
from isotone.core.services import Service
from isotone.evs.sessions.submission import SMALL_MAX, check_groups

Kind = tuple[tuple[str, ...], Service, int]
"""Groups, service and flags: what messages of one bundle have in common."""


class Posting:
    """The parcel in the making. ``submit`` sends one; it may refuse for want of room, and is asked again then."""

    def __init__(self, loop: Loop, submit: Callable[[Parcel], bool], *, parcel_bytes_max: int) -> None:
        self._loop, self._submit = loop, submit
        self._bytes_max = parcel_bytes_max
        self._bytes = 0
        self._kind: Kind | None = None
        self._bodies: list[bytes] = []
        self._types: list[int] = []
        self._typed = False  # some type is not 0
        self._due = False  # the loop will look at it

    def __bool__(self) -> bool:
        return bool(self._bodies)

    @property
    def count(self) -> int:
        """Messages that wait here."""
        return len(self._bodies)

    def put(self, kind: Kind, body: bytes, type: int, message_bytes_max: int) -> bool:
        """One more; whether it had place."""
        if kind != self._kind:
            check_groups(kind[0])
            if not self.flush():
                return False
            self._kind = kind
        cost = len(body) + ENTRY_BYTES
        if self._bodies and (self._bytes + cost > self._bytes_max or len(self._bodies) >= MESSAGES_MAX):
            if not self.flush():
                return False
        if len(body) > message_bytes_max or not 0 <= type <= SMALL_MAX:
            raise LocalProtocolError(f"a message of {len(body)} bytes and type {type}: at most {message_bytes_max}")
        self._bytes += cost
        self._bodies.append(body)
        self._types.append(type)
        if type:
            self._typed = True
        if not self._due:
            self._due = True
            self._loop.call_soon(self._on_turn)
        return True

    def flush(self) -> bool:
        """Submit what there is; whether nothing is left."""
        if not self._bodies:
            return True
        assert self._kind is not None
        groups, service, flags = self._kind
        types = tuple(self._types) if self._typed else ()
        parcel = Parcel(groups, service, tuple(self._bodies), types, flags)
        bodies, self._bodies = self._bodies, []  # submitting may lead here again
        if not self._submit(parcel):
            self._bodies = bodies
            return False
        self._types, self._typed, self._bytes = [], False, 0
        return True

    def _on_turn(self) -> None:
        self._due = False
        self.flush()
