"""The archive: segments that are functions of the log, listings without gaps, damage that is named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from isotone.core.errors import InputError, MachineError
from isotone.core.memory_log import MemoryLog
from isotone.core.ordered_log import LogEntry, Snapshot
from isotone.replicated.archive import segments as segments_module
from isotone.replicated.archive.segments import (
    Segment,
    encode_segment,
    entries_of,
    parse_name,
    segment_of,
    sender_of,
    whole_segment,
)
from isotone.replicated.archive.store import Archive, arranged
from isotone.replicated.archive.writer import ArchiveWriter

RECORDS = 10


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments_module, "SEGMENT_RECORDS_MAX", RECORDS)
    monkeypatch.setattr(segments_module, "SEGMENT_BYTES_MAX", 1000)


def entries(first: int, last: int, size: int = 3) -> list[LogEntry]:
    return [LogEntry(at, bytes([at % 256]) * size, f"a.1:{at}") for at in range(first, last + 1)]


async def filled(count: int, size: int = 3) -> MemoryLog:
    log = MemoryLog()
    for at in range(1, count + 1):
        await log.append(bytes([at % 256]) * size)
    return log


def all_records(archive: Archive) -> list[tuple[int, bytes]]:
    return [
        (entry.position, entry.record)
        for segment in archive.listing().segments
        for entry in entries_of(archive.read(segment))
    ]


def test_a_segment_ends_by_records_or_by_bytes_and_only_when_it_is_whole() -> None:
    assert whole_segment(entries(1, RECORDS - 1)) == 0
    assert whole_segment(entries(1, RECORDS)) == RECORDS
    assert whole_segment(entries(1, RECORDS + 5)) == RECORDS
    assert whole_segment(entries(1, 9, size=300)) == 4


def test_names_carry_range_and_digest() -> None:
    segment = segment_of(entries(5, 9))
    assert parse_name(segment.name) == segment
    assert segment_of([*entries(5, 8), LogEntry(9, b"other", "a.1:9")]).digest != segment.digest
    for name in ("x", segment.name.replace(".parquet", ".csv"), f"{9:020d}-{5:020d}-{'0' * 16}.parquet"):
        assert parse_name(name) is None
    assert (sender_of("a.3:17"), sender_of("")) == ("a", "")


def test_a_writer_writes_whole_segments_and_another_one_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(25)
        for place in ("one", "two"):
            archive = Archive(tmp_path / place)
            reached: list[int] = []
            writer = ArchiveWriter(log, archive, on_archived=reached.append)
            assert (await writer.step(), await writer.step()) == (2, 0)
            assert (writer.end, reached) == (20, [10, 20])
            assert all_records(archive) == [(entry.position, entry.record) for entry in await log.read(1, 20)]
        files = [{path.name: path.read_bytes() for path in (tmp_path / place).iterdir()} for place in ("one", "two")]
        assert files[0] == files[1]

    asyncio.run(main())


def test_whoever_may_not_write_looks_how_far_the_archive_is(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(30)
        other = ArchiveWriter(log, Archive(tmp_path), may_write=lambda: False)
        assert (await other.step(), other.end) == (0, 0)
        await ArchiveWriter(log, Archive(tmp_path)).step()
        assert (await other.step(), other.end) == (0, 30)
        again = ArchiveWriter(log, Archive(tmp_path))
        for _ in range(12):
            await log.append(b"more")
        assert (await again.step(), again.end) == (1, 40)

    asyncio.run(main())


def test_a_log_that_was_cut_before_it_was_archived_is_an_error_that_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(30)
        await log.offer_snapshot(Snapshot(5, b"state"))
        with pytest.raises(MachineError, match="the archive ends at 0, and the log no longer has what follows"):
            await ArchiveWriter(log, Archive(tmp_path)).step()

    asyncio.run(main())


def test_compacting_joins_segments_and_keeps_the_rows(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    for first in range(1, 50, 10):
        archive.write(entries(first, first + 9))
    before = all_records(archive)
    assert archive.compact() == (5, 1)
    assert [(each.first, each.last) for each in archive.listing().segments] == [(1, 50)]
    assert all_records(archive) == before
    assert archive.compact() == (0, 0)
    archive.write(entries(51, 60))
    archive.write(entries(1, 10))  # a late writer; the joined segment holds it already
    assert [(each.first, each.last) for each in archive.listing().segments] == [(1, 50), (51, 60)]
    assert archive.compact() == (2, 1)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("ranges", "told"),
    [
        (((1, 10), (21, 30)), "positions 11 to 20 are missing"),
        (((1, 10), (8, 20)), "overlap"),
    ],
)
def test_gaps_and_overlaps_are_named(ranges: tuple[tuple[int, int], ...], told: str) -> None:
    with pytest.raises(InputError, match=told):
        arranged((Segment(first, last, "0" * 16) for first, last in ranges), "here")


def test_two_segments_of_one_range_with_other_rows_are_named() -> None:
    with pytest.raises(InputError, match="the same positions with other rows"):
        arranged([Segment(1, 9, "0" * 16), Segment(1, 9, "1" * 16)], "here")


def damaged_bytes(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


@pytest.mark.parametrize("spoil", [damaged_bytes, lambda data: data[:-20], lambda data: b"", lambda data: b"hello"])
def test_a_damaged_segment_is_named_and_never_read(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    archive = Archive(tmp_path)
    good, bad = archive.write(entries(1, 10)), archive.write(entries(11, 20))
    path = tmp_path / bad.name
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InputError, match=bad.name):
        archive.read(bad)
    (problem,) = archive.verify()
    assert bad.name in problem and good.name not in problem


def test_other_rows_under_the_name_of_a_segment_are_damage(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    segment = archive.write(entries(1, 10))
    (tmp_path / segment.name).write_bytes(encode_segment(entries(1, 10, size=4)))
    with pytest.raises(InputError, match="its rows are not those that its name promises"):
        archive.read(segment)


def test_a_segment_of_a_newer_version_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments_module, "ARCHIVE_VERSION", 2)
    segment = Archive(tmp_path).write(entries(1, 10))
    monkeypatch.setattr(segments_module, "ARCHIVE_VERSION", 1)
    with pytest.raises(InputError, match=f"{segment.name}: archive version 2 is unknown here"):
        Archive(tmp_path).read(segment)


def test_places_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a place"):
        Archive("")
    with pytest.raises(InputError, match="is no place for an archive"):
        Archive("nowhere://x")
    with pytest.raises(InputError, match="cannot read the credentials"):
        Archive("s3://x/y", str(tmp_path / "none"))
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot write"):
        Archive(tmp_path / "file" / "below").write(entries(1, 10))
