"""The metrics of the report: latency, throughput, and the rest as tables.

Implements: [DESIGN 5], report. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isotone.pipeline.metrics.table import CLOCK_ERROR
from isotone.pipeline.report.charts import latency_picture, throughput_picture
from isotone.pipeline.report.markup import figure, milliseconds, number, run_name, section, table, text

Rows = Sequence[dict[str, Any]]
LINES_MAX = 24
_TIMES = ("key", "count", "mean", "p50", "p90", "p99", "p999", "most")
SAMPLES_MIN = {"p90": 10, "p99": 100, "p999": 1000}
"""Of fewer, that share of them is not one sample: the largest would stand under another name."""


def _of(metrics: Rows, run: str, metric: str, dimension: str) -> list[dict[str, Any]]:
    return [
        row for row in metrics if row["run"] == run and row["metric"] == metric and row["dimension"] == dimension
    ]  # fmt: skip


def _who(metrics: Rows, run: str, metric: str) -> str:
    """The metric of clients, or where none are recorded that of daemons."""
    return metric if _of(metrics, run, metric, "all") else f"daemon {metric}"


def _times(title: str, rows: Rows) -> str:
    if not rows:
        return ""
    head = (title, "count", "mean", "median", "90 %", "99 %", "99.9 %", "most")
    lines = [[row["key"], number(row["count"]), *(_time(row, name) for name in _TIMES[2:])] for row in rows[:LINES_MAX]]
    return table(head, lines, numbers_from=1) + _left(rows)


def _time(row: dict[str, Any], name: str) -> str:
    return milliseconds(row[name] if row["count"] >= SAMPLES_MIN.get(name, 1) else None)


def _left(rows: Rows) -> str:
    return f'<p class="note">… and {len(rows) - LINES_MAX} more in the tables.</p>' if len(rows) > LINES_MAX else ""


def latency_section(runs: Sequence[str], metrics: Rows) -> str:
    """Distributions by service, then by distance, size and load."""
    body = (
        '<p class="note">From a send to each delivery, in milliseconds; percentiles are exact, and left out where '
        "there are too few deliveries for them.</p>"
    )
    for place, run in enumerate(runs):
        name = _who(metrics, run, "latency")
        services = _of(metrics, run, name, "service")
        body += f"<h3>{text(run_name(run))}</h3>"
        if not services:
            body += "<p>Nothing was delivered.</p>"
            continue
        body += _clocks(_of(metrics, run, CLOCK_ERROR, "all"))
        svg = latency_picture(f"latency-{place}", services)
        body += figure(f"latency-{place}", svg, f"Latency by service in run {run_name(run)}.")
        body += _times("service", services)
        for dimension in ("distance", "size", "load"):
            body += _times(dimension, _of(metrics, run, name, dimension))
    return section("latency", "Latency", body)


def _clocks(errors: Rows) -> str:
    """A warning where times of different nodes cannot be trusted."""
    return "".join(
        f'<p class="missing">The clocks of these nodes cannot be set side by side: they drift, and messages seem to '
        f"arrive up to {milliseconds(row['most'])} ms before they were sent. Times between nodes are no better.</p>"
        for row in errors
    )


def throughput_section(runs: Sequence[str], metrics: Rows) -> str:
    """Messages a second over time."""
    body = '<p class="note">Deliveries count once for each receiver.</p>'
    for place, run in enumerate(runs):
        sent, delivered = (_of(metrics, run, _who(metrics, run, name), "time") for name in ("sent", "delivered"))
        body += f"<h3>{text(run_name(run))}</h3>"
        if not sent and not delivered:
            body += "<p>Nothing was sent.</p>"
            continue
        svg = throughput_picture(f"throughput-{place}", sent, delivered)
        body += figure(f"throughput-{place}", svg, f"Messages sent and delivered in run {run_name(run)}.")
    return section("throughput", "Throughput", body)


def other_section(runs: Sequence[str], metrics: Rows) -> str:
    """View changes by phase, silences, lag, traffic by link and per broadcast."""
    body = ""
    for run in runs:
        body += f"<h3>{text(run_name(run))}</h3>"
        for metric in ("view change", "daemon view change"):
            rows = _of(metrics, run, metric, "phase")
            body += _times(f"{metric}, ms", rows) if rows else ""
        for metric, title in (
            ("silence", "silence by node, ms"),
            ("daemon silence", "daemon silence by node, ms"),
            (_who(metrics, run, "lag"), "behind the first node, ms"),
        ):
            rows = _of(metrics, run, metric, "node")
            body += _times(title, rows) if rows else ""
        body += _traffic(run, metrics)
    return section("measures", "Other measures", body)


def _traffic(run: str, metrics: Rows) -> str:
    links = _of(metrics, run, _who(metrics, run, "carried"), "link")
    body = ""
    if links:
        lines = [[row["key"], number(row["count"]), number(row["total"])] for row in links[:LINES_MAX]]
        body += table(("link", "messages", "bytes"), lines, numbers_from=1) + _left(links)
    whole = [
        row for row in metrics
        if row["run"] == run and row["dimension"] == "all" and _is_traffic(row["metric"])
    ]  # fmt: skip
    if whole:
        lines = [
            [row["metric"], row["unit"], *(number(row[name]) for name in ("count", "total", "mean", "most"))]
            for row in whole
        ]
        body += table(("traffic", "unit", "count", "total", "mean", "most"), lines, numbers_from=2)
    return body


def _is_traffic(metric: str) -> bool:
    """Of packets, of the network below, or per broadcast."""
    return metric.startswith(("link ", "network ")) or " per " in metric
