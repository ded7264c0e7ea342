"""A thread that writes to a disk: all that waits when it looks is written together, in order."""

from __future__ import annotations

import queue
from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

Asked = TypeVar("Asked")

BYTES_MAX = 8 * 1024 * 1024


def no_size(asked: object) -> int:
    """Where it does not matter."""
    del asked
    return 0


def nothing() -> None:
    """To be done."""


class CommitThread(Generic[Asked]):
    """``commit`` gets what waits, up to ``bytes_max`` by ``size_of``; ``idle`` is called when nothing else waits."""

    def __init__(
        self,
        name: str,
        commit: Callable[[list[Asked]], None],
        *,
        size_of: Callable[[Asked], int] = no_size,
        bytes_max: int = BYTES_MAX,
        idle: Callable[[], None] = nothing,
    ) -> None:
        self._commit, self._size_of, self._bytes_max, self._idle = commit, size_of, bytes_max, idle
        self._asked: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def put(self, asked: Asked) -> None:
        """After all before it."""
        self._asked.put(asked)

    def close(self) -> None:
        """Finish what was asked for, and end."""
        self._asked.put(None)
        self._thread.join()

    def _work(self) -> None:
        ends = False
        while not ends:
            batch, ends = self._next()
            if batch:
                self._commit(batch)
            if self._asked.empty():
                self._idle()

    def _next(self) -> tuple[list[Asked], bool]:
        """What waits, and whether that is all there will be."""
        batch: list[Asked] = []
        size = 0
        while (asked := self._asked.get()) is not None:
            batch.append(asked)
            size += self._size_of(asked)
            if size >= self._bytes_max or self._asked.empty():
                return batch, False
        return batch, True
