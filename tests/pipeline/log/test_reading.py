"""Which rows come from where: archive, learners, voters; gaps, servers that lag behind, servers that are away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from isotone.core.errors import InputError, LocalProtocolError, MachineError
from isotone.core.ordered_log import LogEntry
from isotone.pipeline.log import servers as servers_module
from isotone.pipeline.log.options import LogOptions, parse_options
from isotone.pipeline.log.reading import Extent, Piece, extent_of, pieces, read_piece
from isotone.pipeline.log.servers import Kept, Servers, read_range
from isotone.pipeline.log.source import IsotoneSource, LogPartition
from isotone.replicated.archive.segments import Segment, entries_of
from isotone.replicated.archive.store import Archive, Listing

LEARNER = Kept("learner", False, 1, 50)
VOTER = Kept("voter", True, 1, 60)


def archived(*ranges: tuple[int, int]) -> Listing:
    return Listing(tuple(Segment(first, last, "0" * 16) for first, last in ranges))


def entries(first: int, last: int) -> list[LogEntry]:
    return [LogEntry(at, b"%d" % at, f"a.1:{at}") for at in range(first, last + 1)]


def planned(there: Extent, first: int, last: int, **options: bool) -> list[tuple[int, int, str]]:
    """The pieces, and who is asked first."""
    found = pieces(there, first, last, **options)
    return [(each.first, each.last, each.servers[0] if each.servers else "archive") for each in found]


# --- planning ---------------------------------------------------------------------------------------------------------


def test_the_archive_comes_first_then_learners_then_voters() -> None:
    there = extent_of(archived((1, 10), (11, 20)), (LEARNER, VOTER))
    assert (there.first, there.last) == (1, 60)
    assert planned(there, 1, 60) == [(1, 20, "archive"), (21, 50, "learner"), (51, 60, "voter")]
    assert planned(there, 15, 30) == [(15, 20, "archive"), (21, 30, "learner")]


def test_a_range_goes_to_servers_that_have_it() -> None:
    behind, cut, whole = Kept("behind", True, 1, 30), Kept("cut", True, 20, 60), Kept("whole", True, 1, 60)
    there = extent_of(Listing(()), (behind, cut, whole))
    (first, second) = pieces(there, 1, 60)
    assert (first.first, first.last, first.servers) == (1, 30, ("behind", "whole", "cut"))
    assert (second.first, second.last, second.servers) == (31, 60, ("cut", "whole", "behind"))


def test_what_is_between_the_archive_and_the_servers_is_missed() -> None:
    there = extent_of(archived((1, 10)), (Kept("a", True, 50, 60),), "b: Connection refused")
    assert (there.first, there.last) == (1, 60)
    with pytest.raises(InputError, match=r"positions 11 to 49 are missing: the archive ends at 10.*b: Connection ref"):
        pieces(there, 1, 60)
    assert planned(there, 50, 60) == [(50, 60, "a")]
    assert planned(there, 1, 60, fail_on_loss=False) == [(1, 10, "archive"), (50, 60, "a")]
    assert planned(there, 20, 40, fail_on_loss=False) == []


def test_the_oldest_position_without_an_archive_is_that_of_the_servers_that_have_the_last() -> None:
    left_behind, kept = Kept("left", True, 1, 30), Kept("kept", True, 50, 60)
    assert extent_of(Listing(()), (left_behind, kept)).first == 50
    assert extent_of(Listing(()), (Kept("left", True, 1, 49), kept)).first == 1


def test_positions_that_were_cut_away_or_are_not_there_yet() -> None:
    there = extent_of(Listing(()), (Kept("a", True, 50, 60),))
    with pytest.raises(InputError, match="position 1 was cut away: the oldest that archive and servers keep is 50"):
        pieces(there, 1, 60)
    assert planned(there, 1, 60, fail_on_loss=False) == [(50, 60, "a")]
    with pytest.raises(InputError, match="position 61 is not there yet"):
        pieces(there, 50, 61)


def test_a_range_chooses_the_files(tmp_path: Path) -> None:
    """By what is planned."""
    for first in (1, 11, 21, 31):
        Archive(tmp_path).write(entries(first, first + 9))

    def files(**options: str) -> list[tuple[int, int]]:
        source = IsotoneSource({"archive": str(tmp_path), **options})
        parts = source.reader(source.schema()).partitions()
        pieces = [each.piece() for each in parts if isinstance(each, LogPartition)]
        return [(segment.first, segment.last) for part in pieces for segment in part.segments]

    assert files() == [(1, 10), (11, 20), (21, 30), (31, 40)]
    assert files(**{"from": "13", "to": "25"}) == [(11, 20), (21, 30)]
    assert files(**{"from": "40"}) == [(31, 40)]


# --- servers ----------------------------------------------------------------------------------------------------------


class FakeLog:
    """What a server answers to a task."""

    def __init__(self, first: int, last: int, *, breaks_at: int = 0) -> None:
        self.first, self.last, self.breaks_at = first, last, breaks_at

    async def read(self, first: int, last: int) -> list[LogEntry]:
        if first < self.first:
            raise LocalProtocolError(f"position {first} is not kept; the oldest is {self.first}")
        if self.breaks_at and first >= self.breaks_at:
            raise MachineError("the server is gone")
        return entries(first, min(last, self.last, self.breaks_at - 1 if self.breaks_at else last))

    async def close(self) -> None:
        pass


@pytest.fixture
def with_servers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def put(**logs: FakeLog) -> None:
        monkeypatch.setattr(servers_module, "remote_log", lambda address, options: logs[address])
        monkeypatch.setattr(servers_module, "ANSWER_WITHIN_S", 0.0)

    return put


def read(tables: Any) -> list[LogEntry]:
    return [entry for table in tables for entry in entries_of(table)]


def test_a_task_goes_on_at_the_next_server(with_servers: Callable[..., None]) -> None:
    with_servers(a=FakeLog(1, 100, breaks_at=5), b=FakeLog(7, 100), c=FakeLog(1, 20), d=FakeLog(1, 100))
    assert read(read_range(("a", "b", "c", "d"), 1, 30, LogOptions())) == entries(1, 30)


def test_a_task_that_finds_no_server_says_of_each_why(with_servers: Callable[..., None]) -> None:
    with_servers(a=FakeLog(1, 20), b=FakeLog(10, 100))
    with pytest.raises(MachineError, match="no server gives position 21: a: it does not have position 21 yet"):
        read(read_range(("a",), 1, 30, LogOptions()))
    with pytest.raises(InputError, match="position 1 was cut away: b: position 1 is not kept"):
        read(read_range(("b",), 1, 30, LogOptions()))


def test_what_was_archived_and_cut_since_the_plan_comes_from_the_archive(
    tmp_path: Path, with_servers: Callable[..., None]
) -> None:
    with_servers(a=FakeLog(21, 100))
    options = LogOptions(archive=str(tmp_path), replicas=("a",))
    with pytest.raises(InputError, match="was cut away"):
        read(read_piece(Piece(11, 20, servers=("a",)), options))
    Archive(tmp_path).write(entries(1, 20))
    assert read(read_piece(Piece(11, 20, servers=("a",)), options)) == entries(11, 20)


@asynccontextmanager
async def knocked_at() -> AsyncIterator[tuple[str, list[int]]]:
    """An address where nobody answers, and how often somebody came."""
    came: list[int] = []

    def turn_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(1)
        writer.close()

    server = await asyncio.start_server(turn_away, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}", came
    finally:
        server.close()


def test_a_server_that_is_away_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with knocked_at() as (address, came):
            now = 0.0
            servers = Servers(LogOptions(replicas=("good", address)), clock=lambda: now)
            ask_one = Servers._ask_one

            async def asked(self: Servers, wanted: str) -> Kept:
                return Kept("good", True, 1, 60) if wanted == "good" else await ask_one(self, wanted)

            monkeypatch.setattr(Servers, "_ask_one", asked)
            wanted = []
            for now, count in ((0.0, 1), (4.9, 1), (5.0, 2), (14.9, 2), (15.0, 3)):  # noqa: B007
                assert [each.address for each in await asyncio.to_thread(servers.kept)] == ["good"]
                assert address in servers.described_problems()
                wanted.append(len(came) == count)
            assert all(wanted), wanted
            await asyncio.to_thread(servers.close)

    asyncio.run(main())


def test_a_query_that_runs_outlives_servers_that_are_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows what it knew; one that begins says at once that nobody answers."""
    answers: list[tuple[Kept, ...] | MachineError] = [(VOTER,), MachineError("away"), (Kept("voter", True, 1, 70),)]

    def kept(self: Servers) -> tuple[Kept, ...]:
        answer = answers.pop(0)
        if isinstance(answer, MachineError):
            raise answer
        return answer

    monkeypatch.setattr(Servers, "kept", kept)
    reader = IsotoneSource({"replica": "a:1"}).streamReader(None)  # type: ignore[arg-type]
    assert reader.initialOffset() == {"position": 0}
    # The second answer of the servers: nobody; the third: as far as the query was told that the log goes.
    assert [each.piece().last for each in reader.partitions({"position": 0}, {"position": 70})] == [70]  # type: ignore[attr-defined]
    answers.append(MachineError("away"))
    with pytest.raises(MachineError, match="away"):
        IsotoneSource({"replica": "a:1"}).streamReader(None).initialOffset()  # type: ignore[arg-type]


# --- streams ----------------------------------------------------------------------------------------------------------


def test_where_a_stream_begins_and_what_it_does_about_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Servers, "kept", lambda self: (Kept("a", True, 50, 60),))

    def stream(**options: str) -> Any:
        return IsotoneSource({"replica": "a:1", **options}).streamReader(None)  # type: ignore[arg-type]

    def read_positions(reader: Any, start: int, end: int) -> list[tuple[int, int]]:
        parts = [each.piece() for each in reader.partitions({"position": start}, {"position": end})]
        return [(part.first, part.last) for part in parts]

    assert stream(startingPosition="latest").initialOffset() == {"position": 60}
    assert stream().initialOffset() == {"position": 49}
    with pytest.raises(InputError, match="position 7 was cut away"):
        stream(startingPosition="7").initialOffset()
    assert stream(startingPosition="7", failOnDataLoss="false").initialOffset() == {"position": 49}
    # A query that stood still while the log was cut.
    with pytest.raises(InputError, match="position 31 was cut away"):
        read_positions(stream(), 30, 60)
    assert read_positions(stream(failOnDataLoss="false"), 30, 60) == [(50, 60)]
    assert read_positions(stream(failOnDataLoss="false"), 30, 40) == []


@pytest.mark.parametrize("name", ["archive", "path"])
def test_a_secret_in_an_option_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(InputError, match="holds a password, and others see it") as refused:
        parse_options({name: "s3://AKIA:hush@bucket/folder"})
    assert "hush" not in str(refused.value)
