"""A toy automaton in a host: beside a daemon, over a session, through restarts, and with bugs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.contract import Action, Append, Event, Record, Started
from isotone.core.errors import LocalProtocolError, MachineError
from isotone.core.ids import NO_DAEMON, ClientId
from isotone.core.services import Service as Level
from isotone.daemon.embedded import node
from isotone.daemon.node import Node
from isotone.daemon.node_settings import TraceSettings
from isotone.evs.sessions.settings import ClientSettings
from isotone.host.embedded import EmbeddedService
from isotone.host.host import Host, Phase
from isotone.host.inspect import dump, read_storage
from isotone.host.service import Around, Service
from isotone.host.session import SessionService
from isotone.host.store import Sync
from isotone.trace.events import LinkFailed
from isotone.trace.reader import read
from tests.host.counter import GROUP, LOG, Add, Broken, Counted, Counter, Viewed

DEADLINE_S = 30.0


class Watched:
    """A host with a counter, and what it said."""

    def __init__(
        self, service: Service, path: Path | None, name: str = "replica", sync: Sync = Sync.EVERY_COMMIT
    ) -> None:
        self.totals: list[int] = []
        self.members: list[int] = []
        self._wakes = asyncio.Event()
        self.host = Host(
            self._build,
            name=name,
            service=service,
            directory=path,
            on={Counted: self._counted, Viewed: self._viewed},
            sync=sync,
        )

    def _build(self, around: Around) -> Counter:
        self.counter = Counter(around.name)
        return self.counter

    def _counted(self, action: Counted) -> None:
        self.totals.append(action.total)
        self._wakes.set()

    def _viewed(self, action: Viewed) -> None:
        self.members.append(len(action.view.members))
        self._wakes.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for what the automaton says."""
        while not is_so():
            self._wakes.clear()
            await self._wakes.wait()


@asynccontextmanager
async def running(service: Service, path: Path | None, name: str = "replica", **more: Sync) -> AsyncIterator[Watched]:
    watched = Watched(service, path, name, **more)
    async with watched.host:
        yield watched


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def timed() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await main()

    asyncio.run(timed())


def service_of(kind: str, daemon: Node) -> Service:
    return EmbeddedService(daemon) if kind == "embedded" else SessionService(daemon.address)


kinds = pytest.mark.parametrize("kind", ["embedded", "session"])


@kinds
@pytest.mark.parametrize("sync", list(Sync))
def test_a_counter_counts_and_is_found_again(tmp_path: Path, kind: str, sync: Sync) -> None:
    async def main() -> None:
        async with node() as daemon:
            async with running(service_of(kind, daemon), tmp_path, sync=sync) as first:
                for amount in range(1, 11):
                    first.host.tell(Add(first.host.now(), amount))
                await first.until(lambda: first.totals[-1] == 55)
            assert first.totals[-1] == -1  # what stands behind its last Persist
            assert read_storage(tmp_path).cells == {"stopped": b"yes"}
            async with running(service_of(kind, daemon), tmp_path, sync=sync) as second:
                assert second.totals[0] == 55 and second.host.incarnation == 2
                second.host.tell(Add(second.host.now(), 45))
                await second.until(lambda: second.totals[-1] == 100)
        assert [record for _, record in dump(tmp_path, LOG)] == [b"%d" % each for each in [*range(1, 11), 45]]

    run(main)


def test_nothing_is_written_beside_a_host_that_ended() -> None:
    async def main() -> None:
        async with node() as daemon:
            async with running(EmbeddedService(daemon), None) as watched:
                await watched.host.write([])
            with pytest.raises(MachineError, match="not running"):
                await watched.host.write([])

    run(main)


def test_two_hosts_hear_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(trace=tmp_path / "trace") as daemon,
            running(EmbeddedService(daemon), tmp_path / "a", "a") as one,
            running(SessionService(daemon.address), tmp_path / "b", "b") as two,
        ):
            await one.until(lambda: one.members[-1:] == [2])
            await two.until(lambda: two.members[-1:] == [2])
            for amount in range(1, 101):
                (one if amount % 2 else two).host.tell(Add(one.host.now(), amount))
            await one.until(lambda: one.totals[-1] == 5050)
            await two.until(lambda: two.totals[-1] == 5050)
        assert list(dump(tmp_path / "a", LOG)) == list(dump(tmp_path / "b", LOG))
        rows = daemon.shell.recording.rows
        assert rows > 100, "the daemon records what crosses, of both"

    run(main)


def test_a_daemon_that_comes_back_is_found_by_the_automaton(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(name="d", state=tmp_path / "d") as daemon:
            address = daemon.address
            watched = Watched(SessionService(address), tmp_path / "a")
            await watched.host.start()
            watched.host.tell(Add(watched.host.now(), 3))
            await watched.until(lambda: watched.totals[-1] == 3)
        async with node(name="d", state=tmp_path / "d", address=address) as daemon:
            watched.host.tell(Add(watched.host.now(), 4))
            await watched.until(lambda: watched.totals[-1] == 7)
            assert watched.counter.client is not None
            assert watched.counter.client.daemon == daemon.me and daemon.me.incarnation == 2
            assert "Disconnected" in watched.counter.heard
            await watched.host.stop()
        assert watched.host.end_reason == ""

    run(main)


@kinds
def test_a_name_in_use_is_heard_by_the_provisional_id(kind: str) -> None:
    async def main() -> None:
        async with node() as daemon, running(service_of(kind, daemon), None) as first:
            await first.until(lambda: bool(first.members))
            async with running(service_of(kind, daemon), None) as second:
                second.counter.handle(Add(0, 1))
                while second.counter.tries < 3:
                    await asyncio.sleep(0)
                assert "Connected" not in second.counter.heard and not second.members
                await first.host.stop()
                await second.until(lambda: bool(second.members))

    run(main)


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_misuse_goes_back_to_the_caller(tmp_path: Path) -> None:
    async def main() -> None:
        async with node() as daemon:
            async with running(EmbeddedService(daemon), tmp_path) as watched:
                with pytest.raises(LocalProtocolError, match="only grows"):
                    watched.host.tell(Add(watched.host.now(), 0))
                assert watched.host.phase is Phase.RUNNING
            with pytest.raises(MachineError, match="is not running"):
                watched.host.tell(Add(0, 1))

    run(main)


def test_a_bug_ends_the_host_and_says_which(tmp_path: Path) -> None:
    async def main() -> None:
        async with node() as daemon:
            watched = Watched(EmbeddedService(daemon), tmp_path)
            await watched.host.start()
            watched.host.tell(Broken(0))
            assert watched.host.phase is Phase.ENDED
            with pytest.raises(MachineError, match=r"failed on Broken: AssertionError: .* returned Strange"):
                await watched.host.__aexit__(None, None, None)
            assert daemon.is_ready, "its daemon goes on"
            async with running(EmbeddedService(daemon), tmp_path) as again:  # the store and the name are free
                await again.until(lambda: bool(again.members))

    run(main)


def test_the_end_of_the_daemon_is_the_end_of_a_host_beside_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with node() as daemon:
            watched = Watched(EmbeddedService(daemon), tmp_path)
            await watched.host.start()
            daemon.abort("killed by the test")
            assert "its daemon ended: killed by the test" in await watched.host.closed()

    run(main)


def test_a_disk_that_fails_stops_the_automaton_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with node() as daemon:
            watched = Watched(EmbeddedService(daemon), tmp_path)
            await watched.host.start()
            await watched.until(lambda: bool(watched.members))

            def failing(descriptor: int) -> None:
                raise OSError(5, "Input/output error")

            monkeypatch.setattr(watched.host.machinery.store.files, "sync", failing)
            for amount in range(1, 6):
                watched.host.tell(Add(watched.host.now(), amount))
            reason = await watched.host.closed()
            assert "the disk failed" in reason and "start again" in reason
            assert watched.totals == [0], "nothing that stood behind the writes was done"
            assert watched.host.error is None

    run(main)


def test_writes_beside_the_automaton_and_room(tmp_path: Path) -> None:
    async def main() -> None:
        async with node() as daemon, running(EmbeddedService(daemon), tmp_path) as watched:
            await watched.host.write([Append("notes", b"one")])
            await watched.host.room()
        assert list(dump(tmp_path, "notes")) == [(1, b"one")]
        with pytest.raises(MachineError, match="is not running"):
            await watched.host.room()

    run(main)


class Burst:
    """Sends much at once, and records what it hears."""

    def __init__(self, count: int) -> None:
        self.count, self.heard = count, 0
        self.order: list[int] = []

    def handle(self, event: Event) -> list[Action]:
        """As every automaton."""
        match event:
            case Started():
                return [b4.Ask(ClientId(NO_DAEMON, "burst", 1), b4.Connect())]
            case b4.Indicated(receivers=(me,), indication=b4.Connected()):
                return [b4.Ask(me, b4.Join(GROUP))]
            case b4.Indicated(receivers=(me,), indication=b4.View()):
                bodies = [b"%8d" % number + bytes(50_000) for number in range(self.count)]
                sends = [bundle_of(me, place + 1, Level.SAFE, (GROUP,), [body]) for place, body in enumerate(bodies)]
                return [b4.Ask(me, b4.Send(bundle)) for bundle in sends]
            case b4.Indicated(indication=b4.Message(bundle=bundle)):
                self.order += [int(bytes(body[:8])) for body in bundle.bodies()]
                return [Record(LinkFailed("burst", "", "", "heard")), Counted(len(self.order))]
            case b4.Indicated(indication=indication):
                raise AssertionError(indication)
        return []


@kinds
def test_sends_wait_for_room_and_keep_their_order(tmp_path: Path, kind: str) -> None:
    count = 300
    done_in: list[int] = []  # what waited at each bundle that was heard

    async def main() -> None:
        async with node(trace=tmp_path / "daemon") as daemon:
            service = service_of(kind, daemon)
            if kind == "session":
                service = SessionService(daemon.address, settings=ClientSettings(queue_bytes_max=200_000))
            burst, done, waited = Burst(count), asyncio.Event(), done_in

            def counted(action: Counted) -> None:
                waited.append(host.waiting_bytes)
                if action.total == count:
                    done.set()

            trace = TraceSettings(directory=tmp_path / "host", run="run")
            on = {Counted: counted}
            async with Host(
                lambda around: burst, name="burst", service=service, directory=None, on=on, trace=trace
            ) as host:
                await done.wait()
                assert burst.order == list(range(count))
                assert max(waited) > 0 and waited[-1] == host.waiting_bytes == 0
            assert host.error is None
        rows = list(read([tmp_path / ("daemon" if kind == "embedded" else "host")]))
        assert sum(isinstance(row.entry, LinkFailed) for row in rows) == len(done_in)

    run(main)


def test_what_a_callback_tells_waits_its_turn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with node() as daemon:
            watched = Watched(EmbeddedService(daemon), tmp_path)
            later = [Add(0, 5), Add(0, -1), Add(0, 6)]
            viewed = watched._viewed

            def tell(action: Viewed) -> None:
                viewed(action)
                for event in later:
                    watched.host.tell(event)

            watched.host._callbacks[Viewed] = tell
            async with watched.host:
                await watched.until(lambda: watched.totals[-1] == 11)
        assert "a callback told what makes no sense: a counter only grows" in caplog.text

    run(main)


def test_the_group_is_left_when_the_host_stops(tmp_path: Path) -> None:
    async def main() -> None:
        async with node() as daemon, running(EmbeddedService(daemon), None, "stays") as stays:
            async with running(SessionService(daemon.address), None, "goes"):
                await stays.until(lambda: stays.members[-1:] == [2])
            await stays.until(lambda: stays.members[-1:] == [1])
            assert GROUP

    run(main)
