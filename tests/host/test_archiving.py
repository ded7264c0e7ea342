"""The archive of a replicated log: one server writes, another takes over, the log is cut only where it is archived."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from isotone.core.errors import LocalProtocolError
from isotone.core.ordered_log import Snapshot
from isotone.host.archiving import archive_writers
from isotone.host.replica_log import ReplicaLog
from isotone.host.replica_status import status_of
from isotone.replicated.archive import segments
from isotone.replicated.archive.segments import entries_of
from isotone.replicated.archive.store import Archive
from isotone.replicated.archive.writer import ArchiveWriter
from tests.host.replicas import Replicas, run


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_RECORDS_MAX", 10)


def writer_of(log: ReplicaLog, place: Path) -> ArchiveWriter:
    (writer,) = archive_writers(log, str(place))
    return writer


def test_the_first_server_writes_and_the_next_takes_over(tmp_path: Path) -> None:
    async def main() -> None:
        group, place = Replicas(tmp_path / "servers"), tmp_path / "archive"
        await group.start()
        await group.primary()
        writers = {name: writer_of(log, place) for name, log in group.logs.items()}
        await asyncio.gather(*(group.logs["b"].append(b"record %d" % number) for number in range(25)))
        for log in group.logs.values():
            await log.wait_for(25)
        assert [await writers[name].step() for name in "cba"] == [0, 0, 2]
        assert [await writers[name].step() for name in "cba"] == [0, 0, 0]
        assert [log.archived for log in group.logs.values()] == [20, 20, 20]
        await group.stop("a")
        await group.primary("b", "c")
        await asyncio.gather(*(group.logs["c"].append(b"record %d" % number) for number in range(25, 40)))
        for log in group.logs.values():
            await log.wait_for(40)
        assert [await writers[name].step() for name in "cb"] == [0, 2]
        archive = Archive(place)
        rows = [entry for segment in archive.listing().segments for entry in entries_of(archive.read(segment))]
        assert rows == await group.logs["b"].read(1, 40)
        assert all(entry.message.startswith(("b.", "c.")) for entry in rows)
        await group.stop()

    run(main)


def test_the_log_is_cut_only_where_it_is_archived(tmp_path: Path) -> None:
    async def main() -> None:
        group = Replicas(tmp_path / "servers")
        await group.start()
        await group.primary()
        log = group.logs["a"]
        writer = writer_of(log, tmp_path / "archive")
        await asyncio.gather(*(log.append(b"record %d" % number) for number in range(15)))
        with pytest.raises(LocalProtocolError, match="the archive ends at 0, and the log is cut only where"):
            await log.offer_snapshot(Snapshot(10, b"state"))
        await writer.step()
        await log.offer_snapshot(Snapshot(10, b"state"))
        with pytest.raises(LocalProtocolError, match="the archive ends at 10"):
            await log.offer_snapshot(Snapshot(11, b"state"))
        await group.stop()

    run(main)


def test_trouble_with_the_archive_stands_in_the_status(tmp_path: Path) -> None:
    async def main() -> None:
        group = Replicas(tmp_path / "servers")
        await group.start()
        await group.primary()
        log, place = group.logs["a"], tmp_path / "archive"
        assert (status_of(log).archived_position, status_of(log).archive) == (None, "")
        writer = writer_of(log, place)
        assert (status_of(log).archived_position, status_of(log).archive) == (0, "")
        place.write_text("no directory")
        writing = asyncio.create_task(writer.run())
        while not status_of(log).archive:
            await asyncio.sleep(0)
        assert "the archive" in status_of(log).archive
        writing.cancel()
        await group.stop()

    run(main)
