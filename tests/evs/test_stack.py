"""The composition of one daemon: whose stream it is, how B4 goes round by the shell, what sessions hear of the room."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from isotone.core import boundary as b4
from isotone.core.choice import Choice
from isotone.core.contract import (
    Action,
    Address,
    CloseStream,
    Event,
    OpenStream,
    Started,
    Stopping,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
    WriteStream,
)
from isotone.core.ids import NO_DAEMON, ClientId, DaemonId, DaemonViewId, GroupViewId
from isotone.core.services import Service
from isotone.core.views import DaemonView
from isotone.evs.groups import ChangeInterest, StateInterest, Submit
from isotone.evs.groups.messages import CODEC, HoldMessage
from isotone.evs.links.tcp import Hello, pack_hello
from isotone.evs.membership import MembershipSettings
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.overlay.interest import InterestChanged
from isotone.evs.sessions.client_session import ClientSession, Life
from isotone.evs.sessions.greeting import CLIENT_MAGIC, SERVER_MAGIC, pack_greeting
from isotone.evs.sessions.notices import GroupsHeld, SendWanted
from isotone.evs.sessions.server import ServerSessions
from isotone.evs.sessions.settings import ClientSettings, ServerSettings
from isotone.evs.sessions.table import DUE
from isotone.evs.stack import Stack, StackSettings
from isotone.evs.transport.events import DeliverUnits, InterestStated, Submitted

ME = DaemonId("d", 1)
HANDSHAKE_US = ServerSettings().handshake_us


def stack_of(waiting_bytes_max: int = 4096) -> Stack:
    """A daemon that was started and has no daemon view yet, so that what clients send waits."""
    membership = MembershipSettings(waiting_bytes_max=waiting_bytes_max, first_wait_us=1_000_000)
    stack = Stack(
        me=ME,
        identity=b"i" * 16,
        site="s",
        address=Address("d.1"),
        settings=StackSettings(membership=membership),
        sessions=ServerSessions(ME, secret=b"sixteen bytes or more"),
    )
    stack.handle(Started(0))
    return stack


def lone_stack() -> Stack:
    """A daemon in a daemon view of its own."""
    sessions = ServerSessions(ME, secret=b"sixteen bytes or more")
    stack = Stack(
        me=ME, identity=b"i" * 16, site="s", address=Address("d.1"), settings=StackSettings(), sessions=sessions
    )
    stack.handle(Started(0))
    return stack


def written(actions: list[Action], stream: int) -> bytes:
    parts = [part for each in actions if isinstance(each, WriteStream) and each.stream == stream for part in each.data]
    return b"".join(bytes(part) for part in parts)


class Shell:
    """A stack and one client of it; what is asked waits until the test carries it across."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.client = ClientSession("c", [Address("d.1")], choice=Choice("c"))
        self.asked: deque[b4.Ask] = deque()
        self.ask(b4.Connect())

    def ask(self, request: b4.Request) -> None:
        client = ClientId(NO_DAEMON, "c", 0) if isinstance(request, b4.Connect) else self.client.client
        self.to_client(b4.Requested(1, client, request))

    def send(self, size: int) -> None:
        self.to_client(SendWanted(1, Service.AGREED, ("g",), (bytes(size),)))

    def to_client(self, event: Event) -> None:
        for action in self.client.handle(event):
            match action:
                case OpenStream(stream=stream):
                    self.to_stack(StreamOpened(1, -1, Address("c.1"), True))
                    self.to_client(StreamOpened(1, stream, Address("d.1"), False))
                case WriteStream(stream=stream):
                    self.to_client(StreamWritable(1, stream))
                    self.to_stack(StreamReceived(1, -1, written([action], stream)))

    def to_stack(self, event: Event) -> None:
        for action in self.stack.handle(event):
            match action:
                case b4.Ask():
                    self.asked.append(action)
                case WriteStream(stream=-1):
                    self.to_stack(StreamWritable(1, -1))
                    self.to_client(StreamReceived(1, 0, written([action], -1)))
                case b4.Indicate(receivers=receivers, indication=indication):
                    self.to_stack(b4.Indicated(1, receivers, indication))

    def carry(self) -> list[b4.Request]:
        """All that is asked by now reaches the groups."""
        carried = list(self.asked)
        self.asked.clear()
        for each in carried:
            self.to_stack(b4.Requested(1, each.client, each.request))
        return [each.request for each in carried]


def test_a_client_is_known_by_its_first_bytes_however_they_are_cut() -> None:
    stack = stack_of()
    greeting = pack_greeting(ClientSettings().versions)
    stack.handle(StreamOpened(1, -1, Address("c.1"), True))
    out = []
    for place in range(len(greeting)):
        out += stack.handle(StreamReceived(1, -1, greeting[place : place + 1]))
    assert written(out, -1).startswith(SERVER_MAGIC)


def test_a_daemon_is_known_too_and_is_no_newcomer_of_the_sessions() -> None:
    stack = stack_of()
    hello = pack_hello(Hello("e", 7))
    stack.handle(StreamOpened(1, -1, Address("e.1"), True))
    out = stack.handle(StreamReceived(1, -1, hello[:3])) + stack.handle(StreamReceived(1, -1, hello[3:]))
    out += stack.handle(TimerFired(1 + HANDSHAKE_US, DUE))
    assert not written(out, -1) and CloseStream(-1) not in out  # it waits for the daemon view that it greets
    assert CloseStream(-1) in stack.handle(Stopping(2 + HANDSHAKE_US))


def test_who_is_neither_is_closed_and_who_says_nothing_too() -> None:
    stack = stack_of()
    stack.handle(StreamOpened(1, -1, Address("x.1"), True))
    stack.handle(StreamOpened(1, -2, Address("y.1"), True))
    assert CloseStream(-1) in stack.handle(StreamReceived(1, -1, b"GET / HTTP/1.1\r\n"))
    assert not written(stack.handle(StreamClosed(1, -1, "closed")), -1)
    assert CloseStream(-2) in stack.handle(TimerFired(1 + HANDSHAKE_US, DUE))


def test_four_bytes_say_who_it_is_and_three_do_not() -> None:
    for data, is_known in ((b"GET ", True), (b"GET", False), (CLIENT_MAGIC, False)):
        stack = stack_of()
        stack.handle(StreamOpened(1, -1, Address("x.1"), True))
        assert (CloseStream(-1) in stack.handle(StreamReceived(1, -1, data))) is is_known


def test_requests_and_indications_go_round_by_the_shell() -> None:
    shell = Shell(stack_of())
    assert shell.carry() == [b4.Connect()]
    assert shell.client.is_connected and shell.client.client == ClientId(ME, "c", 1)
    shell.ask(b4.Join("g"))
    assert [each.request for each in shell.asked] == [b4.Join("g")]
    assert shell.stack.groups.waiting_bytes == 0
    shell.carry()
    assert shell.stack.groups.waiting_bytes > 0


def test_what_finds_no_room_waits_in_the_session_until_there_is() -> None:
    shell = Shell(stack_of(waiting_bytes_max=4096))
    shell.carry()
    for _ in range(6):
        shell.send(1500)
        shell.carry()
    handed = shell.stack.groups.waiting_bytes
    assert 4096 <= handed < 2 * 4096 and shell.stack.room < 0
    shell.stack.groups.waiting_bytes = 0  # as if it had been sent
    shell.to_stack(TimerFired(1, DUE))
    assert sum(len(shell.carry()) for _ in range(3)) == 3, "one out of the reserve, then the room is known"


def test_the_room_is_not_told_while_requests_are_under_way() -> None:
    shell = Shell(stack_of(waiting_bytes_max=4096))
    shell.carry()
    for _ in range(6):
        shell.send(1500)
    first = len(shell.asked)
    assert first == 3  # the sessions counted down themselves
    shell.to_stack(b4.Requested(1, ClientId(ME, "embedded", 1), b4.Connect()))
    assert len(shell.asked) == first  # what is under way is not in the groups' count yet
    shell.carry()
    assert not shell.asked and shell.stack.room < 0


def test_requests_that_came_together_are_submitted_together() -> None:
    shell = Shell(lone_stack())
    shell.carry()
    counts: list[int] = []
    handle = shell.stack.membership.handle

    def look(event: Event) -> list[Action]:
        if isinstance(event, Submitted):
            counts.append(len(event.drafts))
        return handle(event)

    shell.stack.membership.handle = look  # type: ignore[method-assign]
    for request in (*[b4.Join(f"g{number}") for number in range(3)], b4.Leave("g9")):
        shell.ask(request)
    assert len(shell.asked) == 4
    shell.carry()
    assert counts == [3], "also when the last of them, which is refused, leads to nothing"
    shell.ask(b4.Join("alone"))
    shell.carry()
    assert counts == [3, 1] and sorted(shell.stack.groups.roster.by_name) == ["alone", "g0", "g1", "g2"]


def test_a_daemon_that_stops_says_farewell_and_disconnects_its_clients() -> None:
    shell = Shell(stack_of())
    shell.carry()
    shell.to_stack(Stopping(2))
    assert shell.client.life is Life.ENDED
    assert shell.carry() == [b4.Disconnect()]


def test_without_sessions_streams_are_those_of_daemons() -> None:
    settings = StackSettings(membership=MembershipSettings(first_wait_us=1_000_000))
    stack = Stack(me=ME, identity=b"i" * 16, site="s", address=Address("d.1"), settings=settings)
    stack.handle(Started(0))
    stack.handle(StreamOpened(1, -1, Address("c.1"), True))
    assert CloseStream(-1) in stack.handle(StreamReceived(1, -1, pack_greeting(ClientSettings().versions)))


# --- slow readers --------------------------------------------------------------------------------------------------


def among(stack: Stack, *others: DaemonId) -> list[HoldMessage]:
    """The daemon is in a view with these, as far as its groups know; what they are told of readers here from now on."""
    members = (ME, *others)
    view = DaemonView(DaemonViewId(9, ME), members, (ME,))
    stack.groups.holds.move_on(view)
    stack.groups.view, said = view, []
    state = stack.groups.holds.state

    def look(readers: Sequence[ClientId]) -> list[Submit]:
        submits = state(readers)
        for submit in submits:
            message = CODEC.decode(submit.drafts[0].body)
            assert isinstance(message, HoldMessage)
            said.append(message)
        return submits

    stack.groups.holds.state = look  # type: ignore[method-assign]
    return said


def statement(stack: Stack, daemon: DaemonId, *readers: ClientId) -> DeliverUnits:
    body = CODEC.encode(HoldMessage(tuple((reader.name, reader.session) for reader in readers)))
    place = stack.groups.view.members.index(daemon)
    return DeliverUnits([Unit(UnitKind.GROUPS, Service.FIFO, 0, place, 1, 1, 0, body, (0,))])


def test_readers_that_are_played_beside_the_sessions_are_named_to_other_daemons() -> None:
    stack, old = lone_stack(), ClientId(ME, "old", 7)
    said = among(stack, DaemonId("e", 1))
    stack.handle(GroupsHeld(1, ("g", "#old#d"), (old,)))
    stack.handle(TimerFired(2, DUE))
    assert said == [HoldMessage((("old", 7),))], "once, though the daemon looks after every event"
    stack.handle(GroupsHeld(3, ()))
    assert said == [HoldMessage((("old", 7),)), HoldMessage(())]


def test_sends_wait_for_readers_beside_the_sessions_and_for_those_elsewhere() -> None:
    shell = Shell(lone_stack())
    shell.carry()
    other = DaemonId("e", 1)
    among(shell.stack, other)
    deliver = shell.stack.groups.on_units
    far = ClientId(other, "far", 1)
    shell.stack.groups.roster.group("g", GroupViewId(DaemonViewId(9, ME)))
    shell.stack.groups.roster.add(far, shell.stack.groups.roster.by_name["g"])
    deliver(statement(shell.stack, other, far), 1)
    shell.to_stack(TimerFired(2, DUE))  # whatever happens: it is looked at after every event
    shell.send(10)
    assert not shell.asked
    shell.to_stack(GroupsHeld(3, ("g",), (ClientId(ME, "old", 7),)))
    deliver(statement(shell.stack, other), 4)
    shell.to_stack(TimerFired(5, DUE))
    assert not shell.asked, "one of them is enough"
    shell.to_stack(GroupsHeld(6, ()))
    assert [type(each.request) for each in shell.asked] == [b4.Send]


class Told:
    """In the place of the membership: it has this daemon view, and notes what it is told."""

    def __init__(self, view: DaemonViewId) -> None:
        self.node = SimpleNamespace(network=SimpleNamespace(view=SimpleNamespace(id=view)))
        self.room = 0
        self.told: list[Event] = []

    def handle(self, event: Event) -> list[Action]:
        self.told.append(event)
        return []


def test_what_groups_say_about_a_daemon_view_that_is_over_is_not_told_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over, now = DaemonViewId(1, ME), DaemonViewId(2, ME)
    stack, membership = stack_of(), Told(now)
    stack.pruning = True
    said: list[Action] = []
    for view in (over, now):
        said += [StateInterest(view, "s", ("g",)), ChangeInterest(view, "s", "h", True)]
    monkeypatch.setattr(stack, "membership", membership)
    monkeypatch.setattr(stack.groups, "handle", lambda event: said)
    stack.handle(b4.Requested(5, ClientId(ME, "a", 1), b4.Connect()))
    assert membership.told == [InterestStated(5, "s", ("g",)), InterestChanged(5, "s", "h", interested=True)]
