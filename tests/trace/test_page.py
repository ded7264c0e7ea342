"""docs/trace.md says what the code does."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

from isotone.trace import journal, spool
from isotone.trace.columns import COLUMNS
from isotone.trace.events import TRACE_VERSION
from isotone.trace.jsonl import JsonLines
from isotone.trace.writer import QUEUE_MAX, Level

PAGE = (Path(__file__).parents[2] / "docs" / "trace.md").read_text()


def table(heading: str) -> list[list[str]]:
    """The rows of the table below this line of headings."""
    below = PAGE.split(heading + "\n", 1)[1].splitlines()[1:]
    rows = takewhile(lambda line: line.startswith("|"), below)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_columns_are_those_of_the_schema() -> None:
    rows = table("| column | type | meaning |")
    assert {name.strip("`"): form for name, form, _ in rows} == dict(COLUMNS)
    assert [name.strip("`") for name, *_ in rows] == list(COLUMNS)
    assert all(meaning for *_, meaning in rows)


def test_the_levels_are_those_of_the_writer() -> None:
    rows = table("| level | a row is safe from a kill of the process | what is lost |")
    assert [row[0].strip("`") for row in rows] == [level.value for level in Level]
    assert f"{QUEUE_MAX:,} rows" in PAGE


def test_versions_and_marks() -> None:
    assert f"the version of the trace, now {TRACE_VERSION}" in PAGE
    assert spool.MAGIC.decode() in PAGE and journal.MAGIC.decode() in PAGE


def test_the_example_in_json_is_a_trace() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    rows = list(JsonLines("docs/trace.md", example.splitlines()).rows())
    assert [(row.index, row.at) for row in rows] == [(0, 0), (1, 9)]


def test_the_example_in_python_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/trace.md", "exec"), {})
