"""Memberships in a small world, for tests: sites as text, talkers above them, what each heard, and the verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from isotone.core.contract import Action, Address, Event
from isotone.core.ids import DaemonViewId
from isotone.core.services import Service
from isotone.core.views import DaemonView
from isotone.evs.boundary import DeliverDaemonView, DeliverSignal, DeliverUnits, Submitted
from isotone.evs.membership import KnownDaemon, LinkPlan, Membership, MembershipSettings, State
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.process import Boot
from isotone.sim.world import World
from isotone.spec.check import check
from isotone.trace.events import Ended, Row, Stabilised

SECOND = 1_000_000
LABEL = "membership"


class TalkDue(Event, frozen=True, gc=False):
    """The talker shall submit drafts of this service."""

    service: Service
    lengths: tuple[int, ...] = (20,)
    session: str = "s"


class Talker:
    """A membership, and above it somebody who talks and listens."""

    periodic_timers = Membership.periodic_timers

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self.views: list[DaemonView] = []
        self.signals: list[DeliverSignal] = []
        self.heard: list[tuple[DaemonViewId, str, bytes]] = []  # view, sender, body
        self._spoken = 0

    def handle(self, event: Event) -> list[Action]:
        """Take one event."""
        if isinstance(event, TalkDue):
            event = Submitted(event.at, [self._draft(event, length) for length in event.lengths])
        out: list[Action] = []
        for action in self.membership.handle(event):
            match action:
                case DeliverDaemonView(view=view):
                    self.views.append(view)
                case DeliverSignal():
                    assert action.view == self.views[-1].id
                    self.signals.append(action)
                case DeliverUnits(units=units):
                    self._hear(units)
                case _:
                    out.append(action)
        return out

    def _draft(self, event: TalkDue, length: int) -> Draft:
        self._spoken += 1
        text = f"{self.membership.node.me}/{self._spoken}/{event.service.name}/".encode()
        body = (text * (length // len(text) + 1))[: max(length, len(text))]
        return Draft(event.session, UnitKind.BUNDLE, event.service, body)

    def _hear(self, units: Iterable[Unit]) -> None:
        view = self.views[-1]
        for unit in units:
            sender = view.members[unit.daemon]
            body = bytes(unit.body)
            assert body.startswith(str(sender).encode()), (sender, body[:30])
            self.heard.append((view.id, str(sender), body))


class Cluster:
    """``sites`` as in "ab c d": one word per site, one letter per daemon."""

    def __init__(
        self,
        sites: str,
        *,
        seed: int | str = 1,
        settings: MembershipSettings | None = None,
        network: NetworkSettings | None = None,
        links: tuple[LinkPlan, ...] = (),
        start: bool = True,
        known: bool = True,
        record_network: bool = True,
    ) -> None:
        words = sites.split()
        self.home = {letter: word for word in words for letter in word}
        self.names = list(self.home)
        base = settings or MembershipSettings()
        named = tuple(KnownDaemon(name, self.home[name], Address(f"{name}.1")) for name in self.names)
        transport = msgspec.structs.replace(base.transport, record_network=record_network)
        self.settings = msgspec.structs.replace(base, known=named if known else (), links=links, transport=transport)
        self.own: dict[str, MembershipSettings] = {}  # where one daemon has other settings
        self.identities: dict[str, str] = {}
        self.rows: list[Row] = []
        quiet = NetworkSettings(lan=LinkSettings(jitter_us=20), wan=LinkSettings(latency_us=10_000, jitter_us=500))
        self.world = World(seed=seed, network=network or quiet, sink=self.rows.append)
        for name in self.names:
            self.world.add_process(name, self._program, site=self.home[name], start=start)

    def _program(self, boot: Boot) -> dict[str, Talker]:
        name = boot.daemon.name
        identity = blake2b(self.identities.get(name, name).encode(), digest_size=16).digest()
        membership = Membership(
            me=boot.daemon,
            identity=identity,
            site=boot.site,
            address=boot.address,
            settings=self.own.get(name, self.settings),
        )
        return {LABEL: Talker(membership)}

    # --- looking ---------------------------------------------------------------------------------------------------

    def talker(self, name: str) -> Talker:
        talker = self.world.automaton(name, LABEL)
        assert isinstance(talker, Talker)
        return talker

    def membership(self, name: str) -> Membership:
        return self.talker(name).membership

    @property
    def up(self) -> list[str]:
        return [name for name in self.names if self.world.is_up(name)]

    def view(self, name: str) -> str:
        """The names of the members of the daemon view of this daemon, if it works."""
        membership = self.membership(name)
        if membership.state not in (State.OP, State.GATHER) or membership.node.network is None:
            return "?"
        return "".join(member.name for member in membership.members)

    def views(self) -> dict[str, str]:
        return {name: self.view(name) for name in self.up}

    def is_together(self, *names: str) -> bool:
        """Whether exactly these are in one daemon view, which works at all of them."""
        wanted = "".join(sorted(names or self.up))
        ids = {self.membership(name).view for name in names or self.up}
        return all(self.view(name) == wanted for name in names or self.up) and len(ids) == 1

    # --- doing -----------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.world.run_for(int(seconds * SECOND))

    def run_until_together(self, *names: str, limit: float = 30) -> float:
        """Seconds until these are in one daemon view; fails when the limit passes."""
        began = self.world.now
        while not self.is_together(*names):
            assert self.world.now - began < limit * SECOND, self.explain()
            self.world.run_for(10_000)
        return (self.world.now - began) / SECOND

    def explain(self) -> str:
        lines = []
        for name in self.up:
            standing = self.membership(name).standing(self.world.clock(name))
            lines.append(
                f"{name}: {self.view(name)} {standing.state.name} {standing.reason.name} "
                f"waits {standing.waiting_for} {self.membership(name).node.culprit} "
                f"excl {[(e.daemon, e.evidence) for e in standing.exclusions]}"
            )
        return "\n".join(lines)

    def talk(self, name: str, service: Service = Service.AGREED, *lengths: int) -> None:
        self.world.tell(name, LABEL, TalkDue(0, service, lengths or (20,)))

    def settle(self, limit: float = 60) -> bool:
        """Stabilise and run until nothing more is to happen."""
        self.world.record("", Stabilised(self.world.components()))
        quiet = self._run_until_idle(limit)
        self.world.record("", Ended(quiet))
        return quiet

    def _run_until_idle(self, limit: float) -> bool:
        """Probes are always under way, so nothing is awaited but that nobody has anything to do for a while."""
        end, calm = self.world.now + int(limit * SECOND), 0
        while calm < 50 and self.world.now < end:
            self.world.run_for(10_000)
            calm = calm + 1 if self._is_idle() else 0
        return calm >= 50

    def _is_idle(self) -> bool:
        for name in self.up:
            node = self.membership(name).node
            if node.network is None or not node.network.installed or node.waiting:
                return False
            transport = node.network.transport
            if transport.delivery.kept_bytes or transport.stamper.waiting_bytes or transport.delivery.undelivered():
                return False
        return True

    def violations(self) -> dict[str, str]:
        report = check(self.rows)
        return {label: each.violation.explanation for label, each in report.verdicts.items() if each.violation}
