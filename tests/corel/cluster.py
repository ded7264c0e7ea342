"""Replicas in one process over a group service that does exactly what a test says: views, signals, order, disks.

Messages of a component stand in one list; `run` delivers them to all its members, `step` one of them. Disks are good
at once, unless a test holds them. What the replicas record becomes a trace that the checkers can judge.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from isotone.core import boundary as b4
from isotone.core.contract import (
    Action,
    Append,
    CancelTimer,
    CutHead,
    Event,
    Persist,
    Persisted,
    Record,
    SetTimer,
    Started,
    Stop,
    Storage,
    StoredLog,
    TimerFired,
)
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.views import Cause, GroupView
from isotone.corel import records as r
from isotone.corel.events import (
    AppendWanted,
    ConfigurationChanged,
    DeliverGreen,
    DeliverRed,
    DeliverWhite,
    InstallSnapshot,
    ReconfigurationAnswered,
)
from isotone.corel.message import Message
from isotone.corel.quorum import Majority, Rule
from isotone.corel.replica import Replica
from isotone.corel.settings import ReplicaSettings
from isotone.spec.check import check
from isotone.spec.verdicts import Report
from isotone.trace.corel import DiskLost
from isotone.trace.events import Ended, Row, Stabilised
from isotone.trace.recorder import Recorder

GROUP = "corel"


def identity_of(name: str, incarnation: int) -> bytes:
    """Of a log that began in this incarnation."""
    return f"{name}{incarnation}".encode()


@dataclass
class Server:
    """One replica with its disk and what its application heard."""

    name: str
    replica: Replica
    incarnation: int = 1
    first: int = 1
    log: list[bytes] = field(default_factory=list)
    held: deque[Action] = field(default_factory=deque)
    disk_held: bool = False
    timers: list[object] = field(default_factory=list)
    pauses: dict[object, int] = field(default_factory=dict)  # by timer, how long it was last set for
    green: list[bytes] = field(default_factory=list)
    red: list[bytes] = field(default_factory=list)
    white: int = 0
    installed: list[tuple[int, bytes]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    configurations: list[tuple[str, ...]] = field(default_factory=list)
    stopped: str = ""
    up: bool = True

    @property
    def queue(self) -> list[str]:
        """Names of all that is held."""
        return [str(message) for message in self.replica.ledger.queue.held]

    def at(self, place: int) -> str:
        """The name of the message at a place."""
        return str(self.replica.ledger.queue.at(place))

    @property
    def standing(self) -> str:
        """Where the replica stands."""
        return self.replica.standing.value

    @property
    def lines(self) -> tuple[int, int, int]:
        """Green, yellow, end."""
        queue = self.replica.ledger.queue
        return queue.green, queue.yellow, queue.end


class Cluster:
    """All servers."""

    def __init__(
        self,
        *names: str,
        quorum: Rule | None = None,
        checkpoint_records: int = 4_096,
        met: bool = True,
        **settings: object,
    ) -> None:
        """``met``: the founders know each other's logs already, and nothing else."""
        self.names = self.founders = names
        self._settings = settings
        self._quorum = quorum or Majority(names)
        self._checkpoint = checkpoint_records
        self.rows: list[Row] = []
        self._recorder = Recorder(self.rows.append)
        self.servers: dict[str, Server] = {}
        self._component: dict[str, str] = {}  # by server, the view it is in
        self._members: dict[str, tuple[str, ...]] = {}
        self._signalled: set[str] = set()
        self.sent: dict[str, list[tuple[str, b4.Message]]] = {}  # by view: the order
        self._cursor: dict[str, int] = {}  # by server, in the order of its view
        self._epoch = self._stamp = 0
        self.private: deque[tuple[str, b4.Message]] = deque()  # to one server alone, outside of views
        identities = tuple((name, identity_of(name, 1)) for name in sorted(names))
        for name in names:
            met_before = [r.Lived(0, identity_of(name, 1)), r.Founded(identities)]
            self.servers[name] = self._boot(name, 1, [r.encode_record(each) for each in met_before] if met else [])

    def __getitem__(self, name: str) -> Server:
        return self.servers[name]

    def _boot(self, name: str, incarnation: int, log: list[bytes], first: int = 1) -> Server:
        settings = ReplicaSettings(
            server=name,
            servers=self.founders,
            group=GROUP,
            quorum=self._quorum,
            checkpoint_records=self._checkpoint,
            **self._settings,  # type: ignore[arg-type]
        )
        replica = Replica(settings, DaemonId(f"d{name}", incarnation), identity_of(name, incarnation))
        server = Server(name, replica, incarnation, first, log)
        self.servers[name] = server
        self._tell(server, Started(0, Storage({}, {"log": StoredLog(first, tuple(log))})))
        self.indicate(server, b4.Connected())
        return server

    def configure(self, **settings: object) -> None:
        """Whoever starts from now on has these settings."""
        self._settings = self._settings | settings

    def join(self, name: str) -> Server:
        """A server that is no founder starts with an empty disk."""
        self.names = (*self.names, name)
        return self._boot(name, 1, [])

    # --- the driver ------------------------------------------------------------------------------------------------

    def view(self, *names: str, strangers: tuple[str, ...] = ()) -> None:
        """These come together in a new view; each is signalled before, if it was in one."""
        self.signal(*[name for name in names if self._component.get(name)])
        self._epoch += 1
        id = GroupViewId(DaemonViewId(self._epoch, DaemonId("d", 1)))
        key = str(id)
        self._members[key], self.sent[key] = names, []
        others = [ClientId(DaemonId("dx", 1), name, 1) for name in strangers]
        members = tuple(sorted([*others, *(self._client(name) for name in names)]))
        for name in names:
            self._component[name], self._cursor[name] = key, 0
            self._signalled.discard(name)
            self.indicate(self.servers[name], b4.View(GroupView(GROUP, id, members, (), Cause.NETWORK)))

    def signal(self, *names: str) -> None:
        """These are signalled in the view that they are in."""
        for name in names:
            if name not in self._signalled:
                self._signalled.add(name)
                epoch = int(self._component[name].partition("!")[0])
                id = GroupViewId(DaemonViewId(epoch, DaemonId("d", 1)))
                self.indicate(self.servers[name], b4.Transitional(GROUP, id))

    def append(self, name: str, *records: bytes) -> None:
        """Its application appends."""
        for record in records:
            self._tell(self.servers[name], AppendWanted(0, 0, record))

    def step(self, name: str, count: int = 1) -> None:
        """Deliver the next messages of its view to this server."""
        for _ in range(count):
            order = self.sent[self._component[name]]
            _, message = order[self._cursor[name]]
            self._cursor[name] += 1
            self.indicate(self.servers[name], message)

    def waiting(self, name: str) -> int:
        """How many messages of its view it has not been given yet."""
        view = self._component.get(name)
        return len(self.sent[view]) - self._cursor[name] if view else 0

    def run(self, *names: str) -> None:
        """Deliver everything to these servers, or to all, until nothing more is sent."""
        busy = True
        while busy:
            busy = False
            for name in names or self.names:
                while self.servers[name].up and self.waiting(name):
                    self.step(name)
                    busy = True
            busy |= self._whisper()

    def _whisper(self) -> bool:
        """Deliver what was said to one server alone."""
        told = bool(self.private)
        while self.private:
            group, message = self.private.popleft()
            for server in self.servers.values():
                client = server.replica.session.client
                if server.up and client is not None and client.private_group == group:
                    self.indicate(server, message)
        return told

    def settle(self) -> None:
        """Let the settling timers fire, and everything come to rest."""
        self.run()
        for _ in range(3):
            for server in self.servers.values():
                self._fire(server)
            self.run()

    def fire(self, name: str) -> None:
        """Let the timers of this server fire, and everything come to rest."""
        self._fire(self.servers[name])
        self.run()

    def _fire(self, server: Server) -> None:
        timers, server.timers = server.timers, []
        for key in dict.fromkeys(timers):
            if server.up:
                self._tell(server, TimerFired(0, key))  # type: ignore[arg-type]

    def hold_disk(self, name: str) -> None:
        """Writes of this server stay on their way."""
        self.servers[name].disk_held = True

    def release_disk(self, name: str) -> None:
        """They are durable now."""
        self.servers[name].disk_held = False
        self._flush(self.servers[name])

    def crash(self, name: str) -> None:
        """It is gone, and with it what was not durable."""
        self.servers[name].up = False
        self._component.pop(name, None)
        self._signalled.discard(name)

    def lose_session(self, name: str) -> None:
        """Its session is over."""
        self._component.pop(name, None)
        self._signalled.discard(name)
        self.indicate(self.servers[name], b4.Disconnected("lost"))

    def restart(self, name: str, log: list[bytes] | None = None) -> Server:
        """It comes back with what its disk has, or with this instead."""
        old = self.servers[name]
        if old.up:
            self.crash(name)
        if log is not None:
            return self._boot(name, old.incarnation + 1, log)
        return self._boot(name, old.incarnation + 1, old.log, old.first)

    def lose_disk(self, name: str, log: Iterable[bytes] = ()) -> Server:
        """It comes back under its name with an empty disk, or with a log that was restored."""
        if self.servers[name].up:
            self.crash(name)
        self._recorder.record(name, self.servers[name].incarnation, 0, DiskLost(name))
        return self.restart(name, list(log))

    def report(self, *, stable: bool = False) -> Report:
        """What the checkers say of all that was recorded."""
        rows = list(self.rows)
        if stable:
            rows += [Row("", 0, 0, 0, Stabilised((self.names,))), Row("", 0, 1, 0, Ended(True))]
        return check(rows)

    # --- effects ---------------------------------------------------------------------------------------------------

    def _client(self, name: str) -> ClientId:
        client = self.servers[name].replica.session.client
        assert client is not None
        return client

    def indicate(self, server: Server, indication: b4.Indication) -> None:
        """Its client hears this."""
        self._tell(server, b4.Indicated(0, (self._client(server.name),), indication))

    def tell(self, name: str, event: Event) -> None:
        """Its application, or its host, says this."""
        self._tell(self.servers[name], event)

    def _tell(self, server: Server, event: Event) -> None:
        server.held.extend(server.replica.handle(event))
        self._flush(server)

    def _flush(self, server: Server) -> None:
        while server.held and server.up:
            action = server.held[0]
            if isinstance(action, Persist):
                if server.disk_held:
                    return
                self._write(server, action)
                server.held.popleft()
                behind = list(server.held)
                server.held.clear()
                rest = server.replica.handle(Persisted(0, action.ticket))
                server.held.extend([*behind, *rest])
                continue
            server.held.popleft()
            self._perform(server, action)

    def _write(self, server: Server, action: Persist) -> None:
        for write in action.writes:
            if isinstance(write, Append):
                server.log.append(write.record)
            else:
                assert isinstance(write, CutHead)
                del server.log[: write.before - server.first]
                server.first = write.before

    def _perform(self, server: Server, action: Action) -> None:
        match action:
            case b4.Ask(request=b4.Disconnect()):
                self._component.pop(server.name, None)
            case b4.Ask(request=b4.Send(bundle=bundle)):
                self._stamp += 1
                message = b4.Message(bundle, Stamp(self._stamp, bundle.sender.daemon))
                if bundle.groups != (GROUP,):
                    self.private.append((bundle.groups[0], message))
                    return
                self.sent[self._component[server.name]].append((server.name, message))
            case Record(entry=entry):
                self._recorder.record(server.name, server.incarnation, 0, entry)  # type: ignore[arg-type]
            case SetTimer(key=key, after_us=after_us):
                server.timers.append(key)
                server.pauses[key] = after_us
            case CancelTimer(key=key):
                server.timers = [each for each in server.timers if each != key]
            case InstallSnapshot(position=position, state=state):
                server.installed.append((position, state))
            case ReconfigurationAnswered(accepted=accepted, reason=reason):
                server.answers.append(reason if not accepted else "accepted")
            case ConfigurationChanged(servers=servers):
                server.configurations.append(servers)
            case DeliverGreen(messages=messages):
                server.green += _records(messages)
            case DeliverRed(messages=messages):
                server.red += _records(messages)
            case DeliverWhite(position=position):
                server.white = position
            case Stop(reason=reason):
                server.stopped, server.up = reason, False


def _records(messages: tuple[Message, ...]) -> list[bytes]:
    return [record for message in messages for record in message.records]


def joined(*names: str, quorum: Rule | None = None, **settings: object) -> Cluster:
    """A cluster whose servers are all in one primary component."""
    cluster = Cluster(*names, quorum=quorum, met=False, **settings)  # type: ignore[arg-type]
    cluster.view(*names)
    cluster.run()
    return cluster
