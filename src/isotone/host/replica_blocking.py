"""Replicated objects for programs without asyncio: the same names, each call waits.

    with isotone.host.replica_blocking.replica("shop", name="a", state="data/a", peers={...}) as shop:
        stock = shop.dict("stock")
        stock.set("apples", 3)
        with shop.lock("nightly").hold() as held:
            ...

A thread of its own runs the asyncio objects. Objects may be used from several threads.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from types import TracebackType
from typing import Any

import msgspec

from isotone.client.blocking import Worker
from isotone.host import replica_objects


class Blocking:
    """Stands for an object on the worker's loop: what it returns to wait for is waited for."""

    def __init__(self, of: Any, worker: Worker) -> None:
        self._of, self._worker = of, worker

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            own = [each._of if isinstance(each, Blocking) else each for each in arguments]
            return self._told(found(*own, **named))

        return call

    def _told(self, value: Any) -> Any:
        if inspect.isawaitable(value):
            return self._told(self._worker.run(_awaited(value)))
        if hasattr(value, "__anext__"):
            return self._each(value)
        is_object = type(value).__module__.startswith("isotone.replicated.") and not isinstance(value, msgspec.Struct)
        return Blocking(value, self._worker) if is_object else value

    def _each(self, values: Any) -> Iterator[Any]:
        while True:
            try:
                yield self._told(self._worker.run(anext(values)))
            except StopAsyncIteration:
                return

    def __enter__(self) -> Any:
        return self._told(self._of.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._told(self._of.__aexit__(kind, error, trace))


async def _awaited(value: Any) -> Any:
    return await value


@contextmanager
def _opened(opening: AbstractAsyncContextManager[Any], name: str) -> Iterator[Any]:
    worker = Worker(name)
    try:
        objects = worker.run(opening.__aenter__())
        try:
            yield Blocking(objects, worker)
        finally:
            worker.run(opening.__aexit__(None, None, None))
    finally:
        worker.stop()


def replica(log: str, *, name: str, **options: Any) -> Any:
    """As `isotone.replica`, without asyncio."""
    return _opened(replica_objects.replica(log, name=name, **options), f"replica {name}")


def connect_replica(addresses: Any, **options: Any) -> Any:
    """As `isotone.connect_replica`, without asyncio."""
    return _opened(replica_objects.connect_replica(addresses, **options), "replica client")
