"""Clusters of real daemons on loopback: processes of ``isotone daemon run``, their faults, their record.

Every wait has a deadline; every process is ended by its own handle, whatever happens.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from isotone.cli.admin_client import AdminClient
from isotone.cli.local_cluster import LOOPBACK, LocalDaemon, Place, quoted
from isotone.core.errors import MachineError
from isotone.sim.run import verdicts_and_violations
from isotone.spec.check import check
from isotone.trace.events import Ended, Row, Stabilised, Truncated
from isotone.trace.reader import read_runs
from isotone.trace.recorder import Recorder
from isotone.trace.writer import Level, TraceWriter
from tests.ports import free_ports

RUN = "integration"
WITHIN_S = 45.0
LOOK_S = 0.05
PATIENT = "[timeouts]\nsilence_floor_ms = 10000\n"
"""Where no view may change: a machine that lets a daemon wait for a second lets nobody suspect it."""


def run(main: Coroutine[Any, Any, None], within_s: float = 4 * WITHIN_S) -> None:
    """One test, which ends in any case."""
    asyncio.run(asyncio.wait_for(main, within_s))


def judged(rows: Iterable[Row]) -> dict[str, str]:
    """The verdict of each property; a violation fails with its explanation."""
    states, violations = verdicts_and_violations(check(rows))
    assert not violations, "\n".join(f"{each.property}: {each.explanation}" for each in violations)
    return states


class RealDaemon(LocalDaemon):
    """A process; ``open`` says whether it runs with --dev."""

    open = True

    @property
    def command(self) -> list[str]:
        return [word for word in super().command if self.open or word != "--dev"]


class RealCluster:
    """Daemons by name, their settings in one file that is written anew when one of them moves."""

    def __init__(self, directory: Path, sites: Mapping[str, str], *, extra: str = "", open: bool = True) -> None:
        self.directory, self.extra, self.open = directory, extra, open
        self.settings = directory / "isotone.toml"
        self.trace = directory / "trace"
        self.per_daemon: dict[str, list[str]] = {}
        """Further lines of a daemon's table."""
        self.daemons: dict[str, RealDaemon] = {}
        self.credential = ""
        for name, site in sites.items():
            port, admin = free_ports(2)
            self._place(Place(name=name, site=site, port=port, admin_port=admin))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.daemons)

    def address(self, name: str) -> str:
        return self.daemons[name].place.address

    def admin(self, name: str) -> AdminClient:
        return AdminClient(self.daemons[name].place.admin, self.credential, within_s=5.0)

    def log(self, name: str) -> str:
        return self.daemons[name].log.read_text(encoding="utf-8", errors="replace")

    # --- processes -------------------------------------------------------------------------------------------------

    def start(self, *names: str) -> None:
        """With the settings as they are now."""
        self.settings.write_text(self.text(), encoding="utf-8")
        for name in names or self.names:
            self.daemons[name].start()

    async def kill(self, *names: str) -> None:
        """At once and without a word."""
        for name in names:
            self.daemons[name].send_signal(signal.SIGKILL)
        for name in names:
            assert await self.ended(name) == -signal.SIGKILL

    async def stop(self, name: str) -> None:
        """As a service manager does."""
        self.daemons[name].send_signal(signal.SIGTERM)
        assert await self.ended(name) == 0, self.log(name)

    async def ended(self, name: str) -> int:
        process = self.daemons[name].process
        assert process is not None
        return await asyncio.to_thread(process.wait, WITHIN_S)

    def signal(self, name: str, number: signal.Signals) -> None:
        self.daemons[name].send_signal(number)

    def move(self, name: str) -> None:
        """Another port, from its next start on."""
        port, admin = free_ports(2)
        self._place(Place(name=name, site=self.daemons[name].place.site, port=port, admin_port=admin))

    def _place(self, place: Place) -> None:
        daemon = RealDaemon(place, self.settings, self.directory / f"{place.name}.log")
        daemon.open = self.open
        self.daemons[place.name] = daemon

    def end(self) -> None:
        """Every process that is left."""
        for daemon in self.daemons.values():
            daemon.send_signal(signal.SIGKILL)
            if daemon.process is not None:
                daemon.process.wait()

    # --- conditions ------------------------------------------------------------------------------------------------

    async def until(self, reached: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
        """Look from another thread until it holds."""
        try:
            async with asyncio.timeout(within_s):
                while not await asyncio.to_thread(reached):
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            tails = "\n".join(f"--- {name}\n{daemon.tail()}" for name, daemon in self.daemons.items())
            raise AssertionError(f"not within {within_s:g} seconds: {what}\n{tails}") from None

    def members(self, name: str) -> tuple[str, ...]:
        """Of its daemon view, as it says itself; empty while there is none."""
        try:
            status = self.admin(name).get("/status")
        except MachineError:
            return ()
        return tuple(status["stack"]["view"]["members"]) if status["ready"] else ()

    async def together(self, *names: str) -> None:
        """These and nobody else are in one daemon view, as each of them says."""
        wanted = tuple(sorted(names or self.names))

        def is_there() -> bool:
            dead = [name for name in wanted if self.daemons[name].ended is not None]
            assert not dead, f"{dead} ended: {self.daemons[dead[0]].tail()}"
            return all(self.members(name) == wanted for name in wanted)

        await self.until(is_there, f"a view of {wanted}")

    async def cut(self, *sides: Sequence[str]) -> None:
        """Each daemon loses what it exchanges with other sides; no sides: none does any more."""
        for name, daemon in self.daemons.items():
            others = [other for side in sides if name not in side for other in side]
            if daemon.process is not None and daemon.ended is None:
                rules = [{"daemon": other, "cut": True} for other in others]
                await asyncio.to_thread(daemon.admin.post, "/faults", {"rules": rules})

    # --- the record ------------------------------------------------------------------------------------------------

    async def end_quietly(self) -> dict[str, str]:
        """All is settled: stop all, and judge the record; the verdict of each property.

        It is judged twice. While they still run, so that what is owed at a stable, quiet end is put to the test (their
        files are not closed then, but at level full every row is in them); and whole, as ``isotone check`` does.
        """
        living = [name for name, daemon in self.daemons.items() if daemon.process is not None and daemon.ended is None]
        ending = [Stabilised((tuple(living),)), Ended(quiet=True)]
        rows = [row for row in self.rows() if not isinstance(row.entry, Truncated)]
        rows += [Row("", 0, index, index, entry) for index, entry in enumerate(ending)]
        verdicts = judged(rows)
        for name in living:
            await self.stop(name)
        writer = TraceWriter(self.trace, RUN, "", 0, level=Level.FULL)
        recorder = Recorder(writer.append)
        for entry in ending:
            recorder.record("", 0, 0, entry)
        writer.close()
        states = judged(self.rows())
        assert not [name for name, state in states.items() if state == "not_judged"]
        return verdicts

    def rows(self) -> list[Row]:
        """The record as it is now."""
        ((_, rows),) = read_runs([self.trace])
        return list(rows)

    # --- settings --------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The file as it is now."""
        places = [daemon.place for daemon in self.daemons.values()]
        sites = list(dict.fromkeys(place.site for place in places))
        lines = ["[cluster]", f'name = "{RUN}"', f"state_directory = {quoted(self.directory / 'state')}"]
        for site in sites:
            lines += ["[[site]]", f'name = "{site}"']
        for place in places:
            lines += ["[[daemon]]", f'name = "{place.name}"', f'site = "{place.site}"', f'address = "{LOOPBACK}"']
            lines += [f"port = {place.port}", f"admin_port = {place.admin_port}"]
            lines += self.per_daemon.get(place.name, [])
        lines += [
            "[trace]",
            'level = "full"',
            f"directory = {quoted(self.trace / '{name}')}",
            "journal = true",
            "network = true",
        ]
        return "\n".join([*lines, "[faults]", "enabled = true", self.extra, ""])


@asynccontextmanager
async def real_cluster(
    directory: Path,
    sites: Mapping[str, str] | None = None,
    *,
    extra: str = "",
    start: bool = True,
    open: bool = True,
) -> AsyncIterator[RealCluster]:
    """Three daemons in two sites unless told otherwise, in one daemon view."""
    cluster = RealCluster(directory, sites or {"d1": "s1", "d2": "s1", "d3": "s2"}, extra=extra, open=open)
    try:
        if start:
            cluster.start()
            await cluster.together()
        yield cluster
    finally:
        cluster.end()
