"""Faults planted in the oracle: the checkers must find each at its seed, and nothing at that seed without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import run_plan
from isotone.sim.system import Setting, draw_plan
from tests.planted.harness import PatchFailed, Planted, apply_diff, missed, planted_in, read_planted, swarm_command

ORACLE = Path(__file__).parent / "oracle"
PLANTED = planted_in(ORACLE)
SWARM = swarm_command("--system", "evs", "--stack", "oracle", "--workers", "1")


def names(planted: Planted) -> str:
    return planted.name


def test_there_are_at_least_ten() -> None:
    assert len(PLANTED) >= 10
    assert len({planted.fault for planted in PLANTED}) == len(PLANTED)


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_fault_is_found_at_its_seed(planted: Planted) -> None:
    assert missed(planted, SWARM) == set()


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_sound_oracle_passes_at_that_seed(planted: Planted) -> None:
    size = Size.SMALL if "small" in planted.options else Size.STANDARD
    setting = Setting(system="evs", stack="oracle", size=size)
    system = system_named(setting.system)
    assert run_plan(system, draw_plan(system, setting, planted.seed)).violations == ()


# --- the harness itself --------------------------------------------------------------------------------------------

GOOD = """--- a/src/file.py
+++ b/src/file.py
@@ -1,3 +1,3 @@
 one
-two
+zwei
 three
@@ -5,2 +5,3 @@
 five
+five and a half
 six
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "file.py").write_text("one\ntwo\nthree\n\nfive\nsix\n")
    return tmp_path


def test_a_diff_is_applied_to_the_letter(tree: Path) -> None:
    apply_diff(GOOD, tree)
    assert (tree / "src" / "file.py").read_text() == "one\nzwei\nthree\n\nfive\nfive and a half\nsix\n"


@pytest.mark.parametrize("old", ["two", "three", "six"])
def test_a_diff_that_no_longer_fits_fails(tree: Path, old: str) -> None:
    path = tree / "src" / "file.py"
    path.write_text(path.read_text().replace(old, "something else"))
    with pytest.raises(PatchFailed):
        apply_diff(GOOD, tree)


def test_a_diff_of_a_file_that_is_gone_fails(tree: Path) -> None:
    (tree / "src" / "file.py").unlink()
    with pytest.raises(PatchFailed, match="not there"):
        apply_diff(GOOD, tree)


def test_a_patch_without_its_head_fails(tmp_path: Path) -> None:
    path = tmp_path / "01-bad.patch"
    path.write_text("Fault: something\n\n" + GOOD)
    with pytest.raises(PatchFailed, match="Raises"):
        read_planted(path)


def test_a_patch_that_breaks_nothing_is_missed(tmp_path: Path) -> None:
    harmless = """--- a/src/isotone/py.typed
+++ b/src/isotone/py.typed
"""
    planted = Planted(tmp_path / "x.patch", "none", ("EVS-2.5",), 1, ("--size", "small"), harmless)
    assert missed(planted, SWARM) == {"EVS-2.5"}
