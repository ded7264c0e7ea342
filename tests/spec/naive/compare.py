"""Where the streaming checkers and the dumb second version disagree about a run, property by property.

Four kinds of record are so spoilt that further verdicts depend on whom one believes, and are compared in part only:
ids of views that do not grow or views without the process itself (2.2, 2.3: which stay belongs to which view?),
deliveries that stand before the sends they depend on in a circle (2.6: which was first?), processes that go on
behind their end (2.1: did they end?), and messages without a send that rows tell in two ways (2.6: what was it?). That
such a run breaks something at all must be agreed upon in any case.
"""

from __future__ import annotations

from isotone.spec.check import check
from isotone.trace.events import Row
from tests.spec.naive.history import History, Message
from tests.spec.naive.judge import CLIENTS, DAEMONS, judge
from tests.spec.naive.messages import can_be_ordered
from tests.spec.naive.reading import client_history, daemon_history

VIOLATED, NOT_JUDGED = "violated", "not_judged"
IDENTITY = ("EVS-2.1", "EVS-2.2", "EVS-2.3", "EVS-2.5", "EVS-2.6", "EVS-2.8.1", "EVS-2.20")


def disagreements(rows: list[Row], dumb: dict[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """Labels with both verdicts, the dumb one first (given, if it is known already); empty if all is well."""
    dumb = dumb or judge(rows)
    report = check(rows)
    if report.missing:  # whole records only: nothing is known here of what is not there
        return {}
    streaming = {label: verdict.state.value for label, verdict in report.verdicts.items()}
    found = {}
    is_circle = False
    clients, daemons = client_history(rows), daemon_history(rows)
    for labels, suffix, history in ((list(CLIENTS), "", clients), (list(DAEMONS), "@S", daemons)):
        if streaming[f"EVS-2.12.2{suffix}"] == NOT_JUDGED:  # a circle, perhaps through both boundaries
            is_found = VIOLATED in (streaming["EVS-2.6"], streaming["EVS-2.6@S"])
            is_circle = not can_be_ordered(clients, daemons)
            if not is_found:
                found["circle"] = (str(is_circle), str(is_found))
            continue
        if _is_told_in_two_ways(history):
            labels = [f"EVS-2.6{suffix}"]
        for label in [f"EVS-2.1{suffix}"] if history.has_posthumous else _comparable(labels, suffix, dumb, streaming):
            if dumb[label] != streaming[label]:
                found[label] = (dumb[label], streaming[label])
    if not is_circle and (VIOLATED in dumb.values()) != (VIOLATED in streaming.values()):
        found["any"] = (_broken(dumb), _broken(streaming))
    return found


def _is_told_in_two_ways(history: History) -> bool:
    """Whether rows do not agree on what a message is that was never sent, or not before."""
    found: dict[Message, set[tuple[object, ...]]] = {}
    for each in (*history.deliveries, *history.repeated):
        if each.message not in history.sent:
            found.setdefault(each.message, set()).add((each.label.service, each.label.groups))
    return any(len(ways) > 1 for ways in found.values())


def _comparable(labels: list[str], suffix: str, dumb: dict[str, str], streaming: dict[str, str]) -> list[str]:
    unclear = (f"EVS-2.2{suffix}", f"EVS-2.3{suffix}")
    if any(VIOLATED in (dumb[label], streaming[label]) for label in unclear):
        return [f"{label}{suffix}" for label in IDENTITY]
    return labels


def _broken(verdicts: dict[str, str]) -> str:
    return ", ".join(label for label, state in verdicts.items() if state == VIOLATED) or "nothing"
