"""The servers of a run, whatever group service is beneath them: settings, disks that fail, steps, and what is owed.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from isotone.core.choice import Choice
from isotone.core.ids import DaemonId
from isotone.corel.events import Standing
from isotone.corel.replica import Replica
from isotone.corel.settings import ReplicaSettings
from isotone.sim.corel_ambush import Ambusher
from isotone.sim.corel_node import CorelNode
from isotone.sim.corel_rules import draw_quorum
from isotone.sim.disk import DiskSettings
from isotone.sim.evs_clients import ClientKilled, StepDue
from isotone.sim.evs_nodes import EvsNodes
from isotone.sim.faults import MILLISECOND
from isotone.sim.observer import Observer
from isotone.sim.plan import Plan, Step
from isotone.sim.process import Boot
from isotone.sim.world import World

LABEL = "corel"
GROUP = "corel"
DISK_FAILS = 0.01


class Servers(Observer):
    """One replica at each node. Whoever stops because its disk failed is started again after a while."""

    def __init__(self, world: World, nodes: EvsNodes, plan: Plan) -> None:
        choice = Choice(f"corel/{plan.seed}")
        self.crashing = False  # while the plan itself ends a process
        self._world = world
        self._nodes = nodes
        self._names = plan.topology.names
        self._settings = _draw_settings(choice.derive("settings"), self._names)
        self._failing = set(choice.sample(self._names, len(self._names) // 2)) if choice.chance(0.3) else set()
        self._revival = choice.derive("revive")
        self._ambusher = Ambusher(world, nodes, choice.derive("ambush"), plan.faults_end_us)

    def node(self, boot: Boot) -> CorelNode:
        """The server of one incarnation."""
        name = boot.daemon.name
        boot.players[name] = LABEL
        replica = Replica(self._settings[name], boot.daemon)
        return CorelNode(replica, str(boot.daemon), lambda told: self._ambusher.on_standing(name, told))

    def on_crash(self, daemon: DaemonId) -> None:
        """A process is gone; if nobody meant it, it comes back."""
        if not self.crashing:
            delay = self._revival.between(20, 400) * MILLISECOND
            self._world.after(delay, lambda: self._nodes.restart(daemon.name))

    def mend_disks(self) -> None:
        """No disk fails any more."""
        self._failing = set()
        for name in self._names:
            self.slow_disk(name, None)

    def slow_disk(self, node: str, sync_us: int | None) -> None:
        """Every sync takes this long, or as long as usual; some disks fail now and then."""
        failure = DISK_FAILS if node in self._failing else 0.0
        self._world.disk(node).settings = DiskSettings(sync_us=sync_us or DiskSettings().sync_us, failure=failure)

    def kill_session(self, node: str) -> None:
        """Break the session off."""
        if self._world.is_up(node):
            self._world.tell(node, LABEL, ClientKilled(self._world.now, node))

    def play(self, step: Step) -> None:
        """Let the application append; a node that is down has none."""
        if self._world.is_up(step.node):
            self._world.tell(step.node, LABEL, StepDue(self._world.clock(step.node), step))

    def missing(self) -> list[str]:
        """One primary component of all, every message green and white everywhere, nothing waiting."""
        missing = []
        lines = {}
        for name in self._names:
            replica = self.replica(name)
            queue = replica.ledger.queue
            lines[name] = queue.green
            if replica.standing is not Standing.REGULAR or not replica.flow.is_primary:
                missing.append(f"{name} is not in a primary component: {replica.standing.value}")
            elif replica.session.servers != tuple(sorted(self._names)):
                missing.append(f"{name} is together with {', '.join(replica.session.servers)} only")
            if queue.green < queue.end or replica.outbox.pending or replica.outbox.waiting:
                missing.append(f"{name} has messages that are not green")
            if queue.held:
                missing.append(f"{name} holds {len(queue.held)} messages that are not white")
        if len(set(lines.values())) > 1:
            missing.append(f"the green lines differ: {lines}")
        return missing

    def replica(self, name: str) -> Replica:
        """The automaton that runs now."""
        node = self._world.automaton(name, LABEL)
        assert isinstance(node, CorelNode)
        return node.replica


def _draw_settings(choice: Choice, names: tuple[str, ...]) -> dict[str, ReplicaSettings]:
    quorum = draw_quorum(choice, names)
    checkpoint = choice.pick((8, 64, 4_096))
    return {
        name: ReplicaSettings(server=name, servers=names, group=GROUP, quorum=quorum, checkpoint_records=checkpoint)
        for name in names
    }
