"""``isotone demo --simulated``: five nodes through a partition, a crash and a merge; their views and the verdicts."""

from __future__ import annotations

from itertools import count

from rich.console import Console

from isotone.cli.lanes import Picture, draw, legend, picture_of
from isotone.cli.output import print_json, results
from isotone.cli.tables import print_failures, verdict_table
from isotone.core.services import Service
from isotone.sim.faults import Crash, Heal, Partition, Restart
from isotone.sim.plan import PLAN_VERSION, NodePlan, Plan, Size, Step, Topology, parse_seed
from isotone.sim.replay import replay
from isotone.sim.summary import Summary, summarise
from isotone.sim.workload import ConnectStep, JoinStep, SendStep
from isotone.trace.events import Row

SECOND = 1_000_000
NODES = ("alba", "bruno", "carla", "dario", "elena")
GROUP = "story"
FAULTS = (
    Partition(at=10 * SECOND // 10, sides=(("alba", "bruno", "carla"), ("dario", "elena"))),
    Crash(at=17 * SECOND // 10, node="carla"),
    Restart(at=24 * SECOND // 10, node="carla"),
    Heal(at=31 * SECOND // 10),
)
MARKS = tuple(zip((fault.at for fault in FAULTS), ("partition", "crash", "restart", "merge")))
END = 40 * SECOND // 10
SENDS_EVERY_US = 150_000


def simulated_demo(seed: str, as_json: bool) -> int:
    """Five nodes on the executable specification, the most adversarial network that the promises allow.

    The picture shows which view of one group each node was in; the table says whether every promise was kept.
    """
    rows: list[Row] = []
    result = replay(demo_plan(parse_seed(seed)), sink=rows.append)
    summary = summarise([result], {})
    if as_json:
        print_json(summary)
    else:
        _show(results(), picture_of(rows, GROUP), summary)
    return summary.exit_code


def demo_plan(seed: int) -> Plan:
    """One client per node, all in one group, sending in turn."""
    topology = Topology(tuple(NodePlan(name, "lan", ("client",)) for name in NODES), (GROUP,))
    return Plan(
        version=PLAN_VERSION,
        seed=seed,
        system="evs",
        stack="oracle",
        size=Size.SMALL,
        topology=topology,
        faults_end_us=FAULTS[-1].at + 1,
        faults=FAULTS,
        steps=tuple(sorted(_steps(), key=lambda step: step.at)),
    )


def _steps() -> list[Step]:
    steps: list[Step] = []
    for number, name in enumerate(NODES):
        steps += _arrival(name, number * 60_000)
    steps += _arrival("carla", 25 * SECOND // 10)
    services = (Service.AGREED, Service.SAFE, Service.CAUSAL)
    for turn, at in zip(count(), range(SECOND // 2, END, SENDS_EVERY_US)):
        node = NODES[turn * 2 % len(NODES)]
        steps.append(SendStep(at, node, "client", services[turn % len(services)], (GROUP,), (16,)))
    return steps


def _arrival(node: str, at: int) -> list[Step]:
    return [ConnectStep(at, node, "client"), JoinStep(at + 1_000, node, "client", GROUP)]


def _show(console: Console, picture: Picture, summary: Summary) -> None:
    columns = max(40, min(100, console.width - 10))
    console.print(f"The views of the group {GROUP!r} over {END / SECOND:g} seconds of virtual time:\n")
    for line in draw(picture, MARKS, end=END, columns=columns):
        console.print(line)
    console.print("\nview, members, cause, id (a small letter: after the transitional signal):")
    for line in legend(picture):
        console.print(line)
    console.print("\nThe messages as each node heard them, numbered; a letter is a new view:")
    for lane in picture.lanes.values():
        console.print(f"{lane.node:<6}{''.join(lane.heard)}", markup=False)
    console.print()
    console.print(verdict_table(summary.properties))
    console.print()
    print_failures(console, summary)
    if summary.violations:
        console.print(f"[bold red]{summary.violations} violations[/]")
    else:
        console.print("[green]no violation[/]")
