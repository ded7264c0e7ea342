"""A program's own servers keep an archive of the log and one of the changes of its databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.host.replica_objects import replica
from isotone.replicated.archive import segments, writer
from isotone.replicated.archive.segments import entries_of
from isotone.replicated.archive.store import Archive
from isotone.replicated.database.change_log import FOLDER, decode_changes
from isotone.replicated.database.procedures import Procedures
from isotone.replicated.database.transaction import Transaction
from tests.host.replicas import run
from tests.ports import free_port

RECORDS = 20


def procedures() -> Procedures:
    made = Procedures("book")

    @made.procedure
    def create(db: Transaction) -> None:
        db.execute("CREATE TABLE page (number INTEGER PRIMARY KEY, text TEXT)")

    @made.procedure
    def write(db: Transaction, number: int, text: str) -> None:
        db.execute("INSERT OR REPLACE INTO page VALUES (?, ?)", number, text)

    return made


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (segments, writer):
        monkeypatch.setattr(module, "SEGMENT_RECORDS_MAX", RECORDS)


def test_changes_are_archived_beside_the_log_and_a_snapshot_waits_for_both(tmp_path: Path) -> None:
    place = tmp_path / "archive"

    async def main() -> None:
        made = procedures()
        options = {"state": tmp_path / "a", "address": f"127.0.0.1:{free_port()}", "archive": str(place)}
        async with replica("shop", name="a", databases=[made], **options) as shop:  # type: ignore[arg-type]
            await shop.ready()
            book = shop.database("book")
            await book.call("create")
            for number in range(RECORDS):
                await book.call("write", number % 7, f"text {number}")
            taken = shop.machine.state.position
            assert not await shop.offer_snapshot(), "its end is not archived yet"
            while (shop.replica_log.archived or 0) < taken:
                await shop.counter("more").add(1)  # segments are written when they are full
            assert await shop.offer_snapshot(), "the state that was kept is handed in"
            kept = await shop.log.snapshot()
            assert kept is not None and kept.position == taken

    run(main)
    archives = [Archive(place), Archive(place / FOLDER)]
    ends = [archive.listing().end for archive in archives]
    assert min(ends) > 2 * RECORDS - 1, "either may be a segment ahead when the server stops"
    assert [archive.verify() for archive in archives] == [[], []]
    told = [
        decode_changes(row.record)
        for each in archives[1].listing().segments
        for row in entries_of(archives[1].read(each))
    ]
    assert [each.procedure for each in told if each is not None] == ["create", *["write"] * RECORDS]
