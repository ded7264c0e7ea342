"""Nodes with clients under test, whatever group service is beneath them: faults, steps, and what clients must see.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.views import GroupView
from isotone.sim.disk import DiskSettings
from isotone.sim.evs_clients import ClientKilled, Clients, Session, StepDue
from isotone.sim.plan import Plan, Step
from isotone.sim.world import World

CLIENTS = "clients"


class EvsNodes:
    """Faults and steps on nodes whose clients are one `Clients` each, whatever is beneath them."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._world = world
        self._names = plan.topology.names

    # --- faults: what makes no sense any more is passed over -----------------------------------------------------

    def partition(self, sides: Sequence[Sequence[str]]) -> None:
        """Cut the network into these sides."""
        self._world.partition(*sides)

    def cut(self, source: str, target: str, *, one_way: bool) -> None:
        """Cut one link."""
        self._world.cut(source, target, one_way=one_way)

    def heal(self) -> None:
        """Undo partitions and cuts."""
        self._world.heal()

    def crash(self, node: str) -> None:
        """End a process."""
        if self._world.is_up(node):
            self._world.crash(node)

    def restart(self, node: str, *, elsewhere: bool = False) -> None:
        """Start it again."""
        if not self._world.is_up(node):
            self._world.restart(node, self._world.new_address(node) if elsewhere else None)

    def slow_disk(self, node: str, sync_us: int | None) -> None:
        """Every sync takes this long, or as long as usual."""
        usual = DiskSettings()
        self._world.disk(node).settings = usual if sync_us is None else DiskSettings(sync_us=sync_us)

    def pause(self, node: str) -> None:
        """Let a process stand still."""
        if self._world.is_up(node):
            self._world.pause(node)

    def resume(self, node: str) -> None:
        """Let it go on."""
        if self._world.is_up(node):
            self._world.resume(node)

    def kill_client(self, node: str, client: str) -> None:
        """Break a session off."""
        if self._world.is_up(node):
            self._world.tell(node, CLIENTS, ClientKilled(self._world.now, client))

    def play(self, step: Step) -> None:
        """Tell the clients of a node what to do; a node that is down has none."""
        if self._world.is_up(step.node):
            self._world.tell(step.node, CLIENTS, StepDue(self._world.clock(step.node), step))

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """Undo every fault; all nodes are one component then."""
        for name in self._names:
            self.restart(name)
            self.resume(name)
        self.heal()
        return self._world.network.components(self._names)

    # --- liveness --------------------------------------------------------------------------------------------------

    def owes_progress(self) -> bool:
        """Always, after the heal."""
        return True

    def settled(self) -> bool | None:
        """The oracle's timers rest when all is done."""
        return None

    def live(self) -> list[str]:
        """One component, every session open, every group's view exactly its members at every member."""
        missing = []
        if len(self._world.network.components(self._names)) != 1:
            missing.append("the nodes are not one component")
        sessions = self._sessions()
        missing += [f"{session.id} never heard that it is connected" for session in sessions if not session.connected]
        missing += [
            f"{session.id} never heard that it left {group}"
            for session in sessions
            for group in sorted(session.leaving)
        ]
        for group in sorted({group for session in sessions for group in session.wanted}):
            members = tuple(sorted(session.id for session in sessions if group in session.wanted))
            for session in sessions:
                if group in session.wanted and not _is_precise(session.views.get(group), members):
                    missing.append(f"{session.id} is not in a view of {group} with exactly its {len(members)} members")
        return missing

    def _sessions(self) -> list[Session]:
        """Of all clients, as they see them."""
        return [session for name in self._names for session in self._clients(name).sessions.values()]

    def _clients(self, name: str) -> Clients:
        clients = self._world.automaton(name, CLIENTS)
        assert isinstance(clients, Clients)
        return clients


def _is_precise(view: GroupView | None, members: tuple[object, ...]) -> bool:
    return view is not None and view.members == members
