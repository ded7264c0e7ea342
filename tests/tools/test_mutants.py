"""Mutants: who is shown which mutant, what is remembered, and a small package from end to end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import mutant_net
from mutant_net import NOBODY, Net
from mutants import Known, Outcome, judge, read_explanations, report_text
from mutation_sites import Mutation, mutations_below

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = """def larger(a: int, b: int) -> bool:
    return a > b


def unused(a: int) -> int:
    return a + 1


def countdown(a: int) -> int:
    while a > 0:
        a = a - 1
    return a
"""
TESTS = """from isotone.toy.numbers import countdown, larger


def test_larger() -> None:
    assert larger(2, 1)


def test_equal() -> None:
    assert not larger(1, 1)


def test_countdown() -> None:
    assert countdown(3) == 0


def test_broken() -> None:
    assert larger(1, 2)
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Net:
    """A package of its own, and the net over it."""
    for path, text in {
        "pytest.ini": "[pytest]\n",
        "src/isotone/__init__.py": "",
        "src/isotone/toy/__init__.py": "",
        "src/isotone/toy/numbers.py": SOURCE,
        "tests/toy/test_numbers.py": TESTS,
        "tools/mutant_swarm.py": "def test_swarm() -> None: pass\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for plugin in ("mutant_probe.py", "mutant_hunt.py"):
        shutil.copy(REPOSITORY / "tools" / plugin, tmp_path / "tools")
    monkeypatch.setattr(mutant_net, "ROOT", tmp_path)
    monkeypatch.setattr(mutant_net, "TOOLS", tmp_path / "tools")
    monkeypatch.setattr("mutants.ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return Net("toy", "none")


def test_mutants_are_shown_to_the_tests_that_execute_them(toy: Net, tmp_path: Path) -> None:
    toy.prepare(tmp_path / "state")
    assert toy.broken == ["tests/toy/test_numbers.py::test_broken"]
    mutations = {f"{each.function}: {each.before}": each for each in mutations_below(tmp_path, Path("src/isotone/toy"))}
    assert sorted(name.partition("::")[2] for name in toy.tests_for(mutations["larger: a > b"])) == [
        "test_equal",
        "test_larger",
    ]
    assert not toy.tests_for(mutations["unused: a + 1"])
    chosen = [mutations[name] for name in ("larger: a > b", "unused: a + 1", "countdown: a > 0")]
    known = judge(chosen, toy, tmp_path / "outcomes.json", workers=1)
    assert [known.killers[each.name].partition("::")[2] for each in chosen] == ["test_equal", "", "test_countdown"]


def test_what_was_measured_and_found_is_not_tried_again(toy: Net, tmp_path: Path) -> None:
    toy.prepare(tmp_path / "state")
    again = Net("toy", "none")
    again._measure = again._pytest = None  # type: ignore[assignment, method-assign]
    again.prepare(tmp_path / "state")
    assert (again.seconds, again.executed) == (toy.seconds, toy.executed)


def test_a_mutant_that_does_not_end_is_killed(toy: Net, tmp_path: Path) -> None:
    hunt = tmp_path / "tools/mutant_hunt.py"
    hunt.write_text(hunt.read_text().replace("SECONDS_MORE, TIMES_MORE = 5.0", "SECONDS_MORE, TIMES_MORE = 0.5"))
    toy.prepare(tmp_path / "state")
    endless = next(each for each in mutations_below(tmp_path, Path("src/isotone/toy")) if each.before == "a - 1")
    assert next(toy.hunt([endless], 1)).killer.endswith("test_countdown: it does not end")


def test_survivors_are_tried_again_when_tests_change_and_all_when_the_source_does() -> None:
    known = Known("s", "t", {"killed": "a test", "survivor": NOBODY})
    assert known.brought_up("s", "t").killers == known.killers
    assert known.brought_up("s", "t2") == Known("s", "t2", {"killed": "a test"})
    assert known.brought_up("s2", "t") == Known("s2", "t")


def test_survivors_come_first_with_their_explanations() -> None:
    explanations = read_explanations("# about this file\na.py f: 1 -> (2)\n    Only slower:\n    it runs twice.\n")
    killed, survived = (
        Outcome(Mutation(Path("a.py"), "f", 1, 0, 1, before, "(2)", 1, (1,)), killer)
        for before, killer in (("0", "test_f"), ("1", NOBODY))
    )
    assert report_text("head", [killed, survived], explanations).splitlines() == [
        "head",
        "1 of 2 mutants killed",
        "",
        "SURVIVED  a.py f: 1 -> (2)",
        "          Only slower: it runs twice.",
        "killed    a.py f: 0 -> (2)",
        "          by test_f",
    ]
