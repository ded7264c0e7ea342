"""Judges decisions: that they follow from the aggregates and from one another, and what becomes of them at nodes.

Implements: [Flows (2) to (9)], [Flows 3.1]. Deviations: none.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from isotone.spec.check.account import Account
from isotone.spec.check.flows.evaluation import INITIAL, Computed, evaluated, not_above
from isotone.spec.check.flows.history import Decision, History, Version, event_of


class DecisionJudge:
    """Over all decisions of a run."""

    def __init__(self, history: History, account: Account) -> None:
        self._history = history
        self._account = account
        self._rules = history.rules
        self._orders: dict[str, str] = self._rules.get("orders", {})

    def judge(self, *, owes: bool) -> None:
        """All of them; ``owes``: what reached one must have reached all who stay."""
        made = self._history.history()
        self._judge_history(made)
        for before, after in pairwise([None, *made]):
            assert after is not None
            self._judge_rules(before, after)
            if before is not None:
                self._judge_growth(before, after)
        self._judge_inputs()
        self._judge_heard()
        self._judge_shares()
        if owes:
            self._judge_end()

    def _judge_history(self, made: list[Decision]) -> None:
        for version, several in self._history.decisions.items():
            for other in several[1:]:
                if (other.flows, other.aggregates) != (several[0].flows, several[0].aggregates):
                    events = [event_of(several[0].row), event_of(other.row)]
                    self._account.accuse("CONSISTENT", events, f"There are two decisions {version}.")
        last: Version = (0, 0)
        for each in made:
            self._account.exercised.add("HISTORY")
            if each.after != last:
                text = f"Decision {each.version} follows {each.after}, but the one before it is {last}."
                self._account.accuse("HISTORY", [event_of(each.row)], text)
            last = each.version

    def _judge_rules(self, before: Decision | None, after: Decision) -> None:
        """(2), (3): the root rules, over the aggregates of that round."""
        rules = self._rules
        flows: dict[str, Any] = {rule[0]: value for rule, value in zip(rules["regular"], after.aggregates)}
        for name, expression, type, _ in rules["root"]:
            last = before.flows.get(name, INITIAL[type]) if before else INITIAL[type]
            flows[name] = evaluated(expression, flows, "", last)
        self._account.exercised.add("TRANSFORMATION")
        if flows != after.flows:
            text = f"Decision {after.version} is not what the root rules say."
            self._account.accuse("TRANSFORMATION", [event_of(after.row)], text)
        tops = [each for rounds in self._history.rounds.values() for each in rounds if each.top]
        found = [each for each in tops if each.version == after.version]
        if found and found[0].values != after.aggregates:
            text = f"Decision {after.version} is not about the round of that version."
            self._account.accuse("AGGREGATION", [event_of(after.row), event_of(found[0].row)], text)

    def _judge_growth(self, before: Decision, after: Decision) -> None:
        for name, order in self._orders.items():
            self._account.exercised.add("STRONG")
            if not not_above(before.flows[name], after.flows[name], order):
                text = f"{name} falls from decision {before.version} to {after.version}."
                self._account.accuse("STRONG", [event_of(before.row), event_of(after.row)], text)

    def _judge_inputs(self) -> None:
        """(8) at one node."""
        orders = {name: order for name, _, order in self._rules.get("inputs", []) if order}
        for (life, version), (row, values) in self._history.inputs.items():
            before = self._history.inputs.get((life, version - 1))
            if before is None or version <= 2:
                continue
            for name, order in orders.items():
                self._account.exercised.add("WEAK")
                if not not_above(before[1][name], values[name], order):
                    text = f"{name} of {life} falls."
                    self._account.accuse("WEAK", [event_of(before[0]), event_of(row)], text)

    def _judge_heard(self) -> None:
        """(4) and (9) for all, (8) at each node."""
        for life, heard in self._history.flowed.items():
            for row, version, values in heard:
                self._account.exercised |= {"DISSEMINATION", "CONSISTENT"}
                made = self._history.decisions.get(version)
                if made is None or any(made[0].flows[name] != value for name, value in values.items()):
                    events = [event_of(row), *([event_of(made[0].row)] if made else [])]
                    self._account.accuse("DISSEMINATION", events, f"{life} hears what was not decided as {version}.")
            for (first, one, before), (second, other, after) in pairwise(heard):
                self._account.exercised.add("WEAK")
                fell = [
                    name
                    for name, order in self._orders.items()
                    if name in after and not not_above(before[name], after[name], order)
                ]
                if other <= one or fell:
                    text = f"{life} hears {', '.join(fell) or 'an older decision'} after a higher one."
                    self._account.accuse("WEAK", [event_of(first), event_of(second)], text)

    def _judge_shares(self) -> None:
        """(5), (6): parts of what was decided, and disjoint."""
        given: dict[tuple[Version, str], dict[Any, Any]] = {}
        sources = {flow: source for flow, source, _ in self._rules.get("shares", [])}
        for row, version, values in self._history.dealt:
            for name, pairs in values.items():
                assert isinstance(pairs, frozenset)
                self._account.exercised.add("DISTRIBUTION")
                made = self._history.decisions.get(version)
                whole: Computed = made[0].flows[sources[name]] if made else frozenset()
                before = given.setdefault((version, name), {})
                assert isinstance(whole, frozenset)
                again = sorted(pair for pair in pairs if pair in before)
                if not pairs <= whole or again:
                    events = [event_of(row), *(before[pair] for pair in again[:1])]
                    self._account.accuse(
                        "DISTRIBUTION", events, f"{row.node} is dealt what is not its own of {version}."
                    )
                before |= dict.fromkeys(pairs, event_of(row))

    def _judge_end(self) -> None:
        """(7) for flows that only go one way: whoever stays has at least what anybody ever heard."""
        newest: dict[str, tuple[int, str]] = {}
        for life, (node, incarnation) in self._history.lives.items():
            newest[node] = max(newest.get(node, (-1, "")), (incarnation, life))
        stay = [life for _, life in newest.values()]
        for name, order in self._orders.items():
            for life, heard in self._history.flowed.items():
                row, _, values = heard[-1]
                if name not in values:
                    continue
                self._account.exercised.add("END")
                for other in stay:
                    last = self._history.flowed.get(other)
                    if not last or not not_above(values[name], last[-1][2][name], order):
                        text = f"{other} never hears of {name} what {life} heard."
                        self._account.accuse("END", [event_of(row)], text)
