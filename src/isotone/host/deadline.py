"""The time that a caller gave, over everything that a call does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

MS = 1_000

Result = TypeVar("Result")


class Deadline:
    """On the running loop; ``within_s`` None: there is none."""

    __slots__ = ("at",)

    def __init__(self, within_s: float | None) -> None:
        self.at = None if within_s is None else asyncio.get_running_loop().time() + within_s

    @property
    def left_s(self) -> float | None:
        """Not below 0."""
        return None if self.at is None else max(0.0, self.at - asyncio.get_running_loop().time())

    @property
    def left_ms(self) -> int:
        """As it is said to a server: 0 is no deadline, so that of one that is over 1 is left."""
        return 0 if self.left_s is None else max(1, int(self.left_s * MS))


NO_DEADLINE = Deadline(None)


async def within(left_s: float | None, awaited: Awaitable[Result]) -> Result:
    """`TimeoutError` if it takes longer; who has no deadline pays nothing for it."""
    if left_s is None:
        return await awaited
    async with asyncio.timeout(left_s):
        return await awaited
