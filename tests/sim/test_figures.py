"""The papers' figures from our own runs, with fewer probes than the command takes."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from isotone.cli.main import commands
from isotone.core.errors import InputError
from isotone.core.services import Service
from isotone.evs.ordering.updates import SHARE, UPDATE_PACKET_BYTES
from isotone.sim.figures import Figure, figure_named
from isotone.sim.figures.chain import Chain, ChainSettings
from isotone.sim.figures.latency_by_service import LOADS
from tests.sim.ordering_bounds import service_violations

PROBES = 15


@pytest.fixture(scope="module")
def measured() -> Figure:
    return figure_named("spread-figure-5.4", probes=PROBES)


def value(figure: Figure, service: Service, senders: str, load: float | None = None) -> float:
    rows: list[dict[str, Any]] = [
        row for row in figure.rows if (row["service"], row["senders"], row["load"]) == (service.name, senders, load)
    ]
    assert len(rows) == 1
    return float(rows[0]["latency_over_diameter"])


def test_every_service_keeps_its_bound(measured: Figure) -> None:
    """Reference: [Spread Table 5.1, Figure 5.4]. With 15 probes a value; `results/figure-5.4.txt` has 200."""
    assert len(measured.rows) == 5 * (len(LOADS) + 2)
    assert service_violations(measured) == []


def test_stronger_services_cost_what_the_thesis_says(measured: Figure) -> None:
    """Reference: [Spread 5.2]: RELIABLE one diameter, AGREED two with one sender and one with all, SAFE one more."""
    for load in LOADS:
        assert value(measured, Service.RELIABLE, "one", load) >= 0.95
        assert value(measured, Service.AGREED, "one", load) >= 1.5
        assert value(measured, Service.SAFE, "one", load) >= 2.5
    assert value(measured, Service.AGREED, "all") <= value(measured, Service.AGREED, "one", 0.0) - 0.5


def test_a_bound_that_is_broken_is_seen(measured: Figure) -> None:
    for place, row in enumerate(measured.rows):
        rows = list(measured.rows)
        rows[place] = {**row, "latency_over_diameter": 4.0}
        assert len(service_violations(Figure(measured.figure, measured.parameters, rows))) == 1


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


@pytest.mark.parametrize("senders", ["sparse", "all"])
def test_bulk_raises_the_latency_of_other_senders_by_at_most_a_packet_a_hop(senders: str) -> None:
    """Amid a message of 2 MB; the command, and so a soak, takes 16 MiB and measures all the time that it travels."""
    probes = 20 if senders == "sparse" else 200
    (row,) = figure_named("latency-beside-bulk", probes=probes, bulk_bytes=2_000_000, senders=[senders]).rows
    assert row["raised_ms"] <= row["bound_ms"] == 22.4, row
    assert row["bulk_kbyte_per_second"] is None, "the large message was on its way all the time"


def test_bulk_takes_what_others_leave() -> None:
    """Half of the link at least, though others have a part of it and bulk shall not queue anywhere."""
    (row,) = figure_named("latency-beside-bulk", bulk_bytes=500_000, senders=["all"]).rows
    assert row["bulk_kbyte_per_second"] >= 0.5 * 187.5, row
