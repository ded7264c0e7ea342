"""A disk that neither fails nor answers: its server leaves the group, the others go on, and it comes back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from isotone.core.boundary import Ask, Connect, Connected, Disconnect, Disconnected, Indication
from isotone.core.ids import NO_DAEMON, ClientId
from isotone.daemon.embedded import node
from isotone.host.answers import Maybe
from isotone.host.disk_watch import DiskWatch
from isotone.host.files import Files
from isotone.host.replica_status import status_of
from isotone.host.session import SessionService
from tests.host.replicas import Replicas, replicas, run

WITHIN_MS = 200


class HangingFiles(Files):
    """A sync does not come back while the disk hangs; else it does at once, whatever else the real disk has to do."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = Event()
        self.answers.set()

    def sync(self, descriptor: int) -> None:
        self.answers.wait()
        self.syncs += 1
        self.answered_s = monotonic()


async def with_hanging_files(group: Replicas, name: str) -> HangingFiles:
    files = group.files[name] = HangingFiles()
    group.options["disk_within_ms"] = WITHIN_MS
    await group.stop_log(name)
    await group.start_log(name)
    await group.primary()
    return files


@pytest.mark.parametrize("kind", ["embedded", "session"])
def test_the_others_go_on_and_it_comes_back(tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with replicas(tmp_path, kind=kind) as group:
            files = await with_hanging_files(group, "c")
            files.answers.clear()
            try:
                assert await group.logs["a"].append(b"green without c") == 1
                await group.primary("a", "b")
                hung = group.logs["c"]
                assert "has not answered" in status_of(hung).disk and not status_of(hung).here
                assert "has not answered" in hung.why_no_primary() and "has not answered" in caplog.text
                syncs = files.syncs
            finally:
                files.answers.set()
            await group.primary()
            await hung.wait_for(1)
            hung.host.disk_watch.look()
            assert files.syncs > syncs, "the write that hung is done, and others behind it"
            assert status_of(hung).disk == "" and "answers again" in caplog.text
            assert await hung.append(b"of c again") == 2
            await group.logs["a"].wait_for(2)
            assert group.records("c") == group.records("a") == [b"green without c", b"of c again"]

    run(main)


def test_a_stop_does_not_wait_for_a_disk_that_hangs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group:
            files = await with_hanging_files(group, "c")
            hung = group.logs["c"]
            hung.host.stop_within_s = 0.05
            files.answers.clear()
            try:
                await group.logs["a"].append(b"green without c")
                await group.stop_log("c")
                assert "locked" in caplog.text, "what becomes of its store is said"
            finally:
                files.answers.set()
            await hung.host.released()
            await group.start_log("c")
            await group.primary()

    run(main)


def test_an_append_at_a_server_whose_disk_hangs_is_answered_maybe(tmp_path: Path) -> None:
    """Nobody hears of its standing before the disk answers, and who waits should not wait for that."""

    async def main() -> None:
        async with replicas(tmp_path) as group:
            group.options["maybe_after_ms"] = 1
            files = await with_hanging_files(group, "c")
            files.answers.clear()
            try:
                with pytest.raises(Maybe, match="has not answered"):
                    await group.logs["c"].append(b"kept, perhaps")
                assert group.logs["c"].standing.primary, "not told yet"
            finally:
                files.answers.set()
            await group.primary()

    run(main)


class SlowDisk:
    """So long has the oldest write waited."""

    waited = 0.0

    def waited_s(self) -> float:
        return self.waited


def test_it_is_said_once_when_it_hangs_and_once_when_it_answers() -> None:
    disk, told = SlowDisk(), list[str]()
    watch = DiskWatch(disk, 2.0, hangs=told.append, answers=lambda: told.append("answers"))
    for waited in (0.0, 1.9, 2.0, 2.5, 7.0):
        disk.waited = waited
        watch.look()
    assert len(told) == 1 and watch.hanging
    disk.waited = 0.0
    watch.look()
    watch.look()
    assert told[1:] == ["answers"] and not watch.hanging


def test_who_could_not_be_told_is_told_again() -> None:
    disk, told = SlowDisk(), list[str]()

    def hangs(reason: str) -> None:
        told.append(reason)
        if len(told) == 1:
            raise RuntimeError("a bug")

    watch = DiskWatch(disk, 2.0, hangs=hangs, answers=lambda: None)
    disk.waited = 2.0
    with pytest.raises(RuntimeError):
        watch.look()
    watch.look()
    watch.look()
    assert len(told) == 2 and watch.hanging


class Ear:
    """A host, as a service sees it."""

    def __init__(self) -> None:
        self.told: list[tuple[ClientId, Indication]] = []
        self.news = asyncio.Event()

    def now(self) -> int:
        return 0

    def on_told(self, receivers: tuple[ClientId, ...], indication: Indication) -> None:
        self.told += [(receiver, indication) for receiver in receivers]
        self.news.set()

    def on_turn(self) -> None: ...

    def on_moved(self) -> None: ...

    def on_broken(self, reason: str, error: BaseException | None) -> None:
        pytest.fail(f"{reason}: {error!r}")

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self.news.clear()
            await self.news.wait()


def test_all_sessions_end_also_behind_one_that_parts_already() -> None:
    async def main() -> None:
        async with node() as daemon:
            ear, service = Ear(), SessionService(daemon.address)
            service.begin(ear)
            for number, name in enumerate(("one", "two")):
                service.ask(Ask(ClientId(NO_DAEMON, name, number), Connect()))
            await ear.until(lambda: sum(type(each) is Connected for _, each in ear.told) == 2)
            first, second = (client for client, each in ear.told if type(each) is Connected)
            service.ask(Ask(first, Disconnect()))
            assert set(service.part("the disk hangs")) == {first, second}
            ended = [client for client, each in ear.told if each == Disconnected("the disk hangs")]
            assert set(ended) == {first, second}
            await service.close(clean=True)

    run(main)


def test_a_watch_of_nothing_never_looks() -> None:
    async def main() -> None:
        disk = SlowDisk()
        disk.waited = 100.0
        watch = DiskWatch(disk, 0.0, hangs=pytest.fail, answers=pytest.fail)
        watch.begin(asyncio.get_running_loop())
        watch.end()
        assert not watch.hanging

    run(main)
