"""Choice: a seed means the same stream for ever, and streams derived by name do not disturb each other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from isotone.core.choice import Choice

ITEMS = list("abcdefgh")


def drawn(seed: int | str) -> dict[str, object]:
    """A little of everything."""
    root = Choice(seed)
    shuffled = list(ITEMS)
    root.derive("shuffle").shuffle(shuffled)
    return {
        "below": [root.below(1000) for _ in range(5)],
        "huge": root.derive("huge").below(10**30),
        "between": root.derive("between").between(-5, 5),
        "real": root.derive("real").real(),
        "chance": [root.chance(0.5) for _ in range(8)],
        "pick": root.derive("pick").pick(ITEMS),
        "weighted": "".join(root.weighted([("x", 1.0), ("y", 3.0)]) for _ in range(6)),
        "shuffle": "".join(shuffled),
        "sample": "".join(root.derive("sample").sample(ITEMS, 3)),
    }


def test_the_stream_never_changes() -> None:
    # Every recorded seed stands on these values: when this test fails, the code is wrong and not the test.
    assert drawn(1) == {
        "below": [678, 507, 462, 867, 156],
        "huge": 24607467697508499793022829252,
        "between": 1,
        "real": 0.2971145043903253,
        "chance": [False, True, False, False, True, False, False, True],
        "pick": "h",
        "weighted": "yxyyxy",
        "shuffle": "afehdgcb",
        "sample": "abf",
    }
    assert drawn("swarm/7") == {
        "below": [237, 885, 855, 536, 338],
        "huge": 424214726264042261072116572231,
        "between": 3,
        "real": 0.964047578783733,
        "chance": [False, False, False, False, False, False, False, True],
        "pick": "a",
        "weighted": "yyxyyx",
        "shuffle": "dgfbceah",
        "sample": "bef",
    }
    bounds = (2**32 - 1, 2**32, 2**32 + 1, 2**33)  # two ways of drawing meet here
    assert [Choice("edge").below(bound) for bound in bounds] == [3586325439, 3586325460, 2325566663, 3586325460]


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_the_stream_does_not_depend_on_the_hash_seed(hash_seed: str) -> None:
    program = "from isotone.core.choice import Choice; print([Choice(1).derive('x').below(9**9) for _ in range(3)])"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{[Choice(1).derive('x').below(9**9) for _ in range(3)]}\n"


def test_a_number_and_its_text_are_the_same_seed() -> None:
    assert drawn(17) == drawn("17")
    assert drawn(17) != drawn(18)


def test_drawing_from_one_stream_never_shifts_another() -> None:
    quiet, busy = Choice("s"), Choice("s")
    for _ in range(100):
        busy.real()
        busy.derive("other").below(7)
    assert busy.derive("mine").below(2**60) == quiet.derive("mine").below(2**60)
    assert Choice("s").derive("a").real() != Choice("s").derive("b").real()
    assert Choice("s").derive("a").derive("b").seed == "s/a/b"


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 1000, 2**32 - 1, 2**32, 2**32 + 1, 10**30])
def test_below_stays_below_and_between_includes_both_ends(bound: int) -> None:
    choice = Choice(f"below {bound}")
    assert all(0 <= choice.below(bound) < bound for _ in range(300))
    assert all(-1 <= choice.between(-1, bound) <= bound for _ in range(300))


def test_every_value_comes_about_equally_often() -> None:
    choice = Choice("even")
    counts = Counter(choice.below(10) for _ in range(20_000))
    assert sorted(counts) == list(range(10))
    assert all(1800 <= count <= 2200 for count in counts.values())  # more than four standard deviations
    high = Counter(choice.below(10 * 2**40) // 2**40 for _ in range(20_000))
    assert all(1800 <= high[value] <= 2200 for value in range(10))


def test_chances_and_weights_are_kept() -> None:
    choice = Choice("weights")
    assert 2800 <= sum(choice.chance(0.3) for _ in range(10_000)) <= 3200
    assert not any(choice.chance(0.0) for _ in range(1000))
    assert all(choice.chance(1.0) for _ in range(1000))
    counts = Counter(choice.weighted([("a", 1.0), ("never", 0.0), ("b", 4.0)]) for _ in range(10_000))
    assert counts["never"] == 0
    assert 1800 <= counts["a"] <= 2200


def test_shuffles_reach_every_order_and_lose_nothing() -> None:
    choice = Choice("orders")
    seen: Counter[str] = Counter()
    for _ in range(6000):
        items = list("abc")
        choice.shuffle(items)
        seen["".join(items)] += 1
    assert sorted(seen) == ["abc", "acb", "bac", "bca", "cab", "cba"]
    assert all(850 <= count <= 1150 for count in seen.values())


def test_samples_are_different_items_in_their_order() -> None:
    choice = Choice("samples")
    seen: Counter[str] = Counter()
    for count in range(len(ITEMS) + 1):
        for _ in range(50):
            sample = choice.sample(ITEMS, count)
            assert len(sample) == len(set(sample)) == count
            assert sample == sorted(sample)
            seen.update(sample)
    assert sorted(seen) == ITEMS
