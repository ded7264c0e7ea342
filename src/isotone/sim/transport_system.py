"""The stack "transport" of the system ``evs``: boundaries B1 to B3 in one stable daemon view, and what runs do to it.

One to six sites of one to eight daemons, joined by a random overlay of hop and tcp links; at most twelve daemons in all
unless the number of nodes is given. What the network does to packets (loss up to 30 %, bursts, reordering, duplication,
asymmetric delays) is drawn from the seed. Cuts and pauses are as short as links must bear; in some runs one link dies
for good, and then only safety is judged.

Some runs have groups: what is sent is for one of them, daemons join and leave them, and content is pruned. In some of
these the links between sites are slow, and one daemon sends more over them than they take, while another one of its
site sends to a group that has no members: what crosses no link shall not wait for one.

Implements: [Spread 2.2.6, 2.2.7, 3.3, 3.4.2, 4, 5], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Address
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.core.services import Service
from isotone.evs.links.ring import RingSettings
from isotone.evs.ordering.units import Unit
from isotone.evs.overlay.topology import Link, LinkProtocol, make_link, make_site, make_topology
from isotone.evs.transport import Transport, TransportSettings, TransportView
from isotone.evs.transport.settings import everybody
from isotone.sim.faults import MILLISECOND
from isotone.sim.links import LinkSettings
from isotone.sim.plan import NodePlan, Plan, Scale, Step, Topology
from isotone.sim.process import Boot
from isotone.sim.speaker_groups import Change, Contents
from isotone.sim.speakers import SPEAKER, SpeakDue, Speaker
from isotone.sim.system import RUN_ASSERT, RUN_LIVE
from isotone.sim.workload import SERVICES
from isotone.sim.world import World
from isotone.spec.properties import PROPERTIES, Boundary, Form

TRANSPORT = "transport"
SITES_MAX, SITE_DAEMONS_MAX, DAEMONS_MAX = 6, 8, 12
FAMILIES = ("cut", "pause")
LOSS_TCP_MAX = 0.03  # above it a stream stalls for longer than its link bears
DEATH = 0.12  # the share of runs in which a link dies
PRUNING = 0.5  # the share of runs of several sites with groups
CHANGES = 0.03  # of what is sent in such runs, joins and leaves
SLOW = 0.5  # of such runs, those with slow links
SLOW_RATES = (60_000, 150_000, 400_000)  # bytes in a second
FLOOD, ALONE = "flood", "alone"  # the group for which too much is sent, and the one without members
FLOOD_SENDS, FLOOD_BYTES = 40, 20_000
PROBES, PROBE_US = 40, 40 * MILLISECOND
STAMPED_WITHIN_US = 1_000_000  # what crosses no link, and is the only one of its session to wait
LAN_OUTAGE_US, WAN_OUTAGE_US = 60 * MILLISECOND, 400 * MILLISECOND
LIVE_WITHIN_US = 120_000_000
MANY_VIEWS = ("2.3", "2.4.2", "2.4.4", "2.7", "2.8.1", "2.8.2", "2.13.4", "2.14.3", "2.16", "2.19.1", "2.19.2")
"""Of EVS-S: what speaks of signals or of more than one view, and so is never at stake here."""


class TalkStep(Step, frozen=True, tag="talk"):
    """A daemon sends a bundle of messages of these lengths."""

    service: Service
    lengths: tuple[int, ...]
    group: str | None = None  # for whom; everybody if there is none
    change: Change = Change.NONE


def transport_labels() -> tuple[str, ...]:
    """Every property that one stable view can keep or break."""
    checked = [each for each in PROPERTIES if each.form is not Form.DEFINITION]
    several = [f"EVS-{number}" for number in MANY_VIEWS]
    daemons = [
        each.label(Boundary.DAEMONS)
        for each in checked
        if Boundary.DAEMONS in each.boundaries and each.id not in several
    ]
    network = [each.label(Boundary.NETWORK) for each in checked if Boundary.NETWORK in each.boundaries]
    return (*daemons, *network, RUN_ASSERT, RUN_LIVE)


# --- drawing -------------------------------------------------------------------------------------------------------


def draw_sites(choice: Choice, nodes: int | None) -> Topology:
    """Who is there; a given number of nodes is dealt out to sites."""
    left = min(nodes or DAEMONS_MAX, SITES_MAX * SITE_DAEMONS_MAX)
    sizes = [1] * choice.between(1, min(SITES_MAX, left))
    left -= len(sizes)
    while left and (nodes or choice.chance(0.8)):
        site = choice.below(len(sizes))
        if sizes[site] < SITE_DAEMONS_MAX:
            sizes[site] += 1
            left -= 1
        elif all(size == SITE_DAEMONS_MAX for size in sizes):
            sizes.append(0)
    planned = [
        NodePlan(f"d{site + 1}{chr(ord('a') + place)}", f"s{site + 1}", ())
        for site, size in enumerate(sizes)
        for place in range(size)
    ]
    groups = ("g1", "g2", "g3") if len(sizes) > 1 and choice.chance(PRUNING) else ()
    return Topology(tuple(planned), groups)


def draw_talk(choice: Choice, topology: Topology, scale: Scale) -> tuple[Step, ...]:
    """Bursts of sends, of one daemon or of several at once; a little more after everything is healed."""
    services = tuple((service, weight * choice.pick((0.3, 1.0, 2.5))) for service, weight in SERVICES)
    steps: list[Step] = []
    while len(steps) < scale.sends_min:
        begin = choice.between(0, scale.faults_end_us * 9 // 10)
        talkers = choice.sample(topology.names, choice.between(1, len(topology.names)))
        spread = choice.pick((1, 5, 40)) * MILLISECOND
        for _ in range(choice.between(1, scale.sends_min // 12)):
            step = _talk(choice, choice.pick(talkers), begin + choice.below(spread), services)
            steps.append(_addressed(choice, step, topology.groups) if topology.groups else step)
    if topology.groups and (slow := choice.derive("slow")).chance(SLOW):
        steps += _draw_flood(slow, topology, scale)
    for name in topology.names:
        steps += [
            _talk(choice, name, scale.faults_end_us + choice.below(600) * MILLISECOND, services) for _ in range(2)
        ]
    return tuple(sorted(steps, key=lambda step: step.at))


def _draw_flood(choice: Choice, topology: Topology, scale: Scale) -> list[Step]:
    """Too much from one daemon for a member at another site, and a little from its neighbour for nobody."""
    sites = {node.name: node.site for node in topology.nodes}
    shared = [name for name in topology.names if list(sites.values()).count(sites[name]) > 1]
    if not shared or len(set(sites.values())) == 1:
        return []
    flooder = choice.pick(shared)
    neighbour = choice.pick([name for name in shared if sites[name] == sites[flooder] and name != flooder])
    reader = choice.pick([name for name in topology.names if sites[name] != sites[flooder]])
    begin = choice.between(scale.faults_end_us // 10, scale.faults_end_us // 3)
    flood = TalkStep(at=begin, node=flooder, service=Service.FIFO, lengths=(FLOOD_BYTES,), group=FLOOD)
    probe = TalkStep(at=begin, node=neighbour, service=Service.RELIABLE, lengths=(20,), group=ALONE)  # heard at once
    return [
        TalkStep(at=0, node=reader, service=Service.AGREED, lengths=(10,), group=FLOOD, change=Change.JOIN),
        *[flood] * FLOOD_SENDS,
        *[msgspec.structs.replace(probe, at=begin + place * PROBE_US) for place in range(PROBES)],
    ]


def _talk(choice: Choice, node: str, at: int, services: Sequence[tuple[Service, float]]) -> TalkStep:
    count = choice.weighted(((1, 8.0), (3, 1.5), (40, 0.3)))
    lengths = tuple(
        choice.weighted(((0, 1.0), (20, 8.0), (300, 2.0), (4_000, 0.3), (50_000, 0.02))) for _ in range(count)
    )
    if sum(lengths) > 60_000:
        lengths = lengths[:1]
    return TalkStep(at=at, node=node, service=choice.weighted(services), lengths=lengths)


def _addressed(choice: Choice, step: TalkStep, groups: Sequence[str]) -> TalkStep:
    """The same to a group, or to everybody, or as a join or leave."""
    if choice.chance(CHANGES):
        change = choice.pick((Change.JOIN, Change.LEAVE))
        return msgspec.structs.replace(step, service=Service.AGREED, group=choice.pick(groups), change=change)
    return msgspec.structs.replace(step, group=choice.pick(groups)) if choice.chance(0.9) else step


def draw_overlay(choice: Choice, sites: Sequence[str], loss: float) -> list[Link]:
    """A random tree and some links more; tcp only where the loss lets a stream live."""
    links: dict[tuple[str, str], Link] = {}

    def add(one: str, other: str) -> None:
        tcp = loss <= LOSS_TCP_MAX and choice.chance(0.3)
        protocol = LinkProtocol.TCP if tcp else LinkProtocol.HOP
        links.setdefault((min(one, other), max(one, other)), make_link(one, other, choice.between(1, 9), protocol))

    for place in range(1, len(sites)):
        add(sites[place], sites[choice.below(place)])
    for _ in range(choice.between(0, 3) if len(sites) > 1 else 0):
        add(*choice.sample(sites, 2))
    return list(links.values())


def draw_weather(choice: Choice, loss: float, *, near: bool) -> LinkSettings:
    """What one direction does to packets."""
    latency = choice.between(100, 600) if near else choice.between(2_000, 60_000)
    return LinkSettings(
        latency_us=latency,
        jitter_us=latency // choice.pick((2, 4, 10)),
        loss=loss * choice.pick((0.5, 1.0)),
        burst_begin=choice.pick((0.0, 0.0, 0.005)) if loss else 0.0,
        reorder=choice.pick((0.0, 0.05, 0.2)),
        reorder_us=latency * choice.pick((1, 3)),
        duplicate=choice.pick((0.0, 0.05, 0.2)),
    )


# --- the run -------------------------------------------------------------------------------------------------------


class TransportRun:
    """Speakers in a world. Cuts and pauses end by themselves; a link that died stays dead."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._world = world
        self._names = plan.topology.names
        choice = Choice(f"transport/{plan.seed}")
        loss = choice.derive("loss").pick((0.0, 0.01, 0.03, 0.1, 0.2, 0.3))
        self._sites = {node.name: node.site for node in plan.topology.nodes}
        view = self._view(plan, choice.derive("overlay"), loss)
        self._contents = Contents() if plan.topology.groups else None
        floods = any(isinstance(step, TalkStep) and step.group == FLOOD for step in plan.steps)
        self._rate = choice.derive("slow").pick(SLOW_RATES) if floods else 0  # of links between sites; 0: any
        settings = self._settings(choice.derive("settings"))
        for node in plan.topology.nodes:
            world.add_process(node.name, partial(self._program, view, settings), site=node.site)
        self._draw_weather(choice.derive("weather"), loss)
        self._dead = self._draw_death(choice.derive("death"), view, plan)

    def _view(self, plan: Plan, choice: Choice, loss: float) -> TransportView:
        by_site: dict[str, list[str]] = {}
        for node in plan.topology.nodes:
            by_site.setdefault(node.site, []).append(node.name)
        sites = [make_site(site, daemons, choice.pick(daemons)) for site, daemons in by_site.items()]
        members = tuple(sorted(DaemonId(name, 1) for name in self._names))
        topology = make_topology(sites, draw_overlay(choice, list(by_site), loss))
        addresses = {name: Address(f"{name}.1") for name in self._names}
        return TransportView(DaemonViewId(1, members[0]), members, topology, addresses)

    def _settings(self, choice: Choice) -> TransportSettings:
        ring = RingSettings(
            late_window=choice.pick((0, 2, 200)),
            personal_window=choice.pick((5, 200)),
            token_retries_max=30,
            multicast=choice.chance(0.7),
        )
        window = choice.pick((16 * 1024, 256 * 1024, 16 * 1024 * 1024))
        if self._rate:  # what waits shall wait for the links
            window = 16 * 1024 * 1024
        peek = everybody if self._contents is None else self._contents.peek
        return TransportSettings(ring=ring, site_window_bytes=window, record_network=True, peek=peek)

    def _program(self, view: TransportView, settings: TransportSettings, boot: Boot) -> dict[str, Speaker]:
        transport = Transport(me=boot.daemon.name, view=view, settings=settings)
        return {SPEAKER: Speaker(boot.daemon, transport, view, self._witness, self._contents)}

    def _witness(self, unit: Unit) -> None:
        """What 2.14 is for, and a trace of one view cannot show: a SAFE unit is delivered when all have received it."""
        if unit.service.is_safe:
            for name in self._names:
                assert self._speaker(name).transport.delivery.has_received(unit), f"{name} lacks a SAFE unit"

    def _draw_weather(self, choice: Choice, loss: float) -> None:
        for source in self._names:
            for target in self._names:
                if source != target:
                    near = self._sites[source] == self._sites[target]
                    weather = draw_weather(choice, loss, near=near)
                    if self._rate and not near:
                        weather = msgspec.structs.replace(weather, bandwidth_bytes_per_second=self._rate)
                    self._world.network.link(source, target).change(weather)

    def _draw_death(self, choice: Choice, view: TransportView, plan: Plan) -> tuple[str, str] | None:
        if not view.topology.links or not choice.chance(DEATH):
            return None
        link = choice.pick(view.topology.links)
        pair = (view.topology.site(link.a).gateway, view.topology.site(link.b).gateway)
        self._world.at(choice.below(plan.faults_end_us), partial(self._world.cut, *pair))
        return pair

    # --- faults ----------------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str, *, one_way: bool) -> None:
        """An outage that the links between these two must bear."""
        near = self._sites[source] == self._sites[target]
        self._world.cut(source, target, one_way=one_way)
        self._world.after(LAN_OUTAGE_US if near else WAN_OUTAGE_US, partial(self._mend, source, target))

    def _mend(self, source: str, target: str) -> None:
        if self._dead is None or {source, target} != set(self._dead):
            self._world.mend(source, target)

    def pause(self, node: str) -> None:
        """A process stands still for a moment."""
        self._world.pause(node)
        self._world.after(LAN_OUTAGE_US, partial(self._world.resume, node))

    def resume(self, node: str) -> None:
        """It does so by itself."""

    def heal(self) -> None:
        """Outages end by themselves."""

    def partition(self, sides: Sequence[Sequence[str]]) -> None:
        """Not borne without membership."""

    def crash(self, node: str) -> None:
        """Not borne without membership."""

    def restart(self, node: str, *, elsewhere: bool = False) -> None:
        """Nobody is down."""

    def slow_disk(self, node: str, sync_us: int | None) -> None:
        """Nobody writes."""

    def kill_client(self, node: str, client: str) -> None:
        """There are no clients."""

    def play(self, step: Step) -> None:
        """Let a daemon talk."""
        assert isinstance(step, TalkStep)
        due = SpeakDue(
            self._world.now, step.service, step.lengths, step.group or "", step.change, is_alone=step.group == ALONE
        )
        self._world.tell(step.node, SPEAKER, due)

    @property
    def has_death(self) -> bool:
        """Whether a link dies in this run."""
        return self._dead is not None

    # --- the end ---------------------------------------------------------------------------------------------------

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """Outages are short, and the weather stays: links must live with it."""
        return self._world.components()

    def owes_progress(self) -> bool:
        """After a failed link nothing is owed but safety."""
        return not self._failed()

    def live(self) -> list[str]:
        """Everything was heard by all, and nothing is kept any more."""
        missing = []
        for name in self._names if not self._failed() else ():
            transport = self._speaker(name).transport
            if transport.delivery.kept_bytes or transport.stamper.waiting_bytes or transport.delivery.undelivered():
                missing.append(f"{name} still keeps {transport.delivery.kept_bytes} bytes")
            if (waited := self._speaker(name).waited_alone_us) > STAMPED_WITHIN_US:
                missing.append(f"{name} waited {waited} us for the stamp of a unit that crosses no link")
        return missing

    def settled(self) -> bool | None:
        """Links rest when all is done."""
        return None

    def choices(self) -> Mapping[str, int]:
        """How the run ended, for the summary."""
        failed = self._failed()
        members = [self._speaker(name).members for name in self._names]
        return {
            "link failed": bool(failed),
            "no link failed": not failed,
            "link died": self._dead is not None,
            "slow links flooded": self._rate > 0,
            "link failed by itself": bool(failed) and self._dead is None,
            "units without content": sum(each.pruned for each in members if each is not None),
        }

    def _failed(self) -> list[str]:
        return [name for name in self._names if self._speaker(name).failed]

    def _speaker(self, name: str) -> Speaker:
        speaker = self._world.automaton(name, SPEAKER)
        assert isinstance(speaker, Speaker)
        return speaker
