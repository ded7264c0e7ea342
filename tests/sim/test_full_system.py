"""The stack "full": clients elsewhere reach their daemons by sessions, through every fault, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest

from isotone.core.choice import Choice
from isotone.evs.stack import Stack
from isotone.sim.evs_clients import Clients
from isotone.sim.evs_system import EvsSystem
from isotone.sim.faults import Crash, Fault, KillClient, Partition, Restart
from isotone.sim.full_system import FullRun
from isotone.sim.plan import Plan, Size
from isotone.sim.process import CLIENTS_LABEL, SERVICE_LABEL
from isotone.sim.remote_client import RemoteClient, StreamBroken
from isotone.sim.remote_clients import Terms, draw_terms
from isotone.sim.run import RunResult, run_plan
from isotone.sim.system import BuiltSystem, Setting, draw_plan
from isotone.sim.workload import ConnectStep, JoinStep
from isotone.sim.world import World
from isotone.trace.events import Delivered, Row, Sent

SMALL = Setting(system="evs", stack="full", size=Size.SMALL)


class Run(NamedTuple):
    """One run, and what is left of it."""

    world: World
    built: FullRun
    result: RunResult
    rows: list[Row]

    @property
    def programs(self) -> dict[str, RemoteClient]:
        """The client programs that are there at the end, by their process."""
        found = {}
        for name in self.world.nodes:
            if self.world.is_up(name):
                program = self.world.automaton(name, CLIENTS_LABEL)
                if isinstance(program, RemoteClient):
                    found[name] = program
        return found


class KeptSystem(EvsSystem):
    """Keeps what it built."""

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        self.world, self.built = world, FullRun(world, plan)
        return self.built


def run(plan: Plan) -> Run:
    system, rows = KeptSystem(), list[Row]()
    result = run_plan(system, plan, sink=rows.append)
    return Run(system.world, system.built, result, rows)


def terms_of(seed: int) -> Terms:
    return draw_terms(Choice(f"remote/{seed}").derive("terms"))


def seeds_with(share: tuple[float, ...], count: int, *, disturbances: int = 3) -> list[int]:
    """The first seeds whose clients are remote in this way."""
    found: list[int] = []
    seed = 0
    while len(found) < count:
        seed += 1
        terms = terms_of(seed)
        if terms.shares == share and terms.disturbances == disturbances:
            found.append(seed)
    return found


def counted(rows: list[Row]) -> tuple[Counter[str], Counter[str]]:
    """How many messages each client sent, and was told of, by the record at its daemon."""
    sent, told = Counter[str](), Counter[str]()
    for row in rows:
        if isinstance(row.entry, Sent):
            sent[row.entry.client] += len(row.entry.lengths)
        elif isinstance(row.entry, Delivered):
            told.update({client: len(row.entry.digests) for client in row.entry.receivers})
    return sent, told


def test_about_half_of_the_seeds_have_clients_elsewhere() -> None:
    remote = [seed for seed in range(200) if any(terms_of(seed).shares)]
    assert 70 <= len(remote) <= 130


def test_all_properties_hold_and_what_remote_clients_say_and_hear_is_what_their_daemons_record() -> None:
    reconnected = whole = 0
    for seed in seeds_with((1.0,), 5):
        done = run(draw_plan(EvsSystem(), SMALL, seed))
        assert not done.result.violations, (seed, done.result.violations[0])
        sent, told = counted(done.rows)
        for name, program in done.programs.items():
            if program.clients.opened == 1:
                for session in program.clients.sessions.values():
                    assert sent[str(session.id)] == session.sent, (seed, name)
                    assert told[str(session.id)] == program.clients.heard, (seed, name)
                    whole += session.sent > 0
                    reconnected += program.notices["Reconnected"]
    assert whole >= 5 and reconnected >= 3


def test_embedded_and_remote_clients_stand_beside_each_other() -> None:
    kinds = set()
    for seed in seeds_with((0.0, 0.5, 1.0), 3):
        done = run(draw_plan(EvsSystem(), SMALL, seed))
        assert not done.result.violations, (seed, done.result.violations[0])
        sent, _ = counted(done.rows)
        kinds |= {
            type(done.world.automaton(name, CLIENTS_LABEL)) for name in done.world.nodes if done.world.is_up(name)
        }
        assert sent
    assert kinds == {Clients, RemoteClient}


@pytest.fixture
def calm() -> Plan:
    """Three nodes, all clients elsewhere, no faults but those that a test adds."""
    (seed,) = seeds_with((1.0,), 1, disturbances=0)
    setting = Setting(system="evs", stack="full", size=Size.SMALL, faults="none", nodes="3")
    return draw_plan(EvsSystem(), setting, seed)


def with_faults(plan: Plan, *faults: Fault) -> Plan:
    return Plan(**{name: getattr(plan, name) for name in plan.__struct_fields__} | {"faults": faults})


def only_first_connect(plan: Plan, node: str, client: str) -> Plan:
    """This client connects once and joins, and is told nothing else."""
    kept: list[object] = [ConnectStep(0, node, client), JoinStep(10, node, client, plan.topology.groups[0])]
    kept += [step for step in plan.steps if (step.node, getattr(step, "client", "")) != (node, client)]
    return Plan(**{name: getattr(plan, name) for name in plan.__struct_fields__} | {"steps": tuple(kept)})


def first_client(plan: Plan) -> tuple[str, str]:
    node = plan.topology.nodes[0]
    return node.name, node.clients[0]


def test_a_killed_client_stays_away_and_leaves_its_groups(calm: Plan) -> None:
    node, client = first_client(calm)
    done = run(with_faults(only_first_connect(calm, node, client), KillClient(600_000, node, client)))
    assert not done.result.violations, done.result.violations[0]
    assert not done.world.is_up(f"{client}@1")
    stack = done.world.automaton(node, SERVICE_LABEL)
    assert isinstance(stack, Stack) and stack.sessions is not None
    assert stack.sessions.sessions == len(calm.topology.nodes[0].clients) - 1


def test_clients_follow_a_daemon_that_comes_back_elsewhere_and_join_again(calm: Plan) -> None:
    node, client = first_client(calm)
    moved = (Crash(500_000, node), Restart(700_000, node, elsewhere=True))
    done = run(with_faults(only_first_connect(calm, node, client), *moved))
    assert not done.result.violations, done.result.violations[0]
    program = done.programs[f"{client}@1"]
    assert program.clients.opened > 1
    assert program.clients.sessions[client].id.daemon == done.world.daemon(node)
    assert list(program.clients.sessions[client].views) == [calm.topology.groups[0]]


def test_daemons_that_all_move_while_apart_find_each_other(calm: Plan) -> None:
    names = calm.topology.names
    apart = Partition(300_000, tuple((name,) for name in names))
    moves: list[Fault] = []
    for place, name in enumerate(names):
        moves += [Crash(400_000 + 200_000 * place, name), Restart(500_000 + 200_000 * place, name, elsewhere=True)]
    done = run(with_faults(calm, apart, *moves))
    assert not done.result.violations, done.result.violations[0]
    assert [done.world.nodes[name].address for name in names] == [f"{name}.2" for name in names]


def test_partitions_leave_clients_with_their_daemons(calm: Plan) -> None:
    names = calm.topology.names
    sides = ((names[0],), tuple(names[1:]))
    done = run(with_faults(calm, Partition(500_000, sides)))
    assert not done.result.violations, done.result.violations[0]
    assert not sum((program.notices for program in done.programs.values()), Counter())["Broken"]


def test_a_broken_stream_is_gone_on_with(calm: Plan) -> None:
    node, client = first_client(calm)
    home = f"{client}@1"
    system = KeptSystem()
    original = system.build

    def build(world: World, plan: Plan) -> BuiltSystem:
        built = original(world, plan)
        world.at(600_000, lambda: world.tell(home, CLIENTS_LABEL, StreamBroken(0)))
        return built

    system.build = build  # type: ignore[method-assign]
    result = run_plan(system, only_first_connect(calm, node, client))
    assert not result.violations, result.violations[0]
    program = system.world.automaton(home, CLIENTS_LABEL)
    assert isinstance(program, RemoteClient)
    assert program.notices == {"Broken": 1, "Reconnected": 1} and program.clients.opened == 1


def test_a_run_repeats_itself() -> None:
    (seed,) = seeds_with((1.0,), 1)
    plan = draw_plan(EvsSystem(), SMALL, seed)
    assert run(plan).rows == run(plan).rows


@pytest.mark.parametrize(
    ("seed", "faults"),
    [
        (46, "partition,crash,cut"),  # a slow reader was ended while its requests were handed on, and ended again
    ],
)
def test_seeds_that_once_failed(seed: int, faults: str) -> None:
    setting = Setting(system="evs", stack="full", faults=faults)
    assert run_plan(EvsSystem(), draw_plan(EvsSystem(), setting, seed)).violations == ()
