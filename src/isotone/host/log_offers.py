"""Snapshots that clients offer to a replica: they come in pieces, and are held in memory until they are written.

One state at a time comes over a connection. One for which there is no room, or whose pieces are too far apart, holds
nothing any more: the rest of it is passed over, and at its end the client hears why.
"""

from __future__ import annotations

import asyncio

from isotone.host import log_wire as wire

STATE_BYTES_MAX = 1 << 31
"""Of all snapshots that come in pieces just now, or are being written."""
PIECE_WITHIN_S = 60.0
"""A snapshot of which no piece comes for so long holds no memory any more."""
NO_ROOM = "there is no room for this state: all that come at once have at most {} bytes"
TOO_SLOW = "the state did not come in time: its pieces were too far apart"


class OfferRoom:
    """What all connections of a port hold together."""

    def __init__(self) -> None:
        self.held_bytes = 0

    def takes(self, size: int) -> bool:
        """Whether so much more fits."""
        return self.held_bytes + size <= STATE_BYTES_MAX

    def give_back(self, size: int) -> None:
        """So much is held no longer."""
        self.held_bytes -= size


class Offers:
    """Of one connection."""

    def __init__(self, room: OfferRoom, piece_within_s: float) -> None:
        self._room, self._piece_within_s = room, piece_within_s
        self._loop = asyncio.get_running_loop()
        self._request = 0  # of the state that is coming
        self._pieces: list[bytes] = []
        self._refused = ""  # why it is not taken
        self._deadline: asyncio.TimerHandle | None = None  # for the next piece

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
            self._cancel_deadline()
            self._deadline = self._loop.call_later(self._piece_within_s, self._refuse, TOO_SLOW)
        if not piece.is_last:
            return None
        whole, refused = b"".join(self._pieces), self._refused
        self.drop()
        return refused or whole

    def drop(self) -> None:
        """Whatever was coming is not taken."""
        self._empty()
        self._request, self._refused = 0, ""

    def _refuse(self, reason: str) -> None:
        self._empty()
        self._refused = self._refused or reason

    def _empty(self) -> None:
        self._cancel_deadline()
        self._room.give_back(sum(map(len, self._pieces)))
        self._pieces = []

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
