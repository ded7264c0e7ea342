"""[HAB Table 1]: messages and steps between two data centres for one broadcast, counted, beside the paper's formulas.

The hierarchical protocol runs on two centres of m processes, each with a local broadcast by consensus; counted is
every packet between the centres but keep-alives. CT-broadcast is the same consensus over all 2m processes as one flat
group, once without the messages that spread the decision, as 3m has it, and once with them.

Every number in ``messages`` and ``steps`` is counted or measured, never corrected towards ``formula``. They differ in
two places. The sender is the coordinator, so its broadcast and its proposal travel in the same delay: it decides after
2 steps, and all have delivered after 3, where the paper says 3. And an acceptance that comes after the decision is
answered with the decision once more, so there are more messages than the 4m of the protocol.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from isotone.core.contract import Action, Address, DatagramsReceived, Event, Record, SendDatagrams, Started, TimerFired
from isotone.hab import consensus_messages as cm
from isotone.hab.consensus import Consensus
from isotone.hab.events import DeliverLocally, LocalBroadcast, PacketReceived, SendPacket
from isotone.hab.settings import HabSettings
from isotone.sim.evs_clients import StepDue
from isotone.sim.hab.node import BroadcastStep
from isotone.sim.hab.operator import LABEL
from isotone.sim.hab.run import HabRun
from isotone.sim.hab.terms import CONSENSUS, Terms
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.plan import PLAN_VERSION, NodePlan, Plan, Size, Topology
from isotone.sim.process import Boot
from isotone.sim.world import World
from isotone.trace.events import Row
from isotone.trace.hab import HaCrossed, HaDelivered

DELAY_US = 100_000
"""One way between centres, and nothing inside: so a step is one delay."""
SETTLE_US = 3_000_000
LOAD = 200
EVERY_US = 10_000
"""Between two broadcasts of a sustained load: ten are made while one message crosses."""


def hab_table_1(most: int = 7) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """For m = 1 to ``most`` processes in each of two centres."""
    rows: list[dict[str, Any]] = []
    for m in range(1, most + 1):
        rows.append(_hab_row(m, "primary", 2, 2))
        rows.append(_hab_row(m, "backup", 4, 3))
        counted, decided, delivered = _flat(m)
        paper = sum(counted[kind] for kind in ("Spread", "Propose", "Accept"))
        rows.append(_row(m, "CT-broadcast, until the coordinator decides", paper, decided, 3 * m, 3))
        rows.append(_row(m, "CT-broadcast, until all deliver", sum(counted.values()), delivered, 3 * m, 3))
        rows.append(_row(m, "OPT-broadcast", None, None, 2 * m * m + m, 2))
        rows.append(_batched(m))
        rows.append(_sustained(m))
    return {"most": most, "delay_us": DELAY_US, "load": LOAD}, rows


def _row(m: int, protocol: str, messages: float | None, steps: int | None, *formulas: int) -> dict[str, Any]:
    return {
        "m": m,
        "protocol": protocol,
        "messages": messages,
        "steps": steps,
        "formula": formulas[0],
        "formula_steps": formulas[1],
    }


@dataclass
class Trial:
    """Centres in a world whose links between centres take `DELAY_US`, and nothing else does."""

    sizes: tuple[int, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    delays: dict[tuple[str, str], int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        nodes = tuple(
            NodePlan(f"{centre}{number + 1}", centre, ())
            for centre, size in zip("abcdefg", self.sizes, strict=False)
            for number in range(size)
        )
        centres: dict[str, tuple[str, ...]] = {}
        for node in nodes:
            centres[node.site] = (*centres.get(node.site, ()), node.name)
        terms = Terms(
            HabSettings(centres=centres, answer_us=20 * DELAY_US, alive_us=20 * DELAY_US, **self.settings),
            0,
            LinkSettings(latency_us=DELAY_US, jitter_us=0),
            0,
        )
        network = NetworkSettings(lan=LinkSettings(latency_us=0, jitter_us=0))
        self.world = World(seed=1, network=network, sink=self.rows.append)
        plan = Plan(PLAN_VERSION, 1, "hab", CONSENSUS, Size.SMALL, Topology(nodes, ()), 0, (), ())
        self.run = HabRun(self.world, plan, terms, crossing=True)
        for (one, other), delay in self.delays.items():
            for source in centres[one]:
                for target in centres[other]:
                    link = LinkSettings(latency_us=delay, jitter_us=0)
                    self.world.network.link(source, target).change(link)
                    self.world.network.link(target, source).change(link)
        self.world.run_for(SETTLE_US)

    def broadcast(self, node: str, count: int = 1) -> int:
        """Broadcast at this process now; when that was."""
        step = BroadcastStep(at=0, node=node, lengths=(16,) * count)
        self.world.tell(node, LABEL, StepDue(0, step))
        return self.world.now

    def crossed(self) -> int:
        """How many packets between centres there were, but keep-alives."""
        return sum(isinstance(row.entry, HaCrossed) and row.entry.message != "Alive" for row in self.rows)

    def records(self) -> dict[str, int]:
        """How many records each process delivered, since the rows were cleared."""
        found = Counter[str]()
        for row in self.rows:
            if isinstance(row.entry, HaDelivered):
                found[row.entry.process] += len(row.entry.messages)
        return dict(found)

    def delivered(self) -> dict[str, int]:
        """When each process delivered first, since the rows were cleared."""
        found: dict[str, int] = {}
        for row in self.rows:
            if isinstance(row.entry, HaDelivered):
                found.setdefault(row.entry.process, row.at)
        return found


def _hab_row(m: int, where: str, formula: int, formula_steps: int) -> dict[str, Any]:
    trial = Trial((m, m))
    trial.rows.clear()
    began = trial.broadcast("a1" if where == "primary" else "b1")
    trial.world.run_for(SETTLE_US)
    steps = round((max(trial.delivered().values()) - began) / DELAY_US)
    return _row(m, f"Hierarchical ABcast, from the {where}", trial.crossed(), steps, formula, formula_steps)


def _batched(m: int) -> dict[str, Any]:
    """Messages for each broadcast when many are broadcast together."""
    trial = Trial((m, m))
    trial.rows.clear()
    trial.broadcast("a1", LOAD)
    trial.world.run_for(SETTLE_US)
    return _row(m, "Hierarchical ABcast, batched", trial.crossed() / LOAD, None, 2, 2)


def _sustained(m: int) -> dict[str, Any]:
    """Messages for each broadcast when one comes after the other, one at a time, from the primary and the backup."""
    trial = Trial((m, m))
    trial.rows.clear()
    for number in range(LOAD):
        trial.broadcast("ab"[number % 2] + "1")
        trial.world.run_for(EVERY_US)
    trial.world.run_for(SETTLE_US)
    assert trial.records() == {f"{centre}{number + 1}": LOAD for centre in "ab" for number in range(m)}
    return _row(m, "Hierarchical ABcast, sustained load", trial.crossed() / LOAD, None, 2, 2)


@dataclass
class FlatNode:
    """A process of one flat group over both centres."""

    consensus: Consensus
    counted: Counter[str]
    decided: list[int]

    def handle(self, event: Event) -> list[Action]:
        """Datagrams in and out; what crosses is counted by kind."""
        match event:
            case Started():
                return []
            case StepDue():
                actions = self.consensus.broadcast(LocalBroadcast(b"record"))
            case DatagramsReceived(source=source, data=data):
                name = str(source).partition(".")[0]
                actions = self.consensus.handle(PacketReceived(event.at, name, bytes(data)))
            case TimerFired():
                return []  # nothing is lost here
            case _:
                actions = self.consensus.handle(event)
        out: list[Action] = []
        for action in actions:
            match action:
                case SendPacket(to=to, data=data):
                    if to[0] != self.consensus.me[0]:
                        self.counted[type(cm.CODEC.decode(data)).__name__] += 1
                    out.append(SendDatagrams(Address(f"{to}.1"), [[data]]))
                case DeliverLocally():
                    self.decided.append(1)
                    out.append(Record(HaDelivered(self.consensus.me, "", 0, 0, 0, "", 1, ("m",), (0,))))
        return out


def _flat(m: int) -> tuple[Counter[str], int, int]:
    """Messages by kind, and the delays until the coordinator decides and until all have delivered."""
    names = tuple(f"{centre}{number + 1}" for centre in "ab" for number in range(m))
    counted: Counter[str] = Counter()
    rows: list[Row] = []
    network = NetworkSettings(
        lan=LinkSettings(latency_us=0, jitter_us=0), wan=LinkSettings(latency_us=DELAY_US, jitter_us=0)
    )
    world = World(seed=1, network=network, sink=rows.append)

    def program(boot: Boot) -> dict[str, FlatNode]:
        return {LABEL: FlatNode(Consensus(boot.daemon.name, names), counted, [])}

    for name in names:
        world.add_process(name, program, site=name[0])
    world.run_for(DELAY_US)
    began = world.now
    world.tell("a1", LABEL, StepDue(0, BroadcastStep(at=0, node="a1", lengths=(1,))))
    world.run_for(SETTLE_US)
    at = {row.entry.process: row.at for row in rows if isinstance(row.entry, HaDelivered)}
    assert set(at) == set(names)
    return counted, round((at["a1"] - began) / DELAY_US), round((max(at.values()) - began) / DELAY_US)
