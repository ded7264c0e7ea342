"""Quorums: each primary component is one by the rule that its servers tell, and two that follow each other meet.

A server tells its rule when it starts and when the rule changes, as JSON. Of dynamic voting, which depends on what a
server knows of earlier primaries, only the least number of servers is asked here; that two primaries meet is asked of
every rule. Servers that were forced do not follow their rule until they met, so behind a fence it is not asked.

Implements: [COReL 4.4], [COReL 7.2]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

import msgspec

from isotone.spec.check.account import Account
from isotone.spec.check.corel.sides import Side
from isotone.spec.check.corel.trail import Trail, event_of
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace

Rule = Mapping[str, Any]


def judge_quorums(side: Side, account: Account) -> None:
    """Every primary of this side that was committed to."""
    sets: dict[int, tuple[tuple[str, ...], EventId]] = {}
    for trail in side.own:
        for row in trail.rows:
            if isinstance(row.entry, trace.PrimaryCommitted):
                sets.setdefault(row.entry.primary, (row.entry.servers, event_of(row)))
    for before, after in pairwise(sorted(sets)):
        account.exercised.add("QUORUM")
        (one, first), (other, second) = sets[before], sets[after]
        if not set(one) & set(other):
            sides = f"Primary {before} of {' '.join(one)} and primary {after} of {' '.join(other)}"
            account.accuse("QUORUM", (first, second), f"{sides} have no server in common.")
    for trail in side.whole:
        _judge_rule(trail, account)


def _judge_rule(trail: Trail, account: Account) -> None:
    told: tuple[str, tuple[str, ...], EventId] | None = None
    for row in trail.rows:
        match row.entry:
            case trace.ReplicaStarted(fence=0) | trace.Reconfigured():
                told = (row.entry.rule, row.entry.servers, event_of(row)) if row.entry.rule else None
            case trace.ReplicaStarted() | trace.StateInstalled():
                told = None
            case trace.Fenced():
                return
            case trace.PrimaryAttempted(primary=number, servers=members) if told is not None:
                text, servers, since = told
                account.exercised.add("QUORUM")
                if not is_quorum(_rule(text), frozenset(members) & frozenset(servers)):
                    named = f"{trail.server} attempts primary {number} of {' '.join(members)}"
                    account.accuse("QUORUM", (since, event_of(row)), f"{named}, no quorum by {text}.", proven=True)
        if isinstance(row.entry, trace.ReplicaStarted) and row.entry.fence:
            return


@lru_cache(maxsize=256)
def _rule(text: str) -> Rule:
    try:
        found = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return {}
    return found if isinstance(found, dict) else {}


def is_quorum(rule: Rule, members: frozenset[str]) -> bool:
    """Whether these servers are one; a rule that is not known allows all."""
    match rule:
        case {"type": "Majority", "servers": servers}:
            return 2 * len(members & set(servers)) > len(servers)
        case {"type": "Weighted", "votes": votes}:
            return bool(2 * sum(votes.get(each, 0) for each in members) > sum(votes.values()))
        case {"type": "TieBreaker", "servers": servers, "breaker": breaker}:
            present = 2 * len(members & set(servers))
            return present > len(servers) or (present == len(servers) and breaker in members)
        case {"type": "Monarch", "server": server}:
            return server in members
        case {"type": "DynamicVoting"}:
            return bool(len(members) >= max(1, rule.get("minimum", 1)))
        case {"type": "AllOf", "rules": rules}:
            return all(is_quorum(each, members) for each in rules)
        case {"type": "AnyOf", "rules": rules}:
            return any(is_quorum(each, members) for each in rules)
    return True
