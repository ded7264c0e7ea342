"""Pictures of metrics: latency by service, throughput over time.

Implements: [DESIGN 5], report. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isotone.pipeline.metrics.form import QUANTILES
from isotone.pipeline.metrics.messages import SERVICES
from isotone.pipeline.report.drawing import colour, drawn, logarithmic, outside_legend

Rows = Sequence[dict[str, Any]]


def latency_picture(id: str, rows: Rows) -> str:
    """For each service, which share of deliveries came within what time."""
    known = sorted(rows, key=lambda row: SERVICES.index(row["key"]))

    def draw(axes: Any) -> None:
        for row in known:
            times = [max(time, 1.0) / 1000 for time in row["quantiles"]]
            shares = [100 * share for share in QUANTILES]
            axes.plot(times, shares, label=f"{row['key']} ({row['count']:,})", color=colour(SERVICES.index(row["key"])))
        logarithmic(axes)
        axes.set(xlabel="milliseconds from send to delivery", ylabel="% of deliveries", ylim=(0, 101))
        outside_legend(axes)

    return drawn(id, draw)


def throughput_picture(id: str, sent: Rows, delivered: Rows) -> str:
    """Messages a second, step by step."""
    begin = min(row["place"] for row in (*sent, *delivered))

    def draw(axes: Any) -> None:
        for place, (label, rows) in enumerate((("delivered", delivered), ("sent", sent))):
            steps = _filled(rows)
            times = [time - begin for time, _ in steps]
            axes.fill_between(times, [rate for _, rate in steps], step="post", alpha=0.18, color=colour(place))
            axes.step(times, [rate for _, rate in steps], where="post", label=label, color=colour(place))
        axes.set(xlabel="seconds", ylabel="messages/s", ylim=(0, None))
        axes.margins(x=0.01)
        outside_legend(axes)

    return drawn(id, draw)


def _filled(rows: Rows) -> list[tuple[float, float]]:
    """Steps in which nothing happened are zero, not left out."""
    if not rows:
        return []
    width = rows[0]["width"] or 1.0
    rates = {round(row["place"] / width): row["count"] / width for row in rows}
    return [(step * width, rates.get(step, 0.0)) for step in range(min(rates), max(rates) + 2)]
