"""Streams of clients over TLS: the cryptography in memory, over a stream as all others are.

Who does not come through the handshake is told why, as far as TLS has words for it, and so is the owner; a caller who
never finishes one counts as a stream, so that they are bounded too.
A certificate that a client shows is told to whoever maps certificates to principals before its session is judged.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress

from isotone.core.contract import Address
from isotone.daemon.farewell import farewell_to
from isotone.daemon.stream import READ_BYTES, AnyStream, Stream, StreamOwner

HANDSHAKE_SECONDS = 10.0

Certificate = dict[str, object]


class TlsOwner(StreamOwner):
    """Hears of handshakes besides."""

    def entered(self, stream: TlsStream) -> bool:
        """A client came through; False when there is no place for it."""
        raise NotImplementedError

    def turned_away(self, stream: TlsStream, error: Exception) -> None:
        """A caller did not; `ended` follows when it is gone."""


class TlsStream(StreamOwner):
    """One of them, with the face of `isotone.daemon.stream.Stream`; ``_below`` carries what is encrypted."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        owner: TlsOwner,
        *,
        peer: Address,
        door: str,
        context: ssl.SSLContext,
    ) -> None:
        self.number = 0  # until it entered
        self.peer, self.door = peer, door
        self._owner = owner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._below = Stream(loop, sock, 0, peer, self)
        self._is_new = True  # nothing came yet
        self._is_open = False
        self._is_refused = False
        self._closing = False
        self._patience = loop.call_later(HANDSHAKE_SECONDS, self._refuse, TimeoutError("it took too long"))

    @property
    def certificate(self) -> Certificate:
        """What the client showed; empty if it showed nothing."""
        return dict(self._tls.getpeercert() or {})

    # --- what the owner asks ---------------------------------------------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        """Written, and not taken by the kernel yet."""
        return self._below.waiting_bytes

    def begin(self) -> None:
        """Wait for the handshake."""
        self._below.begin()

    def write(self, data: Sequence[bytes | memoryview]) -> bool:
        """Write; says whether all was taken at once."""
        if self._closing or not self._is_open:
            return False
        left = memoryview(b"".join(data))
        try:
            while left:
                left = left[self._tls.write(left) :]  # a record at most
        except ssl.SSLError:
            return False  # it is broken, which its reader is about to find out
        return self._flush()

    def gather(self, data: Sequence[bytes | memoryview]) -> bool:
        """The same: a record is made of what is there."""
        return self.write(data)

    def flush(self) -> None:
        """Nothing is gathered."""

    def close(self) -> None:
        """After what was written is flushed."""
        if self._closing:
            return
        self._closing = True
        if not self._is_open:
            self._below.end("closed")
            return
        with suppress(ssl.SSLError):  # it is said, and not answered yet
            self._tls.unwrap()
        self._flush()
        self._below.close()

    def pause(self) -> None:
        """Neither read nor write."""
        self._below.pause()

    def resume(self) -> None:
        """Go on."""
        self._below.resume()

    def pause_reading(self) -> None:
        """Read nothing for now."""
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._below.resume_reading()

    def abort(self) -> None:
        """At once, without a word."""
        self._closing = True
        self._patience.cancel()
        self._below.abort()

    # --- what the stream below tells -------------------------------------------------------------------------------

    def received(self, stream: AnyStream, data: bytes) -> None:
        """Bytes came, encrypted."""
        self._incoming.write(data)
        if self._is_open:
            self._read()
            return
        if self._is_new and (words := farewell_to(data)):
            self._below.write([words])  # a client that speaks no TLS: its handshake fails now
        self._is_new = False
        self._shake_hands()

    def writable(self, stream: AnyStream) -> None:
        """All was taken."""
        if self._is_open:
            self._owner.writable(self)

    def ended(self, stream: AnyStream, reason: str) -> None:
        """It is gone."""
        if not self._is_open and not self._is_refused and not self._closing:
            self._turn_away(ConnectionResetError(reason))
        self._patience.cancel()
        self._owner.ended(self, reason)

    # --- the handshake ---------------------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._refuse(error)
            return
        self._flush()
        self._patience.cancel()
        self._is_open = True
        if not self._owner.entered(self):
            self._below.end("no place")
        elif not self._closing:
            self._read()

    def _refuse(self, error: Exception) -> None:
        """Say why, and good-bye."""
        self._turn_away(error)
        self._flush()
        self._below.close()

    def _turn_away(self, error: Exception) -> None:
        self._is_refused = True
        self._patience.cancel()
        self._owner.turned_away(self, error)

    # --- what is encrypted -----------------------------------------------------------------------------------------

    def _read(self) -> None:
        parts: list[bytes] = []
        reason = ""
        try:
            while part := self._tls.read(READ_BYTES):
                parts.append(part)
            reason = "closed by peer"
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            reason = error.reason or str(error)
        self._flush()
        if parts:
            self._owner.received(self, b"".join(parts))
        if reason and not self._closing:
            self._below.end(reason)

    def _flush(self) -> bool:
        return self._below.write([self._outgoing.read()])


def why_refused(error: BaseException) -> tuple[str, str]:
    """What went wrong with a handshake: the reason, for counting, and what is said about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "wrong certificate", error.verify_message
    said = error.reason if isinstance(error, ssl.SSLError) else str(error)
    return "TLS handshake failed", said or type(error).__name__
