"""Faults planted in our own stack and in its detector: each breaks its property at its seed, which holds without it.

Seeds are new wherever the stack or the drawing of runs has changed: `tests.planted.search` finds and writes them.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import run_plan
from isotone.sim.system import RUN_ASSERT, Setting, draw_plan
from tests.planted.harness import PatchFailed, Planted, apply_diff, missed, planted_in, read_planted
from tests.planted.search import SEEDS, SWARMS, hunts_at, write_seed
from tests.planted.sleepers import suspicions_of_sleeper

HERE = Path(__file__).parent
PLANTED = planted_in(HERE / "evs")
IN_DETECTOR = planted_in(HERE / "detector")
BY_ASSERTION_MAX = 3


def names(planted: Planted) -> str:
    return planted.name


def setting_of(planted: Planted) -> Setting:
    options = dict(zip(planted.options[::2], planted.options[1::2]))
    return Setting(
        system="evs",
        stack="full",
        size=Size(options.get("--size", "standard")),
        faults=options.get("--faults", "all"),
        nodes=options.get("--nodes"),
    )


def test_there_are_at_least_twelve() -> None:
    assert len(PLANTED) >= 12
    assert len({planted.fault for planted in PLANTED}) == len(PLANTED)
    assert all(1 <= planted.seed <= SEEDS for planted in PLANTED)


def test_hardly_any_is_found_by_an_assertion_alone() -> None:
    assert sum(planted.raises == (RUN_ASSERT,) for planted in PLANTED) <= BY_ASSERTION_MAX


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_fault_is_found_at_its_seed(planted: Planted) -> None:
    assert missed(planted, SWARMS["evs"]) == set()


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_sound_stack_passes_at_that_seed(planted: Planted) -> None:
    system = system_named("evs")
    assert run_plan(system, draw_plan(system, setting_of(planted), planted.seed)).violations == ()


@pytest.mark.parametrize("planted", IN_DETECTOR, ids=names)
def test_a_fault_that_no_property_of_evs_sees(planted: Planted) -> None:
    assert missed(planted, SWARMS["detector"]) == set()
    assert suspicions_of_sleeper(planted.seed) == 0


def test_a_soak_looks_for_every_fault_at_ever_new_seeds() -> None:
    hunts = list(hunts_at(PLANTED, 5, 4 + 2 * len(PLANTED)))
    assert {hunt.planted.name for hunt in hunts} == {planted.name for planted in PLANTED}
    assert all(hunt.last - hunt.first + 1 == SEEDS for hunt in hunts)
    assert all(before.last < after.first for before, after in pairwise(hunts))


# --- what moves when the source grows --------------------------------------------------------------------------------

MOVED = """--- a/src/file.py
+++ b/src/file.py
@@ -1,2 +1,2 @@
 one
-two
+zwei
"""


def test_a_diff_follows_its_lines_when_they_move(tmp_path: Path) -> None:
    path = tmp_path / "src" / "file.py"
    path.parent.mkdir()
    path.write_text("nought\nanother\none\ntwo\n")
    apply_diff(MOVED, tmp_path)
    assert path.read_text() == "nought\nanother\none\nzwei\n"


def test_a_diff_does_not_guess_between_two_places(tmp_path: Path) -> None:
    path = tmp_path / "src" / "file.py"
    path.parent.mkdir()
    path.write_text("nought\none\ntwo\none\ntwo\n")
    with pytest.raises(PatchFailed, match="2 places"):
        apply_diff(MOVED, tmp_path)


def test_a_new_seed_is_written_into_the_head_alone(tmp_path: Path) -> None:
    path = tmp_path / "01-x.patch"
    path.write_text("Fault: x\nRaises: RUN-LIVE\nSeed: 3\n\n" + MOVED)
    write_seed(read_planted(path), 77)
    assert path.read_text() == "Fault: x\nRaises: RUN-LIVE\nSeed: 77\n\n" + MOVED
