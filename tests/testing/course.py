"""One run as text: the digest of its trace, and every step of every task in order. Also a program of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Generator
from hashlib import blake2b
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.replicated_counter.counter import Counter
from examples.replicated_counter.scenario import count_through_a_storm

from isotone.testing import VirtualLoop, cluster, run
from tests.testing.virtual import pause


class Watched(Coroutine[Any, Any, Any]):
    """A coroutine whose steps are written down."""

    def __init__(self, inner: Coroutine[Any, Any, Any], diary: list[str], loop: VirtualLoop) -> None:
        self._inner, self._diary, self._loop = inner, diary, loop
        self.__qualname__ = getattr(inner, "__qualname__", "")

    def _note(self, what: str) -> None:
        self._diary.append(f"{self._loop.now_us} {self.__qualname__} {what}")

    def send(self, value: Any) -> Any:
        self._note("steps")
        return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        self._note(f"hears {error[0]!r}")
        return self._inner.throw(*error)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise AssertionError("only tasks run it")


def course(seed: int) -> tuple[str, str, int]:
    """Digests of the trace and of the steps, and how many steps there were."""
    diary: list[str] = []

    async def main() -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        made = loop.get_task_factory()
        assert made is not None
        loop.set_task_factory(lambda loop, coroutine, **more: made(loop, Watched(coroutine, diary, loop), **more))
        async with cluster() as c:
            await count_through_a_storm(Counter, c)
            c.storm(1.0)  # with crashes
            await pause(2.0)
            return c.digest()

    trace = run(main, seed=seed)
    return trace, blake2b("\n".join(diary).encode(), digest_size=16).hexdigest(), len(diary)


if __name__ == "__main__":
    print(*course(int(sys.argv[1])))
