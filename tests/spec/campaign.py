"""Runs spoilt at random, judged by every checker: ``python -m tests.spec.campaign evs 10000 --spark --out FILE``.

``evs``: runs of clients and of daemons; ``corel``: runs of COReL's servers. The plain checker must agree with the naive
one, and with ``--spark`` both ways of Spark (queries over all runs, the plain checker in a task) with the plain one, to
the witness. One run in four is spoilt twice. Numbers determine runs. FILE has a line for each batch that is done, so a
campaign that was stopped goes on behind it; the exit code is 1 if there was a disagreement or a crash.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from isotone.core.choice import Choice
from isotone.spec.check import check
from isotone.spec.check.synthetic import Shape, Synthetic
from isotone.trace.dense import is_in_order
from isotone.trace.events import Row
from tests.pipeline.files import write_together
from tests.spec.corruptions import CORRUPTIONS, corrupt, renumbered
from tests.spec.mutation.as_daemons import as_daemons
from tests.spec.mutation.kinds import KINDS
from tests.spec.mutation.runner import corruption
from tests.spec.mutation.runs import recorded
from tests.spec.naive.compare import disagreements
from tests.spec.naive_corel import judge as naive_corel
from tests.spec.naive_corel.judge import about_servers
from tests.spec.naive_corel.judge import disagreements as corel_disagreements
from tests.spec.naive_corel.spoiling import KINDS as COREL_KINDS
from tests.spec.naive_corel.spoiling import spoilt
from tests.spec.test_naive_corel import recorded as recorded_corel

BATCH = 250
SEEDS = 200
COREL_SEEDS = 60
Spoilt = tuple[str, list[Row]]
Outcome = dict[str, tuple[str, tuple[Any, ...]]]


class Done(msgspec.Struct):
    """A batch: which numbers, how often each property was violated, and what went wrong."""

    first: int
    count: int
    violated: dict[str, int]
    wrong: list[str]


# --- the runs --------------------------------------------------------------------------------------------------------


def spoilt_evs(number: int) -> Spoilt:
    """A run of the oracle or a synthetic one, of clients or of daemons."""
    choice = Choice(f"campaign/evs/{number}")
    seed = 1 + choice.below(SEEDS)
    if choice.chance(0.4):
        kind = choice.pick(list(KINDS))
        found = corruption(kind, seed, number)
        rows = found.rows if found is not None else _good(seed)
    else:
        kind = choice.pick(list(CORRUPTIONS))
        rows = _synthetic(seed) if choice.chance(0.4) else _good(seed)
        rows = corrupt(rows, kind, choice) or rows
    if choice.chance(0.25):
        again = choice.pick(list(CORRUPTIONS))
        kind, rows = f"{kind}, {again}", corrupt(rows, again, choice) or rows
    if choice.chance(0.3) and not any(row.entry.__class__.__name__.startswith("Daemon") for row in rows):
        kind, rows = f"{kind}, as daemons", as_daemons(rows, "g1")
    if not is_in_order(rows):  # a reader gives each node's rows in their order
        rows = sorted(rows, key=lambda row: (row.node, row.incarnation, row.index))
    return f"{number}, seed {seed}, {kind}", rows


def spoilt_corel(number: int) -> Spoilt:
    """A run of the swarm."""
    choice = Choice(f"campaign/corel/{number}")
    seed = 1 + choice.below(COREL_SEEDS)
    rows = renumbered(about_servers(recorded_corel(seed)))
    kinds = [choice.pick(COREL_KINDS) for _ in range(2 if choice.chance(0.25) else 1)]
    for kind in kinds:
        rows = spoilt(rows, kind, choice) or rows
    return f"{number}, seed {seed}, {', '.join(kinds)}", rows


@lru_cache(maxsize=SEEDS)
def _good(seed: int) -> list[Row]:
    return recorded(seed)


@lru_cache(maxsize=SEEDS)
def _synthetic(seed: int) -> list[Row]:
    shape = Shape(
        seed=seed,
        bundles=30,
        nodes=3,
        clients_per_node=2,
        groups=2,
        messages_min=1,
        messages_max=3,
        change_every=5,
        lag_max=8,
        daemons=True,
    )
    return list(Synthetic(shape))


# --- judging ---------------------------------------------------------------------------------------------------------


def plain_of(rows: list[Row]) -> Outcome:
    """State and witness by label."""
    return {
        label: (verdict.state.value, verdict.violation.witness if verdict.violation else ())
        for label, verdict in check(rows).verdicts.items()
    }


def compared(kind: str, rows: list[Row]) -> dict[str, tuple[str, str]]:
    """Where the naive checker disagrees with the plain one."""
    return corel_disagreements(rows, naive_corel(rows)) if kind == "corel" else disagreements(rows)


def batch(kind: str, first: int, count: int, spark: Any) -> Done:
    """So many runs from this number on."""
    draw: Callable[[int], Spoilt] = spoilt_corel if kind == "corel" else spoilt_evs
    done = Done(first, count, {}, [])
    runs: dict[str, list[Row]] = {}
    violated: Counter[str] = Counter()
    for number in range(first, first + count):
        name, rows = draw(number)
        runs[name] = rows
        try:
            violated.update(label for label, (state, _) in plain_of(rows).items() if state == "violated")
            if different := compared(kind, rows):
                done.wrong.append(f"{name}: naive, plain: {different}")
        except Exception as error:  # a crash of either is what is looked for
            done.wrong.append(f"{name}: {type(error).__name__}: {error}")
    done.violated = dict(sorted(violated.items()))
    if spark is not None:
        done.wrong += _compare_spark(spark, runs)
    return done


def _compare_spark(spark: Any, runs: dict[str, list[Row]]) -> list[str]:
    expected = {name: plain_of(rows) for name, rows in runs.items()}
    with tempfile.TemporaryDirectory() as place:
        write_together(Path(place), runs)
        found = _judged(spark, Path(place), None), _judged(spark, Path(place), 0)
    wrong = []
    for way, told in (("task", found[0]), ("queries", found[1])):
        for name in runs:
            labels = expected[name].keys() | told.get(name, {}).keys()
            different = {
                label: (expected[name].get(label), told.get(name, {}).get(label))
                for label in labels
                if expected[name].get(label) != told.get(name, {}).get(label)
            }
            if different:
                wrong.append(f"{name}: plain, Spark by {way}: {different}")
    return wrong


def _judged(spark: Any, place: Path, whole_rows_max: int | None) -> dict[str, Outcome]:
    from isotone.pipeline.bronze import problems, read_bronze
    from isotone.pipeline.conformance.verdicts import judge
    from isotone.pipeline.silver import silver

    bronze = read_bronze(spark, [place])
    assert problems(bronze) == ()
    rows = silver(bronze.rows)
    judged = judge(rows) if whole_rows_max is None else judge(rows, whole_rows_max=whole_rows_max)
    found: dict[str, Outcome] = {}
    for row in judged.collect():
        witness = tuple((each["node"], each["incarnation"], each["index"]) for each in row["witness"] or ())
        found.setdefault(row["run"], {})[row["label"]] = (row["state"], witness)
    return found


# --- the campaign ----------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Go on where FILE ends; the sum at the end."""
    parser = argparse.ArgumentParser(prog="python -m tests.spec.campaign", description=__doc__)
    parser.add_argument("kind", choices=("evs", "corel"))
    parser.add_argument("count", type=int)
    parser.add_argument("--out", type=Path, required=True, help="a line of JSON for each batch that is done")
    parser.add_argument("--spark", action="store_true", help="compare with Spark too, on local[2]")
    options = parser.parse_args(arguments)
    done = read_done(options.out)
    spark = None
    if options.spark:
        from isotone.pipeline.session import session

        spark = session("local[2]", is_small=True, name="campaign")
    while (next_number := sum(each.count for each in done)) < options.count:
        done.append(batch(options.kind, next_number, min(BATCH, options.count - next_number), spark))
        with options.out.open("ab") as out:
            out.write(msgspec.json.encode(done[-1]) + b"\n")
    print("\n".join(told(options.kind, done, spark=options.spark)))
    return 1 if any(each.wrong for each in done) else 0


def read_done(path: Path) -> list[Done]:
    """The batches of an earlier start; one that was cut while it was written is done again."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"".join(line + b"\n" for line in lines[:-1]))
    return [msgspec.json.decode(line, type=Done) for line in lines[:-1]]


def told(kind: str, done: list[Done], *, spark: bool) -> list[str]:
    """The result as text."""
    violated = sum((Counter(each.violated) for each in done), Counter[str]())
    wrong = [line for each in done for line in each.wrong]
    checkers = "plain, naive and both ways of Spark" if spark else "plain and naive"
    counted = ", ".join(f"{label} {times}" for label, times in sorted(violated.items()))
    total = sum(each.count for each in done)
    return [f"{total} spoilt runs ({kind}), {checkers}: {len(wrong)} disagreements", *wrong, f"violated: {counted}"]


if __name__ == "__main__":
    sys.exit(main())
