"""The one source of choice: a seeded generator that is handed in, never found.

It stands on the raw words of the Mersenne Twister alone, so a seed means the same run on every machine and in every
version of Python, whatever ``PYTHONHASHSEED`` says. Independent streams are derived by name: drawing more from one
never shifts another.
"""

from __future__ import annotations

import hashlib
from collections.abc import MutableSequence, Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


class Choice:
    """A reproducible stream of choices."""

    __slots__ = ("_bits", "_real", "seed")

    def __init__(self, seed: int | str) -> None:
        self.seed = str(seed)
        digest = hashlib.blake2b(self.seed.encode(), digest_size=16).digest()
        source = Random(int.from_bytes(digest, "big"))
        self._bits = source.getrandbits
        self._real = source.random

    def derive(self, name: str) -> Choice:
        """A stream of its own for one purpose; depends on the seed and the name only."""
        return Choice(f"{self.seed}/{name}")

    def real(self) -> float:
        """Uniform in [0, 1)."""
        return self._real()

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._real() < probability

    def below(self, bound: int) -> int:
        """Uniform in 0 … bound − 1."""
        assert bound > 0
        return int(self._real() * bound) if bound < 1 << 32 else self._bits(bound.bit_length() + 64) % bound

    def between(self, low: int, high: int) -> int:
        """Uniform in low … high, both included."""
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.below(len(items))]

    def weighted(self, items: Sequence[tuple[Item, float]]) -> Item:
        """One of the items, with probability proportional to its weight."""
        mark = self._real() * sum(weight for _, weight in items)
        for item, weight in items:
            mark -= weight
            if mark < 0:
                return item
        return items[-1][0]

    def shuffle(self, items: MutableSequence[Item]) -> None:
        """Put the items into a random order, in place."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """``count`` different items, in the order in which they stood."""
        marks = list(range(len(items)))
        self.shuffle(marks)
        return [items[mark] for mark in sorted(marks[:count])]

    def word(self) -> int:
        """64 random bits."""
        return self._bits(64)
