"""The archive that reading is measured with is what servers write."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.bench.log_on_spark import RECORD_BYTES, write_archive
from isotone.replicated.archive import segments
from isotone.replicated.archive.segments import entries_of
from isotone.replicated.archive.store import Archive


def test_an_archive_has_full_segments_and_a_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_RECORDS_MAX", 20)
    write_archive(tmp_path / "archive", 50)
    archive = Archive(tmp_path / "archive")
    listing = archive.listing()
    assert ([len(each) for each in listing.segments], listing.first, listing.end) == ([20, 20, 10], 1, 50)
    assert archive.verify() == []
    assert {len(entry.record) for entry in entries_of(archive.read(listing.segments[0]))} == {RECORD_BYTES}
