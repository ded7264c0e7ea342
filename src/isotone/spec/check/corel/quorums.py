"""Quorums: each primary component is one by the rule that its servers tell, and two that follow each other meet.

A server tells its rule when it starts and when the rule changes, as JSON. Dynamic voting asks for a part of all
primaries that the servers know of; here it is asked of the last that was committed to, or of the founders. That two
primaries meet is asked of every rule. Servers that were forced do not follow their rule until they met, so behind a
fence it is not asked.

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
        for row in trail.rows:
            if isinstance(row.entry, trace.PrimaryCommitted):
                sets.setdefault(row.entry.primary, (row.entry.servers, event_of(row)))
    for trail in side.whole:
        _judge_rule(trail, sets, account)


def _judge_rule(trail: Trail, known: Mapping[int, tuple[tuple[str, ...], EventId]], account: Account) -> None:
    """``known``: the servers of each primary that was committed to, and who told."""
    since: EventId | None = None
    nobody: tuple[tuple[str, ...], EventId] = ((), event_of(trail.rows[0]))
    founders = nobody
    for row in trail.walk():
        entry = row.entry
        if isinstance(entry, trace.Fenced) or (isinstance(entry, trace.ReplicaStarted) and entry.fence):
            return
        if isinstance(entry, trace.ReplicaStarted) and row is trail.rows[0] and not entry.green:
            founders = trail.servers, event_of(row)
        elif isinstance(entry, trace.StateInstalled):
            founders = nobody
        if isinstance(entry, trace.ReplicaStarted | trace.Reconfigured):
            since = event_of(row)
        if isinstance(entry, trace.PrimaryAttempted) and trail.rule and since is not None:
            account.exercised.add("QUORUM")
            before, told = known.get(trail.committed, nobody) if trail.committed else founders
            members, last = (frozenset(each) & frozenset(trail.servers) for each in (entry.servers, before))
            rule = _rule(trail.rule)
            if not is_quorum(rule, members, last):
                named = f"{trail.server} attempts primary {entry.primary} of {' '.join(entry.servers)}"
                earlier = {told} if is_quorum(rule, members, frozenset()) else set()
                text = f"{named}, no quorum by {trail.rule}."
                account.accuse("QUORUM", (since, event_of(row), *earlier), text, proven=True)


@lru_cache(maxsize=256)
def _rule(text: str) -> Rule:
    try:
        found = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return {}
    return found if isinstance(found, dict) else {}


def is_quorum(rule: Rule, members: frozenset[str], last: frozenset[str]) -> bool:
    """Whether these servers are one; a rule that is not known allows all.

    ``last``: of those that vote, who was in the last primary; nobody where that is not known.
    """
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
            present, absent = len(last & members), len(last - members)
            is_part = present > absent or (present == absent and (not last or min(last) in members))
            return is_part and bool(len(members) >= max(1, rule.get("minimum", 1)))
        case {"type": "AllOf", "rules": rules}:
            return all(is_quorum(each, members, last) for each in rules)
        case {"type": "AnyOf", "rules": rules}:
            return any(is_quorum(each, members, last) for each in rules)
    return True
