"""Every figure by its name. A figure is a function of its parameters that returns the parameters used, and rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import msgspec

from isotone.core.errors import InputError
from isotone.sim.figures.hab_latency import hab_latency
from isotone.sim.figures.hab_table import hab_table_1
from isotone.sim.figures.isis_concurrency import isis_concurrency
from isotone.sim.figures.latency_beside_bulk import latency_beside_bulk
from isotone.sim.figures.latency_by_protocol import chain_under_load, one_link
from isotone.sim.figures.latency_by_service import latency_by_service
from isotone.sim.figures.many_groups import many_groups
from isotone.sim.figures.membership_scale import cold_start, idle, rolling_restart, site_loss, split_and_merge
from isotone.sim.figures.ring_acceleration import ring_acceleration
from isotone.sim.figures.throughput_by_routing import throughput_by_routing
from isotone.sim.flows import figures as flows
from isotone.sim.flows import findings
from isotone.sim.flows.findings import Finding

Rows = list[dict[str, Any]]


class Figure(msgspec.Struct, frozen=True):
    """What ``isotone sim figure --json`` prints."""

    figure: str
    parameters: dict[str, Any]
    rows: Rows
    findings: tuple[Finding, ...] = ()


class Recipe(msgspec.Struct, frozen=True):
    """How a figure is drawn: who measures, which columns are its axes and tell its curves apart, and what of the
    paper's findings the rows show."""

    measure: Callable[..., tuple[dict[str, Any], Rows]]
    x: str
    y: str
    curves: tuple[str, ...]
    findings: Callable[[Rows], list[Finding]] | None = None
    right: str = ""  # a second y, on an axis of its own
    log_x: bool = False


_ROUTING = Recipe(throughput_by_routing, "source", "tree_kbit_per_second", ())
_ONE_LINK = Recipe(one_link, "load", "median_ms", ("protocol",))
_CHAIN = Recipe(chain_under_load, "load", "median_ms", ("protocol",))
_BESIDE_BULK = Recipe(latency_beside_bulk, "senders", "median_ms_beside_bulk", ())
_BY_SERVICE = Recipe(latency_by_service, "load", "latency_over_diameter", ("service", "senders"))
_SIZE = ("daemons", "sites")
_COLD_START = Recipe(cold_start, "daemons", "change_packets", ("start_within_s",))
_RING = Recipe(ring_acceleration, "throughput_mbit_per_second", "median_us", ("acceleration", "cost"))

FIGURES: Mapping[str, Recipe] = {
    "spread-table-4.1": _ROUTING,
    "spread-table-4.2": _ONE_LINK,
    "spread-figure-4.5": _CHAIN,
    "spread-table-5.1": _BY_SERVICE,
    "spread-figure-5.4": _BY_SERVICE,
    "latency-beside-bulk": _BESIDE_BULK,
    "ring-acceleration": _RING,
    "cold-start": _COLD_START,
    "rolling-restart": Recipe(rolling_restart, "daemons", "return_s", ("daemons",)),
    "site-loss": Recipe(site_loss, "step", "seconds", _SIZE),
    "split-and-merge": Recipe(split_and_merge, "step", "seconds", _SIZE),
    "idle-daemons": Recipe(idle, "daemons", "keep_alive_packets", _SIZE),
    "flows-10": Recipe(
        flows.phase_duration, "nodes", "phase_s", ("mttf_s", "detection_s"), findings.of_phase_duration, log_x=True
    ),
    "flows-11": Recipe(
        flows.latency_by_rate, "tps", "latency_s", ("k_max",), findings.of_latency_by_rate, right="token_bytes"
    ),
    "flows-12": Recipe(
        flows.latency_by_size,
        "nodes",
        "latency_s",
        (),
        findings.of_latency_by_size,
        right="token_bytes",
        log_x=True,
    ),
    "flows-13": Recipe(
        flows.unlimited_tokens,
        "commit_percent",
        "latency_s",
        (),
        findings.of_unlimited_tokens,
        right="token_bytes",
    ),
    "flows-14": Recipe(flows.phase_by_token_rate, "tokens_per_s", "phase_s", ("rate",), findings.of_token_rate),
    "flows-15": Recipe(flows.phase_by_ring_size, "ring_size", "phase_s", ("rate",), findings.of_ring_size, log_x=True),
    "hab-table-1": Recipe(hab_table_1, "m", "messages", ("protocol",)),
    "hab-latency": Recipe(hab_latency, "centre", "delays", ("step", "source")),
    "isis-5.4": Recipe(isis_concurrency, "updates", "answer_s", ("mode", "sites")),
    "flows-token-cost": Recipe(flows.token_cost, "ranges", "us_per_token", ()),
    "many-groups": Recipe(many_groups, "step", "cpu_seconds", ("groups",)),
}


def recipe_named(name: str) -> Recipe:
    """The recipe of this name, or an `InputError` that lists those there are."""
    recipe = FIGURES.get(name)
    if recipe is None:
        raise InputError(f"there is no figure {name!r}; there is {', '.join(FIGURES)}")
    return recipe


def figure_named(name: str, **parameters: Any) -> Figure:
    """Measure what the figure of this name shows; an `InputError` says which parameter it does not have."""
    measure = recipe_named(name).measure
    taken = signature(measure).parameters
    for each in parameters:
        if each not in taken:
            raise InputError(f"{name} has no {each}; it has {', '.join(taken)}")
    used, rows = measure(**parameters)
    return Figure(name, used, rows, findings_of(name, rows))


def findings_of(name: str, rows: Rows) -> tuple[Finding, ...]:
    """What the paper finds in this figure, held against these rows."""
    recipe = recipe_named(name)
    return tuple(recipe.findings(rows)) if recipe.findings else ()
