"""Which losses stop a cluster, which do not, and whom it waits for: the same as by trying every set, in less time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from isotone.corel import explain
from isotone.corel.configuration import Configuration, encode_rule
from isotone.corel.explain import WAITS_MAX, whom_it_waits_for
from isotone.corel.growth import may_order
from isotone.corel.quorum import (
    EXHAUSTIVE_MAX,
    AllOf,
    AnyOf,
    DynamicVoting,
    History,
    Majority,
    Monarch,
    Primary,
    Rule,
    Servers,
    TieBreaker,
    Weighted,
    stopping_failures,
    survived_failures,
)
from tests.corel.cluster import joined

SEEDS = range(60)
LETTERS = "abcdefghijklmn"


def drawn_rule(random: Random, servers: tuple[str, ...], depth: int = 2) -> Rule:
    kind = random.randrange(7 if depth else 5)
    parts = tuple(drawn_rule(random, servers, depth - 1) for _ in range(random.randint(1, 3))) if kind > 4 else ()
    match kind:
        case 0:
            return Majority(servers)
        case 1:
            return Weighted({each: random.randint(0, 4) for each in servers})
        case 2:
            return TieBreaker(servers, random.choice(servers))
        case 3:
            return Monarch(random.choice(servers))
        case 4:
            return DynamicVoting(random.randint(1, 3))
        case 5:
            return AllOf(parts)
    return AnyOf(parts)


def drawn_history(random: Random, servers: tuple[str, ...]) -> History:
    primaries = [some(random, servers, number) for number in range(random.randint(1, 3))]
    return History(primaries[0], tuple(primaries[1:]), random.random() < 0.1)


def some(random: Random, servers: tuple[str, ...], number: int) -> Primary:
    return Primary(number, tuple(sorted(random.sample(servers, random.randint(1, len(servers))))))


def sets(servers: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for size in range(1, len(servers) + 1):
        yield from combinations(servers, size)


# --- as they were, one set after another -----------------------------------------------------------------------------


def tried_stopping(rule: Rule, servers: tuple[str, ...], history: History) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for lost in sets(servers):
        if not any(set(known) <= set(lost) for known in found) and not rule.holds(
            frozenset(servers) - set(lost), history
        ):
            found.append(lost)
    return found


def tried_surviving(servers: tuple[str, ...], stopping: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for size in range(len(servers) - 1, 0, -1):
        for lost in combinations(servers, size):
            stops = any(set(each) <= set(lost) for each in stopping)
            if not stops and not any(set(lost) <= set(known) for known in found):
                found.append(lost)
    return found


def tried_waits(queue: Any, history: History, here: Servers, others: tuple[str, ...]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for more in sets(others):
        if not any(set(less) <= set(more) for less in found) and may_order(queue, here | set(more), history):
            found.append(more)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_losses_are_those_that_trying_finds(seed: int) -> None:
    random = Random(seed)
    servers = tuple(LETTERS[: random.randint(1, 7)])
    rule, history = drawn_rule(random, servers), drawn_history(random, servers)
    stopping = stopping_failures(rule, tuple(random.sample(servers, len(servers))), history)
    assert stopping == tried_stopping(rule, servers, history)
    assert survived_failures(servers, stopping) == tried_surviving(servers, stopping)
    for lost in sets(servers):  # what the words say
        stops = not rule.holds(frozenset(servers) - set(lost), history)
        assert not stops or any(set(least) <= set(lost) for least in stopping)


@pytest.mark.parametrize("seed", SEEDS)
def test_whom_it_waits_for_is_what_trying_finds(seed: int) -> None:
    random = Random(seed)
    servers = tuple(LETTERS[: random.randint(2, 8)])
    history = drawn_history(random, servers)
    configurations = [
        Configuration(number, some(random, servers, 0).servers, encode_rule(drawn_rule(random, servers)))
        for number in range(random.randint(1, 3))
    ]
    here = frozenset(random.sample(servers, random.randint(1, len(servers))))
    others = tuple(sorted(set(servers) - here))
    green, coming = configurations[0], tuple(configurations[1:])
    queue = SimpleNamespace(configuration=green, coming=lambda: iter(coming))
    tried = tried_waits(queue, history, here, others)
    assert list(explain._smallest(green, coming, history, here, others)) == tried[: WAITS_MAX + 1]


class Counting:
    """A rule that counts how often it is asked."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.asked = rule, 0

    def holds(self, members: Servers, history: History) -> bool:
        self.asked += 1
        return self.rule.holds(members, history)

    def describe(self) -> str:
        return self.rule.describe()


def test_as_many_servers_as_there_may_be() -> None:
    """A set is asked about once, and none that holds a smaller one that stops."""
    servers = tuple(LETTERS)
    assert len(servers) == EXHAUSTIVE_MAX
    rule = Counting(Majority(servers))
    stopping = stopping_failures(rule, servers, History(Primary(0, servers)))
    assert rule.asked == sum(1 for lost in sets(servers) if len(lost) <= 7)
    assert stopping == list(combinations(servers, 7))
    assert survived_failures(servers, stopping) == list(combinations(servers, 6))


def test_it_is_looked_for_once_while_nothing_changes() -> None:
    cluster = joined("a", "b", "c")
    cluster.view("b")
    cluster.run("b")
    replica = cluster["b"].replica
    explain._smallest.cache_clear()
    assert whom_it_waits_for(replica) == whom_it_waits_for(replica) == [("a",), ("c",)]
    assert explain._smallest.cache_info().misses == 1
    cluster.view("b", "c")
    cluster.run("b", "c")
    cluster.view("c")
    cluster.run("c")
    assert whom_it_waits_for(cluster["c"].replica) == [("a",), ("b",)], "another one is here"
