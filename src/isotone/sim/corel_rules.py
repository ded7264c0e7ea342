"""The quorum rules that a swarm draws from; and, reckoned anew from what is on disks, who may order by them."""

from __future__ import annotations

from collections.abc import Mapping, Set

from isotone.core.choice import Choice
from isotone.corel.configuration import Configuration, decode_rule
from isotone.corel.ledger import Ledger
from isotone.corel.quorum import AllOf, AnyOf, DynamicVoting, Majority, Monarch, Rule, TieBreaker, Weighted

KINDS = {"majority": 3.0, "weighted": 1.0, "tie": 1.0, "monarch": 1.0, "dynamic": 3.0, "all": 1.0, "any": 1.0}
"""What is drawn how often."""


def draw_quorum(choice: Choice, names: tuple[str, ...]) -> Rule:
    """Any rule, majority and dynamic voting most often."""
    majority = Majority(names)
    match choice.weighted(tuple(KINDS.items())):
        case "weighted":
            return Weighted({name: choice.between(1, 4) for name in names})
        case "tie":
            return TieBreaker(names, choice.pick(names))
        case "monarch":
            return Monarch(choice.pick(names))
        case "dynamic":
            return DynamicVoting(choice.between(1, len(names) // 2 + 1))
        case "all":
            return AllOf((majority, DynamicVoting(1)))
        case "any":
            return AnyOf((majority, TieBreaker(names, choice.pick(names))))
    return majority


def may_order(ledgers: Mapping[str, Ledger]) -> bool:
    """Whether these servers, together and without all others, must be able to order; from their disks alone.

    A second reckoning, which asks none of the code that servers decide by. Where they do not know the same yet it is
    the stricter one: a reconfiguration that only one of them has must allow it too, whatever comes of it, and whoever
    has to catch up first does not count. No operator ever forced a primary.
    """
    able = {name: ledger for name, ledger in ledgers.items() if ledger.ready}
    configurations = [ledger.queue.configuration for ledger in able.values()]
    now = max(configurations, key=lambda each: (each.number, bool(each.identities)), default=None)
    if now is None or not now.identities:  # the log has not begun
        return False
    last = max((ledger.history.last for ledger in able.values()), key=lambda each: each.number)
    pending = [each for ledger in able.values() for each in ledger.history.pending if each.number > last.number]
    primaries = [set(each.servers) for each in (last, *pending)]
    coming = [
        message.change
        for ledger in able.values()
        for message in ledger.queue.between(ledger.queue.green, ledger.queue.end)
        if message.change is not None and message.change.number > now.number
    ]
    asked = [_asked(now, primaries), *([each for each in _asked(change, primaries) if each] for change in coming)]
    return all(
        _is_quorum(decode_rule(each.rule), able.keys() & set(each.servers), parts)
        for each, parts in zip((now, *coming), asked, strict=True)
    )


def _asked(configuration: Configuration, primaries: list[set[str]]) -> list[set[str]]:
    """Who of each primary may be asked at all."""
    return [each & set(configuration.servers) for each in primaries]


def _is_quorum(rule: Rule, here: Set[str], primaries: list[set[str]]) -> bool:
    match rule:
        case Majority(servers):
            return len(here & set(servers)) > len(set(servers) - here)
        case Weighted(votes):
            return sum(votes[each] for each in votes if each in here) > sum(votes[each] for each in votes.keys() - here)
        case TieBreaker(servers, breaker):
            ahead = len(here & set(servers)) - len(set(servers) - here)
            return ahead > 0 or (ahead == 0 and breaker in here)
        case Monarch(server):
            return server in here
        case DynamicVoting(minimum):
            return len(here) >= max(1, minimum) and all(_goes_on(each, here) for each in primaries)
        case AllOf(rules):
            return all(_is_quorum(each, here, primaries) for each in rules)
        case AnyOf(rules):
            return any(_is_quorum(each, here, primaries) for each in rules)


def _goes_on(primary: set[str], here: Set[str]) -> bool:
    """The greater part of a primary is here, or the half with its first server; of an empty one nobody is."""
    there = primary - here
    if len(primary) == 2 * len(there):
        return bool(primary) and min(primary) in here
    return len(primary) > 2 * len(there)
