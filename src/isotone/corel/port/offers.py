"""Snapshots that clients offer to a server: they come in pieces, and are held in memory until they are written.

One state at a time comes over a connection. One for which there is no room, or whose pieces are too far apart, holds
nothing any more: the rest of it is passed over, and at its end the client hears why.
"""

from __future__ import annotations

from isotone.corel.port import wire

STATE_BYTES_MAX = 1 << 31
"""Of all snapshots that come in pieces just now, or are being written."""
NO_ROOM = "there is no room for this state: all that come at once have at most {} bytes"
TOO_SLOW = "the state did not come in time: its pieces were too far apart"


class OfferRoom:
    """What all connections of a port hold together."""

    def __init__(self) -> None:
        self.held_bytes = 0

    def takes(self, size: int) -> bool:
        """Whether so much more fits."""
        return self.held_bytes + size <= STATE_BYTES_MAX


class Offers:
    """Snapshots that one connection hands in, piece by piece."""

    def __init__(self, room: OfferRoom) -> None:
        self._room = room
        self._request = 0  # of the state that is coming
        self._pieces: list[bytes] = []
        self._refused = ""  # why it is not taken
        self._writing: dict[int, int] = {}  # bytes of states that are being written, by request

    @property
    def is_waiting(self) -> bool:
        """Whether a piece of one that is held is still to come."""
        return bool(self._pieces)

    def take(self, piece: wire.OfferSnapshot) -> bytes | str | None:
        """The state when it is whole, or why it is not taken; nothing while more is to come."""
        if piece.request != self._request:
            self.drop()
            self._request = piece.request
        if not self._room.takes(len(piece.piece)):
            self._refuse(NO_ROOM.format(STATE_BYTES_MAX))
        if not self._refused:
            self._pieces.append(piece.piece)
            self._room.held_bytes += len(piece.piece)
        if not piece.is_last:
            return None
        whole, refused = b"".join(self._pieces), self._refused
        self.drop()
        if refused:
            return refused
        self._writing[piece.request] = len(whole)
        self._room.held_bytes += len(whole)
        return whole

    def written(self, request: int) -> None:
        """It is kept, or it is not; it is held no longer."""
        self._room.held_bytes -= self._writing.pop(request, 0)

    def late(self) -> None:
        """No piece came for too long."""
        self._refuse(TOO_SLOW)

    def drop(self) -> None:
        """Whatever was coming is not taken."""
        self._empty()
        self._request, self._refused = 0, ""

    def end(self) -> None:
        """The client is gone, and nobody waits for what is being written."""
        self.drop()
        for request in list(self._writing):
            self.written(request)

    def _refuse(self, reason: str) -> None:
        self._empty()
        self._refused = self._refused or reason

    def _empty(self) -> None:
        self._room.held_bytes -= sum(map(len, self._pieces))
        self._pieces = []
