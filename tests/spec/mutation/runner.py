"""Spoils good runs, asks the streaming checkers, and counts: applied, caught, excused by reason, missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from isotone.core.choice import Choice
from isotone.spec.check import check
from tests.spec.mutation import deliveries, messages, views
from tests.spec.mutation.excuses import excuse
from tests.spec.mutation.kinds import KINDS, Corrupted
from tests.spec.mutation.record import Recording
from tests.spec.mutation.runs import recorded
from tests.spec.naive import violated
from tests.spec.naive.history import History
from tests.spec.naive.reading import client_history

MODULES = (deliveries, views, messages)  # their kinds are in KINDS once they are imported
CAUGHT_MIN = 0.95
EXCUSED_MAX = 0.70
TOLD_MAX = 3


@dataclass
class Count:
    """What became of the corruptions of one kind."""

    applied: int = 0
    caught: int = 0
    excused: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)

    def add(self, other: Count) -> None:
        """Take in the count of further runs."""
        self.applied += other.applied
        self.caught += other.caught
        self.excused += other.excused
        self.missed += other.missed

    @property
    def owed(self) -> int:
        """How many had to be caught."""
        return self.applied - self.excused.total()

    def faults(self) -> list[str]:
        """What is wrong with this count; nothing, if all is well."""
        found = []
        if not self.caught:
            found.append("not one was caught")
        if self.caught < CAUGHT_MIN * self.owed:
            found.append(f"{self.caught} of {self.owed} caught, at least {CAUGHT_MIN:.0%} must be")
        if self.excused.total() > EXCUSED_MAX * self.applied:
            found.append(f"{self.excused.total()} of {self.applied} excused, at most {EXCUSED_MAX:.0%} may be")
        return found


@lru_cache(maxsize=16)
def good_run(seed: int) -> tuple[Recording, History]:
    """A recorded run of the oracle, in which every promise is kept."""
    rows = recorded(seed)
    assert not check(rows).violations, f"seed {seed} is not a good run"
    return Recording(rows), client_history(rows)


def corruption(kind: str, seed: int, number: int) -> Corrupted | None:
    """One corruption; kind, seed and number determine it."""
    return spoil(kind, good_run(seed)[0], Choice(f"mutation/{seed}/{kind}/{number}"))


def spoil(kind: str, run: Recording, choice: Choice) -> Corrupted | None:
    """This run with one corruption of this kind; nothing if there is no place for one."""
    return KINDS[kind].apply(run, choice)


def count_kind(kind: str, seeds: Iterable[int], per_kind: int) -> Count:
    """Apply one kind ``per_kind`` times to each run."""
    count = Count()
    for seed in seeds:
        for number in range(per_kind):
            corrupted = corruption(kind, seed, number)
            if corrupted is not None:
                _judge(count, kind, seed, number, corrupted)
    return count


def _judge(count: Count, kind: str, seed: int, number: int, corrupted: Corrupted) -> None:
    count.applied += 1
    if check(corrupted.rows).violations:
        count.caught += 1
        return
    reason = excuse(kind, good_run(seed)[1], corrupted)
    is_told = len(count.missed) >= TOLD_MAX  # the dumb version is slow, and the first few misses say it all
    broken = violated(corrupted.rows) if reason is not None or not is_told else []
    if reason is not None and not broken:
        count.excused[reason.value] += 1
    else:
        why = f"breaks {', '.join(broken)}" if broken else "no excuse is known"
        count.missed.append(f"{kind!r}, seed {seed}, number {number}: {why}")


def count_seed(seed: int, per_kind: int) -> dict[str, Count]:
    """All kinds on one run."""
    return {kind: count_kind(kind, (seed,), per_kind) for kind in KINDS}


def table(counts: dict[str, Count]) -> Sequence[str]:
    """One line per kind, and one per reason below it."""
    lines = [f"{'kind':52} {'applied':>7} {'caught':>7} {'excused':>7} {'missed':>7} {'of owed':>8}"]
    for kind, count in counts.items():
        share = f"{count.caught / count.owed:.1%}" if count.owed else "-"
        numbers = f"{count.applied:7} {count.caught:7} {count.excused.total():7} {len(count.missed):7} {share:>8}"
        lines.append(f"{kind:52} {numbers}")
        lines += [f"    {number:5} {reason}" for reason, number in sorted(count.excused.items())]
    return lines
