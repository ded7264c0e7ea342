"""The line that matters of what Java says about an error."""

from __future__ import annotations

import pytest

from isotone.pipeline.java_words import GIST_MAX, gist

CALLED = "An error occurred while calling o12.collect.\n"
CASES = {
    f"{CALLED}: java.lang.X: Job aborted\n\tat a.b(c)\nCaused by: java.io.Y: outer\n\tat d\n\t... 9 more\n"
    "Caused by: java.io.Z: inner\n\tat e\n": "java.io.Z: inner",
    f"{CALLED}: java.lang.XException: aborted\nof two lines\n\tat a.b(c)\n": "java.lang.XException: aborted",
    "Job aborted\nCaused by: o.PythonException: Traceback (most recent call last):\n  File x\n    call()\n"
    "ValueError: 3\n\n\tat o.a": "o.PythonException: ValueError: 3",
    "[UNRESOLVED_COLUMN] no such column\n'Project [x]\n": "[UNRESOLVED_COLUMN] no such column",
    "  indented": "indented",
    "": "",
}


@pytest.mark.parametrize("words", CASES)
def test_the_gist(words: str) -> None:
    assert gist(words) == CASES[words]


def test_a_long_line_is_cut() -> None:
    assert len(gist("x" * 12_000)) == GIST_MAX
