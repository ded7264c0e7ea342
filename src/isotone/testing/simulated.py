"""A cluster of daemons in virtual time, for tests of programs that use the ordinary client.

>>> import isotone.testing
>>> async def main() -> dict[str, tuple[str, ...]]:
...     async with isotone.testing.cluster(daemons=3, seed=7) as c:
...         c.partition(["d1", "d2"], ["d3"])
...         return await c.views()
>>> isotone.testing.run(main)["d3"]
('d3',)
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any

from isotone.core.choice import Choice
from isotone.core.errors import LocalProtocolError
from isotone.evs.sessions.settings import ServerSettings
from isotone.evs.stack import Stack, StackSettings
from isotone.replicated.database.procedures import Procedures
from isotone.replicated.state import LEASE_S, ReplicatedState
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.trace_lines import line_of
from isotone.sim.world import World
from isotone.spec.check import check
from isotone.spec.properties import Boundary
from isotone.spec.verdicts import Report
from isotone.testing.daemons import Daemons, address_of
from isotone.testing.errors import BrokenPromise, NotSettled, NotSimulated
from isotone.testing.loop import MICROSECONDS, VirtualLoop
from isotone.testing.places import Places
from isotone.testing.replicas import Replicas
from isotone.testing.storm import STORM, Storm
from isotone.testing.story import Deed, failure_story
from isotone.trace.events import Row
from isotone.trace.jsonl import jsonl_line, write_jsonl
from isotone.trace.layout import run_name

SETTLE_S = 60.0
LOOK_S = 0.005
WITNESS_ROWS_MAX = 12
NEAR_US = (200, 1_000, 3_000)
FAR_US = (5_000, 20_000)
"""What a seed draws from: the longer a packet takes, the more is under way when something happens."""


class Cluster:
    """Daemons ``d1`` … in one world: what happens to them, and what can be seen of them."""

    def __init__(
        self,
        loop: VirtualLoop,
        site_of: Mapping[str, str],
        *,
        seed: int | str,
        network: NetworkSettings,
        settings: StackSettings,
        sessions: ServerSettings,
        log: str = "",
    ) -> None:
        self.rows: list[Row] = []
        self.deeds: list[Deed] = []
        """Every fault so far, as the test or a storm asked for it: virtual microseconds, and what it was."""
        self.seed = seed
        self.world = World(seed=seed, network=network, sink=self.rows.append)
        self._loop = loop
        disks = Choice(f"disks/{seed}")
        self._replicas = Replicas(self.world, loop, log, tuple(site_of), disks) if log else None
        self._daemons = Daemons(self.world, site_of, settings, sessions, self._replicas)
        self._places = Places(self.world, site_of)
        self._storms: list[Storm] = []
        loop.enter(self.world, self._places)

    def end(self) -> None:
        """The world is over: streams that are still open break, and nothing happens any more."""
        for storm in self._storms:
            storm.cancel()
        self._places.break_all()
        self._loop.leave()

    def loop_tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks of the program that are not done, in the order in which they began."""
        return list(self._loop.unfinished())

    # --- who is there ------------------------------------------------------------------------------------------------

    @property
    def daemons(self) -> tuple[str, ...]:
        """The names of all daemons, up or down."""
        return self._daemons.names

    @property
    def now(self) -> float:
        """Virtual seconds since the cluster began."""
        return self.world.now / MICROSECONDS

    def address(self, daemon: str) -> str:
        """Where clients find this daemon."""
        return address_of(self._known(daemon))

    def addresses(self) -> list[str]:
        """Of all daemons."""
        return [address_of(name) for name in self.daemons]

    def is_up(self, daemon: str) -> bool:
        """Whether the daemon runs or stands still; not after a crash."""
        return self.world.is_up(self._known(daemon))

    def stack(self, daemon: str) -> Stack:
        """The automaton of a daemon that is up, to look at."""
        return self._daemons.stack(self._known(daemon))

    def _known(self, daemon: str) -> str:
        if daemon not in self.daemons:
            raise LocalProtocolError(f"there is no daemon {daemon!r} in this cluster, only {', '.join(self.daemons)}")
        return daemon

    # --- what happens ------------------------------------------------------------------------------------------------

    def partition(self, *sides: Iterable[str]) -> None:
        """Only daemons of one side reach each other; clients stand beside theirs. Replaces an earlier partition."""
        parts = [list(side) for side in sides]
        self._note(f"partition {' | '.join(' '.join(part) for part in parts)}")
        self._places.partition(parts)

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Nothing passes between these two any more, or from one to the other; both may be daemons or programs."""
        self._note(f"cut {source} {'→' if one_way else '↔'} {target}")
        self.world.cut(source, target, one_way=one_way)

    def mend(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Undo one `cut`."""
        self._note(f"mend {source} {'→' if one_way else '↔'} {target}")
        self.world.mend(source, target, one_way=one_way)

    def heal(self) -> None:
        """Undo every partition and cut."""
        self._note("heal")
        self._places.heal()

    def crash(self, daemon: str) -> None:
        """A daemon dies without warning; the sessions of its clients die with it."""
        self._note(f"crash {self._known(daemon)}")
        self.world.crash(daemon)

    def restart(self, daemon: str) -> None:
        """Start a daemon that is down; it remembers only what was on its disk."""
        self._note(f"restart {self._known(daemon)}")
        self.world.restart(daemon)

    def stop(self, daemon: str) -> None:
        """Ask a daemon to end in order; its clients are told."""
        self._note(f"stop {self._known(daemon)}")
        self.world.stop(daemon)

    def pause(self, daemon: str) -> None:
        """A daemon stands still and does not know it, as under SIGSTOP."""
        self._note(f"pause {self._known(daemon)}")
        self.world.pause(daemon)

    def resume(self, daemon: str) -> None:
        """A paused daemon goes on."""
        self._note(f"resume {self._known(daemon)}")
        self.world.resume(daemon)

    def break_streams(self, daemon: str) -> None:
        """The streams of all programs at this daemon break; their sessions may be resumed."""
        self._note(f"break the streams of {self._known(daemon)}")
        for transport in self._places.transports(daemon):
            transport.break_off()

    def calm(self) -> None:
        """Undo everything: heal, start who is down, wake who stands still."""
        self._note("calm: all heal, start and go on")
        for name in self.daemons:
            if not self.world.is_up(name):
                self.world.restart(name)
            self.world.resume(name)
        self._places.heal()

    def storm(self, duration: float = 5.0, *, faults: Iterable[str] = STORM) -> asyncio.Future[None]:
        """Let faults drawn from the seed happen for so long; then `calm`. The future is done when it is over."""
        choice = Choice(f"storm/{self.seed}/{len(self._storms)}")
        storm = Storm(self, choice, duration, tuple(faults))
        self._storms.append(storm)
        return storm.over

    def replica(
        self,
        daemon: str,
        *,
        classes: Iterable[type[Any]] = (),
        databases: Iterable[Procedures] = (),
        lease_s: float = LEASE_S,
    ) -> AbstractAsyncContextManager[ReplicatedState]:
        """Replicated objects, as of `isotone.replica`, of the server beside this daemon; for ``cluster(log="shop")``.

        Its disk and its life are those of the daemon: after a crash and a restart, open it again. Leases run
        out only while most servers have theirs open, as it is programs that tick. Commands of your own classes
        and procedures of databases run twice, so that one that is not deterministic is found.
        """
        if self._replicas is None:
            raise LocalProtocolError('this cluster has no replicated log: cluster(daemons=3, log="shop") has one')
        return self._replicas.open(self._known(daemon), classes, databases, lease_s)

    # --- programs --------------------------------------------------------------------------------------------------

    def launch(self, name: str, main: Coroutine[Any, Any, Any], *, beside: str) -> asyncio.Task[Any]:
        """Run a coroutine as a program of its own on the side of this daemon, so that it can be cut off or killed."""
        return self._places.launch(self._loop, name, main, beside)

    def kill_client(self, name: str) -> None:
        """Kill a program that was launched: streams reset, tasks cancelled, no farewell."""
        self._note(f"kill the program {name}")
        self._places.kill(self._loop, name)

    def _note(self, deed: str) -> None:
        self.deeds.append((self.world.now, deed))

    # --- looking -----------------------------------------------------------------------------------------------------

    async def settled(self, *, within: float = SETTLE_S, quiet: bool = False) -> None:
        """Wait until all running daemons that reach each other share one daemon view, and groups work in it.

        With ``quiet`` also until nothing that was sent is under way between daemons.
        """
        end = self._loop.time() + within
        while any(True for _ in self._daemons.unsettled(quiet=quiet)):
            if self._loop.time() >= end:
                said = "\n".join(f"  {self._daemons.explained(name)}" for name in self._daemons.unsettled(quiet=quiet))
                raise NotSettled(f"after {within} virtual seconds not settled:\n{said}")
            await asyncio.sleep(LOOK_S)

    async def views(self) -> dict[str, tuple[str, ...]]:
        """Wait until `settled`; then who is in the daemon view of each daemon that runs or stands still."""
        await self.settled()
        return {name: self._daemons.members(name) for name in self.daemons if self.world.is_up(name)}

    # --- the record --------------------------------------------------------------------------------------------------

    def report(self) -> Report:
        """What the checkers say of the trace so far, property by property."""
        return check(self.rows, (Boundary.CLIENTS, Boundary.DAEMONS))

    def check(self) -> Report:
        """Raise `BrokenPromise` if Isotone broke one so far; the report otherwise."""
        report = self.report()
        for label, violation in report.violations.items():
            rows = [row for row in self.rows if (row.node, row.incarnation, row.index) in violation.witness]
            lines = "\n".join(f"  {line_of(row)}" for row in rows[:WITNESS_ROWS_MAX])
            raise BrokenPromise(f"seed {self.seed}: {label} is violated: {violation.explanation}\n{lines}")
        return report

    def digest(self) -> str:
        """Of the whole trace: the same in every run that is the same run."""
        digest = blake2b(digest_size=16)
        for row in self.rows:
            digest.update(jsonl_line(row))
        return digest.hexdigest()

    def write_trace(self, path: str | Path) -> None:
        """Write the trace as JSON lines, for ``isotone check``."""
        write_jsonl(Path(path), run_name(f"testing-{self.seed}", self.digest()[:8]), self.rows)


def drawn_network(seed: int | str) -> NetworkSettings:
    """How long packets take within a site and between sites, by the seed; none are lost but by faults."""
    choice = Choice(f"network/{seed}")
    near, far = choice.pick(NEAR_US), choice.pick(FAR_US)
    return NetworkSettings(
        lan=LinkSettings(latency_us=near, jitter_us=near), wan=LinkSettings(latency_us=far, jitter_us=far // 4)
    )


class cluster:
    """A cluster as an asynchronous context manager; on the way out the trace is checked, unless ``check`` is False.

    ``daemons`` is a number (``d1`` …) or a mapping from names to sites; ``seed`` is that of the run unless given. How
    long packets take is drawn from the seed, unless ``network`` says it. ``log``: beside each daemon runs a server of
    a replicated log of this name, for `Cluster.replica`.
    """

    def __init__(
        self,
        daemons: int | Mapping[str, str] = 3,
        *,
        seed: int | str | None = None,
        check: bool = True,
        network: NetworkSettings | None = None,
        settings: StackSettings | None = None,
        sessions: ServerSettings | None = None,
        log: str = "",
    ) -> None:
        self._log = log
        self._site_of = {f"d{n}": "lan" for n in range(1, daemons + 1)} if isinstance(daemons, int) else dict(daemons)
        self._seed = seed
        self._check = check
        self._network = network
        self._settings = settings or StackSettings()
        self._sessions = sessions or ServerSettings()
        self._cluster: Cluster | None = None

    async def __aenter__(self) -> Cluster:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            raise NotSimulated(
                "isotone.testing.cluster needs a virtual-time loop: run the test under @isotone.testing.seeds, "
                "or with isotone.testing.run(main)"
            )
        seed = loop.seed if self._seed is None else self._seed
        made = self._cluster = Cluster(
            loop,
            self._site_of,
            seed=seed,
            network=self._network or drawn_network(seed),
            settings=self._settings,
            sessions=self._sessions,
            log=self._log,
        )
        try:
            await made.settled()
        except BaseException:
            made.end()
            raise
        return made

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        made, self._cluster = self._cluster, None
        assert made is not None
        if error is not None:
            waiting = [task for task in made.loop_tasks() if task is not asyncio.current_task()]
            error.add_note(failure_story(made.rows, made.deeds, made.world.now, waiting))
        made.end()
        if not self._check:
            return
        try:
            made.check()
        except BrokenPromise as broken:
            if error is None:
                raise
            error.add_note(f"Besides, Isotone itself is at fault: {broken}")
