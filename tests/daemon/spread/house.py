"""Whole daemons with Spread's clients in a small world: real stacks, real gateways, clients written on their own."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.contract import (
    Action,
    Address,
    Automaton,
    CloseStream,
    Event,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    WriteStream,
)
from isotone.core.ids import ClientId, DaemonId
from isotone.core.services import Service
from isotone.daemon.spread import GatewaySettings, PauseReading, Remark, ResumeReading, SpreadGateway
from isotone.evs.groups import GroupsSettings
from isotone.evs.groups import State as GroupsState
from isotone.evs.membership import KnownDaemon, MembershipSettings, State
from isotone.evs.sessions.admission import Admit, admit_all
from isotone.evs.sessions.handing import Permit, permit_all
from isotone.evs.stack import Stack, StackSettings
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.process import CLIENTS_LABEL, SERVICE_LABEL, Boot
from isotone.sim.world import World
from isotone.trace.events import Row
from tests.spread_client.protocol import Received, SpreadClient

NATIVE = "native"
QUIET = NetworkSettings(lan=LinkSettings(jitter_us=20))
PEER = Address("127.0.0.1:50000")


class AskNow(Event, frozen=True):
    """A native client asks this."""

    client: ClientId
    request: b4.Request


class Native:
    """A native client in the daemon's own process."""

    def __init__(self, daemon: DaemonId, next_id: Callable[[str], ClientId]) -> None:
        self.id = next_id(NATIVE)
        self.heard: list[b4.Indication] = []
        self.sent = 0

    def handle(self, event: Event) -> list[Action]:
        match event:
            case AskNow(client=client, request=request):
                return [b4.Ask(client, request)]
            case b4.Indicated(indication=indication):
                self.heard.append(indication)
        return []


class Booth:
    """A gateway, with the far ends of its streams here: what it writes is taken at once, unless a stream is stuck."""

    def __init__(self, gateway: SpreadGateway) -> None:
        self.gateway = gateway
        self.periodic_timers = gateway.periodic_timers
        self.written: dict[int, list[bytes]] = {}  # by stream, what was not picked up yet
        self.closed: set[int] = set()
        self.paused: set[int] = set()
        self.stuck: set[int] = set()
        self.remarks: list[Remark] = []
        self.asked: list[b4.Ask] = []

    def handle(self, event: Event) -> list[Action]:
        out, events = list[Action](), [event]
        while events:
            at = events[0].at
            for action in self.gateway.handle(events.pop(0)):
                self._carry_out(action, at, events, out)
        return out

    def _carry_out(self, action: Action, at: int, events: list[Event], out: list[Action]) -> None:
        match action:
            case WriteStream(stream=stream, data=data):
                assert stream not in self.closed, "written behind the end"
                self.written.setdefault(stream, []).append(b"".join(bytes(part) for part in data))
                if stream not in self.stuck:
                    events.append(StreamWritable(at, stream))
            case CloseStream(stream=stream):
                assert stream not in self.closed, "closed twice"
                self.closed.add(stream)
            case PauseReading(stream=stream):
                self.paused.add(stream)
            case ResumeReading(stream=stream):
                self.paused.remove(stream)
            case Remark():
                self.remarks.append(action)
            case b4.Ask():
                self.asked.append(action)
                out.append(action)
            case _:
                out.append(action)


class House:
    """Daemons of these names, each with a gateway."""

    def __init__(
        self,
        *names: str,
        settings: GatewaySettings | None = None,
        admit: Admit = admit_all,
        permit: Permit = permit_all,
        check_password: Callable[[str, str], bool] | None = None,
        recorded: bool = True,
        groups: GroupsSettings | None = None,
        is_ready: bool = True,
    ) -> None:
        self.names = names or ("d1",)
        self.settings = settings or GatewaySettings()
        self.options = {"admit": admit, "permit": permit, "check_password": check_password}
        known = tuple(KnownDaemon(name, "s", Address(f"{name}.1")) for name in self.names)
        self.stack_settings = StackSettings(
            membership=MembershipSettings(known=known), groups=groups or GroupsSettings(), pruning=False
        )
        self.rows: list[Row] = []
        self.world = World(seed=1, network=QUIET, sink=self.rows.append if recorded else lambda row: None)
        self.streams = 0
        for name in self.names:
            self.world.add_process(name, self._program, site="s")
        if is_ready:
            self.until(self.is_together)

    def _program(self, boot: Boot) -> dict[str, Automaton]:
        me, given = boot.daemon, 0

        def next_id(name: str) -> ClientId:
            nonlocal given
            given += 1
            return ClientId(me, name, given)

        stack = Stack(
            me=me,
            identity=blake2b(me.name.encode(), digest_size=16).digest(),
            site=boot.site,
            address=boot.address,
            settings=self.stack_settings,
        )
        boot.players[NATIVE] = NATIVE
        gateway = SpreadGateway(
            me,
            next_id=next_id,
            settings=self.settings,
            name_in_use=lambda name: name == NATIVE,
            seed=b"s",
            **self.options,  # type: ignore[arg-type]
        )
        return {SERVICE_LABEL: stack, CLIENTS_LABEL: Booth(gateway), NATIVE: Native(me, next_id)}

    # --- looking ---------------------------------------------------------------------------------------------------

    def booth(self, name: str = "") -> Booth:
        booth = self.world.automaton(name or self.names[0], CLIENTS_LABEL)
        assert isinstance(booth, Booth)
        return booth

    def gateway(self, name: str = "") -> SpreadGateway:
        return self.booth(name).gateway

    def stack(self, name: str) -> Stack:
        stack = self.world.automaton(name, SERVICE_LABEL)
        assert isinstance(stack, Stack)
        return stack

    def is_together(self, *names: str) -> bool:
        wanted = sorted(names or self.names)
        return len({self.stack(name).membership.view for name in wanted}) == 1 and all(
            self.stack(name).membership.state is State.OP
            and self.stack(name).groups.state is GroupsState.GOP
            and [member.name for member in self.stack(name).membership.members] == wanted
            for name in wanted
        )

    # --- doing -----------------------------------------------------------------------------------------------------

    def until(self, reached: Callable[[], bool], limit_ms: int = 20_000) -> None:
        for _ in range(limit_ms // 2):
            if reached():
                return
            self.world.run_for(2_000)
        raise AssertionError("it never came to that")

    def tell(self, name: str, event: Event, label: str = CLIENTS_LABEL) -> None:
        self.world.tell(name, label, event)
        self.world.run_for(0)

    def guest(self, client: SpreadClient, daemon: str = "", peer: Address = PEER) -> Guest:
        """A stream of this client, on which nothing was written yet."""
        self.streams -= 1
        daemon = daemon or self.names[0]
        self.tell(daemon, StreamOpened(0, self.streams, peer, True))
        return Guest(self, daemon, self.streams, client)

    def connect(self, user: str, daemon: str = "", **options: object) -> Guest:
        """A client that is accepted."""
        guest = self.guest(SpreadClient(user, **options), daemon)  # type: ignore[arg-type]
        guest.write(guest.client.hello())
        self.until(lambda: guest.pull().state == "open")
        return guest

    def native(self, daemon: str = "") -> NativeGuest:
        """The native client of a daemon."""
        return NativeGuest(self, daemon or self.names[0])

    def joined(self, *users: str, group: str = "g1", **options: object) -> list[Guest]:
        """Clients that are all in one group, and have heard so."""
        guests = [self.connect(user, **options) for user in users]
        self.gather(*guests, group=group)
        return guests

    def gather(self, *guests: Guest, group: str = "g1") -> None:
        """All of them join, one after the other; everything until they are together is then seen."""
        for place, guest in enumerate(guests):
            guest.write(guest.client.join(group))
            for each in guests[: place + 1]:
                self.until(lambda each=each, others=guests[: place + 1]: each.sees(group, *others))
        for guest in guests:
            guest.seen = len(guest.client.received)


class Guest:
    """One client, its stream, and how much of what it received was looked at."""

    def __init__(self, house: House, daemon: str, stream: int, client: SpreadClient) -> None:
        self.house, self.daemon, self.stream, self.client = house, daemon, stream, client
        self.seen = 0

    @property
    def is_ended(self) -> bool:
        """Whether the daemon closed the stream."""
        return self.stream in self.house.booth(self.daemon).closed

    def write(self, data: bytes) -> None:
        self.house.tell(self.daemon, StreamReceived(0, self.stream, data))

    def pull(self) -> SpreadClient:
        """Read what was written, and answer."""
        while parts := self.house.booth(self.daemon).written.pop(self.stream, []):
            if answer := self.client.feed(b"".join(parts)):
                self.write(answer)
        return self.client

    def raw(self) -> list[bytes]:
        """What the daemon wrote since the last time, write by write."""
        return self.house.booth(self.daemon).written.pop(self.stream, [])

    def close(self) -> None:
        """As the process ended."""
        self.house.tell(self.daemon, StreamClosed(0, self.stream, "reset"))

    def sees(self, group: str, *guests: Guest) -> bool:
        """Whether all of them are in its last view of the group."""
        views = [each for each in self.pull().received if each.is_view and each.name == group]
        return bool(views) and {each.client.private_group for each in guests} <= set(views[-1].groups)

    def expect(self) -> Received:
        """The next frame."""
        self.house.until(lambda: len(self.pull().received) > self.seen)
        self.seen += 1
        return self.client.received[self.seen - 1]

    def expect_view(self) -> Received:
        received = self.expect()
        assert received.is_view, received
        return received

    def expect_nothing(self, milliseconds: int = 200) -> None:
        self.house.world.run_for(milliseconds * 1000)
        assert self.pull().received[self.seen :] == []


class NativeGuest:
    """The native client of a daemon, connected."""

    def __init__(self, house: House, daemon: str) -> None:
        self.house, self.daemon = house, daemon
        self.ask(b4.Connect())

    @property
    def automaton(self) -> Native:
        native = self.house.world.automaton(self.daemon, NATIVE)
        assert isinstance(native, Native)
        return native

    def ask(self, request: b4.Request) -> None:
        self.house.tell(self.daemon, AskNow(0, self.automaton.id, request), NATIVE)

    def send(
        self, service: Service, groups: tuple[str, ...], *bodies: bytes, types: tuple[int, ...] = (), flags: int = 0
    ) -> None:
        first = self.automaton.sent + 1
        self.automaton.sent += len(bodies)
        bundle = bundle_of(self.automaton.id, first, service, groups, bodies, types=types, flags=flags)
        self.ask(b4.Send(bundle))

    def messages(self) -> list[b4.Message]:
        return [each for each in self.automaton.heard if isinstance(each, b4.Message)]
