"""One test, many seeds: `seeds` runs a test again and again, stops at the first seed that fails, and says how to
replay it.

The test may be a plain or an asynchronous function. Among its arguments, ``seed`` is the seed, and ``cluster`` is a
`Cluster` of that seed that is up and settled; all others are the test framework's own (fixtures, parameters). The
pytest plug-in chooses the seeds (``--isotone-seeds``, ``--isotone-seed``) and knows the line that replays one; without
it everything works all the same.
"""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from isotone.core.errors import LocalProtocolError
from isotone.testing.loop import LIMIT_S
from isotone.testing.running import run
from isotone.testing.simulated import cluster
from isotone.testing.storm import kept_faults

OWN = ("seed", "cluster")
BLOCK = 25
"""So many seeds are one test item, where the plug-in makes several of one test."""
BLOCK_ARGUMENT = "isotone_seed_block"
SHRINK_RUNS_MAX = 200
COLLECT_EVERY = 25
"""Worlds are full of cycles; between runs the collector may take them, during a run it rests."""


@dataclass
class Chosen:
    """What the test framework says: which seeds instead of the test's own, who hears of progress, how to replay."""

    count: int | None = None
    seed: int | None = None
    progress: Callable[[int, int], None] | None = None
    replay: Callable[[int], str] | None = None
    failed: Callable[[int, str], None] | None = None
    shrink: bool = False

    def numbers(self, count: int) -> Sequence[int]:
        """The seeds to run of a test that wants so many."""
        if self.seed is not None:
            return (self.seed,)
        return range(self.count if self.count is not None else count)

    def blocks(self, count: int) -> list[range]:
        """The same in parts, so that pytest-xdist spreads them; none where one part is enough."""
        numbers = self.numbers(count)
        if self.seed is not None or len(numbers) <= BLOCK:
            return []
        return [range(first, min(first + BLOCK, len(numbers))) for first in range(0, len(numbers), BLOCK)]


chosen = Chosen()
"""Set by the plug-in for the test that runs now."""


def seeds(count: int, *, limit: float = LIMIT_S, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Run the test with the seeds 0 … count − 1. ``options`` are for its ``cluster``, as `isotone.testing.cluster`
    takes them; ``limit`` bounds the virtual seconds of one run."""
    if count < 1:
        raise LocalProtocolError(f"a test needs at least one seed, not {count}")

    def decorate(test: Callable[..., Any]) -> Callable[..., None]:
        signature = inspect.signature(test)
        wanted = signature.parameters
        if options and "cluster" not in wanted:
            raise LocalProtocolError(f"{test.__qualname__} has no argument cluster that {sorted(options)} could be for")
        if "cluster" in wanted and not inspect.iscoroutinefunction(test):
            raise LocalProtocolError(f"{test.__qualname__} takes a cluster, so it must be an async function")

        @functools.wraps(test)
        def every_seed(*arguments: Any, **named: Any) -> None:
            numbers = named.pop(BLOCK_ARGUMENT, None) or chosen.numbers(count)
            for done, seed in enumerate(numbers):
                if chosen.progress is not None:
                    chosen.progress(done, len(numbers))
                if done % COLLECT_EVERY == COLLECT_EVERY - 1:
                    gc.collect()
                bound = partial(test, *arguments, **named)
                one = partial(_run_one, test=bound, wanted=wanted, seed=seed, limit=limit, options=options)
                try:
                    one(None)
                except Exception as error:
                    failure = _shrunk(one, error) if chosen.shrink else error
                    _tell(failure, test, seed, len(numbers))
                    if failure is error:
                        raise
                    raise failure from None

        others = [value for name, value in wanted.items() if name not in OWN]
        every_seed.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        every_seed.isotone_seeds = count  # type: ignore[attr-defined]
        del every_seed.__wrapped__  # or frameworks look behind the signature
        return every_seed

    return decorate


def _run_one(
    kept: frozenset[int] | None,
    *,
    test: Callable[..., Any],
    wanted: Collection[str],
    seed: int,
    limit: float,
    options: dict[str, Any],
) -> None:
    """One run, with these faults of its storms only, or with all."""
    own = {"seed": seed} if "seed" in wanted else {}
    kept_faults.begin(kept)

    async def main() -> None:
        if "cluster" not in wanted:
            await test(**own)
            return
        async with cluster(**options) as made:
            await test(**own, cluster=made)

    try:
        if inspect.iscoroutinefunction(test):
            run(main, seed=seed, limit=limit)
        else:
            test(**own)
    finally:
        kept_faults.places = None


def _shrunk(one: Callable[[frozenset[int] | None], None], error: Exception) -> Exception:
    """The error of the run with the fewest faults of its storms that still fails in the same way."""
    drawn, runs = kept_faults.drawn, 0
    kept = list(range(drawn))
    chunk = drawn
    while chunk and runs < SHRINK_RUNS_MAX:
        place, before = 0, len(kept)
        while place < len(kept) and runs < SHRINK_RUNS_MAX:
            fewer = kept[:place] + kept[place + chunk :]
            runs += 1
            try:
                one(frozenset(fewer))
            except Exception as again:
                if type(again) is type(error):
                    error, kept = again, fewer
                    continue
            place += chunk
        chunk = chunk // 2 if chunk > 1 or len(kept) == before else 1
    error.add_note(f"isotone: shrunk in {runs} runs: it needs {len(kept)} of the {drawn} faults of its storms")
    return error


def _tell(error: Exception, test: Callable[..., Any], seed: int, count: int) -> None:
    line = chosen.replay(seed) if chosen.replay is not None else f"call {test.__qualname__} with seed {seed}"
    error.add_note(f"isotone: seed {seed} fails ({count} to run); replay it with\n    {line}")
    if chosen.failed is not None:
        chosen.failed(seed, line)
