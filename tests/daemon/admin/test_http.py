"""The HTTP server: bounded, kept alive, and nobody's fault ends more than one connection."""

from __future__ import annotations

import asyncio
import re

import msgspec

from isotone.core.choice import Choice
from isotone.daemon.admin.http import HttpLimits, HttpServer, Request, Response

LIMITS = HttpLimits(head_bytes_max=2_000, body_bytes_max=100, connections_max=3)


async def echo(request: Request) -> Response:
    if request.path == "/fail":
        raise ValueError("nobody expected this")
    return Response(200, msgspec.json.encode([request.method, request.path, request.query, len(request.body)]))


async def exchange(data: bytes, limits: HttpLimits = LIMITS) -> bytes:
    """What comes back until the server closes."""
    server = HttpServer(echo, limits)
    host, port = await server.start("127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(data)
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return answer
    finally:
        await server.stop()


def statuses(answer: bytes) -> list[int]:
    return [int(each) for each in re.findall(rb"HTTP/1\.1 (\d+) ", answer)]


def test_two_requests_on_one_connection() -> None:
    one = b"GET /a?x=1&y= HTTP/1.1\r\nHost: h\r\n\r\n"
    two = b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
    answer = asyncio.run(exchange(one + two))
    assert statuses(answer) == [200, 200]
    assert b'["GET","/a",{"x":"1","y":""},0]' in answer
    assert b'["POST","/b",{},3]' in answer


def test_a_head_that_is_too_long_is_refused() -> None:
    assert statuses(asyncio.run(exchange(b"GET /" + b"a" * 3_000))) == [431]


def test_a_body_that_is_too_long_is_refused_before_it_is_all_here() -> None:
    assert statuses(
        asyncio.run(exchange(b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n" + b"x" * 101))
    ) == [413]
    chunked = b"POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + b"32\r\n" + b"x" * 50 + b"\r\n"
    assert statuses(asyncio.run(exchange(chunked + b"32\r\n" + b"x" * 50 + b"\r\n1\r\nx\r\n"))) == [413]


def test_what_is_not_http_is_refused() -> None:
    assert statuses(asyncio.run(exchange(b"ISOC\x01\x01\x00\x00\r\n\r\n"))) == [400]
    assert statuses(asyncio.run(exchange(b"GET /a HTTP/1.1\r\n\r\n"))) == [400]  # without Host


def test_a_slow_request_ends_its_connection_only() -> None:
    assert asyncio.run(exchange(b"GET /a HT", msgspec.structs.replace(LIMITS, request_within_s=0.05))) == b""


def test_what_a_handler_raises_is_500() -> None:
    assert statuses(asyncio.run(exchange(b"GET /fail HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"))) == [500]


def test_head_has_no_body() -> None:
    answer = asyncio.run(exchange(b"HEAD /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"))
    assert statuses(answer) == [200] and answer.endswith(b"\r\n\r\n")


def test_who_has_asked_is_answered_before_the_server_is_gone() -> None:
    """As whoever asks the daemon to stop."""

    async def main() -> tuple[bytes, bytes]:
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def slow(request: Request) -> Response:
            asked.set()
            await may_answer.wait()
            return Response(202, b"{}")

        server = HttpServer(slow, LIMITS)
        host, port = await server.start("127.0.0.1", 0)
        idle, idle_writer = await asyncio.open_connection(host, port)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"POST /stop HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
        await asked.wait()
        stopping = asyncio.create_task(server.stop())
        said = await asyncio.wait_for(idle.read(), 60)
        may_answer.set()
        answer = await asyncio.wait_for(reader.read(), 60)
        await asyncio.wait_for(stopping, 60)
        for each in (writer, idle_writer):
            each.close()
        return said, answer

    said, answer = asyncio.run(main())
    assert said == b"" and statuses(answer) == [202]


def test_nobody_is_waited_for_longer_than_a_stop_may_take() -> None:
    async def main() -> bytes:
        async def never(request: Request) -> Response:
            await asyncio.Event().wait()
            raise AssertionError

        server = HttpServer(never, msgspec.structs.replace(LIMITS, last_answer_within_s=0.01))
        host, port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        while not server._connections or server._reading:
            await asyncio.sleep(0)
        await asyncio.wait_for(server.stop(), 60)
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return answer

    assert asyncio.run(main()) == b""


def test_connections_have_a_bound() -> None:
    async def scenario() -> tuple[bytes, int]:
        server = HttpServer(echo, LIMITS)
        host, port = await server.start("127.0.0.1", 0)
        idle = [await asyncio.open_connection(host, port) for _ in range(LIMITS.connections_max)]
        for reader, writer in idle:  # each is known to the server once it answered
            writer.write(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
            await reader.readuntil(b"]")
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
        answer = await asyncio.wait_for(reader.readuntil(b"]"), 60)
        gone = await asyncio.wait_for(idle[0][0].read(), 60)
        assert answer.startswith(b"HTTP/1.1 200") and not idle[1][0].at_eof()
        for _, each in [*idle, (reader, writer)]:
            each.close()
        await server.stop()
        return gone, server.turned_away

    assert asyncio.run(scenario()) == (b"", 1), "who was silent for longest made place"


def test_mutated_requests_end_their_own_connection_and_nothing_else() -> None:
    good = b"POST /b?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
    choice = Choice("requests")

    def mutated() -> bytes:
        data = bytearray(good)
        for _ in range(1 + choice.below(4)):
            place = choice.below(len(data))
            match choice.below(3):
                case 0:
                    data[place] = choice.below(256)
                case 1:
                    del data[place : place + 1 + choice.below(8)]
                case _:
                    data[place:place] = bytes([choice.below(256)]) * (1 + choice.below(8))
        return bytes(data)

    odd = [
        b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET http://[::1/ HTTP/1.1\r\nHost: h\r\n\r\n",
    ]

    async def scenario() -> list[int]:
        server = HttpServer(echo, LIMITS)
        host, port = await server.start("127.0.0.1", 0)
        seen: list[int] = []
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        for data in [*(mutated() for _ in range(300)), *odd, good]:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(data)
            writer.write_eof()
            seen = statuses(await asyncio.wait_for(reader.read(), 60))
            writer.close()
        await server.stop()
        assert not failures
        return seen

    assert asyncio.run(scenario()) == [200]
