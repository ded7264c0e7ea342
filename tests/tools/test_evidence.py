"""Which results are stale: by the commit they name and what changed since."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import evidence
from evidence import JUDGED, Evidence

ENTRY = Evidence("x.txt", ("judged",), "isotone --version", 1)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(evidence, "ROOT", tmp_path)
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)
    for variable in ("GIT_DIR", "GIT_WORK_TREE"):
        monkeypatch.delenv(variable, raising=False)
    git(tmp_path, "init", "-q")
    commit(tmp_path, "judged/a", "1")
    return tmp_path


def git(place: Path, *arguments: str) -> str:
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *arguments], cwd=place, check=True, capture_output=True, text=True).stdout


def commit(place: Path, name: str, text: str) -> str:
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).write_text(text)
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", name)
    return git(place, "rev-parse", "--short", "HEAD").strip()


def test_a_result_is_stale_when_what_it_judges_changed_since(repository: Path) -> None:
    judged = git(repository, "rev-parse", "--short", "HEAD").strip()
    (repository / "x.txt").write_text(f"# command\n# commit {judged}\n")
    assert evidence.why_stale(ENTRY) == ""
    commit(repository, "other/b", "2")
    assert evidence.why_stale(ENTRY) == ""
    commit(repository, "judged/a", "3")
    assert evidence.why_stale(ENTRY) == f"is older than 1 commits to what it judges, since {judged}"


def test_results_without_a_known_commit_are_stale(repository: Path) -> None:
    assert evidence.why_stale(ENTRY) == "is not there"
    (repository / "x.txt").write_text("nothing\n")
    assert evidence.why_stale(ENTRY) == "names no commit"
    (repository / "x.txt").write_text("# commit 0123456789ab\n")
    assert "which this repository does not have" in evidence.why_stale(ENTRY)


def test_a_result_is_made_again_with_its_command_and_commit(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(evidence.__file__).parents[1] / "src"
    monkeypatch.setenv("PYTHONPATH", str(source))
    assert evidence.make_again(ENTRY) == 0
    assert (repository / "x.txt").read_text().startswith("# isotone --version\n# commit ")
    assert evidence.make_again(Evidence("x.txt", (), "isotone no-such-command", 1)) == 3
    assert (repository / "x.txt").read_text().startswith("# isotone --version\n"), "the old one stays"
    bad = "python -c 'import sys; sys.exit(\"violated\")'"
    assert evidence.make_again(Evidence("x.txt", (), bad, 1)) == 3, "it printed nothing"
    bad = "python -c 'import sys; print(\"violated\"); sys.exit(1)'"
    assert evidence.make_again(Evidence("x.txt", (), bad, 1)) == 1
    assert (repository / "x.txt").read_text().endswith("\n\nviolated\n"), "a bad verdict is a result"
    own = 'python -c \'open("{out}", "w").write("its own")\''
    assert evidence.make_again(Evidence("x.txt", (), own, 1)) == 0
    assert (repository / "x.txt").read_text() == "its own"


def test_the_readme_of_results_says_what_is_stale(repository: Path) -> None:
    (repository / "README.md").write_text("# Results\n")
    for reason in ("is not there", ""):
        evidence.note({ENTRY: reason})
        head, _, tail = (repository / "README.md").read_text().partition(evidence.STALE_HEADING)
        assert head == "# Results\n\n"
        assert tail == ("\n\n- [x.txt](x.txt) is not there\n" if reason else "\n\nNone.\n")


def test_every_result_is_known_and_what_it_judges_exists() -> None:
    root = Path(evidence.__file__).parents[1]
    assert {path.name for path in (root / "results").glob("*.txt")} == {each.name for each in JUDGED}
    for each in JUDGED:
        assert all((root / path).exists() for path in each.judges)
        assert (root / "results" / each.name).is_file()
