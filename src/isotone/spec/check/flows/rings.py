"""Judges rounds of rings: what they computed, who took part, and whether results ever fall.

Implements: [Flows (1), (8), (9), (10), (13)], [Flows 3.2]. Deviations: D-floor.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from isotone.spec.check.account import Account
from isotone.spec.check.flows.evaluation import INITIAL, Computed, combined, evaluated, is_cut, is_result, not_above
from isotone.spec.check.flows.history import History, Part, Round, event_of, version_of


class RingJudge:
    """Over the rounds of all rings."""

    def __init__(self, history: History, account: Account) -> None:
        self._history = history
        self._account = account
        self._regular: list[Any] = history.rules.get("regular", [])
        self._guards = [(place, rule[3]) for place, rule in enumerate(self._regular) if rule[3]]

    def judge(self) -> None:
        """All of them."""
        for first, second in self._history.twice:
            self._account.accuse("CONSISTENT", [event_of(first), event_of(second)], "A round is complete two times.")
        for rounds in self._history.rounds.values():
            for each in rounds:
                self._judge_result(each)
            for before, after in pairwise(rounds):
                self._judge_pair(before, after)
            if rounds:
                self._judge_newcomers(None, rounds[0])
        for (ring, *_), parts in self._history.parts.items():
            for part in parts:
                self._judge_part(ring, part)
        self._judge_order()

    def _judge_result(self, found: Round) -> None:
        """(1): the operator over what was added."""
        for place, rule in enumerate(self._regular):
            added = [each for each in found.parts if each.counts or not rule[3]]
            values = [each.values[place] for each in added]
            present: list[Computed] = [each for each in values if each is not None]
            value = found.values[place]
            if not present and value is None:
                continue
            self._account.exercised.add("AGGREGATION")
            if value is None or not present or not is_result(value, combined(rule[1], present)):
                events = [event_of(found.row), *(event_of(each.row) for each in added)]
                text = f"{rule[0]} of round {found.version} of {found.ring} is not {rule[1]} of what was added."
                self._account.accuse("AGGREGATION", events, text)

    def _judge_pair(self, before: Round, after: Round) -> None:
        self._judge_newcomers(before, after)
        if after.recovers:
            return
        for place, order in self._guards:
            one, other = before.values[place], after.values[place]
            if one is None or other is None or is_cut(one) or is_cut(other):
                continue
            self._account.exercised.add("STRONG")
            if not not_above(one, other, order):
                text = f"{self._regular[place][0]} of {after.ring} falls from {before.version} to {after.version}."
                self._account.accuse("STRONG", [event_of(before.row), event_of(after.row)], text)

    def _judge_newcomers(self, before: Round | None, after: Round) -> None:
        known = before.members if before else set[str]()
        floor = after.floor if after.recovers else before.values if before else None
        for part in after.parts:
            if part.standing == "regular":
                self._account.exercised.add("REGULAR")
                if part.member not in known:
                    text = (
                        f"{part.member} is regular in {after.version} of {after.ring}, but was not in the round before."
                    )
                    self._account.accuse("REGULAR", [event_of(part.row), event_of(after.row)], text)
            if part.member in known or not part.counts or floor is None:
                continue
            self._account.exercised.add("GUARDED")
            for place, order in self._guards:
                wanted, value = floor[place], part.values[place]
                if wanted is not None and (value is None or not not_above(wanted, value, order)):
                    text = f"{part.member} joins {after.version} of {after.ring} below what flowed before."
                    self._account.accuse("GUARDED", [event_of(part.row), event_of(after.row)], text)

    # --- what members add ------------------------------------------------------------------------------------------

    def _judge_part(self, ring: str, part: Part) -> None:
        """(2), (3) at nodes; in rings above, that it is a result of the ring below."""
        match part.origin:
            case ("input", version, heard):
                self._judge_client(part, int(version), version_of(heard))
            case ("ring", below, version):
                if not part.counts:
                    return
                found = [each for each in self._history.rounds.get(below, []) if each.version == version_of(version)]
                self._account.exercised.add("AGGREGATION")
                if not found or found[0].values != part.values:
                    text = f"{part.member} adds to {ring} what is no result of {below}."
                    self._account.accuse("AGGREGATION", [event_of(part.row)], text)

    def _judge_client(self, part: Part, version: int, heard: tuple[int, int]) -> None:
        rules, life = self._history.rules, part.member.partition("/")[0]
        if (life, version) not in self._history.inputs:
            self._account.accuse("TRANSFORMATION", [event_of(part.row)], f"{part.member} adds what it was never given.")
            return
        row, inputs = self._history.inputs[life, version]
        types = {name: type for name, *_, type in rules["regular"]} | {each[0]: each[2] for each in rules["root"]}
        flows: dict[str, Computed] = {name: INITIAL[types[name]] for name in rules["down"]}
        for _, told, values in self._history.flowed.get(life, ()):
            if told == heard:
                flows |= values
        flows |= inputs
        flows |= {name: flows[source] for name, source in rules["sources"].items()}
        for name, expression in rules["client"]:
            flows[name] = evaluated(expression, flows, part.row.node)
        self._account.exercised.add("TRANSFORMATION")
        if part.values != [evaluated(rule[2], flows, part.row.node) for rule in rules["regular"]]:
            text = f"{part.member} does not add what its inputs and the client rules say."
            self._account.accuse("TRANSFORMATION", [event_of(row), event_of(part.row)], text)

    def _judge_order(self) -> None:
        """(10): by member, in the order of rounds, the versions of what it added."""
        last: dict[tuple[str, str], tuple[Part, tuple[tuple[int, ...], ...]]] = {}
        for (ring, _, _), parts in sorted(self._history.parts.items(), key=lambda each: each[0]):
            for part in parts:
                version = _origin_version(part)
                before = last.get((ring, part.member))
                if before is not None:
                    self._account.exercised.add("IN-ORDER")
                    if any(old > new for old, new in zip(before[1], version)):
                        text = f"{part.member} adds older values in a newer round of {ring}."
                        self._account.accuse("IN-ORDER", [event_of(before[0].row), event_of(part.row)], text)
                last[ring, part.member] = (part, version)


def _origin_version(part: Part) -> tuple[tuple[int, ...], ...]:
    match part.origin:
        case ("input", version, heard):
            return ((int(version),), version_of(heard))
        case ("ring", _, version):
            return (version_of(version),)
    return ()
