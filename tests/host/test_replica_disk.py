"""A replica's disk: torn, damaged, full, failing. Real files, and servers that go on without the one that cannot."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from isotone.core.errors import MachineError
from isotone.corel.events import Standing
from isotone.host.answers import Maybe, Refused
from isotone.host.files import Files
from isotone.host.inspect import verify
from isotone.host.replica_status import status_of
from isotone.host.room import Reserve, room_at, watch_room
from isotone.host.store import LOGS
from tests.host.replicas import Replicas, replicas, run


def last_segment(group: Replicas, name: str) -> Path:
    return sorted((group.path(name) / "logs" / "log").glob("*.segment"))[-1]


def flip_a_bit_in(path: Path, wanted: bytes) -> None:
    """In the middle of the first place where these bytes stand."""
    data = bytearray(path.read_bytes())
    data[data.index(wanted) + len(wanted) // 2] ^= 4
    path.write_bytes(data)


async def write_some(group: Replicas, count: int = 20, server: str = "a") -> int:
    end = 0
    for number in range(count):
        end = await group.logs[server].append(b"record %d" % number)
    for log in group.logs.values():  # green everywhere, and on disk
        await log.until(lambda log=log: log.white_position >= end)  # type: ignore[misc]
    return end


class FailingFiles(Files):
    """What the system does, until it fails."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: dict[str, int] = {}  # the error number of each call that fails

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        self._maybe_fail("write")
        super().write(descriptor, data, offset)

    def sync(self, descriptor: int) -> None:
        self._maybe_fail("sync")
        super().sync(descriptor)

    def _maybe_fail(self, call: str) -> None:
        if call in self.failing:
            raise OSError(self.failing[call], os.strerror(self.failing[call]))


async def restart_with_failing_files(group: Replicas, name: str) -> FailingFiles:
    """They fail when the test says so."""
    files = group.files[name] = FailingFiles()
    await group.stop_log(name)
    await group.start_log(name)
    await group.primary()
    return files


async def all_of(followed: AsyncIterator[Any]) -> list[Any]:
    return [each async for each in followed]


def test_who_follows_a_server_whose_disk_fails_hears_it_and_one_that_is_stopped_ends_well(tmp_path: Path) -> None:
    """An end without a word would say that this was all."""

    async def main() -> None:
        async with replicas(tmp_path) as group:
            files = await restart_with_failing_files(group, "c")
            log, stopped = group.logs["c"], group.logs["b"]
            assert await group.logs["a"].append(b"one") == 1
            readers = [
                asyncio.create_task(all_of(level))
                for at in (log, stopped)
                for level in (at.follow(1), at.red(), at.white())
            ]
            await asyncio.sleep(0)
            files.failing["sync"] = errno.EIO
            assert await group.logs["a"].append(b"two", within_s=3600) == 2
            reason = await log.closed()
            assert "the disk failed" in reason
            told = await asyncio.gather(*readers[:3], return_exceptions=True)
            assert [(type(each), str(each)) for each in told] == [(MachineError, reason)] * 3
            late = await asyncio.gather(all_of(log.follow(1)), return_exceptions=True)
            assert str(late[0]) == reason, "and who comes later hears it too"
            await stopped.wait_for(2)
            await group.stop_log("b")
            green, red, _ = await asyncio.gather(*readers[3:])
            assert [entry.record for entry in green] == [b"one", b"two"]
            assert [record for message in red for record in message.records][-1] == b"two"

    run(main)


def test_a_torn_tail_is_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group:
            end = await write_some(group)
            await group.stop_log("c")
            with last_segment(group, "c").open("ab") as file:
                file.write(b"\x17 the beginning of a record that never")
            assert verify(group.path("c")).is_sound and verify(group.path("c")).logs[0].torn_bytes
            await group.start_log("c")
            await group.primary()
            assert "torn tail" in caplog.text
            await group.logs["c"].append(b"goes on")
            assert (await group.logs["c"].read(end + 1, end + 1))[0].record == b"goes on"

    run(main)


def test_damage_elsewhere_stops_the_server_and_says_what_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group:
            await write_some(group)
            await group.stop_log("c")
            flip_a_bit_in(last_segment(group, "c"), b"record 3")
            assert not verify(group.path("c")).is_sound
            log = await group.start_log("c")
            reason = await log.closed()
            assert "damaged" in reason and "repair" in reason
            with pytest.raises(MachineError, match="damaged"):
                await log.append(b"x")
            await group.primary("a", "b")
            assert await group.logs["a"].append(b"the others go on")

    run(main)


def test_a_failed_sync_stops_the_server_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group:
            end = await write_some(group)
            files = await restart_with_failing_files(group, "c")
            files.failing["sync"] = errno.EIO
            with pytest.raises(Maybe, match="disk failed"):
                await group.logs["c"].append(b"perhaps")
            assert "disk failed" in await group.logs["c"].closed()
            syncs = files.syncs
            await group.primary("a", "b")
            await group.logs["a"].append(b"the others go on")
            assert files.syncs == syncs, "it is not tried again"
            files.failing.clear()
            await group.stop_log("c")
            await group.start_log("c")  # reads what is really there
            await group.primary()
            assert await group.logs["c"].append(b"again") > end
            await group.logs["a"].wait_for(await group.logs["c"].end())
            assert group.records("a")[-1] == b"again"

    run(main)


def test_a_disk_that_is_nearly_full_takes_no_new_records_and_votes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group:
            await write_some(group)
            assert room_at(tmp_path) > 0
            group.logs["c"].tell_room(is_low=True)
            with pytest.raises(Refused, match="nearly full"):
                await group.logs["c"].append(b"refused")
            assert await group.logs["a"].append(b"taken elsewhere") == 21
            await group.logs["c"].wait_for(21)
            assert group.logs["a"].replica.session.servers == ("a", "b", "c")
            group.logs["c"].tell_room(is_low=False)
            assert await group.logs["c"].append(b"taken again") == 22

    run(main)


def test_the_room_is_watched(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            log = group.logs["a"]
            watching = asyncio.create_task(watch_room(log, 1 << 62, every_s=0.01))
            await log.until(lambda: log.disk_is_low)
            with pytest.raises(Refused):
                await log.append(b"x")
            assert "nearly full" in status_of(log).disk and status_of(log).is_primary
            watching.cancel()

    run(main)


def test_at_the_limit_it_does_not_go_back_and_forth() -> None:
    reserve = Reserve(1_000)
    rooms = (1_000, 999, 1_000, 1_001, 999, 1_249, 1_250, 1_000, 999)
    told = [(room, reserve.is_low) for room in rooms if reserve.look(room)]
    assert told == [(999, True), (1_250, False), (999, True)]


def test_a_file_system_that_cannot_be_asked_is_asked_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first four answers: too little room, twice an error, room again; then the replica ends."""
    looks: list[int] = []

    def room_of(path: Path) -> int:
        looks.append(len(looks))
        if looks[-1] in (1, 2):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return 0 if looks[-1] == 0 else 1 << 40

    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            log = group.logs["a"]
            watching = asyncio.create_task(watch_room(log, 1_000, every_s=0.0, room_of=room_of))
            await log.until(lambda: log.disk_is_low)
            await log.until(lambda: not log.disk_is_low)
            assert caplog.text.count("cannot tell how much room") == 1 and len(looks) >= 4
            log.host.abort()
            await watching  # it ends by itself, without an error

    run(main)


def test_it_ends_well_when_the_replica_ends_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            log = group.logs["a"]

            def room_of(path: Path) -> int:
                log.host._loop.call_soon_threadsafe(log.host.abort)
                return 0

            await watch_room(log, 1_000, every_s=0.0, room_of=room_of)

    run(main)


def test_a_full_disk_ends_the_server_and_loses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group:
            end = await write_some(group)
            files = await restart_with_failing_files(group, "c")
            files.failing["write"] = errno.ENOSPC
            await group.logs["a"].append(b"the others go on")
            assert "disk is full" in await group.logs["c"].closed()
            files.failing.clear()  # somebody made room
            await group.stop_log("c")
            await group.start_log("c")
            await group.primary()
            await group.logs["c"].wait_for(end + 1)
            assert group.records("c") == group.records("a")

    run(main)


def test_all_stop_and_start_again_elsewhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group:
            end = await write_some(group)
            await group.stop()
            group.move()
            await group.start("b")
            log = group.logs["b"]
            await log.until(lambda: "No quorum" in log.why_no_primary())
            assert "a" in log.why_no_primary() and "c" in log.why_no_primary(), "it says whom it waits for"
            await group.start("a", "c")
            await group.primary()
            assert await group.logs["c"].append(b"after") == end + 1
            assert group.records("c")[:end] == [b"record %d" % number for number in range(end)]

    run(main)


@pytest.mark.parametrize("what", ["the whole directory", "the log alone"])
def test_an_empty_directory_under_an_old_name_is_a_stranger(tmp_path: Path, what: str) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group:
            await write_some(group, 5)
            await group.stop_log("b")
            path = group.path("b")
            shutil.rmtree(path if what == "the whole directory" else path / LOGS)
            log = await group.start_log("b")
            await log.until(lambda: log.replica.standing is Standing.STRANGER)
            assert "add one with a new name" in log.why_no_primary()
            await group.primary("a", "c")
            assert await group.logs["a"].append(b"without b") == 6
            assert status_of(log).standing == "stranger"

    run(main)
