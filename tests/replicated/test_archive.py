"""The archive: segments that are functions of the log, listings without gaps, damage that is named."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from isotone.core.errors import InputError, MachineError
from isotone.core.memory_log import MemoryLog
from isotone.core.ordered_log import LogEntry, Snapshot
from isotone.replicated.archive import segments as segments_module
from isotone.replicated.archive import writer as writer_module
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


class Synced:
    """What is on disk by our own word: which files, and which names the directory had."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
        self.files: set[int] = set()
        self.names: set[str] = set()
        self.failing = False
        self._place, self._fsync = place, os.fsync
        monkeypatch.setattr(os, "fsync", self._sync)

    def _sync(self, descriptor: int) -> None:
        if self.failing:
            raise OSError(5, "Input/output error")
        self._fsync(descriptor)
        found = os.fstat(descriptor)
        if self._place.exists() and found.st_ino == self._place.stat().st_ino:
            self.names = {path.name for path in self._place.iterdir()}
        else:
            self.files.add(found.st_ino)

    def has(self, first: int, last: int) -> bool:
        """These positions survive a loss of power now."""
        found = [path for path in self._place.iterdir() if path.name in self.names and path.stat().st_ino in self.files]
        held = arranged((parse_name(path.name) for path in found), "here")
        return (held.first, held.end) == (first, last)

    def lose_power(self) -> None:
        """Nothing is known to be on disk."""
        self.files, self.names = set(), set()


def test_what_counts_as_archived_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a writer, of one that goes on behind it, and of a server that only looks."""
    place = tmp_path / "new" / "archive"
    synced = Synced(monkeypatch, place)

    async def main() -> None:
        log = await filled(30)
        seen: list[int] = []

        def reached(position: int) -> None:
            assert synced.has(1, position)
            seen.append(position)

        await ArchiveWriter(log, Archive(place), on_archived=reached).step()
        assert seen == [10, 20, 30]
        assert {place.parent.stat().st_ino, tmp_path.stat().st_ino} <= synced.files, "new directories too"
        for may_write in (True, False):
            synced.lose_power()
            await ArchiveWriter(log, Archive(place), may_write=lambda may=may_write: may, on_archived=reached).step()
        assert seen == [10, 20, 30, 30, 30]

    asyncio.run(main())


def test_what_cannot_be_synced_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = Synced(monkeypatch, tmp_path)

    async def main() -> None:
        log = await filled(20)
        seen: list[int] = []
        writer = ArchiveWriter(log, Archive(tmp_path), on_archived=seen.append)
        synced.failing = True
        with pytest.raises(MachineError, match=r"cannot write .* Input/output error"):
            await writer.step()
        assert (seen, list(tmp_path.iterdir())) == ([], []), "a file that may not be on disk gets no name"
        synced.failing = False
        assert (await writer.step(), seen) == (2, [10, 20])

    asyncio.run(main())


def test_compacting_removes_only_what_is_on_disk_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = Synced(monkeypatch, tmp_path)
    for first in (1, 11):
        Archive(tmp_path).write(entries(first, first + 9))
    remove = Archive.remove

    def removed(archive: Archive, segment: Segment) -> None:
        assert segment_of(entries(1, 20)).name in synced.names
        remove(archive, segment)

    monkeypatch.setattr(Archive, "remove", removed)
    assert Archive(tmp_path).compact() == (2, 1)
    synced.lose_power()
    Archive(tmp_path).write(entries(11, 20))  # a late writer
    synced.lose_power()
    assert Archive(tmp_path).compact() == (0, 0)
    assert len(list(tmp_path.iterdir())) == 1


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(20)
        archive = Archive(tmp_path)
        archive.write(entries(1, 10))
        left = [f".{segment_of(entries(first, first + 9)).name}.0123" for first in (1, 11)]
        joining = f".joining-{segment_of(entries(1, 10)).name}.4567"
        for name in (*left, joining):
            (tmp_path / name).write_bytes(b"half")
        other = ArchiveWriter(log, archive, may_write=lambda: False)
        await other.step()
        assert len(archive.listing().unfinished) == 3, "they may be of one that is alive"
        writer = ArchiveWriter(log, archive)
        assert (await writer.step(), await writer.step()) == (1, 0)
        assert archive.listing().unfinished == (joining,)
        assert archive.compact() == (2, 1)
        assert archive.listing().unfinished == ()

    asyncio.run(main())


def test_a_writer_whose_file_was_removed_finds_the_same_one_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers for a moment: one names its file while the other one syncs its own, and removes that."""
    slow, fast = Archive(tmp_path), Archive(tmp_path)
    sync = slow._sync_path

    def overtaken(path: str) -> None:
        sync(path)
        if ".parquet." in path:
            fast.write(entries(1, 10))
            fast.remove_unfinished(fast.listing())

    monkeypatch.setattr(slow, "_sync_path", overtaken)
    assert slow.write(entries(1, 10)) == segment_of(entries(1, 10))
    assert [path.name for path in tmp_path.iterdir()] == [segment_of(entries(1, 10)).name]


def test_a_writer_says_what_keeps_it_and_when_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "AGAIN_AFTER_S", 0.0)
    (tmp_path / "archive").write_text("no directory")
    told: list[str] = []

    async def main() -> None:
        log = await filled(10)
        goes_on = asyncio.Event()

        def tell(problem: str) -> None:
            told.append(problem)
            if problem:
                (tmp_path / "archive").unlink(missing_ok=True)
            else:
                goes_on.set()

        writing = asyncio.create_task(
            ArchiveWriter(log, Archive(tmp_path / "archive"), on_problem=tell, look_every_s=0.0).run()
        )
        await goes_on.wait()
        writing.cancel()

    asyncio.run(main())
    assert len(told) == 2 and "the archive" in told[0] and told[1] == ""


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
