"""The papers' figures from our own runs, with fewer probes than the command takes."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest
from click.testing import CliRunner

from isotone.cli.main import commands
from isotone.core.errors import InputError
from isotone.core.services import Service
from isotone.evs.ordering.updates import SHARE, UPDATE_PACKET_BYTES
from isotone.sim.figures import Figure, figure_named
from isotone.sim.figures.chain import Chain, ChainSettings

PROBES = 25


@pytest.fixture(scope="module")
def measured() -> Figure:
    return figure_named("spread-figure-5.4", probes=PROBES, loads=(0.0, 0.8))


def value(figure: Figure, service: Service, senders: str, load: float | None = None) -> float:
    rows: list[dict[str, Any]] = [
        row for row in figure.rows if (row["service"], row["senders"], row["load"]) == (service.name, senders, load)
    ]
    assert len(rows) == 1
    return float(rows[0]["latency_over_diameter"])


def test_weak_services_take_one_diameter(measured: Figure) -> None:
    """Reference: [Spread Figure 5.4]."""
    packet = 3 * measured.parameters["packet_us"] / measured.parameters["diameter_us"]
    for service in (Service.RELIABLE, Service.FIFO, Service.CAUSAL):
        assert value(measured, service, "one", 0.0) <= 1.05
        assert value(measured, service, "one", 0.8) <= 1.05 + packet


def test_agreed_takes_two_diameters_and_delta_with_one_sender_and_one_with_all(measured: Figure) -> None:
    """Reference: [Spread Table 5.1]."""
    delta = measured.parameters["delta_us"] / measured.parameters["diameter_us"]
    assert delta <= 0.25
    for load in (0.0, 0.8):
        assert 1.5 <= value(measured, Service.AGREED, "one", load) <= 2 + delta
    assert value(measured, Service.AGREED, "all") <= 1.35
    assert value(measured, Service.AGREED, "unequal") <= 2 + delta


def test_safe_takes_one_diameter_and_delta_more(measured: Figure) -> None:
    """Reference: [Spread 5.2]."""
    delta = measured.parameters["delta_us"] / measured.parameters["diameter_us"]
    for load in (0.0, 0.8):
        assert 2.5 <= value(measured, Service.SAFE, "one", load) <= 3 + 2 * delta
    assert value(measured, Service.SAFE, "all") <= 2.35
    assert value(measured, Service.SAFE, "unequal") <= 3 + 2 * delta


@pytest.mark.parametrize("service", [Service.RELIABLE, Service.AGREED, Service.SAFE])
def test_updates_take_at_most_their_share_of_a_link(service: Service) -> None:
    """Every update of another site counted as a packet of its own, which is more than it costs in company."""
    chain = Chain(ChainSettings(), seed=1)
    seconds = 4
    for place in range(500 * seconds):
        chain.send_at(1_000_000 + place * 2_000, 0, service)
    chain.world.run_until((1 + seconds) * 1_000_000)
    gateways = [chain.transport(site).gateway for site in range(1, 4)]
    updates = sum(gateway.publisher.published for gateway in gateways if gateway is not None)
    assert 0 < updates * UPDATE_PACKET_BYTES <= seconds * 187_500 / SHARE


def test_a_figure_is_the_same_every_time() -> None:
    draw = [figure_named("spread-table-5.1", probes=2, loads=(0.5,), services=(Service.AGREED,)) for _ in range(2)]
    assert draw[0] == draw[1]


def test_the_command_prints_one_object() -> None:
    result = CliRunner().invoke(commands, ["sim", "figure", "spread-table-5.1", "--probes", "1", "--json"])
    assert result.exit_code == 0 and '"rows"' in result.output and '"figure": "spread-table-5.1"' in result.output
    with pytest.raises(InputError, match="there is no figure"):
        figure_named("spread-figure-9.9")


def agreed_medians(*, bulk_bytes: int) -> float:
    """The median AGREED latency of the other senders, sparse and in turn, while the first site sends bulk or not."""
    chain = Chain(ChainSettings(), seed=1)
    if bulk_bytes:
        chain.send_bulk_at(500_000, 0, bulk_bytes, fragment_bytes=1_300)
    probes = [chain.send_at(2_000_000 + place * 250_000, 1 + place % 3, Service.AGREED) for place in range(24)]
    chain.world.run_until(2_000_000 + 25 * 250_000)
    assert not bulk_bytes or chain.transport(0).stamper.waiting_bytes > 0, "the bulk lasts"
    return median(chain.last_us(number) for number in probes)


def test_bulk_raises_the_latency_of_other_senders_by_at_most_a_packet_a_hop() -> None:
    packet_us = 1_400 * 1_000_000 // 187_500
    assert agreed_medians(bulk_bytes=2_000_000) <= agreed_medians(bulk_bytes=0) + 3 * packet_us


def test_hop_stays_flat_under_load_on_a_lossy_chain() -> None:
    """Reference: [Spread Figure 4.5]."""
    rows = figure_named("spread-figure-4.5", probes=20, loads=(0.0, 0.8)).rows
    values = {(row["protocol"], row["load"]): row["median_ms"] for row in rows}
    assert values["hop", 0.8] <= 1.15 * values["hop", 0.0]
    assert values["tcp", 0.8] >= 1.5 * values["tcp", 0.0]


def test_fanout_wins_for_some_sources_and_the_tree_for_others() -> None:
    """Reference: [Spread Table 4.1]."""
    rows = figure_named("spread-table-4.1", probes=120).rows
    wins = {row["source"]: row["fanout_kbit_per_second"] > row["tree_kbit_per_second"] for row in rows}
    assert wins["cnds"] and not wins["rutgers"] and not wins["ucsb"]
