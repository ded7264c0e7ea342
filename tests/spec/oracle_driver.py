"""A small world for the oracle alone: random clients, connectivity, crashes and pauses in virtual time, recorded."""

from __future__ import annotations

from heapq import heappop, heappush

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.choice import Choice
from isotone.core.contract import Action, CancelTimer, Event, SetTimer, TimerFired, TimerKey
from isotone.core.ids import ClientId, DaemonId
from isotone.core.services import Service
from isotone.spec.oracle import (
    ConnectivityChanged,
    DaemonCrashed,
    DaemonPaused,
    DaemonResumed,
    DaemonStarted,
    Oracle,
    OracleSettings,
    Stabilised,
)
from isotone.trace import events as t
from isotone.trace.boundary import entries_of_indication, entry_of_request
from isotone.trace.recorder import Recorder

SERVICES = tuple(Service)


class OracleWorld:
    """The oracle with a clock, timers, daemons and a record of everything that crosses boundary B4."""

    def __init__(self, seed: int | str, settings: OracleSettings | None = None) -> None:
        self.oracle = Oracle(Choice(f"oracle/{seed}"), settings or OracleSettings())
        self.now = 0
        self.rows: list[t.Row] = []
        self.heard: list[tuple[tuple[ClientId, ...], b4.Indication]] = []
        self.handled = 0
        self.daemons: dict[str, DaemonId] = {}
        self.paused: set[str] = set()
        self.sessions: dict[ClientId, int] = {}  # next sequence of each open session
        self.members: dict[ClientId, list[str]] = {}
        self._incarnations: dict[str, int] = {}
        self._sessions_opened = 0
        self._recorder = Recorder(self.rows.append)
        self._heap: list[tuple[int, int, TimerKey]] = []
        self._due: dict[TimerKey, int] = {}
        self._serial = 0

    # --- time ----------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[b4.Indication]:
        self.handled += 1
        heard = []
        for action in self.oracle.handle(event):
            heard += self._perform(action)
        return heard

    def _perform(self, action: Action) -> list[b4.Indication]:
        match action:
            case SetTimer(key=key, after_us=after):
                assert after >= 0
                self._serial += 1
                self._due[key] = self._serial
                heappush(self._heap, (self.now + after, self._serial, key))
            case CancelTimer(key=key):
                self._due.pop(key, None)
            case b4.Indicate(receivers=receivers, indication=indication):
                self._record_indication(receivers, indication)
                return [indication]
            case _:
                raise AssertionError(action)
        return []

    def run_until(self, when: int) -> None:
        while self._heap and self._heap[0][0] <= when:
            moment, serial, key = heappop(self._heap)
            if self._due.get(key) == serial:
                del self._due[key]
                self.now = moment
                self.handle(TimerFired(self.now, key))
        self.now = max(self.now, when)

    @property
    def is_quiet(self) -> bool:
        return not self._due

    # --- daemons and links ---------------------------------------------------------------------------------------

    def start(self, name: str) -> DaemonId:
        self._incarnations[name] = self._incarnations.get(name, 0) + 1
        daemon = self.daemons[name] = DaemonId(name, self._incarnations[name])
        self._recorder.record(name, daemon.incarnation, self.now, t.Recovered(str(daemon)))
        self.handle(DaemonStarted(self.now, daemon))
        return daemon

    def crash(self, name: str) -> None:
        daemon = self.daemons.pop(name)
        self.paused.discard(name)
        self.sessions = {client: left for client, left in self.sessions.items() if client.daemon != daemon}
        self._recorder.record(name, daemon.incarnation, self.now, t.Crashed(str(daemon)))
        self.handle(DaemonCrashed(self.now, daemon))

    def pause(self, name: str) -> None:
        self.paused.add(name)
        self.handle(DaemonPaused(self.now, self.daemons[name]))

    def resume(self, name: str) -> None:
        self.paused.discard(name)
        self.handle(DaemonResumed(self.now, self.daemons[name]))

    def connect_links(self, *components: tuple[str, ...]) -> None:
        self.handle(ConnectivityChanged(self.now, components))

    def stabilise(self, *components: tuple[str, ...]) -> None:
        self._recorder.record("", 0, self.now, t.Stabilised(components))
        self.handle(Stabilised(self.now))

    def end(self) -> bool:
        self.run_until(self.now + self.oracle._world.settings.settle_within_us)
        self._recorder.record("", 0, self.now, t.Ended(self.is_quiet))
        return self.is_quiet

    # --- clients -------------------------------------------------------------------------------------------------

    def ask(self, client: ClientId, request: b4.Request) -> list[b4.Indication]:
        """Ask and record; a refused request is not recorded, since the service did not take it."""
        place = len(self.rows)
        heard = self.handle(b4.Requested(self.now, client, request))
        entry = entry_of_request(client, request)
        if entry is not None and not any(isinstance(each, b4.Refused) for each in heard):
            later = self.rows[place:]
            del self.rows[place:]
            self._recorder._next[client.daemon.name, client.daemon.incarnation] -= len(later)
            for each in (entry, *(row.entry for row in later)):
                self._recorder.record(client.daemon.name, client.daemon.incarnation, self.now, each)
        return heard

    def connect(self, daemon: str, name: str) -> ClientId:
        self._sessions_opened += 1
        client = ClientId(self.daemons[daemon], name, self._sessions_opened)
        assert self.ask(client, b4.Connect()) == [b4.Connected()]
        self.sessions[client] = 1
        self.members[client] = []
        return client

    def disconnect(self, client: ClientId) -> None:
        del self.sessions[client]
        self.ask(client, b4.Disconnect())

    def join(self, client: ClientId, group: str) -> None:
        self.members[client].append(group)
        assert self.ask(client, b4.Join(group)) == []

    def leave(self, client: ClientId, group: str) -> None:
        self.members[client].remove(group)
        assert self.ask(client, b4.Leave(group)) == []

    def send(self, client: ClientId, service: Service, *groups: str, count: int = 1) -> int:
        first = self.sessions[client]
        bodies = [b"%d" % (first + place) for place in range(count)]
        assert self.ask(client, b4.Send(bundle_of(client, first, service, groups, bodies))) == []
        self.sessions[client] = first + count
        return first

    def _record_indication(self, receivers: tuple[ClientId, ...], indication: b4.Indication) -> None:
        daemon = receivers[0].daemon
        assert all(receiver.daemon == daemon for receiver in receivers)
        assert self.daemons.get(daemon.name) == daemon, "nothing is told at a daemon that is gone"
        assert daemon.name not in self.paused, "nothing is told at a paused daemon"
        self.heard.append((receivers, indication))
        for entry in entries_of_indication(receivers, indication):
            if not (isinstance(entry, t.Disconnected) and entry.reason == "asked for"):
                self._recorder.record(daemon.name, daemon.incarnation, self.now, entry)


# --- random runs ---------------------------------------------------------------------------------------------------


class RandomRun:
    """Draws a workload with faults from a seed and plays it on the oracle."""

    def __init__(self, seed: int | str, *, rounds: int = 400, settings: OracleSettings | None = None) -> None:
        self.choice = Choice(f"driver/{seed}")
        self.world = OracleWorld(seed, settings)
        self.rounds = rounds
        count = self.choice.between(2, 5)
        self.names = [f"d{number}" for number in range(1, count + 1)]
        self.groups = [f"g{number}" for number in range(1, self.choice.between(1, 3) + 1)]
        self.components: list[tuple[str, ...]] = [tuple(self.names)]

    def play(self) -> list[t.Row]:
        for name in self.names:
            self.world.start(name)
        for _ in range(self.rounds):
            pause = self.choice.weighted(((50, 3.0), (3_000, 2.0), (40_000, 0.4), (200_000, 0.05)))
            self.world.run_until(self.world.now + self.choice.below(pause))
            if self.choice.chance(0.05):
                self._fault()
            else:
                self._request()
        self._heal()
        for _ in range(30):
            self.world.run_until(self.world.now + self.choice.below(20_000))
            self._request()
        assert self.world.end(), "not quiet within the bound"
        return self.world.rows

    def _heal(self) -> None:
        world = self.world
        for name in self.names:
            if name not in world.daemons:
                world.start(name)
            elif name in world.paused:
                world.resume(name)
        self.components = [tuple(self.names)] if self.choice.chance(0.8) else self._sides()
        world.connect_links(*self.components)
        world.stabilise(*self.components)

    def _sides(self) -> list[tuple[str, ...]]:
        sides: list[list[str]] = [[] for _ in range(self.choice.between(1, 3))]
        for name in self.names:
            self.choice.pick(sides).append(name)
        return [tuple(side) for side in sides if side]

    def _fault(self) -> None:
        world, choice = self.world, self.choice
        kind = choice.weighted((("links", 4.0), ("crash", 2.0), ("start", 3.0), ("pause", 1.0), ("resume", 2.0)))
        up = sorted(world.daemons)
        down = sorted(set(self.names) - set(up))
        running = sorted(set(up) - world.paused)
        if kind == "links":
            self.components = self._sides()
            world.connect_links(*self.components)
        elif kind == "crash" and len(up) > 1:
            world.crash(choice.pick(up))
        elif kind == "start" and down:
            world.start(choice.pick(down))
        elif kind == "pause" and len(running) > 1:
            world.pause(choice.pick(running))
        elif kind == "resume" and world.paused:
            world.resume(choice.pick(sorted(world.paused)))

    def _request(self) -> None:
        world, choice = self.world, self.choice
        clients = sorted(client for client in world.sessions if client.daemon.name not in world.paused)
        running = sorted(set(world.daemons) - world.paused)
        if len(clients) < 3 or choice.chance(0.05):
            free = [
                (daemon, name)
                for daemon in running
                for name in ("a", "b")
                if not any(client.daemon.name == daemon and client.name == name for client in world.sessions)
            ]
            if free:
                client = world.connect(*choice.pick(free))
                for group in choice.sample(self.groups, choice.between(1, len(self.groups))):
                    world.join(client, group)
            return
        client = choice.pick(clients)
        joined = world.members[client]
        kind = choice.weighted((("send", 12.0), ("join", 0.7), ("leave", 0.5), ("disconnect", 0.3)))
        if kind == "join":
            free_groups = [group for group in self.groups if group not in joined]
            if free_groups:
                world.join(client, choice.pick(free_groups))
        elif kind == "leave" and joined:
            world.leave(client, choice.pick(joined))
        elif kind == "disconnect":
            world.disconnect(client)
        else:
            self._send(client)

    def _send(self, client: ClientId) -> None:
        choice = self.choice
        groups = choice.sample(self.groups, 1 if choice.chance(0.8) else choice.between(1, len(self.groups)))
        if choice.chance(0.05):
            groups.append(choice.pick(sorted(self.world.sessions)).private_group)
        count = 1 if choice.chance(0.8) else choice.between(2, 5)
        self.world.send(client, choice.pick(SERVICES), *groups, count=count)
