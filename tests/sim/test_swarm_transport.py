"""40 standard runs on the transport: no violation, everything that applies exercised, few failed links.

The seeds come in chunks, so that they spread over the cores of the machine.
"""

from __future__ import annotations

import pytest

from isotone.core.choice import Choice
from isotone.sim.evs_system import EvsSystem
from isotone.sim.swarm import run_swarm, summarise_swarm
from isotone.sim.system import Setting, draw_plan
from isotone.sim.transport_system import TalkStep, TransportRun, draw_sites, transport_labels
from isotone.sim.world import World
from tests.sim.same_bytes import traces_of

SETTING = Setting(stack="transport")
SEEDS = range(1, 61)
CHUNK = 20
FAILED_MAX = 0.2  # of all runs, whether a link died or failed by itself
BY_ITSELF = 0.05  # so that few runs are lost to weather; the rest may be links that die
RARE = {"EVS-2.23"}  # needs a link that fails


@pytest.mark.parametrize("first", SEEDS[:40:CHUNK])
def test_the_transport_keeps_every_promise(first: int) -> None:
    summary = summarise_swarm(SETTING, run_swarm(SETTING, range(first, first + CHUNK), workers=1))
    assert summary.failures == (), [f"{failure.property}: {failure.replay}" for failure in summary.failures]
    never = [label for label in transport_labels() if not summary.properties[label]["holds"]]
    assert set(never) <= RARE, "never exercised"
    assert summary.choices["link failed by itself"] <= BY_ITSELF * CHUNK
    assert summary.choices["units without content"] > 0, "content was pruned, and nobody lacked what he is owed"
    assert summary.bounds["live"] <= 1


def test_links_die_in_some_runs_and_in_so_few_that_most_end_without_a_failed_link() -> None:
    """With what may fail by itself: at least 80 % of the runs."""
    plans = [draw_plan(EvsSystem(), SETTING, seed) for seed in SEEDS]
    deaths = sum(TransportRun(World(seed=plan.seed), plan).has_death for plan in plans)
    assert 0 < deaths <= (FAILED_MAX - BY_ITSELF) * len(SEEDS)


def test_runs_are_of_every_shape_and_service() -> None:
    plans = [draw_plan(EvsSystem(), SETTING, seed) for seed in SEEDS]
    sites = [[node.site for node in plan.topology.nodes] for plan in plans]
    assert {len(set(each)) for each in sites} == set(range(1, 7))
    assert max(each.count(site) for each in sites for site in each) >= 7
    assert max(map(len, sites)) <= 12
    for plan in plans:
        services = {step.service for step in plan.steps if isinstance(step, TalkStep)}
        assert len(services) == 6 and len(plan.steps) >= 2_000


@pytest.mark.parametrize("nodes", [1, 7, 12, 30, 48])
def test_a_given_number_of_nodes_is_dealt_out_to_sites(nodes: int) -> None:
    assert len(draw_sites(Choice(nodes), nodes).nodes) == nodes


def test_the_same_seed_gives_the_same_bytes() -> None:
    traces = traces_of("transport")
    assert len(traces) == 1 and b"" not in traces
