"""The servers of a run, whatever group service is beneath them: settings, bad disks, steps, and what is owed.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Append, Write
from isotone.core.ids import DaemonId
from isotone.corel.configuration import Configuration
from isotone.corel.events import Standing
from isotone.corel.explain import why_no_primary
from isotone.corel.identities import log_identity
from isotone.corel.journal import LOG
from isotone.corel.ledger import Ledger
from isotone.corel.records import Founded, Lived, encode_record
from isotone.corel.replica import Replica
from isotone.sim.corel_alone import QuorumAlone
from isotone.sim.corel_ambush import Ambusher, Gossip, Interrupter, SlowGossip, Sniper
from isotone.sim.corel_node import CorelNode, ReconfigureStep, RuleStep
from isotone.sim.corel_raid import Raid
from isotone.sim.corel_set_back import SetBack
from isotone.sim.corel_terms import LABEL, draw_terms
from isotone.sim.disk import DiskSettings
from isotone.sim.evs_clients import ClientKilled, StepDue
from isotone.sim.evs_nodes import EvsNodes
from isotone.sim.faults import MILLISECOND
from isotone.sim.full_system import FULL
from isotone.sim.limits import Limits
from isotone.sim.observer import Observer
from isotone.sim.plan import Plan, Step
from isotone.sim.process import Boot
from isotone.sim.world import World
from isotone.trace.corel import DiskLost

DISK_FAILS = 0.01
FULL_BYTES = 6_000  # of a disk that soon has no room
DISK_WITHIN_US = 250 * MILLISECOND
LOOK_US = 50 * MILLISECOND
STAYED_US = 2 * DISK_WITHIN_US  # whose write has hung for so long has left its group


class Servers(Observer):
    """One replica at each node. Whoever stops because its disk failed is started again after a while."""

    def __init__(self, world: World, nodes: EvsNodes, plan: Plan, limits: Limits | None = None) -> None:
        choice = Choice(f"corel/{plan.seed}")
        self._limits = limits or Limits()
        self.crashing = False  # while the plan itself ends a process
        self._world = world
        self._nodes = nodes
        self._names = plan.topology.names
        self._draw = draw_terms(plan.seed, self._names, plan.stack)
        self._full = self._draw.full_disk
        self._stayed: set[str] = set()  # servers that did not leave while their disks hung
        if self._draw.hanging:
            world.watch_disks(DISK_WITHIN_US)
        self._failing = set(choice.sample(self._names, len(self._names) // 2)) if choice.chance(0.3) else set()
        self._revival = choice.derive("revive")
        founders = self._draw.founders
        if self._draw.gossip and plan.stack == FULL:
            SlowGossip(world, nodes, choice.derive("gossip"), plan.faults_end_us, founders)
        elif self._draw.gossip:
            Gossip(world, nodes, choice.derive("gossip"), plan.faults_end_us)
        losing = choice.derive("lost")
        self._intact = set(self._draw.lost)  # who still has the disk that it will lose
        for name in self._draw.lost:
            at = losing.between(plan.faults_end_us // 10, plan.faults_end_us)
            back_us = losing.between(5, 200) * MILLISECOND
            if self._draw.set_back:
                replace = partial(self._lose_disk, name, back_us)
                SetBack(world, self._draw, name, names=self._names, end_us=plan.faults_end_us, replace=replace)
            else:
                self._world.after(at, partial(self._lose_disk, name, back_us))
        self._ambusher: Ambusher | Sniper
        if self._draw.sniper:
            self._ambusher = Sniper(world, nodes, choice.derive("sniper"), plan.faults_end_us, founders)
        else:
            self._ambusher = Ambusher(world, nodes, choice.derive("ambush"), plan.faults_end_us, founders)
        self._interrupter = Interrupter(world, nodes, choice.derive("interrupt"), plan.faults_end_us, founders)
        self._raid: Raid | None = None
        if self._draw.raid:
            self._raid = Raid(world, nodes, choice.derive("raid"), plan, self._draw, intact=self._intact)
        self.alone = QuorumAlone(world, nodes, self.replica, plan, self._draw)

    def node(self, boot: Boot) -> CorelNode:
        """The server of one incarnation."""
        name = boot.daemon.name
        boot.players[name] = LABEL
        terms = self._draw
        identity = log_identity(name.encode(), boot.daemon.incarnation)
        if terms.gossip and boot.daemon.incarnation == 1 and name in terms.founders:
            self._world.disk(name).hold(LABEL, _met(terms.founders, identity))
        replica = Replica(self._limits.changed(terms.settings(name)), boot.daemon, identity)
        heard, learned = partial(self._ambusher.on_told, name), partial(self._interrupter.on_piece, name)
        return CorelNode(replica, str(boot.daemon), heard, learned, terms.snapshot_every, terms.snapshot_bytes)

    def may_start(self, node: str) -> bool:
        """Whether nothing keeps it down."""
        return self._raid is None or node not in self._raid.down

    def on_crash(self, daemon: DaemonId) -> None:
        """A process is gone; if nobody meant it, it comes back."""
        if not self.crashing:
            delay = self._revival.between(20, 400) * MILLISECOND
            self._world.after(delay, lambda: self._nodes.restart(daemon.name))

    def _lose_disk(self, name: str, back_us: int, copy: Sequence[Write] = ()) -> None:
        """It comes back under its name with an empty disk, or an older copy of it, unless it is down anyway."""
        if self._world.is_up(name):
            self._nodes.crash(name)
            self._world.after(back_us, lambda: self._nodes.restart(name))
        self._world.disk(name).lose(LABEL)
        self._world.disk(name).hold(LABEL, copy)
        self._world.record(name, DiskLost(name))
        self._intact.discard(name)

    def mend_disks(self) -> None:
        """No disk fails any more, and nobody is kept down."""
        if self._raid is not None:
            self._raid.end()
        self._failing, self._full = set(), ""
        for name in self._names:
            self.slow_disk(name, None)

    def slow_disk(self, node: str, sync_us: int | None) -> None:
        """Every sync takes this long, or as long as usual; some disks fail now and then."""
        failure = DISK_FAILS if node in self._failing else 0.0
        capacity = FULL_BYTES if node == self._full else None
        hangs = self._draw.hanging and sync_us is not None
        usual = DiskSettings(failure=failure, capacity_bytes=capacity, hangs=hangs)
        slow = usual if hangs or sync_us is None else msgspec.structs.replace(usual, sync_us=sync_us)
        begins = hangs and not self._world.disk(node).settings.hangs
        self._world.disk(node).settings = slow
        if begins:
            self._look_at(node, None)

    def _look_at(self, node: str, seen: tuple[Replica, int] | None) -> None:
        """While a disk hangs: whether its server leaves its group in time. ``seen``: which one writes, since when."""
        if not self._world.disk(node).settings.hangs:
            return
        writes = self._world.is_up(node) and not self._world.is_paused(node) and self.replica(node).journal.under_way
        if not writes:
            seen = None
        elif seen is None or seen[0] is not self.replica(node):
            seen = self.replica(node), self._world.now
        elif self._world.now - seen[1] > STAYED_US and self._world.has_session(node, node):
            self._stayed.add(f"{node} stayed in its group while its disk hung")
        self._world.after(LOOK_US, partial(self._look_at, node, seen))

    def kill_session(self, node: str) -> None:
        """Break the session off."""
        if self._world.is_up(node):
            self._world.tell(node, LABEL, ClientKilled(self._world.now, node))

    def play(self, step: Step) -> None:
        """Let the application append, or the operator ask; a node that is down has none."""
        if isinstance(step, ReconfigureStep):
            step = self._sensible(step)
            if self._counts_on_the_lost(step.node):
                return
        elif isinstance(step, RuleStep):
            if self._draw.lost:  # what may be lost is drawn with the rule
                return
            step = self._where_it_counts(step)
        if self._world.is_up(step.node):
            self._world.tell(step.node, LABEL, StepDue(self._world.clock(step.node), step))

    def _sensible(self, step: ReconfigureStep) -> ReconfigureStep:
        """An operator asks where there is a primary component, and adds who is not there yet."""
        up = [name for name in self._names if self._world.is_up(name) and self.replica(name).flow.is_primary]
        if not up:
            return step
        node = step.node if step.node in up else up[0]
        configuration = self.replica(node).ledger.queue.configuration
        known = {*configuration.servers, *configuration.retired}
        wanted = [name for name in self._names if (name not in known if step.adds else name in configuration.servers)]
        server = step.server if step.server in wanted or not wanted else wanted[-1]
        monarch = step.monarch or self._draw.sniper  # then a new server alone is a quorum, at once
        return msgspec.structs.replace(step, node=node, server=server, monarch=monarch)

    def _where_it_counts(self, step: RuleStep) -> RuleStep:
        """An operator asks where there is a primary component, for a rule of servers that there are."""
        up = [name for name in self._names if self._world.is_up(name) and self.replica(name).flow.is_primary]
        if not up:
            return step
        node = step.node if step.node in up else up[0]
        servers = self.replica(node).ledger.queue.configuration.servers
        server = step.server if step.server in servers else servers[-1]
        return msgspec.structs.replace(step, node=node, server=server)

    def _counts_on_the_lost(self, node: str) -> bool:
        """A set that needs those whose disks are lost next would be more than the rule says that it survives."""
        if self._intact or not self._world.is_up(node):
            return bool(self._intact)
        return bool({*self.replica(node).flow.members} & {*self._draw.lost})

    def missing(self) -> list[str]:
        """One primary component of all, every message green and white everywhere; learners caught up."""
        replicas = {name: self.replica(name) for name in self._names}
        last = max(replicas.values(), key=lambda replica: (replica.ledger.fence, replica.ledger.queue.green)).ledger
        configuration = last.queue.configuration
        fenced = [name for name in self._names if _is_fenced(replicas[name].ledger, last.fence)]
        strangers = {name for name in self._draw.lost if _does_not_count(replicas[name])}
        removed = {name for name in configuration.retired if not _stays(replicas[name], strangers)}
        gone = {*removed, *fenced, *strangers}
        here = tuple(name for name in sorted(self._names) if name not in gone)
        missing = self._raid.wrong(last) if self._raid is not None else []
        for name in here:
            missing += [f"{name} {text}" for text in _missing(replicas[name], here, configuration, strangers)]
        for name in (each for each in self._names if each not in {*here, *strangers}):
            if replicas[name].standing not in _may_stand(replicas[name], is_fenced=name in fenced):
                missing.append(f"{name} was removed or fenced and does not know it")
        lines = {name: replicas[name].ledger.queue.green for name in here}
        if len(set(lines.values())) > 1:
            missing.append(f"the green lines differ: {lines}")
        states = {name: self._node(name).chain for name in here}
        if len({(chain.position, chain.digest) for chain in states.values() if chain is not None}) > 1:
            missing.append(f"the states differ: {states}")
        return sorted([*missing, *self._stayed])

    def replica(self, name: str) -> Replica:
        """The automaton that runs now."""
        return self._node(name).replica

    def _node(self, name: str) -> CorelNode:
        node = self._world.automaton(name, LABEL)
        assert isinstance(node, CorelNode)
        return node


def _does_not_count(lost: Replica) -> bool:
    """Whether one whose disk was lost, or set back, was found out."""
    return lost.standing is Standing.STRANGER or lost.ledger.set_back


def _stays(removed: Replica, strangers: set[str]) -> bool:
    """Whether it waits for a stranger to be removed too, before it says good-bye."""
    servers = removed.ledger.queue.configuration.servers
    return removed.standing is not Standing.REMOVED and not strangers.isdisjoint(servers)


def _may_stand(gone: Replica, *, is_fenced: bool) -> set[Standing]:
    """A server that is out; one that a reconfiguration took out before the force may have said good-bye already."""
    if not is_fenced:
        return {Standing.REMOVED}
    return {Standing.FENCED, Standing.REMOVED} if gone.flow.is_retired else {Standing.FENCED}


def _is_fenced(ledger: Ledger, fence: int) -> bool:
    """Whether it has something from before an operator forced a primary without it."""
    return ledger.fence < fence and (ledger.ready or ledger.queue.green > 0)


def _met(founders: tuple[str, ...], identity: bytes) -> list[Append]:
    """The log of a founder where the founders met before the run: in it they may never be all together."""
    identities = tuple((name, log_identity(name.encode(), 1)) for name in sorted(founders))
    return [Append(LOG, encode_record(each)) for each in (Lived(0, identity), Founded(identities))]


def _missing(replica: Replica, here: tuple[str, ...], configuration: Configuration, strangers: set[str]) -> list[str]:
    missing = []
    queue = replica.ledger.queue
    if replica.standing is not Standing.REGULAR or not replica.flow.is_primary:
        missing.append(f"is not in a primary component: {replica.standing.value}; {why_no_primary(replica)}")
    elif replica.session.servers != here:
        missing.append(f"is together with {', '.join(replica.session.servers)} only")
    if queue.green < queue.end or replica.outbox.pending or replica.outbox.waiting:
        missing.append("has messages that are not green")
    can_be_white = not strangers & {*configuration.servers}
    if can_be_white and replica.settings.server in configuration.servers and replica.flow.white < queue.green:
        missing.append(f"has white up to {replica.flow.white}, green up to {queue.green}")
    return missing
