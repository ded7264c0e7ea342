"""Programs of a run that are no servers: who they are, what happens to them, what keeps them from being settled.

Each is a process beside a node, and stands on its side in every partition. Near the faults of the plan it is killed,
its links to servers are cut, and it stands still.

Implements: [DESIGN 4], the clients of a simulated run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from isotone.core.choice import Choice
from isotone.core.contract import Address, Automaton
from isotone.sim.faults import MILLISECOND
from isotone.sim.plan import Plan
from isotone.sim.process import Boot
from isotone.sim.replicated.client_node import ClientNode
from isotone.sim.replicated.port_node import PORT_LABEL
from isotone.sim.replicated.programs import ObjectStep
from isotone.sim.replicated.terms import LABEL, Terms
from isotone.sim.world import World


class ObjectClients:
    """All of a run."""

    def __init__(self, world: World, plan: Plan, terms: Terms) -> None:
        steps = [step for step in plan.steps if isinstance(step, ObjectStep) and step.program]
        self.homes = {step.program: step.node for step in steps}  # beside whom each stands
        self.current: dict[str, ClientNode] = {}
        self._world, self._terms, self._seed = world, terms, plan.seed
        self._names = plan.topology.names
        self._faults = [fault.at for fault in plan.faults]
        self._faults_end_us = plan.faults_end_us
        self._due = 0  # the position that they owe to reach

    def settle_in(self) -> None:
        """Put the programs that are no servers into the world, with what shall happen to them."""
        for client, home in self.homes.items():
            choice = Choice(f"replicated/{self._seed}/{client}")
            rate = choice.between(950, 1_050) / 1_000
            self._world.add_process(client, partial(self._client, rate), site=self._world.nodes[home].site)
            for at in choice.sample(self._faults, min(len(self._faults), choice.between(0, 4))):
                at = min(max(0, at + choice.between(-50, 300) * MILLISECOND), self._faults_end_us - 1)
                lasts_us = choice.between(20, 1_500) * MILLISECOND
                happens = choice.pick((self._kill, self._cut, self._pause))
                self._world.at(at, partial(happens, client, choice.pick(self._names), lasts_us))

    def _client(self, rate: float, boot: Boot) -> Mapping[str, Automaton]:
        world = self._world
        addresses = [Address(f"{world.nodes[name].address}/{PORT_LABEL}") for name in self._names]
        addresses = boot.choice.derive("addresses").sample(addresses, len(addresses))
        made = ClientNode(str(boot.daemon), self._terms, addresses, wall=lambda at: world.now, rate=rate)
        self.current[boot.daemon.name] = made
        return {LABEL: made}

    def _kill(self, client: str, node: str, lasts_us: int) -> None:
        del node
        if self._world.is_up(client):
            self._world.crash(client)
            self._world.after(lasts_us, partial(self.start, client))

    def _cut(self, client: str, node: str, lasts_us: int) -> None:
        self._world.cut(client, node)
        self._world.after(lasts_us, partial(self._world.mend, client, node))

    def _pause(self, client: str, node: str, lasts_us: int) -> None:
        del node
        if self._world.is_up(client):
            self._world.pause(client)
            self._world.after(lasts_us, partial(self.resume, client))

    def start(self, client: str) -> None:
        """If it is down."""
        if not self._world.is_up(client):
            self._world.restart(client)

    def resume(self, client: str) -> None:
        """If it stands still."""
        if self._world.is_up(client):
            self._world.resume(client)

    def moved(self) -> None:
        """A server is at another address: whoever uses them is started with the new ones."""
        for client in self.homes:
            if self._world.is_up(client):
                self._world.crash(client)
            self._world.restart(client)

    def beside(self, nodes: Sequence[str]) -> list[str]:
        """These nodes, and the programs that stand beside them."""
        return [*nodes, *(client for client, home in self.homes.items() if home in nodes)]

    def calm(self) -> None:
        """All are there, and stand still no more."""
        for client in self.homes:
            self.start(client)
            self.resume(client)

    def are_due(self, position: int) -> None:
        """All servers have this; so shall they."""
        self._due = self._due or position

    def missing(self) -> list[str]:
        """What keeps them from being settled."""
        found = []
        for name in self.homes:
            program = self.current[name]
            if program.objects.failure is not None:
                found.append(f"{name} failed: {program.objects.failure}")
            if program.programs.running:
                found.append(f"{name} has programs that wait")
            if program.objects.machine.state.position < self._due:
                found.append(f"{name} has applied {program.objects.machine.state.position}, and not {self._due}")
        return found
