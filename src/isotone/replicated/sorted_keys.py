"""Keys in their order, in blocks: a key comes or goes and a prefix is found without sorting all of them again.

Implements: the order in which `ReplicatedDict.items` tells keys. Deviations: none.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import chain, takewhile

BLOCK = 512
"""Keys in a block at first; one with twice as many is cut in two."""


class SortedKeys:
    """Each key once."""

    def __init__(self, keys: Iterable[str]) -> None:
        ordered = sorted(keys)
        self._blocks = [ordered[place : place + BLOCK] for place in range(0, len(ordered), BLOCK)]
        self._firsts = [block[0] for block in self._blocks]

    def add(self, key: str) -> None:
        """A key that is not there yet."""
        if not self._blocks:
            self._blocks, self._firsts = [[key]], [key]
            return
        place = max(0, bisect_right(self._firsts, key) - 1)
        block = self._blocks[place]
        insort(block, key)
        self._firsts[place] = block[0]
        if len(block) > 2 * BLOCK:
            self._blocks[place : place + 1] = [block[:BLOCK], block[BLOCK:]]
            self._firsts[place : place + 1] = [block[0], block[BLOCK]]

    def remove(self, key: str) -> None:
        """A key that is there."""
        place = bisect_right(self._firsts, key) - 1
        block = self._blocks[place]
        del block[bisect_left(block, key)]
        if block:
            self._firsts[place] = block[0]
        else:
            del self._blocks[place], self._firsts[place]

    def beginning(self, prefix: str) -> Iterator[str]:
        """Those that begin so, in their order."""
        place = max(0, bisect_right(self._firsts, prefix) - 1)
        if place < len(self._blocks):
            head = self._blocks[place]
            rest = chain(head[bisect_left(head, prefix) :], chain.from_iterable(self._blocks[place + 1 :]))
            yield from takewhile(lambda key: key.startswith(prefix), rest)
