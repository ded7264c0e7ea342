"""The remote clients of a run, for its driver: who they are, what happens to them, what keeps them from being settled.

Each is a process of its own beside the node of its daemon, and stands on its side in every partition. A kill is the end
of its process. Besides, its stream breaks, its link to the daemon is cut for a while, and it stands still, so that it
reads slowly: all of that near the faults of the plan. The trace is recorded at the daemon, where the sessions ask.

Implements: [DESIGN 4], the clients of a simulated run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Automaton
from isotone.evs.sessions.settings import ClientSettings, ServerSettings, SlowPolicy
from isotone.sim.evs_clients import Session, StepDue
from isotone.sim.faults import MILLISECOND
from isotone.sim.links import LinkSettings
from isotone.sim.plan import Plan, Step
from isotone.sim.process import CLIENTS_LABEL, Boot
from isotone.sim.remote_client import DaemonMoved, RemoteClient, StreamBroken
from isotone.sim.workload import ConnectStep
from isotone.sim.world import World

SECOND = 1_000 * MILLISECOND
Disturbance = Callable[[str, str, int], None]
"""From the node, the client's process and how long it lasts."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What the seed draws for the sessions of a run."""

    shares: tuple[float, ...]  # of the clients of a node that are remote; one of these for each node
    server: ServerSettings
    client: ClientSettings
    patient: bool
    disturbances: int  # per client
    loss: float


def draw_terms(choice: Choice) -> Terms:
    """On half of the seeds all clients are embedded."""
    silence_us = choice.pick((SECOND, 3 * SECOND))
    server = ServerSettings(
        heartbeat_us=silence_us // 5,
        silence_us=silence_us,
        resume_within_us=choice.pick((300 * MILLISECOND, SECOND, 3 * SECOND)),
        window_bytes=choice.pick((4, 128)) * 1024,
        buffer_bytes_max=choice.pick((24, 32 * 1024)) * 1024,
        policy=choice.pick((SlowPolicy.BLOCK, SlowPolicy.DISCONNECT)),
    )
    client = ClientSettings(
        connect_within_us=3 * SECOND,
        attempt_us=SECOND,
        retry_max_us=500 * MILLISECOND,
        queue_bytes_max=choice.pick((16, 1024)) * 1024,
    )
    shares = choice.pick(((0.0,), (0.0,), (0.0, 0.5, 1.0), (1.0,)))
    return Terms(
        shares=shares,
        server=server,
        client=client,
        patient=choice.derive("patient").chance(0.7),
        disturbances=choice.pick((0, 1, 3)),
        loss=choice.pick((0.0, 0.0, 0.02)),
    )


class RemoteClients:
    """All client programs of a run, for its driver."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._world = world
        self._choice = Choice(f"remote/{plan.seed}")
        self.terms = draw_terms(self._choice.derive("terms"))
        self._homes: dict[tuple[str, str], str] = {}  # node and client name to the client's process
        drawing = self._choice.derive("homes")
        for number, node in enumerate(plan.topology.nodes, start=1):
            share = drawing.pick(self.terms.shares)
            for client in node.clients:
                if drawing.chance(share):
                    self._homes[node.name, client] = f"{client}@{number}"

    def names(self, node: str) -> list[str]:
        """The clients of this node that are remote."""
        return [client for home, client in self._homes if home == node]

    def settle_in(self, plan: Plan) -> None:
        """Put them into the world, beside nodes that are there, with what shall happen to them."""
        world, faults = self._world, [fault.at for fault in plan.faults]
        for (node, client), home in self._homes.items():
            world.add_process(home, partial(self._program, node, client), site=world.nodes[node].site)
            for ends in ((node, home), (home, node)):
                world.network.link(*ends).change(LinkSettings(loss=self.terms.loss))
            choice = self._choice.derive(home)
            for _ in range(self.terms.disturbances if faults else 0):
                at = choice.pick(faults) + choice.between(-50 * MILLISECOND, 300 * MILLISECOND)
                happens: Disturbance = choice.pick((self._break, self._break, self._cut, self._pause))
                lasts_us = choice.between(20 * MILLISECOND, 2 * SECOND)
                world.at(min(max(0, at), plan.faults_end_us - 1), partial(happens, node, home, lasts_us))

    def _program(self, node: str, client: str, boot: Boot) -> dict[str, Automaton]:
        address = self._world.nodes[node].address
        return {CLIENTS_LABEL: RemoteClient(boot, client, address, self.terms.client, patient=self.terms.patient)}

    # --- what happens to them --------------------------------------------------------------------------------------

    def _break(self, node: str, home: str, lasts_us: int) -> None:
        del node, lasts_us
        if self._world.is_up(home):
            self._world.tell(home, CLIENTS_LABEL, StreamBroken(0))

    def _cut(self, node: str, home: str, lasts_us: int) -> None:
        self._world.cut(home, node)
        self._world.after(lasts_us, partial(self._world.mend, home, node))

    def _pause(self, node: str, home: str, lasts_us: int) -> None:
        del node
        if self._world.is_up(home):
            self._world.pause(home)
            self._world.after(lasts_us, partial(self._resume, home))

    def _resume(self, home: str) -> None:
        if self._world.is_up(home):
            self._world.resume(home)

    def kill(self, node: str, client: str) -> bool:
        """End its process; whether it is one of these."""
        home = self._homes.get((node, client))
        if home is not None and self._world.is_up(home):
            self._world.crash(home)
        return home is not None

    def play(self, step: Step) -> bool:
        """Tell it what to do, and start it if it shall connect; whether it is one of these."""
        home = self._homes.get((step.node, getattr(step, "client", "")))
        if home is None:
            return False
        if isinstance(step, ConnectStep) and not self._world.is_up(home):
            self._world.restart(home)
        if self._world.is_up(home):
            self._world.tell(home, CLIENTS_LABEL, StepDue(0, step))
        return True

    def moved(self, node: str) -> None:
        """The daemon was started, perhaps elsewhere."""
        for home in self._up(node):
            self._world.tell(home, CLIENTS_LABEL, DaemonMoved(0, self._world.nodes[node].address))

    def calm(self) -> None:
        """Nobody stands still or loses packets any more; who was killed stays away."""
        for (node, _), home in self._homes.items():
            self._resume(home)
            for ends in ((node, home), (home, node)):
                self._world.network.link(*ends).change(LinkSettings())

    def beside(self, nodes: Sequence[str]) -> list[str]:
        """These nodes, and the processes of their clients."""
        return [*nodes, *(home for (node, _), home in self._homes.items() if node in nodes)]

    # --- looking ---------------------------------------------------------------------------------------------------

    def sessions(self) -> list[Session]:
        """As the applications see them."""
        return [session for each in self._programs() for session in each.clients.sessions.values()]

    def missing(self) -> list[str]:
        """What keeps them from being settled."""
        programs = {home: self._program_of(home) for home in self._homes.values() if self._world.is_up(home)}
        return [f"{home} {each.missing}" for home, each in programs.items() if each.missing]

    def count(self, node: str) -> int:
        """How many sessions a daemon should have."""
        return sum(len(self._program_of(home).clients.sessions) for home in self._up(node))

    def notices(self) -> Counter[str]:
        """What sessions told programs that are still there."""
        return sum((each.notices for each in self._programs()), Counter())

    def _up(self, node: str) -> list[str]:
        return [home for (other, _), home in self._homes.items() if other == node and self._world.is_up(home)]

    def _programs(self) -> list[RemoteClient]:
        return [self._program_of(home) for home in self._homes.values() if self._world.is_up(home)]

    def _program_of(self, home: str) -> RemoteClient:
        program = self._world.automaton(home, CLIENTS_LABEL)
        assert isinstance(program, RemoteClient)
        return program
