"""The suite of replicated logs: figures from turns, and the little gRPC that it speaks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from isotone.bench.replica import Sample, _figures, _load
from isotone.bench.replica_grpc import DATA, END_STREAM, HEAD, HEADERS, PREFACE, SETTINGS, GrpcConnection, _frame
from isotone.bench.replica_systems import SYSTEMS, Append, Isotone, System


class Instant(System):
    """Orders at once."""

    name, durability = "instant", "none"

    @staticmethod
    def missing() -> str:
        return ""

    def command(self, server: str) -> list[str]:
        return ["true"]

    async def client(self, number: int) -> Append:
        async def append(record: bytes) -> None:
            assert len(record) == 256
            await asyncio.sleep(0)

        return append


def test_a_turn_counts_records_and_their_time(tmp_path: Path) -> None:
    sample = asyncio.run(_load(Instant(tmp_path / "servers"), 3, 0.05))
    assert sample.per_second > 100 and 0 < sample.median_ms <= sample.slow_ms and sample.cpu_us == 0


def test_figures_say_what_each_system_makes_durable() -> None:
    taken = [Sample(per_second=each, median_ms=1, slow_ms=2, cpu_us=3) for each in (10.0, 20.0, 30.0)]
    figures = _figures("etcd", 16, taken, "synced by a majority")
    assert figures[0].value == 20 and figures[0].quartiles == (15, 25)
    assert all("synced by a majority" in figure.over for figure in figures)
    assert [kind.name for kind in SYSTEMS] == ["isotone", "etcd", "NATS JetStream", "PySyncObj"]


def test_our_settings_are_good(tmp_path: Path) -> None:
    from isotone.daemon.settings import load
    from isotone.daemon.settings.replication import founders

    settings = load(Isotone(tmp_path / "servers", learner="d").settings)
    assert founders(settings) == ("a", "b", "c") and settings.replica.sync == "every-commit"


@pytest.mark.parametrize("is_good", [True, False])
def test_a_key_is_put_by_grpc(is_good: bool) -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(PREFACE)) == PREFACE
        writer.write(_frame(SETTINGS, 0, 0))
        while True:
            high, low, kind, _, stream = HEAD.unpack(await reader.readexactly(HEAD.size))
            body = await reader.readexactly(high << 16 | low)
            if kind == DATA:
                heard.append(body)
                answer = _frame(DATA, 0, stream, b"\x00\x00\x00\x00\x02\x0a\x00") if is_good else b""
                writer.write(_frame(HEADERS, 4, stream, b"\x88") + answer)
                writer.write(_frame(HEADERS, 4 | END_STREAM, stream, b"\x88"))

    async def main() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            connection = await GrpcConnection.open("127.0.0.1", server.sockets[0].getsockname()[1])
            if is_good:
                await connection.put(b"key", b"v" * 300)
                await connection.put(b"key", b"w")
                assert heard[0].endswith(b"\x0a\x03key\x12\xac\x02" + b"v" * 300) and len(heard) == 2
            else:
                with pytest.raises(ConnectionError):
                    await connection.put(b"key", b"v")
            connection.close()

    asyncio.run(asyncio.wait_for(main(), 20))
