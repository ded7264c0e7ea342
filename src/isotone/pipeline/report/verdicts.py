"""The verdict table of the report, with what was promised and what broke it.

Implements: [DESIGN 4], [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from isotone.pipeline.report.markup import run_name, section, text
from isotone.pipeline.report.tally import Tally
from isotone.spec.check.layers import ALL_PROPERTIES
from isotone.spec.properties import Boundary, Property
from isotone.spec.verdicts import State

WITNESS_MAX = 8
STATES = {
    "holds": "holds",
    "violated": "violated",
    "not_exercised": "not exercised",
    "not_judged": "not judged",
}
_GROUPS = {
    Boundary.CLIENTS: "Groups of clients",
    Boundary.DAEMONS: "Between daemons",
    Boundary.NETWORK: "The network below",
    Boundary.COREL: "The replicated log",
    Boundary.REPLICATED: "Replicated objects",
    Boundary.ISIS: "Process groups (ISIS)",
    Boundary.HAB: "Data centres",
    Boundary.FLOWS: "Data flows",
    Boundary.SYNCHRONY: "View-synchronous groups",
}
_MEANING = (
    "<p class='note'><b>holds</b>: the premise was true at least once, and the promise was kept. <b>not exercised</b>: "
    "the premise never was. <b>not judged</b>: rows are missing that it would take.</p>"
)


def verdict_section(tally: Tally) -> str:
    """Every property: run by run where there are few, else counted."""
    heads = tuple(map(run_name, tally.runs)) if tally.beside else tuple(STATES.values())
    top = "".join(f'<th class="{"" if tally.beside else "n"}">{text(head)}</th>' for head in heads)
    groups: dict[str, list[str]] = {}
    for label in tally.states:
        groups.setdefault(group_of(label), []).append(label)
    tables = "".join(_group(name, labels, top, tally) for name, labels in groups.items())
    return section("verdicts", "Verdicts", _MEANING + _broken(tally) + tables)


def group_of(label: str) -> str:
    """Whose promise it is, in words."""
    if label.endswith("@S"):
        return "Between daemons"
    known = property_of(label)
    return _GROUPS.get(known.boundaries[0], known.boundaries[0].value) if known else "Others"


def _group(name: str, labels: list[str], top: str, tally: Tally) -> str:
    """One table, folded: open where something is violated."""
    counts = sum((tally.states[label] for label in labels), Counter[str]())
    told = ", ".join(f"{_count(state, counts[state])} {words}" for state, words in STATES.items() if counts[state])
    lines = "".join(_line(label, tally) for label in labels)
    return (
        f"<details{' open' if counts[State.VIOLATED.value] else ''}><summary><b>{text(name)}</b>: {told}</summary>"
        f'<div class="scroll"><table><thead><tr><th>property</th><th>what it promises</th>{top}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div></details>"
    )


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


def _named(label: str) -> str:
    """A label with its words."""
    known = property_of(label)
    return f"{known.name} ({label})" if known else label


def _violation(row: dict[str, Any]) -> str:
    known = property_of(row["label"])
    events = [f"{each['node']}#{each['incarnation']} event {each['index']}" for each in row["witness"] or ()]
    more = f" and {len(events) - WITNESS_MAX} more" if len(events) > WITNESS_MAX else ""
    told = "; ".join(events[:WITNESS_MAX]) + more
    statement = known.statement if known else ""
    return (
        f'<div class="broken"><b>{text(_named(row["label"]))} is violated in {text(run_name(row["run"]))}.</b> '
        "Promised: "
        f"{text(statement)} Broken by: <code>{text(told)}</code></div>"
    )
