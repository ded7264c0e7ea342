"""The port of a replicated log: frames, refusals, and clients that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeGuard

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.cli.replica_ask import ask_all
from isotone.core.codec.frame import FRAME, FrameKind
from isotone.core.contract import PersistFailed
from isotone.core.errors import MachineError, RemoteProtocolError
from isotone.corel.port import wire
from isotone.corel.port.connection import CREDIT_BYTES_MAX, REQUESTS_MAX, Following
from isotone.host.answers import Refused
from isotone.host.log_client import RemoteLog
from isotone.host.log_port import LogPort
from tests.host.replicas import replicas, run

RECORDS = 100
REQUESTS = 50
HOUR_US = 3_600_000_000
ALL_BYTES = RECORDS * 20_000


@given(st.lists(st.binary(max_size=300), max_size=20), st.lists(st.integers(1, 50), min_size=1))
def test_frames_come_out_however_the_stream_is_cut(records: list[bytes], cuts: list[int]) -> None:
    sent = [wire.AppendMany(number, 0, (record,)) for number, record in enumerate(records)]
    data = b"".join(map(wire.framed, sent))
    frames: wire.Frames[wire.ClientFrame] = wire.Frames(wire.CLIENT_FRAMES)
    got: list[wire.ClientFrame] = []
    place = 0
    for number in range(len(data)):
        size = cuts[number % len(cuts)]
        got += frames.feed(data[place : place + size])
        place += size
        if place >= len(data):
            break
    assert got == sent


@given(st.binary(min_size=4, max_size=200))
def test_rubbish_is_refused_or_waits_for_more(data: bytes) -> None:
    frames: wire.Frames[wire.ClientFrame] = wire.Frames(wire.CLIENT_FRAMES)
    try:
        for frame in frames.feed(data):
            assert isinstance(frame, wire.Said)
    except RemoteProtocolError:
        pass


def judge(name: str, credential: bytes, peer: str) -> str:
    return "" if credential == b"sesame" else f"{name} at {peer.partition(':')[0]} is not known"


def test_who_misbehaves_is_dropped_and_nobody_else_notices(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            port = LogPort(group.logs["a"], judge=judge)
            await port.start("127.0.0.1", 0)
            stranger = RemoteLog(port.address)
            stranger.patience.connect_within_us = HOUR_US
            with pytest.raises(MachineError, match=r"client at 127\.0\.0\.1 is not known"):
                await stranger.append(b"x")
            async with RemoteLog(port.address, credential=b"sesame") as good:
                assert await good.append(b"one") == 1
                host, _, number = port.address.rpartition(":")
                for said in (
                    b"GET / HTTP/1.1\r\n\r\n",
                    wire.framed(wire.ReadRange(1, 1, 1)),
                    wire.framed(wire.Hello(99, "x", b"sesame")),
                    wire.framed(wire.Hello(wire.VERSION, "x", b"sesame")) + wire.framed(wire.Welcome(1, "x")),
                ):
                    reader, writer = await asyncio.open_connection(host, int(number))
                    writer.write(said)
                    heard = await reader.read()
                    assert b"RemoteProtocolError" in heard
                    writer.close()
                assert await good.append(b"two") == 2
                with pytest.raises(MachineError, match="nobody knows the question"):
                    await good.ask("meaning")
            await port.stop()

    run(main)


def test_who_follows_goes_on_elsewhere_when_its_server_ends_by_itself(tmp_path: Path) -> None:
    """As after a sync that failed: its process is there a little longer, and so is its port."""

    async def main() -> None:
        async with replicas(tmp_path) as group:
            ports = [LogPort(group.logs[name]) for name in "ab"]
            for port in ports:
                await port.start("127.0.0.1", 0)
            log = RemoteLog([port.address for port in ports])
            followed = log.follow(1)
            assert await group.logs["a"].append(b"one") == 1
            assert (await anext(followed)).record == b"one" and log.server == "a"
            host = group.logs["a"].host
            host.engine.take(host.lane, PersistFailed(host.now(), 1, "the disk failed"))
            await group.logs["a"].closed()
            assert await group.logs["b"].append(b"two") == 2
            assert (await anext(followed)).record == b"two" and log.server == "b"
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*ports[0].address.split(":"))
            await log.close()
            await ports[1].stop()

    run(main)


@pytest.mark.parametrize(
    "asked",
    [
        lambda request: wire.ReadRange(request, 1, RECORDS),
        lambda request: wire.Follow(request, 1, 1 << 60),
        lambda request: wire.Question(request, "messages", f"0 {RECORDS}"),
    ],
    ids=["read", "follow", "messages"],
)
def test_what_a_client_does_not_read_is_not_made(tmp_path: Path, asked: Callable[[int], wire.Said]) -> None:
    """Nobody waits for a time here: the client reads when the server has stopped, and the server counts all along."""

    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            log = group.logs["a"]
            await asyncio.gather(*(log.append(b"%3d" % number + bytes(20_000)) for number in range(RECORDS)))
            port = LogPort(log)
            await port.start("127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*port.address.split(":"))
            requests = [wire.framed(asked(request)) for request in range(1, REQUESTS + 1)]
            writer.write(b"".join([wire.framed(wire.Hello(wire.VERSION, "idle")), *requests]))
            while not any(each._transport for each in port.shell.streams.values()):
                await asyncio.sleep(0)
            ((number, stream),) = port.shell.streams.items()
            transport, largest = stream._transport, 0
            assert transport is not None
            write = transport.writelines

            def watched(data: Iterable[bytes | bytearray | memoryview]) -> None:
                nonlocal largest
                write(data)
                largest = max(largest, transport.get_write_buffer_size())

            transport.writelines = watched  # type: ignore[method-assign]
            while port.server.connections[number]._has_room or port.server.connections[number]._making:
                await asyncio.sleep(0)
            frames: wire.Frames[wire.ServerFrame] = wire.Frames(wire.SERVER_FRAMES)
            heard: set[int] = set()
            while len(heard) < REQUESTS:
                heard |= {each.request for each in frames.feed(await reader.read(1 << 20)) if _is_large(each)}
            assert largest < 3 * ALL_BYTES, "about one answer at a time, not all that was asked for"
            writer.close()
            await port.stop()

    run(main)


def _is_large(frame: wire.ServerFrame) -> TypeGuard[wire.Entries | wire.Told]:
    return isinstance(frame, wire.Entries | wire.Told)


def test_credit_has_a_bound() -> None:
    following = Following(wire.FollowWhite(1, 1 << 60))
    following.take(1 << 60)
    assert following.credit == CREDIT_BYTES_MAX


def test_a_server_of_another_version_is_refused_by_its_number() -> None:
    async def main() -> None:
        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(wire.framed(wire.Welcome(wire.VERSION + 1, "a")))
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        log = RemoteLog(f"127.0.0.1:{port}")
        log.patience.connect_within_us = HOUR_US
        with pytest.raises(
            MachineError, match=rf"a speaks version {wire.VERSION + 1} of the log's port, this client {wire.VERSION}"
        ):
            await log.append(b"x")
        server.close()

    run(main)


def test_who_is_refused_comes_no_second_time_and_tries_the_others_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            closed, opened = LogPort(group.logs["a"], judge=judge), LogPort(group.logs["a"])
            for port in (closed, opened):
                await port.start("127.0.0.1", 0)
            async with RemoteLog([closed.address, opened.address]) as log:
                assert await log.append(b"x") == 1
            assert caplog.text.count("a client is dropped") == 1
            await opened.stop()
            stranger = RemoteLog([opened.address, closed.address])
            stranger.patience.connect_within_us = HOUR_US
            for call in (stranger.append(b"x"), stranger.end(), anext(stranger.follow(1))):
                with pytest.raises(MachineError, match=r"no server of the log takes this client: .* is not known"):
                    await call
            assert caplog.text.count("a client is dropped") == 1 + 3
            asked = await asyncio.to_thread(ask_all, {"a": closed.address}, None, lambda log: log.end())
            told = asked["a"]
            assert isinstance(told, MachineError) and "isotone at 127.0.0.1 is not known" in str(told)
            assert caplog.text.count("a client is dropped") == 1 + 3 + 1
            await closed.stop()

    run(main)


async def said_to(port: LogPort, data: bytes) -> list[wire.ServerFrame]:
    """What the port answers before it ends the connection."""
    host, _, number = port.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(number))
    writer.write(data)
    frames: wire.Frames[wire.ServerFrame] = wire.Frames(wire.SERVER_FRAMES)
    answered = list(frames.feed(await reader.read()))
    writer.close()
    return answered


def test_who_has_not_said_hello_says_little_and_not_for_long(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            port = LogPort(group.logs["a"])
            await port.start("127.0.0.1", 0)
            (large,) = await said_to(port, FRAME.pack(FrameKind.CONTROL, 0, 0, wire.HELLO_BYTES_MAX + 1))
            assert isinstance(large, wire.Failed) and "at most 4096" in large.reason
            port.server.times.hello_within_us = 10_000
            (silent,) = await said_to(port, b"")
            assert isinstance(silent, wire.Failed) and "in time" in silent.reason
            port.server.times.hello_within_us = HOUR_US
            async with RemoteLog(port.address) as remote:
                assert await remote.append(b"x" * (wire.HELLO_BYTES_MAX + 1)) == 1, "who has may say more"
            await port.stop()

    run(main)


def test_who_may_use_the_log_may_not_therefore_change_its_servers(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            port = LogPort(group.logs["a"], judge_change=judge)
            await port.start("127.0.0.1", 0)
            async with RemoteLog(port.address) as user, RemoteLog(port.address, credential=b"sesame") as operator:
                assert await user.append(b"one") == 1
                with pytest.raises(Refused, match=r"client at 127\.0\.0\.1 is not known"):
                    await user.reconfigure(remove="a")
                with pytest.raises(Refused, match="the last server cannot be removed"):
                    await operator.reconfigure(remove="a")
            await port.stop()

    run(main)


def test_numbers_at_the_end_of_what_a_frame_holds_end_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            port = LogPort(group.logs["a"])
            await port.start("127.0.0.1", 0)
            hello = wire.framed(wire.Hello(wire.VERSION, "x"))
            _, dropped = await said_to(port, hello + wire.framed(wire.AppendMany(2**64 - 1, 0, (b"one", b"two"))))
            assert isinstance(dropped, wire.Failed) and "not a frame" in dropped.reason
            host, _, number = port.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(number))
            writer.write(hello + wire.framed(wire.AppendMany(2**63 - 1, 2**63 - 1, (b"one", b"two"))))
            writer.write(wire.framed(wire.WaitFor(1, 2, 2**63 - 1)))
            frames: wire.Frames[wire.ServerFrame] = wire.Frames(wire.SERVER_FRAMES)
            heard: list[wire.ServerFrame] = []
            while len(heard) < 3:
                heard += frames.feed(await reader.read(1024))
            assert wire.Ordered((2**63 - 1, 2**63), (1, 2)) in heard and wire.Told(1, 2) in heard
            writer.close()
            await port.stop()

    run(main)


def test_too_many_requests_are_refused_and_the_others_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            port = LogPort(group.logs["a"])
            await port.start("127.0.0.1", 0)
            async with RemoteLog(port.address) as log:
                waiting = [asyncio.create_task(log.wait_for(1)) for _ in range(REQUESTS_MAX)]
                await asyncio.sleep(0)
                with pytest.raises(Refused, match="256 requests are open already"):
                    await log.end()
                assert await log.append(b"x") == 1
                await asyncio.gather(*waiting)
                assert await log.end() == 1
            await port.stop()

    run(main)
