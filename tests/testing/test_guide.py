"""Every block of the guide runs: as a test where it has one, else as a program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.testing import plugin

pytest_plugins = ("pytester",)

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "testing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 3
    assert any("def test_" in block for block in BLOCKS)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(BLOCKS.index(block)))
def test_a_block_of_the_guide(block: str, pytester: pytest.Pytester) -> None:
    if "def test_" in block:
        pytester.makepyfile(block)
        pytester.runpytest_inprocess(*plugin.arguments(), "-p", "no:cacheprovider").assert_outcomes(passed=1)
    else:
        exec(compile(block, str(GUIDE), "exec"), {"__name__": "guide"})
