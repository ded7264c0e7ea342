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
    still = [row["phase_s"] for row in rows if row["mttf_s"] == "never"]
    churn, at_once = (
        [row["phase_s"] for row in rows if row["mttf_s"] == 10.0 and (row["detection_s"] > 0) is late]
        for late in (True, False)
    )
    steps, harder = _steps(still), _steps(churn)
    rounds = 10 * mean(steps) if steps else 0.0
    slower, quick = (100 * (each[-1] / still[-1] - 1) for each in (churn, at_once))
    return [
        Finding(
            "duration grows with the logarithm of the size",
            f"{_listed(steps)} s for each factor of 8, {_listed(harder)} s at MTTF 10 s",
            _are_even(steps) and _are_even(harder),
        ),
        Finding("about 4 more token rounds for each layer", f"{rounds:.1f}", 3 <= rounds <= 5),
        Finding(
            "at most about 20 % slower at MTTF 10 s",
            f"{slower:.0f} % slower, by {churn[-1] - still[-1]:.2f} s; {quick:.0f} % if failures are noticed at once",
            slower <= 25,
        ),
    ]


def of_latency_by_rate(rows: Rows) -> list[Finding]:
    """Figure 11."""
    fixed = [row for row in rows if row["k_max"] != "adapts"]
    well = [row for row in fixed if row["decided"] >= 0.99 and row["truncated"] < 0.05]
    over = [row for row in fixed if row not in well]
    findings = []
    if len(well) >= 3:
        findings.append(_linear([row["tps"] for row in well], well))
    if well:
        slow, fast = (pick(row["latency_s"] for row in well) for pick in (max, min))
        words = f"{fast:.2f} to {slow:.2f} s up to {well[-1]['tps']} a second"
        findings.append(Finding("latency is unaffected until k_max is reached", words, slow <= 1.2 * fast))
    if over:
        first = over[0]
        words = f"between {well[-1]['tps'] if well else 0} and {first['tps']} a second"
        findings.append(Finding("k_max 100 is reached near 1,050 a second", words, 850 <= first["tps"] <= 1_250))
        words = ", ".join(f"{row['growth_per_s']:.2f} s each second at {row['tps']} a second" for row in over)
        findings.append(Finding("latency is unbounded past it", f"it grows by {words}", over[-1]["growth_per_s"] > 0.1))
    return findings


def _linear(rates: list[float], rows: Rows) -> Finding:
    """Linear: the points are on a line, and it rises at least half as steeply as the rate does."""
    whole, top = ([row[name] for row in rows] for name in ("token_bytes", "value_bytes"))
    both = [correlation(rates, each) for each in (whole, top)]
    return Finding(
        "token size is linear in the rate",
        f"{whole[0]} to {whole[-1]} bytes from {rates[0]} to {rates[-1]} a second, correlation {both[0]:.3f}, "
        f"{_outcomes(rows)}; the values in the top ring {top[0]} to {top[-1]}, correlation {both[1]:.3f}",
        both[0] >= 0.97 and whole[-1] / whole[0] >= rates[-1] / rates[0] / 2,
    )


def of_latency_by_size(rows: Rows) -> list[Finding]:
    """Figure 12."""
    steps = _steps([row["latency_s"] for row in rows])
    whole, top = ([row[name] for row in rows] for name in ("token_bytes", "value_bytes"))
    return [
        Finding(
            "latency grows with the logarithm of the size",
            f"{_listed(steps)} s for each factor of 8",
            _are_even(steps),
        ),
        Finding(
            "token size grows with the logarithm of the size",
            f"{', '.join(map(str, whole))} bytes, {_outcomes(rows)}; the values in the top ring "
            f"{', '.join(map(str, top))}",
            _are_even(_steps(whole)),
        ),
    ]


def of_unlimited_tokens(rows: Rows) -> list[Finding]:
    """Figure 13."""
    size, down, ranges = rows[-1]["largest_bytes"], rows[-1]["down_bytes"], rows[-1]["ranges"]
    words = (
        f"up to {size / 1000:.1f} KB, of which outcomes of the last 5,000 transactions are about {down / 1000:.1f} KB; "
        f"sets of undecided ones in the top ring have {ranges} ranges"
    )
    return [Finding("about 12 KB a token when half of the transactions commit", words, 8_000 <= size <= 16_000)]


def of_token_rate(rows: Rows) -> list[Finding]:
    """Figure 14."""
    fixed = {row["tokens_per_s"]: row for row in rows if row["tokens_per_s"] is not None}
    twelve, double = fixed[12.0], fixed[24.0]
    gain = 100 * (1 - double["phase_s"] / twelve["phase_s"])
    work = double["hops_per_s"] / twelve["hops_per_s"]
    near = _ratio([row["phase_s"] for rate, row in fixed.items() if 5 <= rate <= 24])
    return [
        _spread("token rates", [row["phase_s"] for row in fixed.values()], f"; {near:.1f} from 5 to 24 a second"),
        Finding(
            "more than 12 tokens a second are redundant work",
            f"24 a second are {work:.1f} times the work of 12, and {gain:.0f} % faster",
            gain <= 5,
        ),
    ]


def of_ring_size(rows: Rows) -> list[Finding]:
    """Figure 15."""
    return [_spread("ring sizes", [row["phase_s"] for row in rows if row["rate"] == "fixed"])]


def _spread(what: str, durations: list[float], more: str = "") -> Finding:
    ratio = _ratio(durations)
    return Finding(f"a bad choice of {what} costs a factor of about 2", f"{ratio:.1f}{more}", 1.5 <= ratio <= 3.0)


def _ratio(durations: list[float]) -> float:
    return max(durations) / min(durations)


def _steps(values: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(values)]


def _are_even(steps: list[float]) -> bool:
    return bool(steps) and 0 < max(steps) <= EVEN * min(steps)


def _listed(steps: list[float]) -> str:
    return ", ".join(f"{step:.2f}" for step in steps)


def _outcomes(rows: Rows) -> str:
    """How much of tokens is on its way down: the outcomes of the last 5,000 transactions, as the program says."""
    shares = [100 * row["down_bytes"] / row["token_bytes"] for row in rows]
    return f"{min(shares):.0f} to {max(shares):.0f} % of that outcomes of the last 5,000 transactions"
