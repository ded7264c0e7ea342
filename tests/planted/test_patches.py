"""Planted faults are patches that every tool takes: each hunk has as many lines as its head says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PATCHES = sorted(Path(__file__).parent.glob("*/*.patch"))
HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@.*\n((?:[ +-].*\n|\n)*)", re.MULTILINE)


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_hunks_have_as_many_lines_as_they_say(path: Path) -> None:
    _, *files = re.split(r"^--- .*\n\+\+\+ .*\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    hunks = [found for text in files for found in HUNK.findall(text)]
    assert hunks and len(hunks) == sum(text.count("\n@@ ") + text.startswith("@@ ") for text in files)
    for before, after, text in hunks:
        signs = [line[:1] or " " for line in text.splitlines()]
        assert (len(signs) - signs.count("+"), len(signs) - signs.count("-")) == (int(before or 1), int(after or 1))
