"""Exactly once, end to end: a driver is killed where it hurts most, and another one finishes what it began.

A server chooses the moment: it keeps back one answer, and the driver waits for that until it is killed. In
`test_log_collection` a driver that reads the log is killed, too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from isotone.core.errors import IsotoneError
from isotone.pipeline.log.sink import Committed, Staged, committed_rows, decode_record
from isotone.replicated.archive import segments
from isotone.replicated.archive.store import Archive
from isotone.replicated.archive.writer import ArchiveWriter
from tests.pipeline.log.copying import AT_ONCE, QUERY, copy
from tests.pipeline.log.serving import Servers, serving

ROOT = Path(__file__).parents[3]
WITHIN_S = 900.0  # of a machine that does much else
ARCHIVED = 100
AGAIN = 91  # from this position on the records are copied once more
Copied = list[tuple[int, bytes]]


def _record(number: int) -> bytes:
    return b"line %d" % number


def _archive(servers: Servers, place: Path) -> None:
    """In files of 25 positions."""
    servers.append(*(_record(number) for number in range(ARCHIVED)))
    log = servers.group.logs["a"]
    with pytest.MonkeyPatch.context() as patched:
        for module in (segments, sys.modules[ArchiveWriter.__module__]):
            patched.setattr(module, "SEGMENT_RECORDS_MAX", 25)
        servers.do(lambda: ArchiveWriter(log, Archive(place)).step())


def _killed_at(held: threading.Event, servers: Servers, archive: Path, place: Path) -> None:
    """A driver that works until a server keeps an answer back, and is killed then with its Java."""
    words = [str(archive), servers.replica, str(place)]
    with (place.parent / "driver.log").open("ab") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.log.copying", *words],
            cwd=ROOT, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    ended = threading.Thread(target=lambda: (driver.wait(), held.set()))
    ended.start()
    came = held.wait(WITHIN_S)
    was_there = driver.poll() is None
    os.killpg(driver.pid, signal.SIGKILL)
    ended.join()
    assert came and was_there, (place.parent / "driver.log").read_text()


def _holding_back_a_commit(servers: Servers, patched: pytest.MonkeyPatch) -> threading.Event:
    """The second batch is committed in the log; the driver is never told."""
    held = threading.Event()

    def holding(submit: Callable[..., None]) -> Callable[..., None]:
        def submitted(record: bytes, answered: Callable[[int | IsotoneError], None], **options: Any) -> None:
            told = decode_record(record)
            is_wanted = isinstance(told, Committed) and told.batch == 1 and not held.is_set()
            submit(record, (lambda _: held.set()) if is_wanted else answered, **options)

        return submitted

    for log in servers.group.logs.values():
        patched.setattr(log, "submit", holding(log.submit))
    return held


def _log(servers: Servers) -> list[bytes]:
    async def read() -> list[bytes]:
        log = servers.group.logs["a"]
        return [entry.record for entry in await log.read(1, await log.end())]

    return servers.do(read)


def _plainly(log: list[bytes]) -> Copied:
    """What the query wrote: a second, plain version of `committed_rows`."""
    staged: dict[tuple[str, int], tuple[bytes, ...]] = {}
    batches: dict[int, Copied] = {}
    for record in log:
        match decode_record(record):
            case Staged(query=query) as each if query == QUERY:
                staged.setdefault((each.attempt, each.chunk), each.rows)
            case Committed(query=query) as each if query == QUERY and each.batch not in batches:
                names = [(attempt, chunk) for attempt, chunks in each.winners for chunk in range(chunks)]
                batches[each.batch] = [(each.batch, row) for name in names for row in staged[name]]
    return [row for batch in sorted(batches) for row in batches[batch]]


def test_a_driver_is_killed_between_two_commits_and_every_record_is_there_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive, place = tmp_path / "archive", tmp_path / "driver" / "checkpoint"
    archive.mkdir()
    place.parent.mkdir()
    with serving(tmp_path / "servers") as servers:
        _archive(servers, archive)
        with pytest.MonkeyPatch.context() as patched:
            _killed_at(_holding_back_a_commit(servers, patched), servers, archive, place)
        before = _plainly(_log(servers))
        assert len(before) == 2 * AT_ONCE
        copy(spark, archive, servers.replica, place)
        log = _log(servers)
        commits = [told for record in log if isinstance(told := decode_record(record), Committed)]
        assert [each.batch for each in commits] == [0, 1, 1, 2]  # Spark did not know of the first commit
        assert len({each.winners for each in commits if each.batch == 1}) == 2
        written = _plainly(log)
        assert written[: len(before)] == before
        lines = [row.rpartition(b"|")[0] for _, row in written]
        assert sorted(lines) == sorted(_record(number) for number in range(ARCHIVED))
        # With a new checkpoint Spark counts its batches from 0 again; nothing of them may be taken for what is there.
        copy(spark, archive, servers.replica, tmp_path / "other checkpoint", starting=str(AGAIN))
        rows = spark.read.format("isotone").option("replica", servers.replica).load()
        found = committed_rows(rows, QUERY).orderBy("position", "place").collect()
        first, second = found[: len(written)], found[len(written) :]
        assert [(row["batch"], bytes(row["row"])) for row in first] == written
        again = [bytes(row["row"]).rpartition(b"|")[0] for row in second]
        assert again == [_record(number) for number in range(AGAIN - 1, ARCHIVED)]
        assert {row["batch"] for row in second} == {0}
        assert len({row["checkpoint"] for row in first}) == len({row["checkpoint"] for row in second}) == 1
        assert first[0]["checkpoint"] != second[0]["checkpoint"]
