"""The suite of replicated logs: figures from turns, and the little gRPC that it speaks."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from isotone.bench.replica import Sample, _figures, _load, _silence, longest_silence
from isotone.bench.replica_effort import ReplicaEffort
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


def test_a_turn_counts_records_and_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a millisecond of it."""
    clock = (look / 1_000 for look in count())
    monkeypatch.setattr("isotone.bench.replica.time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr("isotone.bench.replica.WARM_S", 0.0)
    sample = asyncio.run(_load(Instant(tmp_path / "servers"), 3, 0.5))
    assert sample.per_second > 100 and 0 < sample.median_ms <= sample.slow_ms and sample.cpu_us == 0


def test_figures_say_what_each_system_makes_durable() -> None:
    taken = [Sample(per_second=each, median_ms=1, slow_ms=2, cpu_us=3) for each in (10.0, 20.0, 30.0)]
    figures = _figures("etcd", 16, taken, "synced by a majority")
    assert figures[0].value == 20 and figures[0].quartiles == (15, 25)
    assert all("synced by a majority" in figure.over for figure in figures)
    assert [kind.name for kind in SYSTEMS] == ["isotone", "etcd", "NATS JetStream", "PySyncObj"]


def test_a_silence_reaches_from_before_a_kill_or_to_the_end() -> None:
    assert longest_silence([1.0, 2.0, 9.0, 9.5, 11.5, 12.0], 10.0, 12.5) == 2.0
    assert longest_silence([1.0, 9.0, 10.5, 11.0], 10.0, 15.0) == 4.0, "nothing more was heard"
    assert longest_silence([1.0, 9.5, 10.5, 14.0, 16.0], 10.0, 15.0) == 3.5
    assert longest_silence([], 10.0, 15.0) == 5.0


def test_silences_are_told_for_clients_of_a_lost_server_and_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotone.bench.replica.SILENCE_S", 0.5)
    noted: list[str] = []
    figures = asyncio.run(_silence(ReplicaEffort(losses=1), noted.append))
    assert noted == ["loss 1 of 1: killed", "loss 1 of 1: stopped"]
    assert {figure.name for figure in figures} == {
        "isotone, a server killed: longest silence for a client of the killed server",
        "isotone, a server killed: longest silence for a client of another server",
        "isotone, a server stopped: longest silence for a client of another server",
    }
    assert all(figure.value > 0 and "the longest of 1 losses" in figure.over for figure in figures)


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
