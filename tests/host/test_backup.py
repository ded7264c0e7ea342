"""Copies of a log up to a position, and logs that begin anew from one."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.core.errors import InputError
from isotone.core.ordered_log import Snapshot
from isotone.corel.checkpoint import checkpoint_of
from isotone.corel.configuration import changed
from isotone.corel.events import Standing
from isotone.corel.ledger import Ledger
from isotone.corel.quorum import Majority
from isotone.corel.records import encode_record
from isotone.host.backup import Backup, back_up, new_fence, read_backup, restore
from tests.host.replicas import Replicas, replicas, run
from tests.host.test_replica_disk import write_some


def restored(group: Replicas, backup: Path, *names: str, **more: int) -> int:
    copy = read_backup(backup)
    stores = {name: group.path(name) for name in names}
    fence = more.pop("fence", 0) or new_fence(copy)
    return restore(copy, stores, servers=group.names, rule=Majority(group.names), fence=fence, **more)


def test_all_begin_anew_at_a_position_and_who_was_not_restored_is_fenced(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path / "old") as group:
            await write_some(group)
            made = back_up(group.path("b"), "b", tmp_path / "copy")  # while it runs
            assert made.position == 20
            assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600, "as the log itself"
            await write_some(group, 5)
            await group.stop()
            old = group.directory
            group.directory = tmp_path / "new"
            fence = new_fence(made)
            copy, both = read_backup(tmp_path / "copy"), ("a", "b")
            stores = {name: group.path(name) for name in both}
            reached = restore(copy, stores, servers=both, rule=Majority(both), fence=fence, position=12)
            assert reached == 12
            (group.directory / "c").symlink_to(old / "c")  # it comes back with its old log
            await group.start()
            await group.primary("a", "b")
            assert await group.logs["a"].append(b"a new story") == 13
            await group.logs["b"].wait_for(13)
            assert group.records("b") == [*(b"record %d" % number for number in range(12)), b"a new story"]
            await group.logs["c"].until(lambda: group.logs["c"].replica.standing is Standing.FENCED)
            assert "forced" in group.logs["c"].why_no_primary()
            assert group.records("c")[12:] != group.records("b")[12:], "and it takes nothing of the new story"

    run(main)


def test_behind_a_snapshot_a_copy_holds_the_snapshot(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path / "old", checkpoint_records=8) as group:
            await write_some(group)
            for log in group.logs.values():
                await log.offer_snapshot(Snapshot(15, b"fifteen records"))
            await write_some(group, 5)
            log = group.logs["a"]
            await log.until(lambda: log.entries.first > 1)
            with pytest.raises(InputError, match="no longer kept: the oldest is 15"):
                back_up(group.path("a"), "a", tmp_path / "copy", 10)
            assert back_up(group.path("a"), "a", tmp_path / "copy", 22).position == 22
            await group.stop()
            group.directory = tmp_path / "new"
            restored(group, tmp_path / "copy", *group.names)
            await group.start()
            await group.primary()
            snapshot = await group.logs["c"].snapshot()
            assert snapshot == Snapshot(15, b"fifteen records")
            assert [each.record for each in await group.logs["c"].read(21, 22)] == [b"record 0", b"record 1"]
            assert await group.logs["c"].append(b"on") == 23

    run(main)


def test_what_is_no_copy_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path / "old") as group:
            await write_some(group, 3)
            back_up(group.path("a"), "a", tmp_path / "copy")
            with pytest.raises(InputError, match="exists already"):
                back_up(group.path("a"), "a", tmp_path / "copy")
            with pytest.raises(InputError, match="ends at 3"):
                back_up(group.path("a"), "a", tmp_path / "other", 4)
            with pytest.raises(InputError, match="not empty"):
                restored(group, tmp_path / "copy", "a")

    run(main)
    data = (tmp_path / "copy").read_bytes()
    (tmp_path / "damaged").write_bytes(data[:-9] + b"x" + data[-8:])
    with pytest.raises(InputError, match="damaged"):
        read_backup(tmp_path / "damaged")
    with pytest.raises(InputError, match="no copy"):
        read_backup(Path(__file__))
    (tmp_path / "newer").write_bytes(data.replace(b"isotone backup 1\n", b"isotone backup 2\n", 1))
    with pytest.raises(InputError, match="it has version 2, and this program 1"):
        read_backup(tmp_path / "newer")


def test_who_was_removed_never_comes_back(tmp_path: Path) -> None:
    ledger = Ledger.founded("abc", Majority(("a", "b", "c")))
    ledger.queue.configuration = changed(ledger.queue.configuration, remove="c")
    copy = Backup("a", 0, 0, tuple(map(encode_record, checkpoint_of(ledger))))
    with pytest.raises(InputError, match="c was removed, and a name that left never comes back: name other servers"):
        restore(copy, {"a": tmp_path / "a"}, servers=("a", "b", "c"), rule=Majority(("a", "b", "c")), fence=1)
    assert not (tmp_path / "a").exists()
    assert restore(copy, {"a": tmp_path / "a"}, servers=("a", "x"), rule=Majority(("a", "x")), fence=1) == 0
