"""Seeds and host names: what is looked up, what is told, and what a failure changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from isotone.core.contract import Address
from isotone.daemon.settings import DaemonSettings, read
from isotone.daemon.settings.discovery import (
    ADDRESSES_MAX,
    Answer,
    Discovery,
    Target,
    keep_looking,
    look_up,
    system_resolver,
)
from isotone.evs.membership import KnownDaemon, PeersChanged

TEXT = """
[cluster]
seeds = ["10.0.0.9:4803", "seed.example:5000", "other.example"]
[[daemon]]
name = "d1"
address = "host1.example"
[[daemon]]
name = "d2"
address = "host2.example"
port = 9
[[daemon]]
name = "d3"
address = "10.0.0.3"
[security]
mode = "open"
"""
HOST2 = Target("host2.example", 9, "d2", "lan")
SEED = Target("seed.example", 5000)
OTHER = Target("other.example", 4803)


@pytest.fixture
def discovery() -> Discovery:
    return Discovery(read(TEXT).settings, "d1")


def addresses(*texts: str) -> Answer:
    return Answer(tuple(map(Address, texts)))


def test_host_names_of_others_and_of_seeds_are_looked_up(discovery: Discovery) -> None:
    assert discovery.targets == (HOST2, SEED, OTHER)
    assert discovery.seeds == ("10.0.0.9:4803",)


def test_what_was_found_is_told_once(discovery: Discovery) -> None:
    answers = {HOST2: addresses("10.0.0.2:9"), SEED: addresses("10.1.0.1:5000", "10.1.0.2:5000")}
    assert discovery.take(5, answers) == PeersChanged(
        5,
        (KnownDaemon("d2", "lan", Address("10.0.0.2:9")),),
        (),
        (Address("10.0.0.9:4803"), Address("10.1.0.1:5000"), Address("10.1.0.2:5000")),
    )
    assert discovery.take(6, answers) is None


def test_a_daemon_that_moved_is_told_alone(discovery: Discovery) -> None:
    discovery.take(1, {HOST2: addresses("10.0.0.2:9"), SEED: addresses("10.1.0.1:5000")})
    changed = discovery.take(2, {HOST2: addresses("10.0.0.22:9"), SEED: addresses("10.1.0.1:5000")})
    assert changed == PeersChanged(2, (KnownDaemon("d2", "lan", Address("10.0.0.22:9")),), (), None)


def test_another_order_of_addresses_is_no_move(discovery: Discovery) -> None:
    discovery.take(1, {HOST2: addresses("10.0.0.2:9", "10.0.0.3:9")})
    assert discovery.take(2, {HOST2: addresses("10.0.0.1:9", "10.0.0.2:9")}) is None


def test_a_seed_that_went_is_not_called_any_more(discovery: Discovery) -> None:
    discovery.take(1, {SEED: addresses("10.1.0.1:5000", "10.1.0.2:5000")})
    changed = discovery.take(2, {SEED: addresses("10.1.0.2:5000")})
    assert changed is not None and changed.seeds == ("10.0.0.9:4803", "10.1.0.2:5000") and changed.known == ()


def test_a_look_up_that_fails_leaves_the_last_answer(discovery: Discovery) -> None:
    discovery.take(1, {SEED: addresses("10.1.0.1:5000")})
    assert discovery.take(2, {SEED: Answer(problem="no answer")}) is None
    assert discovery.problems == {"seed.example": "no answer"} and "10.1.0.1:5000" in discovery.seeds
    discovery.take(3, {SEED: addresses("10.1.0.1:5000")})
    assert discovery.problems == {}


def test_addresses_of_the_other_family_are_of_no_use(discovery: Discovery) -> None:
    changed = discovery.take(1, {SEED: addresses("10.1.0.1:5000", "[::1]:5000"), OTHER: addresses("[::2]:4803")})
    assert changed is not None and changed.seeds == ("10.0.0.9:4803", "10.1.0.1:5000")
    assert discovery.problems == {"other.example": "it has no address of IPv4"}


def test_a_name_with_very_many_addresses_is_cut(discovery: Discovery) -> None:
    many = addresses(*(f"10.2.{number // 256}.{number % 256}:5000" for number in range(ADDRESSES_MAX + 9)))
    changed = discovery.take(1, {SEED: many})
    assert changed is not None and changed.seeds is not None and len(changed.seeds) == ADDRESSES_MAX + 1


# --- the part that waits -------------------------------------------------------------------------------------------


class Names:
    """A resolver whose answers change."""

    def __init__(self, *rounds: dict[str, list[str]]) -> None:
        self.rounds = list(rounds)
        self.waited: list[float] = []

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        if host not in self.rounds[0]:
            raise OSError("unknown name")
        return [Address(f"{each}:{port}") for each in self.rounds[0][host]]

    async def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.rounds.pop(0)
        if not self.rounds:
            raise asyncio.CancelledError


def test_names_are_looked_up_again_and_again(discovery: Discovery) -> None:
    names = Names({"seed.example": ["10.1.0.1"]}, {"seed.example": ["10.1.0.1"]}, {"seed.example": ["10.1.0.2"]})
    told: list[PeersChanged] = []
    looking = keep_looking(
        discovery, told.append, now=lambda: 7, resolver=names.resolve, interval_ms=1_500, wait=names.wait
    )
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(looking)
    assert [each.seeds for each in told] == [
        ("10.0.0.9:4803", "10.1.0.1:5000"),
        ("10.0.0.9:4803", "10.1.0.2:5000"),
    ]
    assert names.waited == [1.5] * 3 and discovery.problems["host2.example"] == "unknown name"


def test_without_names_nothing_is_looked_up() -> None:
    discovery = Discovery(one(), "d1")
    asyncio.run(keep_looking(discovery, lambda event: None, now=lambda: 0, resolver=Names().resolve, interval_ms=1))
    assert not discovery.is_needed


def one() -> DaemonSettings:
    return read('[[daemon]]\nname = "d1"\n').settings


def test_answers_are_sorted_and_once_each() -> None:
    names = Names({"seed.example": ["10.1.0.2", "10.1.0.1", "10.1.0.2"], "other.example": []})
    found = asyncio.run(look_up([SEED, OTHER], names.resolve))
    assert found[SEED] == addresses("10.1.0.1:5000", "10.1.0.2:5000")
    assert found[OTHER].problem == "the name has no address"


def test_the_machines_own_resolver_knows_numbers() -> None:
    assert asyncio.run(system_resolver("127.0.0.1", 9)) == ["127.0.0.1:9"]
