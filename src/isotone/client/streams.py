"""One byte stream to a daemon: an asyncio protocol that tells what comes, and when all that was written is gone."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, cast

from isotone.core.addresses import parse_address
from isotone.core.contract import Address

UNIX_FAMILY = getattr(socket, "AF_UNIX", None)
UNIX_BUFFER_BYTES = 1024 * 1024
"""Room for several bundles; that of TCP grows by itself."""
FLUSH_S = 2.0
"""What was written before a close has so much time to leave."""
CERTIFICATE, UNREACHABLE = "certificate", "unreachable"
"""Why an address is of no use: TLS, or nobody listens there."""
REFUSING = ("ALERT", "CERTIFICATE", "VERSION", "PROTOCOL")
"""In what OpenSSL calls an error that is an answer."""

Loop = asyncio.AbstractEventLoop


class Told:
    """What a stream tells, each with its number."""

    def __init__(
        self,
        *,
        opened: Callable[[int], None],
        received: Callable[[int, bytes], None],
        writable: Callable[[int], None],
        closed: Callable[[int, str], None],
        refused: Callable[[int, str, str], None],
        impossible: Callable[[BaseException], None],
        gone: Callable[[int], None],
    ) -> None:
        self.opened = opened
        self.received = received
        self.writable = writable
        self.closed = closed
        self.refused = refused
        """Said before ``closed``, with `CERTIFICATE` or `UNREACHABLE`."""
        self.impossible = impossible
        """Instead of ``closed``: this loop does not open such streams, as that of simulated clusters."""
        self.gone = gone


class Stream(asyncio.Protocol):
    """A stream that is opened by us. After `close` it tells nothing more but that it is ``gone``."""

    closed_there = "closed by the daemon"

    def __init__(self, number: int, loop: Loop, told: Told) -> None:
        self.number = number
        self.address = Address("")
        self._loop = loop
        self._told = told
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closing = False  # nobody wants to hear of it any more
        self._full = False  # something that was written waits here
        self._reading = True
        self._flush: asyncio.TimerHandle | None = None

    # --- what its owner does ---------------------------------------------------------------------------------------

    def open(self, address: Address, tls: ssl.SSLContext | None, server_name: str) -> None:
        """Begin to connect."""
        self.address = address
        self._opening = self._loop.create_task(self._open(address, tls, server_name))
        self._opening.add_done_callback(self._on_attempted)

    async def _open(self, address: Address, tls: ssl.SSLContext | None, server_name: str) -> None:
        place = parse_address(address)
        options: dict[str, Any] = {}
        if tls is not None:
            options = {"ssl": tls, "server_hostname": server_name or place.host or "localhost"}
        try:
            if place.path:
                await self._loop.create_unix_connection(self._self, place.path, **options)
            else:
                await self._loop.create_connection(self._self, host=place.host, port=place.port, **options)
        except (OSError, ValueError, EOFError) as error:
            self._end(error)

    def _self(self) -> Stream:
        return self

    def _on_attempted(self, attempt: asyncio.Task[None]) -> None:
        error = None if attempt.cancelled() else attempt.exception()
        if error is not None:
            self._told.impossible(error)
        if self._transport is None:
            self._closing = True
            self._told.gone(self.number)

    def write(self, parts: Sequence[bytes | memoryview]) -> None:
        """Write; that all is taken is told in a later turn, so that what is sent in this one is bundled."""
        if self._transport is None or self._closing:
            return
        self._transport.writelines(parts)
        if not self._full:
            self._loop.call_soon(self._tell_writable)

    def pause(self, paused: bool) -> None:
        """Read nothing for now, or read again."""
        if self._reading is not paused:
            return
        self._reading = not paused
        if self._transport is not None and not self._transport.is_closing():
            (self._transport.pause_reading if paused else self._transport.resume_reading)()

    def close(self) -> None:
        """Close when all is written, but not much later."""
        if self._closing:
            return
        self._closing = True
        if self._transport is None:
            if self._opening is not None:
                self._opening.cancel()
            return
        self.pause(False)
        self._flush = self._loop.call_later(FLUSH_S, self.abort)
        self._transport.close()

    def abort(self) -> None:
        """Close now."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()
        elif self._opening is not None:
            self._opening.cancel()

    # --- what asyncio does -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = opened = cast(asyncio.Transport, transport)  # other loops have classes of their own
        opened.set_write_buffer_limits(high=0)
        sock = opened.get_extra_info("socket")
        if sock is not None and sock.family == UNIX_FAMILY:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNIX_BUFFER_BYTES)
        if self._closing:
            opened.abort()
            return
        if not self._reading:
            opened.pause_reading()
        self._told.opened(self.number)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if not self._closing:
            self._told.received(self.number, data)

    def pause_writing(self) -> None:
        """Not all that was written was taken."""
        self._full = True

    def resume_writing(self) -> None:
        """All was."""
        self._full = False
        self._tell_writable()

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone."""
        if self._flush is not None:
            self._flush.cancel()
        self._end(error)
        self._told.gone(self.number)

    def _tell_writable(self) -> None:
        if not self._closing and not self._full:
            self._told.writable(self.number)

    def _end(self, error: Exception | None) -> None:
        if self._closing:
            return
        self._closing = True
        reason = self.closed_there if error is None else said(error)
        if is_refusal(error):
            self._told.refused(self.number, CERTIFICATE, reason)
        elif isinstance(error, ConnectionRefusedError | FileNotFoundError):
            self._told.refused(self.number, UNREACHABLE, reason)
        self._told.closed(self.number, reason)


def said(error: Exception) -> str:
    """An error in the words of the system, where it has some."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return str(error) or type(error).__name__


def is_refusal(error: Exception | None) -> bool:
    """Whether one end does not take the other's certificate or TLS: a stream that just broke off is something else."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return True
    return isinstance(error, ssl.SSLError) and any(word in (error.reason or "") for word in REFUSING)
