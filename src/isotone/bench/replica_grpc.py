"""Just enough of gRPC over HTTP/2 to use keys and locks of etcd, one call at a time on one connection.

Headers are sent as literals that no table remembers, so nothing need be compressed; of answers only the frames are
read: a call that went well has a message, one that did not has none.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
WINDOW_EVERY = 16 * 1024
VALUE_TAG = b"\x2a"
"""Of the value within a key and its value."""
HEAD = struct.Struct(">BHBBI")


def _text(value: bytes) -> bytes:
    assert len(value) < 127
    return bytes([len(value)]) + value


def _headers(path: str, authority: str) -> bytes:
    pairs = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": path.encode(),
        b":authority": authority.encode(),
        b"content-type": b"application/grpc",
        b"te": b"trailers",
    }
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in pairs.items())


def _frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return HEAD.pack(len(body) >> 16, len(body) & 0xFFFF, kind, flags, stream) + body


def _field(number: int, value: bytes) -> bytes:
    """Of a protocol buffer: bytes under a number."""
    size, rest = bytearray(), len(value)
    while rest > 127:
        size.append(rest & 127 | 128)
        rest >>= 7
    return bytes([number << 3 | 2]) + bytes(size) + bytes([rest]) + value


class GrpcConnection:
    """To one member of an etcd cluster."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str) -> None:
        self._reader, self._writer = reader, writer
        self._authority = authority
        self._stream = -1
        self._taken = 0

    @classmethod
    async def open(cls, host: str, port: int) -> GrpcConnection:
        """Connected, and the preface sent."""
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(PREFACE + _frame(SETTINGS, 0, 0))
        return cls(reader, writer, f"{host}:{port}")

    async def put(self, key: bytes, value: bytes) -> None:
        """Until it is answered; raises `ConnectionError` when it went wrong."""
        await self._call("/etcdserverpb.KV/Put", _field(1, key) + _field(2, value))

    async def get(self, key: bytes) -> None:
        """A linearizable read; what it found is not looked at."""
        await self._call("/etcdserverpb.KV/Range", _field(1, key))

    async def lock(self, name: bytes) -> bytes:
        """Until it is held; the key that unlocks it."""
        answer = await self._call("/v3lockpb.Lock/Lock", _field(1, name))
        return answer[answer.index(name + b"/") :]  # the key is the last field

    async def unlock(self, key: bytes) -> None:
        """Release the lock of this key."""
        await self._call("/v3lockpb.Lock/Unlock", _field(1, key))

    async def watch(self, key: bytes, size: int) -> AsyncGenerator[bytes, None]:
        """The values of a key from now on, each of ``size`` bytes; the last thing that this connection is used for."""
        self._ask("/etcdserverpb.Watch/Watch", _field(1, _field(1, key)), is_last=False)
        while True:
            kind, flags, stream, body = await self._frame()
            if kind in (RESET, GOAWAY) or (stream == self._stream and flags & END_STREAM):
                raise ConnectionError("the watch was broken off")
            place = 0
            while kind == DATA and (place := body.find(VALUE_TAG + bytes([size]), place)) >= 0:
                yield body[place + 2 : place + 2 + size]
                place += 2 + size

    async def _call(self, path: str, message: bytes) -> bytes:
        self._ask(path, message, is_last=True)
        answer = b""
        while True:
            kind, flags, stream, body = await self._frame()
            if kind == DATA:
                answer += body
            elif kind in (RESET, GOAWAY):
                raise ConnectionError("the call was broken off")
            if stream == self._stream and flags & END_STREAM and kind in (DATA, HEADERS):
                if not answer:
                    raise ConnectionError("the call failed")
                return answer

    def _ask(self, path: str, message: bytes, *, is_last: bool) -> None:
        self._stream += 2
        body = b"\x00" + struct.pack(">I", len(message)) + message
        headers = _frame(HEADERS, END_HEADERS, self._stream, _headers(path, self._authority))
        self._writer.write(headers + _frame(DATA, END_STREAM if is_last else 0, self._stream, body))

    async def _frame(self) -> tuple[int, int, int, bytes]:
        """The next one; what the connection itself asks is answered."""
        high, low, kind, flags, stream = HEAD.unpack(await self._reader.readexactly(HEAD.size))
        body = await self._reader.readexactly(high << 16 | low)
        if kind == SETTINGS and not flags & ACK:
            self._writer.write(_frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._writer.write(_frame(PING, ACK, 0, body))
        elif kind == DATA:
            self._give_window(len(body))
        return kind, flags, stream, body

    def _give_window(self, size: int) -> None:
        self._taken += size
        if self._taken >= WINDOW_EVERY:
            self._writer.write(_frame(WINDOW, 0, 0, struct.pack(">I", self._taken)))
            self._taken = 0

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()
