"""Just enough of gRPC over HTTP/2 to put keys into etcd, one call at a time on one connection.

Headers are sent as literals that no table remembers, so nothing need be compressed; of answers only the frames are
read: a call that went well has a message, one that did not has none.
"""

from __future__ import annotations

import asyncio
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
WINDOW_EVERY = 16 * 1024
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
        self._headers = _headers("/etcdserverpb.KV/Put", authority)
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
        self._stream += 2
        message = _field(1, key) + _field(2, value)
        body = b"\x00" + struct.pack(">I", len(message)) + message
        self._writer.write(
            _frame(HEADERS, END_HEADERS, self._stream, self._headers) + _frame(DATA, END_STREAM, self._stream, body)
        )
        answered = False
        while True:
            high, low, kind, flags, stream = HEAD.unpack(await self._reader.readexactly(HEAD.size))
            body = await self._reader.readexactly(high << 16 | low)
            if kind == SETTINGS and not flags & ACK:
                self._writer.write(_frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self._writer.write(_frame(PING, ACK, 0, body))
            elif kind == DATA:
                self._give_window(len(body))
                answered = answered or bool(body)
            elif kind in (RESET, GOAWAY):
                raise ConnectionError("the call was broken off")
            if stream == self._stream and flags & END_STREAM and kind in (DATA, HEADERS):
                if not answered:
                    raise ConnectionError("the call failed")
                return

    def _give_window(self, size: int) -> None:
        self._taken += size
        if self._taken >= WINDOW_EVERY:
            self._writer.write(_frame(WINDOW, 0, 0, struct.pack(">I", self._taken)))
            self._taken = 0

    def close(self) -> None:
        """Done."""
        self._writer.close()
