"""A daemon view in which everything that is said is true, that ends anywhere, and what its daemons deliver at the end.

Daemons of several sites stamp, receive in any order and tell true lines; then nothing arrives any more. In rounds,
those who have not installed a next view are parted into components; each exchanges holdings and resends. An attempt may
end before all have everything, before all have committed, or when only some have installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from isotone.core.choice import Choice
from isotone.core.services import Service
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.holding import Holding
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.recovery import Recovery
from isotone.evs.ordering.stamper import Draft, Stamper
from isotone.evs.ordering.units import Unit, UnitKind, decode_unit, encode_unit

Id = tuple[int, int]
"""Site and sequence."""

Said = Callable[["Member"], list[Unit]]

RELIABLE_SERVICES = [Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE]


def id_of(unit: Unit) -> Id:
    return (unit.site, unit.sequence)


@dataclass
class Site:
    sequence: int = 0
    lamport: int = 0


@dataclass
class Member:
    index: int
    site: int
    delivery: Delivery
    stamper: Stamper
    inbox: list[Said] = field(default_factory=list)
    log: list[Unit] = field(default_factory=list)  # delivered, in order; metadata left out
    orderly: float = 0.6  # how much of what comes, comes in order
    deaf: frozenset[int] = frozenset()
    before: int = 0  # how many of them stand before the signal
    together: frozenset[int] = frozenset()  # who installed the next view, or could have, with this one
    committed: frozenset[int] = frozenset()
    has_installed: bool = False
    recovery: Recovery | None = None

    def deliver(self, units: list[Unit]) -> None:
        self.log += [unit for unit in units if unit.kind is not UnitKind.PRUNED]

    @property
    def ids(self) -> list[Id]:
        return [id_of(unit) for unit in self.log]


@dataclass
class World:
    choice: Choice
    sites: list[Site]
    members: list[Member]
    prunes: bool = False
    units: dict[Id, Unit] = field(default_factory=dict)
    past: dict[Id, frozenset[Id]] = field(default_factory=dict)
    session: dict[Id, str] = field(default_factory=dict)
    wanted: dict[Id, frozenset[int]] = field(default_factory=dict)  # the sites that get content
    attempt: Callable[[World, list[Member], bool], Attempt] = field(default_factory=lambda: Attempt)

    # --- the view --------------------------------------------------------------------------------------------------

    def live(self, steps: int) -> None:
        """Towards the end, some hear nothing any more of some."""
        for step in range(steps):
            if step == steps // 2:
                self.deafen()
            member = self.choice.pick(self.members)
            if self.choice.chance(0.3):
                self.send(member)
            elif self.choice.chance(0.15):
                self.tell(self.choice.below(len(self.sites)))
            else:
                for _ in range(min(len(member.inbox), self.choice.between(1, 6))):
                    self.hear(member)

    def deafen(self) -> None:
        share = self.choice.pick([0.0, 0.2, 0.5])
        for member in self.members:
            sites = [site for site in range(len(self.sites)) if site != member.site and self.choice.chance(share)]
            others = [other for other in self.members if other is not member]
            lost = [other.index for other in others if other.site in sites or self.choice.chance(share / 4)]
            member.orderly = self.choice.pick([0.6, 0.9, 1.0])
            member.deaf = frozenset(lost)

    def hear(self, member: Member) -> None:
        place = 0 if self.choice.chance(member.orderly) else self.choice.below(len(member.inbox))
        member.deliver(member.inbox.pop(place)(member))

    def visit(self, member: Member, drafts: list[Draft]) -> list[Unit]:
        site = self.sites[member.site]
        member.stamper.submit(drafts)
        done = member.stamper.originate(site_sequence=site.sequence, site_lamport=site.lamport, bytes_max=1 << 30)
        site.sequence, site.lamport = done.site_sequence, done.site_lamport
        return member.stamper.take_born()

    def send(self, member: Member) -> None:
        session = f"{member.index}/{self.choice.below(2)}"
        services = [self.choice.pick(RELIABLE_SERVICES) for _ in range(self.choice.between(1, 2))]
        drafts = [Draft(session, UnitKind.BUNDLE, service, b"x") for service in services]
        if self.choice.chance(0.2):
            drafts[-1] = Draft(session, UnitKind.GROUPS, Service.SAFE, b"x")  # a cut
        known = member.ids  # all were stamped before any of them was delivered
        for unit in self.visit(member, drafts):
            mine = {other for other, name in self.session.items() if name == session}
            me = id_of(unit)
            self.past[me] = frozenset(known) | mine
            self.units[me], self.session[me] = unit, session
            every = range(len(self.sites))
            some = frozenset(site for site in every if site == member.site or self.choice.chance(0.6))
            self.wanted[me] = some if self.prunes and not unit.is_cut else frozenset(every)
            for other in self.members:
                if other is not member and member.index not in other.deaf:
                    shown = unit if other.site in self.wanted[me] else unit.pruned()
                    other.inbox.append(self.arrival(shown))
            member.deliver(member.delivery.take([unit]))

    @staticmethod
    def arrival(unit: Unit) -> Said:
        def hear(member: Member) -> list[Unit]:
            member.stamper.seen([unit])
            return member.delivery.take([unit])

        return hear

    def tell(self, site: int) -> None:
        """A promise, a report, and perhaps a clearance of a site; all true."""
        there = [member for member in self.members if member.site == site]
        self.visit(there[0], [])
        sequence, lamport = there[0].stamper.promise
        line = min(member.delivery.lines.agreed for member in there)
        heard = there[0].delivery.lines.heard

        def hear(member: Member) -> list[Unit]:
            lines = member.delivery.lines
            member.stamper.lamport = max(member.stamper.lamport, lamport)
            lines.sites[site].promise(sequence, lamport)
            lines.report(site, line, sequence=sequence)
            lines.sites[site].clear(heard, ())
            return member.delivery.lines_moved()

        for member in self.members:
            if member.site == site and self.choice.chance(0.5):
                member.deliver(hear(member))
            elif there[0].index not in member.deaf:
                member.inbox.append(hear)

    # --- its end ---------------------------------------------------------------------------------------------------

    def end(self) -> None:
        for member in self.members:
            member.recovery = Recovery(member.delivery, me=member.index, lamport=member.stamper.lamport)
            member.committed = frozenset([member.index])

    def parted(self, members: list[Member]) -> list[list[Member]]:
        parts: list[list[Member]] = [[] for _ in range(self.choice.between(1, 3))]
        for member in members:
            self.choice.pick(parts).append(member)
        return [part for part in parts if part]

    def recover(self, rounds: int) -> None:
        for number in range(rounds):
            waiting = [member for member in self.members if not member.has_installed]
            for part in self.parted(waiting):
                self.attempt(self, part, number == rounds - 1).run()


@dataclass
class Attempt:
    world: World
    part: list[Member]
    is_last: bool

    def run(self) -> None:
        choice = self.world.choice
        holdings = {member.index: over_the_wire(recovery_of(member).holding()) for member in self.part}
        together = frozenset(holdings)
        commits = together.union(*(member.committed for member in self.part))
        sent = [unit for member in self.part for unit in self.begin(member, holdings)]
        for member in self.part:
            self.exchange(member, sent)
        ready = [member for member in self.part if recovery_of(member).is_complete]
        for member in ready:
            if self.is_last or choice.chance(0.8):
                self.commit(member)
                member.committed = commits
        if any(member.committed != commits or member not in ready for member in self.part):
            assert not self.is_last, "not everything came"
            return
        for member in self.part:
            member.together = together
            if self.is_last or choice.chance(0.6):
                self.install(member, commits)

    def begin(self, member: Member, holdings: dict[int, Holding]) -> list[Unit]:
        return recovery_of(member).begin(holdings)

    def commit(self, member: Member) -> None:
        recovery_of(member).commit()

    def exchange(self, member: Member, sent: list[Unit]) -> None:
        choice = self.world.choice
        units = [over_the_wire_too(self.world, unit) for unit in sent]
        choice.shuffle(units)
        if not self.is_last and choice.chance(0.2):
            units = units[: choice.below(len(units) + 1)]
        recovery_of(member).take(units)

    def install(self, member: Member, commits: frozenset[int]) -> None:
        concluded = recovery_of(member).conclude(commits)
        member.deliver(concluded.before)
        member.before = len(member.log)
        member.deliver(concluded.after)
        member.has_installed = True


def recovery_of(member: Member) -> Recovery:
    assert member.recovery is not None
    return member.recovery


def over_the_wire(holding: Holding) -> Holding:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(holding), type=Holding)


def over_the_wire_too(world: World, unit: Unit) -> Unit:
    header, body = encode_unit(unit)
    return decode_unit(memoryview(header + bytes(body)), sites=len(world.sites), daemons=len(world.members))


def grown(seed: int | str, *, steps: int = 90, prunes: bool = False) -> World:
    """A view, from its first unit to the end."""
    world = frozen(seed, steps=steps, prunes=prunes)
    world.recover(world.choice.between(1, 3))
    return world


def frozen(seed: int | str, *, steps: int = 90, prunes: bool = False) -> World:
    """A view that has just ended."""
    choice = Choice(f"recovery/{seed}")
    count = choice.between(1, 3)
    where = sorted([*range(count), *(choice.below(count) for _ in range(choice.between(1, 3)))])
    members = []
    for index, site in enumerate(where):
        delivery = Delivery(Lines.of(count))
        members.append(Member(index, site, delivery, Stamper(site, index, delivery, window_bytes=1 << 30)))
    world = World(choice, [Site() for _ in range(count)], members, prunes)
    world.live(steps)
    world.end()
    return world


class HalfInstalled(Attempt):
    """All commit, the first alone installs."""

    def install(self, member: Member, commits: frozenset[int]) -> None:
        if member is self.part[0]:
            super().install(member, commits)


def cascaded(seed: int | str, *, steps: int = 60, prunes: bool = False) -> World:
    """Two commit to each other, one of them installs, the other comes to a third; everyone else is alone."""
    world = frozen(seed, steps=steps, prunes=prunes)
    order = list(world.members)
    world.choice.shuffle(order)
    HalfInstalled(world, order[:2], is_last=True).run()
    Attempt(world, order[1:3], is_last=True).run()
    for member in order[3:]:
        Attempt(world, [member], is_last=True).run()
    return world
