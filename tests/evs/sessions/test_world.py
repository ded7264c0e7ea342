"""Sessions in the simulator: daemons above the oracle, clients in processes of their own, networks that fail.

What clients sent is handed on once and in order, what they hear is what their daemon told them, through every resume;
and the properties of the group service hold for clients that live elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from isotone.core import boundary as b4
from isotone.core.choice import Choice
from isotone.core.contract import Address, Automaton
from isotone.core.ids import DaemonId
from isotone.core.services import Service
from isotone.evs.sessions.notices import Broken, Reconnected
from isotone.evs.sessions.server import ServerSessions
from isotone.evs.sessions.settings import ClientSettings, ServerSettings
from isotone.sim import Boot, LinkSettings, NetworkSettings, World
from isotone.sim.evs_system import ToldOracle
from isotone.spec.check import check
from isotone.spec.oracle import Oracle, OracleSettings, Stabilised
from isotone.spec.properties import Boundary
from isotone.trace import events as trace
from tests.evs.sessions.remote import RemoteClient, Say, Want

DAEMONS = ("a", "b")
SECOND = 1_000_000
SERVER = ServerSettings(
    window_bytes=3_000,
    large_bytes_max=60_000,
    message_bytes_max=50_000,
    buffer_bytes_max=200_000,
    heartbeat_us=200_000,
    silence_us=SECOND,
    resume_within_us=4 * SECOND,
)
CLIENT = ClientSettings(queue_bytes_max=20_000, bundle_bytes_max=2_000, attempt_us=500_000)


class ToldOracleOfDaemons(ToldOracle):
    """Clients' machines are no daemons, and connect none."""

    def on_start(self, daemon: DaemonId) -> None:
        if daemon.name in DAEMONS:
            super().on_start(daemon)

    def on_crash(self, daemon: DaemonId) -> None:
        if daemon.name in DAEMONS:
            super().on_crash(daemon)

    def on_pause(self, daemon: DaemonId) -> None:
        if daemon.name in DAEMONS:
            super().on_pause(daemon)

    def on_resume(self, daemon: DaemonId) -> None:
        if daemon.name in DAEMONS:
            super().on_resume(daemon)

    def on_connectivity(self, components: tuple[tuple[str, ...], ...]) -> None:
        up = [name for name in DAEMONS if name in self._world.nodes and self._world.is_up(name)]
        super().on_connectivity(self._world.network.components(up))


def serve(boot: Boot) -> Mapping[str, Automaton]:
    secret = boot.choice.derive("sessions").word().to_bytes(8, "big") * 2
    return {"door": _Nothing(), "clients": ServerSessions(boot.daemon, secret=secret, settings=SERVER)}


class _Nothing:
    def handle(self, event: object) -> list[object]:
        return []


class Run:
    """One seed."""

    def __init__(self, seed: int, clients: int = 4) -> None:
        self.choice = Choice(f"sessions {seed}")
        lan = LinkSettings(loss=self.choice.pick([0.0, 0.02, 0.1]), jitter_us=self.choice.pick([50, 5_000]))
        self.rows: list[trace.Row] = []
        self.world = World(seed=seed, network=NetworkSettings(lan=lan), sink=self.rows.append)
        self.world.add_service(Oracle(Choice(f"oracle/{seed}"), OracleSettings()))
        self.world.observers.append(ToldOracleOfDaemons(self.world))
        self.names = [f"p{number}" for number in range(clients)]
        self.apps: dict[str, list[RemoteClient]] = {name: [] for name in self.names}
        for name in DAEMONS:
            self.world.add_process(name, serve)
        for number, name in enumerate(self.names):
            self.world.add_process(name, self._program(name, DAEMONS[number % len(DAEMONS)]))
        self.said = 0

    def _program(self, name: str, daemon: str) -> Callable[[Boot], Mapping[str, Automaton]]:
        def program(boot: Boot) -> Mapping[str, Automaton]:
            address = [Address(f"{daemon}.1/clients")]
            app = RemoteClient(name, address, boot.choice.derive("session"), CLIENT)
            self.apps[name].append(app)
            return {"app": app}

        return program

    def step(self) -> None:
        choice, world = self.choice, self.world
        name = choice.pick(self.names)
        if not world.is_up(name):
            world.restart(name)
            return
        draw = choice.below(100)
        if draw < 70:
            self._say(name)
        elif draw < 82:
            group = choice.pick(["g", "h"])
            world.tell(name, "app", Want(0, b4.Join(group) if choice.chance(0.7) else b4.Leave(group)))
        elif draw < 83:
            world.tell(name, "app", Want(0, b4.Disconnect()))
        else:
            self._fault(name)

    def _say(self, name: str) -> None:
        self.said += 1
        size = self.choice.pick([1, 30, 500, 1_500, 9_000])
        service = self.choice.pick([Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE])
        body = (b"%d/%s " % (self.said, name.encode()) * size)[: size + 12]
        deadline_us = self.choice.pick([None, None, None, 20_000, 300_000])
        event = Say(0, self.choice.pick(["g", "h"]), body, service, deadline_us)
        self.world.tell(name, "app", event)

    def _fault(self, name: str) -> None:
        world, choice = self.world, self.choice
        daemon = choice.pick(list(DAEMONS))
        if not world.is_up(daemon):
            world.restart(daemon)
            return
        match choice.below(8):
            case 0 | 1 | 2:
                world.cut(name, daemon, one_way=choice.chance(0.3))
                world.after(choice.between(1_000, 3 * SECOND), lambda: world.mend(name, daemon))
            case 3:
                victim = choice.pick([name, daemon])
                world.pause(victim)
                world.after(choice.between(1_000, 2 * SECOND), lambda: world.is_up(victim) and world.resume(victim))
            case 4:
                world.crash(name)
            case 5:
                if choice.chance(0.3):
                    world.crash(daemon)
            case 6:
                world.partition(["a", *self.names[::2]], ["b", *self.names[1::2]])
            case 7:
                world.partition()

    def play(self) -> None:
        for _ in range(250):
            self.step()
            self.world.run_for(self.choice.pick([100, 5_000, 50_000, 150_000]))
        self.world.run_for(5 * SECOND)  # whatever was to be undone is
        for name in (*DAEMONS, *self.names):
            if not self.world.is_up(name):
                self.world.restart(name)
            self.world.resume(name)
        self.world.heal()
        for name in self.names:
            for daemon in DAEMONS:
                for ends in ((name, daemon), (daemon, name)):
                    self.world.network.link(*ends).change(LinkSettings())
        self.world.record("", trace.Stabilised((DAEMONS,)))
        self.world.tell_service(Stabilised(self.world.now))
        for name in self.names:
            self.world.tell(name, "app", Want(0, b4.Join("end")))
        self.world.run_for(20 * SECOND)
        for name in self.names:
            self.world.tell(name, "app", Say(0, "end", b"the end of " + name.encode()))
        self.world.run_for(10 * SECOND)
        self.world.record("", trace.Ended(True))


def handed_on(rows: list[trace.Row]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in rows:
        if isinstance(row.entry, trace.Sent):
            found.setdefault(row.entry.client, []).extend(row.entry.digests)
    return found


def told(rows: list[trace.Row]) -> dict[str, list[tuple[str, object]]]:
    found: dict[str, list[tuple[str, object]]] = {}
    for row in rows:
        match row.entry:
            case trace.Delivered(receivers=receivers, digests=digests):
                for client in receivers:
                    found.setdefault(client, []).extend(("message", digest) for digest in digests)
            case trace.ViewDelivered(receivers=receivers, view=view):
                for client in receivers:
                    found.setdefault(client, []).append(("view", str(view)))
            case trace.SignalDelivered(receivers=receivers, view=view):
                for client in receivers:
                    found.setdefault(client, []).append(("signal", str(view)))
    return found


@pytest.mark.parametrize("seed", [*range(12), 131])
def test_nothing_is_lost_doubled_or_out_of_order(seed: int) -> None:
    run = Run(seed)
    run.play()
    taken, heard = handed_on(run.rows), told(run.rows)
    for name in run.names:
        current = run.apps[name][-1].session
        assert current.is_connected and current.settled == current.submitted, (seed, name)
        for app in run.apps[name]:
            for client, record in app.records.items():
                kept = [digest for ticket, digest in enumerate(record.sent, 1) if ticket not in record.dropped]
                sent = taken.get(str(client), [])
                mine = heard.get(str(client), [])
                assert record.heard == mine[: len(record.heard)], (seed, client)
                if client == current.client:
                    assert sent == kept and record.heard == mine, (seed, client)
                else:
                    # what a session that is over had taken is a part of it, in order; drops it may not have heard of
                    rest = iter(record.sent)
                    assert all(digest in rest for digest in sent), (seed, client)
    report = check(run.rows, [Boundary.CLIENTS])
    broken = {label: each.violation for label, each in report.verdicts.items() if each.violation is not None}
    assert not broken, (seed, broken)
    assert not run.world.refused


def test_the_faults_are_met() -> None:
    """The runs above would prove little if nothing broke in them."""
    notices = []
    for seed in range(4):
        run = Run(seed)
        run.play()
        notices += [notice for apps in run.apps.values() for app in apps for notice in app.notices]
    resumed = [each for each in notices if isinstance(each, Reconnected)]
    assert len(resumed) >= 10 and len([each for each in notices if isinstance(each, Broken)]) > len(resumed)


def test_a_run_repeats_itself() -> None:
    first, second = Run(3), Run(3)
    for run in (first, second):
        run.play()
    assert first.rows == second.rows
