"""The orders of ABCAST, CBCAST and GBCAST over one run.

An order at a process that failed binds others only as far as they could know it: see the property ISIS-ABCAST.
"""

from __future__ import annotations

from isotone.spec.check.account import Account
from isotone.spec.check.isis.history import History, event_of
from isotone.trace.events import Row
from isotone.trace.isis import BroadcastBegun, BroadcastDelivered, GroupLeft, GroupViewInstalled

Handed = tuple[Row, BroadcastDelivered]


def _deliveries(history: History, process: str, primitive: str) -> list[Handed]:
    return [
        (row, entry)
        for row, entry in history.told[process]
        if isinstance(entry, BroadcastDelivered) and entry.primitive == primitive
    ]


def judge_abcasts(history: History, account: Account) -> None:
    """The order of each label at every pair of processes."""
    judge = AbcastJudge(history, account)
    labels: dict[str, list[str]] = {}
    for process, places in judge.places.items():
        for label in sorted({history.begun[message][1].chain for message in places if message in history.begun}):
            labels.setdefault(label, []).append(process)
    for label, processes in sorted(labels.items()):
        for place, process in enumerate(processes):
            for other in processes[place + 1 :]:
                judge.compare(process, other, label)


class AbcastJudge:
    """Compares two processes by one label."""

    def __init__(self, history: History, account: Account) -> None:
        self._history, self._account = history, account
        self.places: dict[str, dict[str, tuple[int, Handed]]] = {}
        for process in sorted(history.told):
            handed = _deliveries(history, process, "abcast")
            self.places[process] = {entry.message: (place, (row, entry)) for place, (row, entry) in enumerate(handed)}

    def compare(self, process: str, other: str, label: str) -> None:
        """What both have of the label stands in the same order, as far as it binds them."""
        mine, theirs = self.places[process], self.places[other]
        latest: tuple[int, str] | None = None
        for message in mine:
            begun = self._history.begun.get(message)
            if message not in theirs or begun is None or begun[1].chain != label:
                continue
            if not self._binds(message, process, other):
                continue
            place, (row, _) = theirs[message]
            if latest is not None:
                self._account.exercised.add("ABCAST")
                if place < latest[0]:
                    text = f"{latest[1]} stands before {message} at {process}, and behind it at {other}."
                    self._account.accuse("ABCAST", (event_of(row), event_of(mine[message][1][0])), text)
            if latest is None or place > latest[0]:
                latest = (place, message)

    def _where(self, process: str, message: str) -> tuple[Row, int]:
        """The row of a delivery, and the site view then."""
        row, entry = self.places[process][message][1]
        return row, entry.number

    def _binds(self, message: str, process: str, other: str) -> bool:
        """Whether neither came to it knowing that the other had failed, or it has the extra phase."""
        if self._history.begun[message][1].uniform:
            return True
        return not any(
            not self._history.survives(one) and self._history.knew_failed(two, *self._where(two, message), one)
            for one, two in ((process, other), (other, process))
        )


def judge_causal(history: History, account: Account) -> None:
    """Direct precedence: the sender sent or was handed a message with a smaller label before it sent this one.

    A causal ABCAST has all before it that its sender sent or was handed.
    """
    precedes: dict[str, list[str]] = {}
    for process in sorted(history.said):
        past: dict[str, list[tuple[int, str]]] = {}
        for _, entry in history.said[process]:
            found = history.begun.get(entry.message)
            if found is None or not (found[1].primitive == "cbcast" or found[1].causal):
                continue
            begun = found[1]
            if isinstance(entry, BroadcastBegun) and begun.causal:
                precedes[entry.message] = [message for older in past.values() for _, message in older]
            elif isinstance(entry, BroadcastBegun):
                older = past.get(f"chain {begun.chain}", [])
                precedes[entry.message] = [message for place, message in older if place < begun.place]
            chain = "causal" if begun.causal else f"chain {begun.chain}"
            past.setdefault(chain, []).append((begun.place, entry.message))
    for process in sorted(history.told):
        handed = [each for kind in ("cbcast", "abcast") for each in _deliveries(history, process, kind)]
        handed.sort(key=lambda each: each[0].index)
        places = {entry.message: place for place, (_, entry) in enumerate(handed)}
        for place, (row, entry) in enumerate(handed):
            for message in _all_before(precedes, entry.message, places):
                account.exercised.add("CAUSAL")
                if places[message] > place:
                    text = f"{message} precedes {entry.message}, and stands behind it at {process}."
                    account.accuse("CAUSAL", (event_of(row),), text)


def _all_before(precedes: dict[str, list[str]], message: str, places: dict[str, int]) -> list[str]:
    """What precedes it and was handed over here; beyond such a one its own predecessors are compared with it."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    stack = list(precedes.get(message, []))
    while stack:
        each = stack.pop()
        if each in seen:
            continue
        seen.add(each)
        if each in places:
            found[each] = None
        else:
            stack += precedes.get(each, [])
    return list(found)


def judge_group_order(history: History, account: Account) -> None:
    """Of each group: wherever a message and a GBCAST are both handed over, they are so in the same order."""
    marks: dict[tuple[str, str], dict[str, tuple[str, Row, int]]] = {}  # (group, message) → process → last GBCAST
    orders: dict[tuple[str, str], dict[str, int]] = {}  # (process, group) → GBCAST → its place
    for process in sorted(history.told):
        last: dict[str, str] = {}
        for row, entry in history.told[process]:
            if isinstance(entry, GroupLeft):
                last.pop(entry.pgroup, None)
                continue
            if isinstance(entry, GroupViewInstalled):
                mark = entry.message or f"view {entry.number}"
            else:
                for group, before in last.items():
                    marks.setdefault((group, entry.message), {})[process] = (before, row, entry.number)
                mark = entry.message if entry.primitive == "gbcast" else ""
            if mark:
                last[entry.pgroup] = mark
                order = orders.setdefault((process, entry.pgroup), {})
                order[mark] = len(order)
    for (group, message), at in sorted(marks.items()):
        processes = sorted(at)
        for place, process in enumerate(processes):
            for other in processes[place + 1 :]:
                if _is_free(history, message, process, other, at):
                    continue
                account.exercised.add("GBCAST")
                mine, theirs = at[process][0], at[other][0]
                late = orders[process, group].get(theirs, -1) > orders[process, group][mine]
                if late or orders[other, group].get(mine, -1) > orders[other, group][theirs]:
                    text = f"{message} stands behind {mine} of {group} at {process}, {theirs} at {other}."
                    account.accuse("GBCAST", (event_of(at[process][1]), event_of(at[other][1])), text)


def _is_free(history: History, message: str, one: str, two: str, at: dict[str, tuple[str, Row, int]]) -> bool:
    """At a process that failed and one that knew that before it came to the message; with the extra phase never."""
    begun = history.begun.get(message)
    if begun is None or (begun[1].uniform and begun[1].primitive == "abcast"):
        return False
    return any(
        not history.survives(each) and history.knew_failed(other, at[other][1], at[other][2], each)
        for each, other in ((one, two), (two, one))
    )
