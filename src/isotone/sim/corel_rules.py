"""The quorum rules that a swarm draws from."""

from __future__ import annotations

from isotone.core.choice import Choice
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
