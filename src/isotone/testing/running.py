"""Run an asynchronous program from beginning to end in virtual time."""

from __future__ import annotations

import asyncio
import inspect
import random
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from isotone.core.errors import IsotoneError
from isotone.sim.run import collector_resting
from isotone.testing.errors import DiedUnnoticed
from isotone.testing.loop import LIMIT_S, VirtualLoop

Result = TypeVar("Result")


def new_loop(seed: int | str = 0, *, limit: float = LIMIT_S) -> VirtualLoop:
    """A loop in virtual time, for those who run it themselves (``asyncio.Runner(loop_factory=…)``)."""
    return VirtualLoop(seed, limit=limit)


def run(main: Callable[..., Coroutine[Any, Any, Result]], *, seed: int | str = 0, limit: float = LIMIT_S) -> Result:
    """Call the asynchronous function, with ``seed`` if it takes one, and run it to its end in virtual time.

    The module ``random`` is seeded for the run and put back afterwards. The cyclic garbage collector rests, because
    what it ends, and when, depends on all that ran before.
    """
    loop = VirtualLoop(seed, limit=limit)
    known = random.getstate()
    random.seed(f"isotone/{seed}")
    try:
        with collector_resting():
            coroutine = main(seed=seed) if "seed" in inspect.signature(main).parameters else main()
            return _complete(loop, coroutine)
    finally:
        random.setstate(known)


def _complete(loop: VirtualLoop, coroutine: Coroutine[Any, Any, Result]) -> Result:
    silent = SilentDeaths(loop)
    try:
        result = loop.run_until_complete(loop.create_task(coroutine))
    except BaseException as error:
        for death in silent.found():
            error.add_note(f"Besides, {death}")
        with suppress(IsotoneError):  # what hung, hangs; the first error says so
            _clean_up(loop)
        raise
    else:
        deaths = silent.found()
        _clean_up(loop)
        if deaths:
            raise DiedUnnoticed("\n".join(deaths))
        return result
    finally:
        loop.close()


class SilentDeaths:
    """Tasks and callbacks that ended with an error that nobody looked at: elsewhere a line in a log, here a failure."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._told: list[str] = []
        loop.set_exception_handler(self._on_exception)

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        where = context.get("task") or context.get("future") or context.get("handle") or ""
        name = where.get_name() if isinstance(where, asyncio.Task) else repr(where)
        self._told.append(_death(f"{name}: {context.get('message', '')}", context.get("exception")))

    def found(self) -> list[str]:
        """What was told of so far, in words."""
        told, self._told = self._told, []
        for task in list(self._loop.tasks):
            if task.done() and getattr(task, "_log_traceback", False):
                told.append(_death(f"{task.get_name()} died unnoticed", task.exception()))
        return told


def _death(what: str, error: BaseException | None) -> str:
    if error is None:
        return what
    return f"{what}:\n{''.join(traceback.format_exception(error)).rstrip()}"


def _clean_up(loop: VirtualLoop) -> None:
    """End what is left, in the order in which it began."""
    left = list(loop.unfinished())
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
