"""A daemon's sessions and its clients in virtual time: streams that break at any byte, over a small group service."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from isotone.core import boundary as b4
from isotone.core.bundles import Bundle
from isotone.core.choice import Choice
from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    CloseStream,
    Event,
    OpenStream,
    SetTimer,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
    TimerKey,
    WriteStream,
)
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.services import Service
from isotone.core.views import Cause, GroupView
from isotone.evs.sessions.client_session import ClientSession
from isotone.evs.sessions.notices import Notice, Notify, SendWanted
from isotone.evs.sessions.server import ServerSessions
from isotone.evs.sessions.settings import ClientSettings, ServerSettings

DAEMON = DaemonId("d", 1)
HOME = Address("d.1")
SECRET = b"a secret of the daemon"


class FakeGroups:
    """Boundary B4 for the clients of one daemon: one order, views at once, nothing fails."""

    def __init__(self, daemon: DaemonId = DAEMON) -> None:
        self.daemon = daemon
        self.lamport = 0
        self.members: dict[str, list[ClientId]] = {}
        self.open: dict[ClientId, int] = {}  # the next sequence of each session
        self.asked: list[tuple[ClientId, b4.Request]] = []
        self.refuses: dict[str, str] = {}  # names that may not connect

    def handle(self, event: Event) -> list[Action]:
        return self.take(event.client, event.request) if isinstance(event, b4.Requested) else []

    def take(self, client: ClientId, request: b4.Request) -> list[Action]:
        self.asked.append((client, request))
        self.lamport += 1
        match request:
            case b4.Connect():
                if client.name in self.refuses:
                    return [b4.Indicate((client,), b4.Refused("connect", self.refuses[client.name]))]
                assert not any(each.name == client.name for each in self.open), f"{client.name} twice"
                self.open[client] = 1
                return [b4.Indicate((client,), b4.Connected())]
            case b4.Disconnect():
                self.open.pop(client, None)
                left = [group for group, members in sorted(self.members.items()) if client in members]
                return [action for group in left for action in self._leave(client, group, Cause.DISCONNECT)]
            case b4.Join(group=group):
                if client in self.members.setdefault(group, []):
                    return [b4.Indicate((client,), b4.refusal(request, "joined already"))]
                self.members[group].append(client)
                return [self._view(group, Cause.JOIN, client)]
            case b4.Leave(group=group):
                if client not in self.members.get(group, []):
                    return [b4.Indicate((client,), b4.refusal(request, "not a member"))]
                return [*self._leave(client, group, Cause.LEAVE), b4.Indicate((client,), b4.SelfLeave(group))]
            case b4.Send(bundle=bundle):
                return self._send(client, bundle)
        raise AssertionError(request)

    def _send(self, client: ClientId, bundle: Bundle) -> list[Action]:
        assert bundle.first_sequence == self.open[client], "the session sequence is dense"
        assert bundle.sender == client
        self.open[client] += bundle.count
        private = [each for each in self.open if each.private_group in bundle.groups]
        receivers = {each: None for group in bundle.groups for each in self.members.get(group, [])}
        receivers |= dict.fromkeys(private)
        message = b4.Message(bundle, Stamp(self.lamport, self.daemon))
        return [b4.Indicate(tuple(receivers), message)] if receivers else []

    def _leave(self, client: ClientId, group: str, cause: Cause) -> list[Action]:
        self.members[group].remove(client)
        return [self._view(group, cause, client)] if self.members[group] else []

    def _view(self, group: str, cause: Cause, subject: ClientId) -> b4.Indicate:
        members = tuple(sorted(self.members[group]))
        view = GroupViewId(DaemonViewId(1, self.daemon), stamp=Stamp(self.lamport, self.daemon))
        return b4.Indicate(members, b4.View(GroupView(group, view, members, members, cause, subject)))

    def bodies(self, name: str) -> list[bytes]:
        """All that clients of this name sent, in the order in which it came here."""
        bundles = self.bundles(name)
        return [bytes(body) for bundle in bundles for body in bundle.bodies()]

    def bundles(self, name: str) -> list[Bundle]:
        return [
            request.bundle for client, request in self.asked if isinstance(request, b4.Send) and client.name == name
        ]


@dataclass
class App:
    """A client process: its session, and what it heard."""

    session: ClientSession
    heard: list[b4.Indication] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    timers: dict[TimerKey, int] = field(default_factory=dict)
    dead: bool = False

    def messages(self) -> list[bytes]:
        bundles = [each.bundle for each in self.heard if isinstance(each, b4.Message)]
        return [bytes(body) for bundle in bundles for body in bundle.bodies()]

    def noticed(self, kind: type[Notice]) -> list[Notice]:
        return [each for each in self.notices if isinstance(each, kind)]


@dataclass
class Pipe:
    """One stream between a client and the daemon."""

    app: App
    near: int  # the client's number
    far: int  # the daemon's
    up: bytearray = field(default_factory=bytearray)
    down: bytearray = field(default_factory=bytearray)
    closing: bool = False  # an end closed it: it ends when all is delivered
    moved: int = 0  # bytes that were delivered, both ways
    cut_at: int | None = None  # it breaks when so many were
    stalled: bool = False  # nothing goes down: the client does not read


class Pair:
    """The world."""

    def __init__(
        self,
        *,
        server: ServerSettings | None = None,
        chunk: int = 1 << 30,
        choice: Choice | None = None,
        groups: FakeGroups | None = None,
        make_server: Callable[[], ServerSessions] | None = None,
    ) -> None:
        self.now = 1_000_000
        self.groups = groups or FakeGroups()
        self.server = make_server() if make_server else ServerSessions(DAEMON, secret=SECRET, settings=server)
        self.apps: dict[str, App] = {}
        self.pipes: dict[int, Pipe] = {}  # by the daemon's number
        self.refusing = False  # nobody listens
        self.cuts: deque[int] = deque()  # where the next streams break
        self.hold_writable = False  # the daemon's writes are not taken
        self.buffer_bytes = 0  # a write is taken when no more than this waits
        self.written: list[WriteStream] = []  # by the daemon
        self.client_writes: list[WriteStream] = []
        self._chunk = chunk
        self._choice = choice
        self._events: deque[tuple[App | None, Event]] = deque()
        self._timers: dict[TimerKey, int] = {}
        self._accepted = 0
        self._made = 0

    # --- what tests do ---------------------------------------------------------------------------------------------

    def client(self, name: str, *, settings: ClientSettings | None = None, **more: object) -> App:
        self._made += 1
        choice = Choice(f"{name} {self._made}")
        session = ClientSession(name, [HOME], choice=choice, settings=settings, **more)  # type: ignore[arg-type]
        app = self.apps[name] = App(session)
        return app

    def connect(self, name: str, **more: object) -> App:
        app = self.client(name, **more)  # type: ignore[arg-type]
        self.ask(app, b4.Connect())
        self.run()
        return app

    def ask(self, app: App, request: b4.Request) -> None:
        self.tell(app, b4.Requested(self.now, app.session.client, request))

    def send(self, app: App, *bodies: bytes, groups: tuple[str, ...] = ("g",), deadline_us: int | None = None) -> None:
        self.tell(app, SendWanted(self.now, Service.AGREED, groups, bodies, deadline_us=deadline_us))

    def tell(self, app: App, event: Event) -> None:
        """Hand an event to a client now."""
        self._perform(app, app.session.handle(event))

    def tell_server(self, event: Event) -> None:
        self._perform(None, self.server.handle(event))

    def pipe(self, app: App) -> Pipe:
        return next(pipe for pipe in reversed(self.pipes.values()) if pipe.app is app)

    def kill(self, app: App, *, silent: bool = False) -> None:
        """End a client process; its streams are reset, or go silent with its machine."""
        app.dead = True
        app.timers.clear()
        for pipe in [each for each in self.pipes.values() if each.app is app and not silent]:
            self.cut(pipe)

    def restart(self, server: ServerSessions) -> None:
        """Another incarnation of the daemon, or another daemon."""
        self.server = server
        self._timers.clear()

    def cut(self, pipe: Pipe, *, lose: bool = True) -> None:
        """Break a stream: what is on its way is lost, both ends hear of it."""
        self.pipes.pop(pipe.far, None)
        if not lose:
            self._events.append((None, StreamReceived(self.now, pipe.far, bytes(pipe.up))))
        self._events.append((pipe.app, StreamClosed(self.now, pipe.near, "reset")))
        self._events.append((None, StreamClosed(self.now, pipe.far, "reset")))

    # --- time ------------------------------------------------------------------------------------------------------

    def run(self, steps_max: int = 100_000) -> None:
        """Let everything happen that happens in this instant."""
        for _ in range(steps_max):
            if not self._step():
                return
        raise AssertionError("it does not come to rest")

    def pass_time(self, after_us: int) -> None:
        """Let time go on, timer by timer."""
        end = self.now + after_us
        while True:
            self.run()
            due = [(when, name, key) for name, key, when in self._armed() if when <= end]
            if not due:
                break
            when, name, key = min(due, key=lambda each: (each[0], str(each[1:])))
            self.now = max(self.now, when)
            app = self.apps[name] if name else None
            (app.timers if app else self._timers).pop(key)
            self._events.append((app, TimerFired(self.now, key)))
        self.now = end

    def _armed(self) -> list[tuple[str, TimerKey, int]]:
        armed = [("", key, when) for key, when in self._timers.items()]
        return armed + [(name, key, when) for name, app in self.apps.items() for key, when in app.timers.items()]

    def _step(self) -> bool:
        if self._events:
            app, event = self._events.popleft()
            if app is not None and app.dead:
                return True
            event = msgspec.structs.replace(event, at=self.now)
            self._perform(app, app.session.handle(event) if app else self.server.handle(event))
            return True
        pipes = [pipe for pipe in self.pipes.values() if pipe.up or (pipe.down and not pipe.stalled) or pipe.closing]
        if not pipes:
            return False
        pipe = self._choice.pick(pipes) if self._choice else pipes[0]
        self._carry(pipe)
        return True

    def _carry(self, pipe: Pipe) -> None:
        upward = bool(pipe.up) and (pipe.stalled or not pipe.down or not self._choice or self._choice.chance(0.5))
        queue = pipe.up if upward else pipe.down
        if queue and not (pipe.stalled and not upward):
            size = min(len(queue), self._choice.between(1, self._chunk) if self._choice else self._chunk)
            if pipe.cut_at is not None:
                size = min(size, pipe.cut_at - pipe.moved)
            data = bytes(queue[:size])
            del queue[:size]
            pipe.moved += size
            if data:
                receiver = (None, pipe.far) if upward else (pipe.app, pipe.near)
                self._events.append((receiver[0], StreamReceived(self.now, receiver[1], data)))
            self._tell_writable(pipe, upward)
            if pipe.cut_at is not None and pipe.moved >= pipe.cut_at:
                self.cut(pipe)
        elif pipe.closing and not pipe.up and (pipe.stalled or not pipe.down):
            self.pipes.pop(pipe.far, None)
            self._events.append((pipe.app, StreamClosed(self.now, pipe.near, "closed by peer")))
            self._events.append((None, StreamClosed(self.now, pipe.far, "closed by peer")))

    def _tell_writable(self, pipe: Pipe, upward: bool) -> None:
        if upward and len(pipe.up) <= self.buffer_bytes:
            self._events.append((pipe.app, StreamWritable(self.now, pipe.near)))
        elif not upward and len(pipe.down) <= self.buffer_bytes and not self.hold_writable:
            self._events.append((None, StreamWritable(self.now, pipe.far)))

    # --- actions ---------------------------------------------------------------------------------------------------

    def _perform(self, app: App | None, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case SetTimer(key=key, after_us=after_us):
                    (app.timers if app else self._timers)[key] = self.now + after_us
                case CancelTimer(key=key):
                    (app.timers if app else self._timers).pop(key, None)
                case OpenStream(stream=number):
                    assert app is not None
                    self._open(app, number)
                case WriteStream():
                    self._write(app, action)
                case CloseStream(stream=number):
                    pipe = self._find(app, number)
                    if pipe is not None:
                        pipe.closing = True
                case b4.Ask(client=client, request=request):
                    for indicate in self.groups.take(client, request):
                        assert isinstance(indicate, b4.Indicate)
                        self._events.append((None, b4.Indicated(self.now, indicate.receivers, indicate.indication)))
                case b4.Indicate(receivers=receivers, indication=indication):
                    assert app is not None and receivers == (app.session.client,)
                    app.heard.append(indication)
                case Notify(notice=notice):
                    assert app is not None
                    app.notices.append(notice)
                case _:
                    raise AssertionError(action)

    def _open(self, app: App, number: int) -> None:
        if self.refusing:
            self._events.append((app, StreamClosed(self.now, number, "connection refused")))
            return
        self._accepted -= 1
        pipe = self.pipes[self._accepted] = Pipe(app, number, self._accepted)
        pipe.cut_at = self.cuts.popleft() if self.cuts else None
        self._events.append((None, StreamOpened(self.now, pipe.far, Address(app.session.name), True)))
        self._events.append((app, StreamOpened(self.now, number, HOME, False)))

    def _write(self, app: App | None, action: WriteStream) -> None:
        (self.client_writes if app else self.written).append(action)
        pipe = self._find(app, action.stream)
        if pipe is None or pipe.closing:
            return
        queue = pipe.up if app else pipe.down
        for part in action.data:
            queue += part
        if len(queue) <= self.buffer_bytes:
            self._tell_writable(pipe, app is not None)

    def _find(self, app: App | None, number: int) -> Pipe | None:
        for pipe in self.pipes.values():
            if (pipe.app is app and pipe.near == number) if app else pipe.far == number:
                return pipe
        return None
