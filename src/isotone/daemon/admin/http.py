"""A small HTTP/1.1 server for administration: one handler, everything bounded, connections kept alive.

h11 is the automaton of the protocol; here are the sockets and the clock. A request that is too large, too slow or not
HTTP ends its own connection and nothing else. What the handler raises by accident is answered with 500 and logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import h11
import msgspec

from isotone.evs.sessions.greeting import CLIENT_MAGIC

READ_BYTES = 16 * 1024
FIELDS_MAX = 32

log = logging.getLogger("isotone.admin")


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the server."""

    head_bytes_max: int = 16 * 1024
    body_bytes_max: int = 64 * 1024
    request_within_s: float = 10.0
    """From the first wait for a request to its last byte, so also how long a connection may be idle."""
    answer_within_s: float = 30.0
    last_answer_within_s: float = 5.0
    """How long a stop waits for answers to what was asked before it."""
    connections_max: int = 64


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request, whole."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]  # names in small letters; of a repeated one the last
    body: bytes
    peer: str


class Response(msgspec.Struct, frozen=True):
    """One answer, whole."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[Request], Awaitable[Response]]


class TooLarge(Exception):
    """The body passes its bound."""


class HttpServer:
    """Listens, and hands every request to its handler."""

    def __init__(self, handler: Handler, limits: HttpLimits | None = None) -> None:
        self.limits = limits or HttpLimits()
        self.answers: Counter[int] = Counter()  # by status
        self.turned_away = 0  # connections for which there was no place
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._reading: dict[asyncio.Task[Any], None] = {}  # that wait for a request, whoever waits longest first
        self._stopping = False

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns host and port."""
        self._server = await asyncio.start_server(self._on_connection, host, port)
        name = self._server.sockets[0].getsockname()
        return str(name[0]), int(name[1])

    async def stop(self) -> None:
        """Close the listener and every connection; who has asked something is answered first, who asked to stop too."""
        self._stopping = True
        if self._server is not None:
            self._server.close()
        for task in list(self._reading):
            task.cancel()
        connections = list(self._connections)
        if connections:
            await asyncio.wait(connections, timeout=self.limits.last_answer_within_s)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    # --- one connection --------------------------------------------------------------------------------------------

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # the peer is gone or too slow, or the server stops: nobody to answer
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self.limits.head_bytes_max)
        if len(self._connections) > self.limits.connections_max and not self._make_place():
            return
        while True:
            response, is_head = await self._exchange(connection, reader, writer)
            await self._answer(connection, writer, response, b"" if is_head else response.body)
            if self._stopping or connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    def _make_place(self) -> bool:
        """Whoever has not asked anything for longest goes, so that probes and scripts get through; whether anybody did.

        Without it one is turned away who came last.
        """
        self.turned_away += 1
        if not self._reading:
            return False
        oldest = next(iter(self._reading))
        del self._reading[oldest]
        oldest.cancel()
        return True

    async def _exchange(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[Response, bool]:
        """Read a request and have it answered, and whether only the head is wanted. What is wrong is an answer too."""
        task = asyncio.current_task()
        assert task is not None
        self._reading[task] = None
        try:
            async with asyncio.timeout(self.limits.request_within_s):
                request = await self._read(connection, reader, writer)
        except h11.RemoteProtocolError as error:
            return plain(error.error_status_hint, str(error)), False
        except TooLarge:
            return plain(413, f"at most {self.limits.body_bytes_max} bytes"), False
        finally:
            self._reading.pop(task, None)
        return await self._handled(request), request.method == "HEAD"

    async def _handled(self, request: Request) -> Response:
        if request.method == "CONNECT":
            return plain(405, "this is no proxy")
        try:
            async with asyncio.timeout(self.limits.answer_within_s):
                return await self._handler(request)
        except TimeoutError:
            return plain(504, f"no answer within {self.limits.answer_within_s:g} seconds")
        except Exception:
            log.exception("a request failed", extra={"fields": {"method": request.method, "path": request.path}})
            return plain(500, "the daemon's log says why")

    async def _read(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Request:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                if connection.they_are_waiting_for_100_continue:
                    writer.write(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
                data = await reader.read(READ_BYTES)
                if head is None and data.startswith(CLIENT_MAGIC):  # it would wait for us to say more
                    raise h11.RemoteProtocolError("a client of groups; its port is another", 400)
                connection.receive_data(data)
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > self.limits.body_bytes_max:
                    raise TooLarge
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                return _request(head, bytes(body), writer)
            else:  # closed between two requests
                raise ConnectionResetError

    async def _answer(
        self, connection: h11.Connection, writer: asyncio.StreamWriter, response: Response, body: bytes
    ) -> None:
        if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        self.answers[response.status] += 1
        headers = [
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(response.body))),
            ("Cache-Control", "no-store"),
            *response.headers,
        ]
        if connection.their_state is h11.ERROR or connection.their_state is h11.SEND_BODY:
            headers.append(("Connection", "close"))
        reason = HTTPStatus(response.status).phrase.encode()
        parts = [
            connection.send(h11.Response(status_code=response.status, reason=reason, headers=headers)),
            connection.send(h11.Data(data=body)),
            connection.send(h11.EndOfMessage()),
        ]
        writer.write(b"".join(part for part in parts if part))
        async with asyncio.timeout(self.limits.request_within_s):
            await writer.drain()


def plain(status: int, text: str) -> Response:
    """An answer that is only a reason."""
    return Response(status, msgspec.json.encode({"error": text}))


def _request(head: h11.Request, body: bytes, writer: asyncio.StreamWriter) -> Request:
    try:
        target = urlsplit(head.target.decode("ascii"))
        query = dict(parse_qsl(target.query, keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError as error:
        raise h11.RemoteProtocolError(f"a target that cannot be read: {error}", 400) from error
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in head.headers}
    peer = writer.get_extra_info("peername")
    where = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
    return Request(
        method=head.method.decode("ascii"), path=target.path, query=query, headers=headers, body=body, peer=where
    )
