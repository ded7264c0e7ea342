"""The runner of all checks: which parts there are, and how they end."""

from __future__ import annotations

import sys

import pytest

import run_tests
from run_tests import Part


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_the_parts_check_source_documents_and_behaviour() -> None:
    parts = {part.name: part.command for part in run_tests.all_parts(["-k", "ring"])}
    assert list(parts) == ["lint", "format", "types", "docs", "tests"]
    assert parts["docs"][1:] == ["tools/check_docs.py"]
    assert parts["tests"][-2:] == ["-k", "ring"]


@pytest.mark.parametrize(
    ("part", "verdict", "code"),
    [
        (Part("lint", python("pass")), "passed", 0),
        (Part("lint", python("raise SystemExit(4)")), "failed", 1),
        (Part("tests", python("raise SystemExit(5)")), "failed: no tests", 1),
        (Part("lint", ["no-such-program"]), "not run", 3),
    ],
)
def test_each_part_has_a_verdict(part: Part, verdict: str, code: int) -> None:
    outcome = run_tests.run_part(part)
    assert (outcome.verdict, outcome.exit_code) == (verdict, code)


def test_a_failed_part_stops_no_other_and_the_worst_one_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [Part("lint", python("raise SystemExit(1)")), Part("docs", python("pass"))]
    monkeypatch.setattr(run_tests, "all_parts", lambda arguments: parts)
    monkeypatch.setattr(sys, "argv", ["run_tests.py"])
    assert run_tests.main() == 1
    table = capsys.readouterr().out
    assert "failed" in table and "passed" in table
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "--only", "docs"])
    assert run_tests.main() == 0


def test_an_unknown_part_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "--only", "dance"])
    with pytest.raises(SystemExit) as end:
        run_tests.main()
    assert end.value.code == 2
