"""Streams of clients over TLS: asyncio does the cryptography, and everything else is as with other streams.

Who does not come through the handshake is told with his address and the reason; handshakes count as streams, so that
callers who never finish one are bounded too.
A certificate that a client shows is told to whoever maps certificates to principals before its session is judged.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import cast

from isotone.core.contract import Address
from isotone.daemon.stream import FLUSH_SECONDS, StreamOwner

HANDSHAKE_SECONDS = 10.0

Certificate = dict[str, object]
Enter = Callable[["TlsStream", tuple[object, ...] | str, Certificate], bool]
"""A client came through the handshake, from there; False when there is no place for it."""


class TlsStream(asyncio.Protocol):
    """One of them, with the face of `isotone.daemon.stream.Stream`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: StreamOwner, enter: Enter, door: str) -> None:
        self.number = 0
        self.peer = Address("")
        self.door = door
        self._loop, self._owner, self._enter = loop, owner, enter
        self._transport: asyncio.Transport
        self._is_full = False
        self._closing = False
        self._handle: asyncio.TimerHandle | None = None

    # --- what the owner asks ---------------------------------------------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        """Written, and not taken by the kernel yet."""
        return self._transport.get_write_buffer_size()

    def begin(self) -> None:
        """It reads already."""

    def write(self, data: Sequence[bytes | memoryview]) -> bool:
        """Write; says whether all was taken at once."""
        if self._closing or self._transport.is_closing():
            return False
        self._transport.write(b"".join(data))
        return not self._is_full

    def close(self) -> None:
        """After what was written is flushed."""
        if not self._closing:
            self._closing = True
            self._handle = self._loop.call_later(FLUSH_SECONDS, self._transport.abort)
            self._transport.close()

    def pause_reading(self) -> None:
        """Read nothing for now."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._transport.resume_reading()

    pause, resume = pause_reading, resume_reading

    def abort(self) -> None:
        """At once, without a word."""
        self._closing = True
        self._owner = StreamOwner.deaf()
        self._transport.abort()

    # --- what the loop tells ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        certificate = transport.get_extra_info("peercert") or {}
        if not self._enter(self, transport.get_extra_info("peername"), certificate):
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if not self._closing:
            self._owner.received(self, data)

    def pause_writing(self) -> None:
        """The kernel takes no more."""
        self._is_full = True

    def resume_writing(self) -> None:
        """All was taken."""
        self._is_full = False
        if not self._closing:
            self._owner.writable(self)

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone."""
        if self._handle is not None:
            self._handle.cancel()
        reason = "closed" if self._closing else str(error or "closed by peer")
        self._owner.ended(self, reason)


async def shake_hands(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, context: ssl.SSLContext, stream: TlsStream
) -> None:
    """Bring one caller through the handshake; raises what went wrong, and the socket is closed then."""
    await loop.connect_accepted_socket(lambda: stream, sock, ssl=context, ssl_handshake_timeout=HANDSHAKE_SECONDS)


def why_refused(error: BaseException) -> tuple[str, str]:
    """What went wrong with a handshake: the reason, for counting, and what is said about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "wrong certificate", error.verify_message
    said = error.reason if isinstance(error, ssl.SSLError) else str(error)
    return "TLS handshake failed", said or type(error).__name__
