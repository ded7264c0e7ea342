"""The stack "full" of the system ``evs``: our own daemons from the packets up, with clients at boundary B4.

Everything happens to them: partitions, one-way and non-transitive cuts, crashes, restarts at other addresses, pauses,
slow disks, broken sessions; and while faults last, packets get lost, late, doubled and out of order as the seed
draws it. On some seeds clients live in processes of their own and reach their daemons over streams. After the heal one
daemon view is demanded that stays, and everything delivered; on some seeds single links stay cut before that until
daemon views rest.

Implements: [Spread 2, 3, 4, 5, 6], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Address, Automaton
from isotone.core.ids import Stamp
from isotone.detector.bounds import Conditions
from isotone.evs.explain import why_excluded, why_no_view, why_not_delivered
from isotone.evs.groups import State as GroupState
from isotone.evs.membership import KnownDaemon, LinkPlan, MembershipSettings, State
from isotone.evs.membership.bounds import times_of
from isotone.evs.membership.settings import PATIENT_RING
from isotone.evs.overlay.topology import LinkProtocol
from isotone.evs.sessions.server import ServerSessions
from isotone.evs.stack import Stack, StackSettings
from isotone.evs.transport import TransportSettings
from isotone.sim.evs_clients import Clients, Session
from isotone.sim.evs_nodes import CLIENTS, EvsNodes
from isotone.sim.faults import Cut
from isotone.sim.limits import Limits
from isotone.sim.links import LinkSettings
from isotone.sim.plan import Plan, Step
from isotone.sim.process import SERVICE_LABEL, Boot
from isotone.sim.remote_clients import RemoteClients
from isotone.sim.rest import Rest, draw_lasting_cuts, draw_walls
from isotone.sim.world import World
from isotone.spec.bounds import BoundReport
from isotone.spec.membership_bounds import MERGE

FULL = "full"
FULL_FAMILIES = ("partition", "cut", "crash", "pause", "kill", "move", "disk", "cascade", "blink")
CALM_NEAR = LinkSettings(latency_us=200, jitter_us=100)
CALM_FAR = LinkSettings(latency_us=10_000, jitter_us=2_000)


def full_live_within_us(plan: Plan, *, one_way: bool = False) -> int:
    """The bound of a merge, for the worst that the weather taught the detectors before the heal."""
    worst = Conditions(
        peers=max(1, len(plan.topology.nodes) - 1),
        round_trip_us=250_000,
        variation_us=120_000,
        lost_ppm=300_000,
        lateness_us=1_000,
    )
    return MERGE.function(times_of(MembershipSettings(), worst, one_way=one_way, gateways=True))


class FullRun(EvsNodes):
    """The nodes of a plan, each a daemon with its clients."""

    def __init__(self, world: World, plan: Plan, limits: Limits | None = None) -> None:
        super().__init__(world, plan)
        self._limits = limits or Limits()
        choice = Choice(f"full/{plan.seed}")
        self._site_of = {node.name: node.site for node in plan.topology.nodes}
        self._remote = RemoteClients(world, plan)
        self._settings = self._draw_settings(choice.derive("settings"))
        self._written: dict[Address, StackSettings] = {}  # by the address of the daemon that reads them
        for node in plan.topology.nodes:
            world.add_process(node.name, self._program, site=node.site)
        self._remote.settle_in(plan)
        self._draw_weather(choice.derive("weather"))
        self._rest = Rest(world, self._site_of)
        self._walls = draw_walls(choice.derive("walls"), self._site_of)
        self._raise_walls()
        cut = any(isinstance(fault, Cut) for fault in plan.faults)
        self._lasting_cuts = draw_lasting_cuts(choice.derive("cuts"), self._names) if cut else ()
        self._rest_within_us = full_live_within_us(plan, one_way=True)
        self._restless: list[str] = []  # what was wrong while cuts lasted

    def _program(self, boot: Boot) -> dict[str, Automaton]:
        secret = boot.choice.derive("sessions").word().to_bytes(8, "big") * 2
        boot.players.update(dict.fromkeys(self._remote.names(boot.daemon.name), SERVICE_LABEL))
        stack = Stack(
            me=boot.daemon,
            identity=blake2b(boot.daemon.name.encode(), digest_size=16).digest(),
            site=boot.site,
            address=boot.address,
            settings=self._settings_at(boot.address),
            sessions=ServerSessions(boot.daemon, secret=secret, settings=self._remote.terms.server),
        )
        return {SERVICE_LABEL: stack, CLIENTS: Clients(boot.daemon)}

    def _settings_at(self, address: Address) -> StackSettings:
        """As they were written when the daemon came to this address: others may have moved since.

        Whoever moves last knows where all others are; if nobody wrote that down, two that moved could never meet.
        """
        if address not in self._written:
            nodes = self._world.nodes
            places = {name: nodes[name].address if name in nodes else Address(f"{name}.1") for name in self._names}
            known = tuple(KnownDaemon(name, site, places[name]) for name, site in self._site_of.items())
            membership = msgspec.structs.replace(self._settings.membership, known=known)
            self._written[address] = msgspec.structs.replace(self._settings, membership=membership)
        return self._written[address]

    # --- faults and steps: clients elsewhere stand on the side of their daemon --------------------------------------

    def partition(self, sides: Sequence[Sequence[str]]) -> None:
        """Cut the network into these sides."""
        super().partition([self._remote.beside(side) for side in sides])

    def heal(self) -> None:
        """End partitions and cuts; what the network never lets through it does not let through now."""
        super().heal()
        self._raise_walls()

    def _raise_walls(self) -> None:
        for one, other in self._walls:
            self._world.cut(one, other, one_way=False)

    def restart(self, node: str, *, elsewhere: bool = False) -> None:
        """Start it again."""
        super().restart(node, elsewhere=elsewhere)
        self._remote.moved(node)

    def kill_client(self, node: str, client: str) -> None:
        """Break a session off, or end the client's process."""
        if not self._remote.kill(node, client):
            super().kill_client(node, client)

    def play(self, step: Step) -> None:
        """Tell a client what to do."""
        if not self._remote.play(step):
            super().play(step)

    # --- what the seed draws ---------------------------------------------------------------------------------------

    def _draw_settings(self, choice: Choice) -> StackSettings:
        waiting = choice.derive("waiting").pick((4_096, 4_096, 4)) * 1024  # clients elsewhere feel it as lack of credit
        window = choice.derive("window").pick((16_384, 16_384, 64)) * 1024  # of which a large message is a good part
        transport = TransportSettings(
            ring=PATIENT_RING, record_network=True, waiting_bytes_max=waiting, site_window_bytes=window
        )
        links = self._draw_links(choice)
        membership = MembershipSettings(links=links, transport=transport, waiting_bytes_max=waiting)
        pruning = choice.chance(0.7)
        settings: StackSettings = self._limits.changed(StackSettings(membership=membership, pruning=pruning))
        return settings

    def _draw_links(self, choice: Choice) -> tuple[LinkPlan, ...]:
        sites = sorted(set(self._site_of.values()))
        return tuple(
            LinkPlan(a=a, b=b, protocol=LinkProtocol.TCP if choice.chance(0.3) else LinkProtocol.HOP)
            for place, a in enumerate(sites)
            for b in sites[place + 1 :]
        )

    def _draw_weather(self, choice: Choice) -> None:
        """Loss on some runs only: most faults are better seen in clear air."""
        loss = choice.pick((0.0, 0.0, 0.01, 0.05, 0.15))
        bandwidth = choice.derive("bandwidth").pick((0, 0, 500_000))  # a large message then takes as long as a change
        for source, target in self._pairs():
            latency = self._calm(source, target).latency_us * choice.pick((1, 1, 2, 4))
            self._world.network.link(source, target).change(
                LinkSettings(
                    latency_us=latency,
                    jitter_us=latency // choice.pick((2, 4, 10)),
                    bandwidth_bytes_per_second=bandwidth,
                    loss=loss * choice.pick((0.5, 1.0)),
                    burst_begin=choice.pick((0.0, 0.0, 0.005)) if loss else 0.0,
                    reorder=choice.pick((0.0, 0.0, 0.1)),
                    reorder_us=latency * choice.pick((1, 3)),
                    duplicate=choice.pick((0.0, 0.0, 0.1)),
                )
            )

    def _pairs(self) -> list[tuple[str, str]]:
        return [(source, target) for source in self._names for target in self._names if source != target]

    def _calm(self, source: str, target: str) -> LinkSettings:
        return CALM_NEAR if self._site_of[source] == self._site_of[target] else CALM_FAR

    # --- the end ---------------------------------------------------------------------------------------------------

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """Everything is mended, the weather too; on some seeds single links last, until daemon views rest."""
        self._clear_weather()
        for name in self._names:
            self.slow_disk(name, None)
        self._remote.calm()
        components = super().stabilise()
        if self._lasting_cuts:
            for source, target, one_way in self._lasting_cuts:
                self.cut(source, target, one_way=one_way)
            self._restless = self._rest.unrest_within(self._rest_within_us)
            self._world.reports.append(BoundReport("rest", self._rest.rested_after_us, self._rest_within_us))
            self.heal()
        return components

    def _clear_weather(self) -> None:
        for source, target in self._pairs():
            self._world.network.link(source, target).change(self._calm(source, target))

    def settled(self) -> bool | None:
        """One daemon view of all, nothing under way, and every client where it wants to be."""
        return not self._remote.missing() and not self._unsettled() and not super().live()

    def live(self) -> list[str]:
        """Besides what clients want: one daemon view that stays, and nothing kept from anybody; all of it explained."""
        missing = [*super().live(), *self._remote.missing(), *self._unsettled(), *self._restless]
        missing = missing or self._rest.unrest_from_now()
        return [*missing, *self._explained()] if missing else []

    def _explained(self) -> list[str]:
        """What each daemon says itself: why there is no view, who is not in it, what its first message needs."""
        said = []
        for name in self._names:
            stack, at = self._stack(name), self._world.clock(name)
            members = [member.name for member in stack.membership.members]
            said.append(why_no_view(stack, at).text)
            said += [why_excluded(stack, other, at).text for other in self._names if other not in members]
            said += [why_not_delivered(stack, stamp, at).text for stamp in _first_kept(stack)]
        return said

    def _unsettled(self) -> list[str]:
        missing = []
        everybody = set(self._names)
        for name in self._names:
            stack = self._stack(name)
            members = {member.name for member in stack.membership.members}
            if stack.membership.state is not State.OP or members != everybody:
                missing.append(f"{name} is in {stack.membership.state.name} with {', '.join(sorted(members))}")
            elif stack.groups.state is not GroupState.GOP:
                missing.append(f"{name} still gathers groups: {stack.groups.state.name}")
            elif stack.groups.waiting_bytes or not _is_idle(stack):
                missing.append(f"{name} has units that are not everywhere")
            elif stack.sessions is not None and stack.sessions.sessions != self._remote.count(name):
                missing.append(f"{name} has {stack.sessions.sessions} sessions of clients elsewhere")
        return missing

    def _sessions(self) -> list[Session]:
        return [*super()._sessions(), *self._remote.sessions()]

    def choices(self) -> Mapping[str, int]:
        """Why states were entered, what befell sessions, and which bounds were reached that are drawn small."""
        counted = self._remote.notices()
        for name in self._names:
            if self._world.is_up(name):
                stack = self._stack(name)
                counted.update({reason.name: count for reason, count in stack.membership.node.entries.items()})
        counted.update({f"full {name}": count for name, count in self._limits.reached.items()})
        counted["sites connected by gateways only"] = bool(self._walls)
        return counted

    def _stack(self, name: str) -> Stack:
        stack = self._world.automaton(name, SERVICE_LABEL)
        assert isinstance(stack, Stack)
        return stack


def _is_idle(stack: Stack) -> bool:
    """Whether everything that was sent is everywhere."""
    network = stack.membership.node.network
    assert network is not None
    delivery, stamper = network.transport.delivery, network.transport.stamper
    return not delivery.kept_bytes and not stamper.waiting_bytes and not delivery.undelivered()


def _first_kept(stack: Stack) -> list[Stamp]:
    """The first message that a daemon has not delivered; if there is none, the first that it keeps for others."""
    network = stack.membership.node.network
    if network is None or not network.installed:
        return []
    delivery, members = network.transport.delivery, network.view.members
    kept = [unit for stream in delivery.streams for unit in stream.units()]
    first = delivery.undelivered()[:1] or sorted(kept, key=lambda unit: unit.position)[:1]
    return [Stamp(unit.lamport, members[unit.daemon]) for unit in first]
