"""What [Flows 4] finds in its Figures 10 to 15, held against the rows that we measured.

Implements: [Flows 4.1], [Flows 4.2], [Flows 4.3]. Deviations: none; where ours differs, ``docs/protocols/flows.md``
says why.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import correlation, mean
from typing import Any

import msgspec

Rows = list[dict[str, Any]]
EVEN = 1.6
"""Steps from layer to layer are alike if the largest is at most so many times the smallest."""


class Finding(msgspec.Struct, frozen=True):
    """One sentence of the paper, what our rows say to it, and whether that is the same."""

    paper: str
    ours: str
    agrees: bool


def of_phase_duration(rows: Rows) -> list[Finding]:
    """Figure 10."""
    still = [row for row in rows if row["mttf_s"] == "never"]
    churn, at_once = (
        [row for row in rows if row["mttf_s"] == 10.0 and (row["detection_s"] > 0) is late] for late in (True, False)
    )
    steps = [after["phase_s"] - before["phase_s"] for before, after in pairwise(still)]
    rounds = 10 * mean(steps) if steps else 0.0
    ratio = churn[-1]["phase_s"] / still[-1]["phase_s"]
    added = churn[-1]["phase_s"] - still[-1]["phase_s"]
    share = added / (0.4 * still[-1]["layers"])
    quick = at_once[-1]["phase_s"] / still[-1]["phase_s"]
    return [
        Finding(
            "duration grows with the logarithm of the size",
            f"{', '.join(f'{step:.2f}' for step in steps)} s for each factor of 8",
            bool(steps) and max(steps) <= EVEN * min(steps),
        ),
        Finding("about 4 more token rounds for each layer", f"{rounds:.1f}", 3 <= rounds <= 5),
        Finding(
            "at most about 20 % slower at MTTF 10 s",
            f"{100 * (ratio - 1):.0f} % slower, by {added:.2f} s, which is {100 * share:.0f} % of 4 rounds a layer; "
            f"{100 * (quick - 1):.0f} % if failures are noticed at once",
            ratio <= 1.25,
        ),
    ]


def of_latency_by_rate(rows: Rows) -> list[Finding]:
    """Figure 11."""
    fixed = [row for row in rows if row["k_max"] != "adapts"]
    well = [row for row in fixed if row["decided"] >= 0.99 and row["truncated"] < 0.05]
    over = [row for row in fixed if row not in well]
    findings = []
    if len(well) >= 3:
        linear = correlation([row["tps"] for row in well], [row["value_bytes"] for row in well])
        words = f"values at the top: correlation {linear:.3f}"
        findings.append(Finding("token size is linear in the rate", words, linear >= 0.97))
    if well:
        slow, fast = (pick(row["latency_s"] for row in well) for pick in (max, min))
        words = f"{fast:.2f} to {slow:.2f} s up to {well[-1]['tps']} a second"
        findings.append(Finding("latency is unaffected until k_max is reached", words, slow <= 1.2 * fast))
    if over:
        first = over[0]
        words = f"between {well[-1]['tps'] if well else 0} and {first['tps']} a second"
        findings.append(Finding("k_max 100 is reached near 1,050 a second", words, 850 <= first["tps"] <= 1_250))
        worst = over[-1]
        words = f"{100 * worst['decided']:.0f} % decided in time at {worst['tps']} a second"
        findings.append(Finding("latency is unbounded past it", words, worst["decided"] < 0.9))
    return findings


def of_latency_by_size(rows: Rows) -> list[Finding]:
    """Figure 12."""
    steps = [after["latency_s"] - before["latency_s"] for before, after in pairwise(rows)]
    sizes = [after["value_bytes"] - before["value_bytes"] for before, after in pairwise(rows)]
    return [
        Finding(
            "latency grows with the logarithm of the size",
            f"{', '.join(f'{step:.2f}' for step in steps)} s for each factor of 8",
            max(steps) <= EVEN * min(steps),
        ),
        Finding(
            "token size grows with the logarithm of the size",
            f"{', '.join(f'{step:+d}' for step in sizes)} bytes for each factor of 8",
            rows[-1]["value_bytes"] <= 2 * len(rows) * rows[0]["value_bytes"],
        ),
    ]


def of_unlimited_tokens(rows: Rows) -> list[Finding]:
    """Figure 13."""
    size, ranges = rows[-1]["largest_bytes"], rows[-1]["ranges"]
    plain = f"{ranges * 32 / 1000:.1f} KB with 8 bytes for each end of a range in two sets"
    words = f"up to {size / 1000:.1f} KB, with {ranges} ranges in a set: {plain}"
    return [Finding("about 12 KB a token when half of the transactions commit", words, 8_000 <= size <= 16_000)]


def of_token_rate(rows: Rows) -> list[Finding]:
    """Figure 14."""
    fixed = {row["tokens_per_s"]: row["phase_s"] for row in rows if row["tokens_per_s"] is not None}
    gain = 1 - fixed[24.0] / fixed[12.0]
    return [
        _spread("token rates", [duration for rate, duration in fixed.items() if 5 <= rate <= 24]),
        Finding(
            "more than 12 tokens a second are redundant work",
            f"24 a second, twice the work, are {100 * gain:.0f} % faster",
            gain <= 0.3,
        ),
    ]


def of_ring_size(rows: Rows) -> list[Finding]:
    """Figure 15."""
    return [_spread("ring sizes", [row["phase_s"] for row in rows if row["rate"] == "fixed"])]


def _spread(what: str, durations: list[float]) -> Finding:
    ratio = max(durations) / min(durations)
    return Finding(f"a bad choice of {what} costs a factor of about 2", f"{ratio:.1f}", 1.5 <= ratio <= 3.0)
