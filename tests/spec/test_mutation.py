"""Spoilt runs: each kind of corruption is caught, outside what the specification allows, and both checkers agree.

A larger sample: python -m tests.spec.mutation --seeds 1..200 --per-kind 10. See docs/protocols/mutation.md.
"""

from __future__ import annotations

import pytest

from tests.spec.mutation.__main__ import main
from tests.spec.mutation.as_daemons import as_daemons
from tests.spec.mutation.kinds import KINDS
from tests.spec.mutation.runner import Count, corruption, count_kind, good_run
from tests.spec.naive.compare import disagreements

SEEDS = range(1, 5)
PER_KIND = 4
COMPARED_SEEDS = range(1, 4)


# What the streaming checkers do not see yet; a line goes when its reason does.
@pytest.mark.parametrize("kind", KINDS)
def test_caught(kind: str) -> None:
    count = count_kind(kind, SEEDS, PER_KIND)
    assert count.applied >= PER_KIND, "hardly applicable: the runs are too poor"
    assert not count.faults(), "\n".join([*count.faults(), *count.missed])


@pytest.mark.parametrize("kind", KINDS)
def test_both_agree_on_spoilt_runs(kind: str) -> None:
    for seed in COMPARED_SEEDS:
        corrupted = corruption(kind, seed, 0)
        if corrupted is not None:
            for rows in (corrupted.rows, as_daemons(corrupted.rows, "g1")):
                found = disagreements(rows)
                assert not found, f"seed {seed}: {found}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_spoilt_run_looks_like_a_record(kind: str) -> None:
    found = [(corruption(kind, seed, 0), good_run(seed)[0]) for seed in SEEDS]
    corrupted, run = next((each, run) for each, run in found if each is not None)
    assert corrupted is not None
    assert corrupted.rows != run.rows
    reached: dict[tuple[str, int], int] = {}
    for row in corrupted.rows:
        record = (row.node, row.incarnation)
        assert row.index == reached.get(record, 0)
        reached[record] = row.index + 1


def test_the_same_corruption_again() -> None:
    for kind in KINDS:
        one, other = corruption(kind, 2, 1), corruption(kind, 2, 1)
        assert one == other


def test_a_count_that_is_not_good_enough_is_noticed() -> None:
    assert Count(applied=20, caught=19, missed=["x"]).faults() == []
    assert len(Count(applied=20, caught=18, missed=["x", "y"]).faults()) == 1
    excused = Count(applied=20, caught=2)
    excused.excused["reason"] = 18
    assert len(excused.faults()) == 1
    excused.caught = 0
    assert len(excused.faults()) == 3


def test_the_command_prints_a_table_and_judges(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--per-kind", "1", "--workers", "1"]) in (0, 1)
    printed = capsys.readouterr().out
    assert [kind for kind in KINDS if kind not in printed] == []
    with pytest.raises(SystemExit) as usage:
        main(["--seeds", "x"])
    assert usage.value.code == 2
