"""One daemon's groups under test: units, signals and daemon views by hand, what clients hear as short texts."""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.codec.bundle import encode_bundle
from isotone.core.contract import Action
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId
from isotone.core.services import Service
from isotone.core.views import DaemonView
from isotone.evs.boundary import DeliverDaemonView, DeliverSignal, DeliverUnits
from isotone.evs.groups import Groups, GroupsSettings, Submit
from isotone.evs.groups.messages import CODEC, HoldMessage, JoinMessage, KillMessage, LeaveMessage, Share, cut_shares
from isotone.evs.ordering.units import BEFORE_ALL, Position, Unit, UnitKind
from isotone.evs.overlay.topology import Site, Topology

D1, D2, D3, D4 = (DaemonId(f"d{number}", 1) for number in range(1, 5))
A1, B1 = ClientId(D1, "a", 1), ClientId(D1, "b", 1)
A2, B2 = ClientId(D2, "a", 1), ClientId(D2, "b", 1)
A3, A4 = ClientId(D3, "a", 1), ClientId(D4, "a", 1)


def view_id(epoch: int, coordinator: DaemonId = D1) -> DaemonViewId:
    return DaemonViewId(epoch, coordinator)


def short(client: ClientId) -> str:
    return f"{client.name}{client.daemon.name[1:]}"


def names(clients: tuple[ClientId, ...]) -> str:
    return " ".join(map(short, clients))


def brief(id: GroupViewId) -> str:
    """Epoch, following epoch, stamp; without what is not there."""
    text = str(id.daemon_view.epoch)
    if id.next_daemon_view.epoch:
        text += f">{id.next_daemon_view.epoch}"
    if id.stamp.daemon.name:
        text += f"@{id.stamp.lamport}{id.stamp.daemon.name}"
    return text


def text_of(action: Action) -> str:
    if not isinstance(action, b4.Indicate):
        return type(action).__name__
    who = names(action.receivers)
    match action.indication:
        case b4.View(view=view):
            subject = f" {short(view.subject)}" if view.subject else ""
            together = f" = {' + '.join(map(names, view.together))}" if view.together else ""
            sets = f"{names(view.members)} | {names(view.transitional)}"
            return f"{who}: view {view.group} {brief(view.id)} [{sets}] {view.cause.value}{subject}{together}"
        case b4.Message(bundle=bundle, stamp=stamp):
            return f"{who}: {bytes(bundle.payload).decode()} from {short(bundle.sender)} at {stamp.lamport}"
        case b4.Transitional(group=group, view=view):
            return f"{who}: signal {group} {brief(view)}"
        case b4.SelfLeave(group=group):
            return f"{who}: left {group}"
        case b4.Refused(request=request, reason=reason):
            return f"{who}: refused {request}: {reason}"
        case other:
            return f"{who}: {type(other).__name__.lower()}"


class Bench:
    """The groups of d1; every call returns what came of it as texts."""

    def __init__(self, settings: GroupsSettings | None = None, me: DaemonId = D1) -> None:
        self.groups = Groups(me, settings)
        self.lamport = 0
        self.actions: list[Action] = []
        self.sequences: dict[ClientId, int] = {}

    def _said(self, actions: list[Action]) -> list[str]:
        self.actions = actions
        return [text_of(action) for action in actions]

    # --- from below ------------------------------------------------------------------------------------------------

    def view(
        self, epoch: int, *members: DaemonId, sites: tuple[Site, ...] = (), along: tuple[DaemonId, ...] = ()
    ) -> list[str]:
        """``along`` are those who come from the same daemon view as d1, beside itself."""
        names = tuple(member.name for member in members)
        topology = Topology(sites or (Site("s", names, names[0]),), ())
        view = DaemonView(view_id(epoch), members, tuple(sorted({self.groups.me, *along})))
        return self._said(self.groups.on_daemon_view(DeliverDaemonView(view, topology, 1, 0), 0))

    def signal(self, following: int, *together: DaemonId) -> list[str]:
        signal = DeliverSignal(self.groups.view.id, view_id(following), together)
        return self._said(self.groups.on_signal(signal, 0))

    def units(self, *units: Unit) -> list[str]:
        return self._said(self.groups.on_units(DeliverUnits(units), 0))

    def unit(
        self,
        daemon: DaemonId,
        kind: UnitKind,
        service: Service,
        body: bytes,
        before: Position = BEFORE_ALL,
    ) -> Unit:
        self.lamport += 1
        place = self.groups.view.members.index(daemon)
        return Unit(kind, service, 0, place, self.lamport, self.lamport, 0, body, (), before)

    def _control(self, client: ClientId, message: JoinMessage | LeaveMessage | KillMessage) -> Unit:
        return self.unit(client.daemon, UnitKind.GROUPS, Service.SAFE, CODEC.encode(message))

    def joining(self, client: ClientId, group: str = "g") -> Unit:
        return self._control(client, JoinMessage(client.name, client.session, group))

    def leaving(self, client: ClientId, group: str = "g") -> Unit:
        return self._control(client, LeaveMessage(client.name, client.session, group))

    def killing(self, client: ClientId) -> Unit:
        return self._control(client, KillMessage(client.name, client.session))

    def holding(self, daemon: DaemonId, *readers: ClientId) -> Unit:
        """What a daemon says about its slow readers."""
        message = HoldMessage(tuple((reader.name, reader.session) for reader in readers))
        return self.unit(daemon, UnitKind.GROUPS, Service.FIFO, CODEC.encode(message))

    def sending(
        self,
        client: ClientId,
        text: str,
        service: Service = Service.AGREED,
        groups: tuple[str, ...] = ("g",),
        before: Position = BEFORE_ALL,
    ) -> Unit:
        first = self.sequences[client] = self.sequences.get(client, 0) + 1
        bundle = bundle_of(client, first, service, groups, [text.encode()])
        body = b"".join(encode_bundle(bundle, None))
        return self.unit(client.daemon, UnitKind.BUNDLE, service, body, before)

    def bringing(
        self, daemon: DaemonId, *shares: tuple[str, GroupViewId, bool, ClientId], first: DaemonId | None = None
    ) -> Unit:
        """GROUPS of a daemon, in one piece."""
        told = [Share(name, id, marked, (client,)) for name, id, marked, client in shares]
        (piece,) = cut_shares(self.groups.view.id, first or daemon, told)
        return self.unit(daemon, UnitKind.GROUPS, Service.AGREED, CODEC.encode(piece))

    def own_groups(self) -> Unit:
        """The GROUPS that this daemon submitted last, stamped."""
        (draft,) = next(action for action in self.actions if isinstance(action, Submit)).drafts
        return self.unit(self.groups.me, draft.kind, draft.service, bytes(draft.body))

    # --- from above ------------------------------------------------------------------------------------------------

    def ask(self, client: ClientId, request: b4.Request) -> list[str]:
        return self._said(self.groups.handle(b4.Requested(0, client, request)))

    def connect(self, *clients: ClientId) -> Bench:
        for client in clients:
            assert self.ask(client, b4.Connect()) == [f"{short(client)}: connected"]
        return self

    def stamp(self, text: str) -> Unit:
        """What this daemon submitted last, stamped: one draft."""
        del text
        (submit,) = [action for action in self.actions if isinstance(action, Submit)]
        (draft,) = submit.drafts
        return self.unit(self.groups.me, draft.kind, draft.service, bytes(draft.body))


def started(*clients: ClientId, members: tuple[DaemonId, ...] = (D1,), settings: GroupsSettings | None = None) -> Bench:
    """A daemon in view 1 with these members, whose groups were gathered, and with these clients connected."""
    bench = Bench(settings)
    bench.connect(*[client for client in clients if client.daemon == D1])
    bench.view(1, *members)
    if len(members) > 1:
        own = bench.own_groups()
        others = [bench.bringing(member) for member in members if member != D1]
        bench.units(own, *others)
    return bench
