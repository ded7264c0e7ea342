"""Streams over TLS on both loops: order, the end of either side, and callers who never come through the handshake."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from isotone.core.contract import Address, StreamClosed, StreamOpened
from isotone.daemon.security.tls import client_context, server_context
from isotone.daemon.streams import bind_tcp
from tests.daemon.security.test_tls import Issuer
from tests.daemon.test_streams import DEADLINE_S, End, Play, play

__all__ = ["play"]
SECURE = "secure door"


class SecureEnd(End):
    """With a second door, for TLS, and what was said of those who did not come through."""

    def __init__(self, directory: Path, *, streams_max: int = 100) -> None:
        super().__init__(streams_max=streams_max)
        issuer = Issuer(directory, "authority")
        certificate = issuer.issue("localhost")
        sock, address = bind_tcp("127.0.0.1", 0)
        self.refused: list[tuple[str, str, Address]] = []
        self.streams.on_tls_refused = lambda *told: self.refused.append(told)
        self.streams.listen_tls(sock, address, SECURE, server_context(certificate, certificate))
        self.trust = client_context(issuer.path)
        self.port = int(address.rpartition(":")[2])

    async def call(self, tls: ssl.SSLContext | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = None if tls is None else "localhost"
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=tls, server_hostname=name)


def talk(port: int, trust: ssl.SSLContext, say: bytes, hear: bool) -> bytes:
    """A client of the standard library, in a thread: say this, hear all until the end, and close."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
    with trust.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False) as stream:
        stream.sendall(say)
        heard = bytearray()
        while hear and (part := stream.recv(65_536)):
            heard += part
        return bytes(heard)


def test_much_passes_both_ways_and_either_side_may_close(tmp_path: Path, play: Play) -> None:
    async def main() -> None:
        end = SecureEnd(tmp_path)
        much = b"".join(bytes([place % 251]) * 997 for place in range(3_000))
        client = asyncio.create_task(asyncio.to_thread(talk, end.port, end.trust, much, True))
        await end.until(lambda: len(end.data(-1)) == len(much))
        assert end.data(-1) == much and end.streams.by_number[-1].door == SECURE
        end.streams.write(-1, [much[:5], memoryview(much)[5:], b""])
        end.streams.close_stream(-1)
        assert await client == much, "and the end was said, else it raises"
        await end.until(lambda: bool(end.of(StreamClosed)))
        await asyncio.to_thread(talk, end.port, end.trust, b"last words", False)
        await end.until(lambda: len(end.of(StreamClosed)) == 2)
        assert end.data(-2) == b"last words"
        assert not end.streams.by_number and not end.refused
        end.streams.close()

    play(main())


def test_who_speaks_no_tls_is_told_so_and_counted(tmp_path: Path, play: Play) -> None:
    async def main() -> None:
        end = SecureEnd(tmp_path)
        reader, writer = await end.call()
        writer.write(b"ISOC\x01\x01\x00\x00" * 20)
        said = await asyncio.wait_for(reader.read(), DEADLINE_S)
        assert b"clients come by TLS here" in said
        writer.close()
        (reason, _, peer), *more = end.refused
        assert reason == "TLS handshake failed" and peer.startswith("127.0.0.1:") and not more
        assert not end.of(StreamOpened) and end.streams.counters.streams_turned_away == 1
        end.streams.close()

    play(main())


def test_a_caller_that_is_refused_leaves_the_streams_of_others_alone(tmp_path: Path, play: Play) -> None:
    """Those that we opened are numbered from 0 on, and one that never entered has no number."""

    async def main() -> None:
        end, other = SecureEnd(tmp_path), End()
        end.streams.open(0, other.address)
        await end.until(lambda: bool(end.of(StreamOpened)))
        reader, writer = await end.call()
        writer.write(b"no TLS at all, and no greeting")
        assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
        writer.close()
        async with asyncio.timeout(DEADLINE_S):
            while end.streams._handshakes:
                await asyncio.sleep(0)
        assert 0 in end.streams.by_number and not end.of(StreamClosed)
        end.streams.close()
        other.streams.close()

    play(main())


def test_who_does_not_trust_the_daemon_is_counted_there(tmp_path: Path, play: Play) -> None:
    async def main() -> None:
        end = SecureEnd(tmp_path)
        with pytest.raises(ssl.SSLCertVerificationError):
            await end.call(client_context(Issuer(tmp_path, "other").path))
        async with asyncio.timeout(DEADLINE_S):
            while not end.refused:
                await asyncio.sleep(0)
        assert [reason for reason, _, _ in end.refused] == ["TLS handshake failed"]
        end.streams.close()

    play(main())


def test_who_never_finishes_makes_place(tmp_path: Path) -> None:
    async def main() -> None:
        end = SecureEnd(tmp_path)
        end.streams.handshakes_max = 3
        silent = [await end.call() for _ in range(5)]
        for reader, _ in silent[:2]:
            assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
        _, writer = await end.call(end.trust)
        writer.write(b"here")
        await end.until(lambda: end.data(-1) == b"here")
        for _, each in (*silent, (None, writer)):
            each.close()
        end.streams.close()

    asyncio.run(main())


def test_there_is_an_end_to_patience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotone.daemon.tls.HANDSHAKE_SECONDS", 0.05)

    async def main() -> None:
        end = SecureEnd(tmp_path)
        reader, writer = await end.call()
        assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
        writer.close()
        assert [(reason, said) for reason, said, _ in end.refused] == [("TLS handshake failed", "it took too long")]
        end.streams.close()

    asyncio.run(main())
