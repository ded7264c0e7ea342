"""The changes of rows as a log: one record for each position, the same at every replica, also in an archive."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from isotone.core.errors import InputError, LocalProtocolError
from isotone.replicated.archive import segments, writer
from isotone.replicated.archive.store import Archive
from isotone.replicated.archive.writer import ArchiveWriter
from isotone.replicated.database import database_copy
from isotone.replicated.database.change_log import ChangeLog, PositionChanges, decode_changes
from isotone.replicated.database.changes import encoder
from isotone.replicated.database.state import Databases
from isotone.replicated.machine import Machine
from tests.replicated.database_workload import records, workload_procedures

LENGTH = 300


def machine_of(log: list[bytes], *, first: int = 1, snapshot: bytes = b"") -> Machine:
    machine = Machine(databases=Databases([workload_procedures()]))
    if snapshot:
        machine.restore(snapshot)
    for position, record in enumerate(log[first - 1 :], first):
        machine.apply(position, record)
    return machine


def all_records(machine: Machine) -> list[tuple[int, bytes]]:
    entries = asyncio.run(ChangeLog(machine).read(1, LENGTH * 2))
    return [(each.position, each.record) for each in entries]


@pytest.mark.parametrize("seed", range(6))
def test_every_replica_tells_the_same_changes_also_behind_a_snapshot(seed: int) -> None:
    log = records(seed, LENGTH)
    told = all_records(machine_of(log))
    assert [position for position, _ in told] == list(range(1, LENGTH + 1))
    assert sum(bool(record) for _, record in told) > LENGTH // 3
    for at in (LENGTH // 3, LENGTH - 20):
        begun = machine_of(log[:at])
        assert all_records(machine_of(log, first=at + 1, snapshot=begun.snapshot())) == told


def test_two_replicas_archive_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_RECORDS_MAX", 50)
    monkeypatch.setattr(writer, "SEGMENT_RECORDS_MAX", 50)
    log = records(3, LENGTH)
    begun = machine_of(log[:100])
    for place, machine in (("one", machine_of(log)), ("two", machine_of(log, first=101, snapshot=begun.snapshot()))):
        archive = Archive(tmp_path / place)
        # A reader that is ahead of its files: the log ends where the state is.
        assert asyncio.run(ArchiveWriter(ChangeLog(machine), archive).step()) == LENGTH // 50
        assert (archive.listing().first, archive.listing().end, archive.verify()) == (1, LENGTH, [])
    files = [{path.name: path.read_bytes() for path in (tmp_path / place).iterdir()} for place in ("one", "two")]
    assert files[0] == files[1]


def test_forgotten_changes_are_an_error_and_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_copy, "CALLS_KEPT", 10)
    machine = machine_of(records(1, LENGTH))
    machine.databases.forget_calls(machine.databases.positions())
    with pytest.raises(LocalProtocolError, match="are not kept"):
        asyncio.run(ChangeLog(machine).read(1, 50))
    end = machine.state.position
    assert len(asyncio.run(ChangeLog(machine).read(end - 5, end))) == 6


def test_records_that_are_none() -> None:
    assert decode_changes(b"") is None
    with pytest.raises(InputError, match="no record of row changes"):
        decode_changes(b"hello")
    with pytest.raises(InputError, match="version 9 are unknown here"):
        decode_changes(encoder.encode(PositionChanges(9, "d", "p", (), {})))
