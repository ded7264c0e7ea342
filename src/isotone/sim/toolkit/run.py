"""Processes with the toolkit on ISIS kernels, or in a view-synchronous group, above the oracle.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Action, Automaton
from isotone.isis.settings import TICK_US, IsisSettings
from isotone.isis.toolkit.boards import Posted
from isotone.isis.toolkit.evs_layer import EvsLayer
from isotone.isis.toolkit.kernel_layer import KernelLayer
from isotone.isis.toolkit.layer import Layer
from isotone.isis.toolkit.locks import LockHeld, Locks
from isotone.isis.toolkit.member import MemberIsReady, ViewChanged
from isotone.isis.toolkit.objects import Component
from isotone.isis.toolkit.process import Toolkit
from isotone.isis.toolkit.programs import SYSTEM_GROUP, Programs
from isotone.sim.evs_clients import ClientKilled, StepDue
from isotone.sim.evs_nodes import EvsNodes
from isotone.sim.evs_system import ToldOracle
from isotone.sim.faults import MILLISECOND
from isotone.sim.plan import Plan, Step
from isotone.sim.process import Boot
from isotone.sim.toolkit.node import ENTERS, ROAMING, WORK, Confirmation, ToolNode, kinds_for
from isotone.sim.world import World
from isotone.spec.oracle import Oracle, OracleSettings, Stabilised

LABEL = "toolkit"
EVS = "evs"
COUNTS = ("add", "fill", "total")
"""Operations that are answered how many entries there are."""


@dataclass(frozen=True)
class Asked:
    """A call."""

    method: str
    at: int
    begun: int  # how often its group had begun without a state


class ToolkitRun(EvsNodes):
    """All processes of a plan."""

    def __init__(self, world: World, plan: Plan) -> None:
        super().__init__(world, plan)
        choice = Choice(f"toolkit/{plan.seed}")
        self._plan, self._ambush = plan, choice.derive("ambush")
        self._ambushes = choice.pick((0, 3, 6))
        self._founded: dict[str, list[int]] = {}  # by group: when it began without a state
        self._asked: dict[str, Asked] = {}  # by mark
        self._confirmed: list[Confirmation] = []
        # answers that count entries, and when, by group and how often that had begun
        self._counts: dict[tuple[str, int], list[tuple[int, Confirmation]]] = {}
        self._written: dict[tuple[str, int], list[tuple[int, str]]] = {}  # by item: when the group had begun, who
        self._settings = IsisSettings(
            site="",
            sites=plan.topology.names,
            tick_us=TICK_US,
            suspect_us=choice.pick((200, 300, 500)) * MILLISECOND,
            collect_us=choice.pick((100, 300)) * MILLISECOND,
            defer_us=choice.pick((0, 0, 3 * MILLISECOND)),
        )
        self._working = {node.name for node in plan.topology.nodes if WORK in node.clients}
        self._quorum = choice.pick((1, len(self._working) // 2 + 1))
        self._oracle = Oracle(Choice(f"oracle/{plan.seed}"), OracleSettings())
        world.add_service(self._oracle)
        world.observers.append(ToldOracle(world))
        for node in plan.topology.nodes:
            world.add_process(node.name, self._program, site=node.site)

    def _program(self, boot: Boot) -> Mapping[str, Automaton]:
        name = boot.daemon.name
        boot.players[name] = LABEL
        kinds = kinds_for(self._settings.sites, self._quorum)
        toolkit = Toolkit(self._layer(boot), kinds)
        return {
            LABEL: ToolNode(toolkit, name in self._working, self._heard, self._ask, self._confirm, self._count, name)
        }

    def _layer(self, boot: Boot) -> Layer:
        settings = msgspec.structs.replace(self._settings, site=boot.daemon.name)
        return EvsLayer(boot.daemon, settings) if self._plan.stack == EVS else KernelLayer(boot.daemon, settings)

    def _heard(self, name: str, action: Action) -> None:
        """Now and then a process crashes right where something has happened."""
        if isinstance(action, MemberIsReady) and action.how in {"founded", "checkpoint"}:
            self._founded.setdefault(action.group, []).append(self._world.now)
        if self._ambushes <= 0 or self._world.now > self._plan.faults_end_us * 9 // 10:
            return
        if not isinstance(action, ViewChanged | MemberIsReady | LockHeld | Posted) or not self._ambush.chance(0.02):
            return
        self._ambushes -= 1
        victim = self._ambush.pick((name, self._ambush.pick(self._names)))
        after = self._ambush.pick((0, 300, 2_000, 10_000))
        back = after + self._ambush.between(5, 900) * MILLISECOND
        self._world.after(after, lambda: self.crash(victim))
        self._world.after(back, lambda: self.restart(victim))

    def _begun(self, group: str) -> int:
        """How often a group has begun without a state."""
        return len(self._founded.get(group, ()))

    def _ask(self, group: str, method: str, mark: str) -> None:
        self._asked[mark] = Asked(method, self._world.now, self._begun(group))

    def _confirm(self, answer: Confirmation) -> None:
        self._confirmed.append(answer)
        asked, begun = self._asked[answer.mark], self._begun(answer.group)
        if asked.begun == begun and answer.method in COUNTS:
            self._counts.setdefault((answer.group, begun), []).append((self._world.now, answer))

    def _contradictions(self, living: set[str]) -> Iterator[str]:
        """What survivors were told before an operation was asked stands before it."""
        for known in self._counts.values():
            kept = [(at, answer) for at, answer in known if answer.process in living]
            entered = [(at, answer.value) for at, answer in kept if answer.method != "total"]
            for _, answer in kept:
                asked = self._asked[answer.mark].at
                before = max((value for at, value in entered if at < asked), default=0)
                enters = answer.method != "total"
                again = enters and sum(value == answer.value for _, value in entered) > 1
                if again or answer.value < before + enters:
                    text = f"{answer.mark} was answered {answer.value} by {answer.group}"
                    yield f"{text}, and {before} entries were answered before it was asked"

    def _count(self, process: str, item: str, value: int) -> None:
        self._written.setdefault((item, value), []).append((self._begun(WORK), process))

    def kill_client(self, node: str, client: str) -> None:
        """Break the session of a process off; those of kernels are broken off in the system ``isis``."""
        del client
        if self._plan.stack == EVS and self._world.is_up(node):
            self._world.tell(node, LABEL, ClientKilled(self._world.clock(node), node))

    def play(self, step: Step) -> None:
        """Let a process do it; a node that is down has none."""
        if self._world.is_up(step.node):
            self._world.tell(step.node, LABEL, StepDue(self._world.clock(step.node), step))

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """All is mended, and the oracle owes progress."""
        for name in self._names:
            self.slow_disk(name, None)
        components = super().stabilise()
        self._world.tell_service(Stabilised(self._world.now))
        return components

    # --- liveness --------------------------------------------------------------------------------------------------

    def node(self, name: str) -> ToolNode:
        """The automaton that runs now."""
        node = self._world.automaton(name, LABEL)
        assert isinstance(node, ToolNode)
        return node

    def settled(self) -> bool | None:
        """Timers never rest."""
        return not self.live()

    def live(self) -> list[str]:
        """Every process in its groups with one state; every call answered, and done once; no lock held."""
        living = {self.node(name).toolkit.me for name in self._names}
        missing = [*self._contradictions(living), *self._twice_written(living)]
        missing += [text for name in self._names for text in self._missing_at(name)]
        if missing:
            return missing
        for group in (SYSTEM_GROUP, WORK, ROAMING):
            missing += self._missing_in(group)
        return missing

    def _missing_at(self, name: str) -> list[str]:
        node = self.node(name)
        toolkit, missing = node.toolkit, list(node.problems)
        if not toolkit.me:
            return [f"{name} is not operational"]
        for group in toolkit.opened:
            member = toolkit.members.get(group)
            if member is None or not member.is_ready:
                missing.append(f"{name} is not ready in {group}")
            elif member._sender.snapshots or len(member.full) != len(member.view.members):
                missing.append(f"{name} keeps snapshots of {group}")
        missing += [f"{name} waits for an answer to {id}" for id in toolkit.callers.waiting]
        missing += [f"{name} has not seen its post {post!r}" for post in node.unseen]
        missing += [f"{name} waits for the locks of {owner}, or holds them" for owner in node.holdings]
        for group, member in toolkit.members.items():
            for tool in member.tools:
                if isinstance(tool, Component) and tool.requests.pending:
                    missing.append(f"{name} has requests to {group} that are not done")
                if isinstance(tool, Locks) and any(each.queue or each.readers for each in tool.items.values()):
                    missing.append(f"{name} knows locks of {group} that are held")
        return missing

    def _twice_written(self, living: set[str]) -> list[str]:
        """Who locks an item to write it sees what survivors wrote before."""
        missing = []
        for (item, value), writes in self._written.items():
            kept = [(begun, process) for begun, process in writes if process in living]
            if len({begun for begun, _ in kept}) < len(kept):
                missing.append(f"{item} was counted to {value} twice: {kept}")
        return missing

    def _missing_in(self, group: str) -> list[str]:
        members = {
            name: member for name in self._names if (member := self.node(name).toolkit.members.get(group)) is not None
        }
        missing = []
        if len({(each.era, each.digest(), each.view.members) for each in members.values()}) > 1:
            missing.append(f"the states of {group} differ at {', '.join(members)}")
        if any(len(each.view.members) != len(members) for each in members.values()):
            missing.append(f"{group} has members that are gone")
        if group == SYSTEM_GROUP:
            for tool in next(iter(members.values())).tools:
                if isinstance(tool, Programs):
                    missing += self._misplaced(tool)
        elif members:
            missing += self._miscounted(group, next(iter(members.values())).tools[2])
        return missing

    def _misplaced(self, programs: Programs) -> list[str]:
        running = [name for name in self._names if ROAMING in self.node(name).toolkit.members]
        wanted = min(programs.copies.get(ROAMING, 0), len(self._names))
        if programs.moves or len(running) != wanted:
            return [f"{len(running)} copies run, and {wanted} are to run"]
        return []

    def _miscounted(self, group: str, component: object) -> list[str]:
        assert isinstance(component, Component)
        entries: dict[str, int] = component.attributes["entries"]
        missing = [
            f"{mark} is entered {times} times in {group}"
            for mark, times in entries.items()
            if times != 1 and not self._may_be_twice(group, mark)
        ]
        if component.attributes["count"] != sum(entries.values()):
            missing.append(f"{group} counts {component.attributes['count']} of {len(entries)} entries")
        living = {self.node(name).toolkit.me for name in self._names}
        founded = self._founded[group]
        for each in self._confirmed:
            owes = each.method in ENTERS and (each.group == group or (each.method == "add_there" and group == ROAMING))
            kept = len(founded) == 1 or (each.process in living and self._asked[each.mark].at > founded[-1])
            if owes and kept and each.mark not in entries:
                missing.append(f"{each.mark} was answered at {each.process}, and is not entered in {group}")
        return missing

    def _may_be_twice(self, group: str, mark: str) -> bool:
        """A group that began anew does once more what it had asked of another one."""
        return group == ROAMING and self._asked[mark].method == "add_there" and self._begun(WORK) > 1

    def choices(self) -> Mapping[str, int]:
        """The free choices that the oracle took."""
        return self._oracle.taken
