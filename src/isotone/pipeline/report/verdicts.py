"""The verdict table of the report, with what was promised and what broke it.

Implements: [DESIGN 4], [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from typing import Any

from isotone.pipeline.report.markup import run_name, section, text
from isotone.pipeline.report.tally import Tally
from isotone.spec.check.layers import ALL_PROPERTIES
from isotone.spec.properties import Property
from isotone.spec.verdicts import State

WITNESS_MAX = 8
STATES = {
    "holds": "holds",
    "violated": "violated",
    "not_exercised": "not exercised",
    "not_judged": "not judged",
}
_MEANING = (
    "<p class='note'><b>holds</b>: the premise was true at least once, and the promise was kept. <b>not exercised</b>: "
    "the premise never was. <b>not judged</b>: rows are missing that it would take.</p>"
)


def verdict_section(tally: Tally) -> str:
    """Every property: run by run where there are few, else counted."""
    heads = tuple(map(run_name, tally.runs)) if tally.beside else tuple(STATES.values())
    top = "".join(f'<th class="{"" if tally.beside else "n"}">{text(head)}</th>' for head in heads)
    lines = "".join(_line(label, tally) for label in tally.states)
    table = (
        f'<div class="scroll"><table><thead><tr><th>property</th><th>what it promises</th>{top}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )
    return section("verdicts", "Verdicts", _MEANING + _broken(tally) + table)


def property_of(label: str) -> Property | None:
    """The property behind a label."""
    return ALL_PROPERTIES.get(label.removesuffix("@S"))


def _line(label: str, tally: Tally) -> str:
    known = property_of(label)
    told = f"{text(known.name)}<small>{text(known.statement)}</small>" if known else ""
    if tally.beside:
        cells = "".join(f"<td>{_state(tally.beside.get((run, label)))}</td>" for run in tally.runs)
    else:
        counts = tally.states[label]
        cells = "".join(f'<td class="n">{_count(state, counts[state])}</td>' for state in STATES)
    return f'<tr><td class="id">{text(label)}</td><td>{told}</td>{cells}</tr>'


def _state(state: str | None) -> str:
    return "" if state is None else f'<span class="state {state}">{STATES[state]}</span>'


def _count(state: str, count: int) -> str:
    return f'<span class="state violated">{count}</span>' if state == "violated" and count else str(count)


def _broken(tally: Tally) -> str:
    """Each violation with its explanation and its witness."""
    told = "".join(_violation(row) for row in tally.broken)
    left = tally.count(State.VIOLATED) - len(tally.broken)
    return told + (f"<p>… and {left} more in the tables.</p>" if left else "")


def _violation(row: dict[str, Any]) -> str:
    known = property_of(row["label"])
    events = [f"{each['node']}#{each['incarnation']} event {each['index']}" for each in row["witness"] or ()]
    more = f" and {len(events) - WITNESS_MAX} more" if len(events) > WITNESS_MAX else ""
    told = "; ".join(events[:WITNESS_MAX]) + more
    statement = known.statement if known else ""
    return (
        f'<div class="broken"><b>{text(row["label"])} is violated in {text(run_name(row["run"]))}.</b> Promised: '
        f"{text(statement)} Broken by: <code>{text(told)}</code></div>"
    )
