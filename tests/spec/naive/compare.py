"""Where the streaming checkers and the dumb second version disagree about a run, property by property.

Three kinds of record are so spoilt that further verdicts depend on whom one believes, and are compared in part only:
ids of views that do not grow or views without the process itself (2.2, 2.3: which stay belongs to which view?),
deliveries that stand before the sends they depend on in a circle (2.6: which was first?), and processes that go on
behind their end (2.1: did they end?). That such a run breaks something at all must be agreed upon in any case.
"""

from __future__ import annotations

from isotone.spec.check import check
from isotone.trace.events import Row
from tests.spec.naive.judge import CLIENTS, DAEMONS, judge
from tests.spec.naive.reading import client_history, daemon_history

VIOLATED, NOT_JUDGED = "violated", "not_judged"
IDENTITY = ("EVS-2.1", "EVS-2.2", "EVS-2.3", "EVS-2.5", "EVS-2.6", "EVS-2.8.1", "EVS-2.20")


def disagreements(rows: list[Row], dumb: dict[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """Labels with both verdicts, the dumb one first (given, if it is known already); empty if all is well."""
    dumb = dumb or judge(rows)
    streaming = {label: verdict.state.value for label, verdict in check(rows).verdicts.items()}
    found = {}
    clients, daemons = client_history(rows).has_posthumous, daemon_history(rows).has_posthumous
    for labels, suffix, is_posthumous in ((list(CLIENTS), "", clients), (list(DAEMONS), "@S", daemons)):
        for label in [f"EVS-2.1{suffix}"] if is_posthumous else _comparable(labels, suffix, dumb, streaming):
            if dumb[label] != streaming[label]:
                found[label] = (dumb[label], streaming[label])
    if (VIOLATED in dumb.values()) != (VIOLATED in streaming.values()):
        found["any"] = (_broken(dumb), _broken(streaming))
    return found


def _comparable(labels: list[str], suffix: str, dumb: dict[str, str], streaming: dict[str, str]) -> list[str]:
    if streaming[f"EVS-2.12.2{suffix}"] == NOT_JUDGED:
        return [f"EVS-2.6{suffix}"]
    unclear = (f"EVS-2.2{suffix}", f"EVS-2.3{suffix}")
    if any(VIOLATED in (dumb[label], streaming[label]) for label in unclear):
        return [f"{label}{suffix}" for label in IDENTITY]
    return labels


def _broken(verdicts: dict[str, str]) -> str:
    return ", ".join(label for label, state in verdicts.items() if state == VIOLATED) or "nothing"
