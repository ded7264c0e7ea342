"""What a host says of a store that it opens."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from isotone.core.contract import Append
from isotone.host.machinery import Machinery
from isotone.host.store import SEGMENT_BYTES, Store, Sync


@pytest.mark.parametrize(
    ("sync", "words"),
    [
        (Sync.EVERY_COMMIT, "nobody was promised it, unless its sync was left to the system before"),
        (Sync.LEFT_TO_THE_SYSTEM, "it may have been acknowledged"),
    ],
)
def test_a_torn_tail_is_told_by_how_it_was_synced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sync: Sync, words: str
) -> None:
    store = Store(tmp_path)
    store.open("a")
    store.commit([Append("log", b"record")])
    store.close()
    (segment,) = tmp_path.glob("logs/log/*.segment")
    with segment.open("ab") as file:
        file.write(b"torn")
    machinery = Machinery("a", tmp_path, sync=sync, segment_bytes=SEGMENT_BYTES, trace=None, files=None)
    assert asyncio.run(machinery.open()).cut_bytes == 4
    machinery.release()
    assert f"a torn tail of 4 bytes is cut; {words}" in caplog.text
