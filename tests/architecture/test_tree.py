"""The tree as a whole: no machine's paths, no sleeping tests, no pages that are named and not there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.source import AUTOMATA, PACKAGES, ROOT, listed, modules

DIRECTORIES = ("src", "tests", "tools", "docs", ".ci", "results")
SUFFIXES = {".py", ".md", ".toml", ".txt", ".jsonl", ".patch", ".json", ".cfg", ".yml", ".yaml", ""}
# Paths of one machine or person, and marks of how the work was organised: neither means anything to a reader.
FOREIGN = re.compile(r"(?<![\w.~-])/(?:" + "|".join(("root", "work", "home", "Users")) + r")/|\bissue\s+#?\d")
PAGE = re.compile(r"\bdocs/[\w/.-]+\.md\b")


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Every text file of the tree with its path, caches left out."""
    files = [path for path in ROOT.iterdir() if path.is_file()]
    for directory in DIRECTORIES:
        files += [path for path in (ROOT / directory).rglob("*") if path.is_file()]
    chosen = sorted(path for path in files if path.suffix in SUFFIXES and "__pycache__" not in path.parts)
    return tuple((path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in chosen)


def test_there_is_a_tree_to_check() -> None:
    names = {name for name, _ in texts()}
    assert {"pyproject.toml", "Makefile", "src/isotone/core/contract.py", "docs/contracts.md"} <= names


def test_no_file_mentions_a_place_outside_the_repository() -> None:
    offences = [
        f"{name}:{number}: {line.strip()[:80]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if FOREIGN.search(line)
    ]
    assert not offences, listed(offences)


@pytest.mark.parametrize(
    "line", ["see /" + "root/x", 'Path("/' + 'home/me/x")', "as in issue" + " 12", "issue" + " #3"]
)
def test_the_rule_notices(line: str) -> None:
    assert FOREIGN.search(line)


@pytest.mark.parametrize("line", ["src/work/x", "the issues of 2026", "an issue that 3 have"])
def test_the_rule_allows(line: str) -> None:
    assert not FOREIGN.search(line)


def test_every_page_that_source_and_documents_name_is_there() -> None:
    offences = [
        f"{name}: {page}"
        for name, text in texts()
        if name.startswith(("src/", "docs/")) or name.endswith(".md")
        for page in sorted(set(PAGE.findall(text)))
        if not (ROOT / page).is_file()
    ]
    assert not offences, listed(offences)


def sleeps(name: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio"), attr="sleep"), args=[ast.Constant(value=0)]):
                pass  # only lets others run
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time" | "asyncio" as owner), attr="sleep")):
                yield f"{name}:{node.lineno}: {owner}.sleep"
            case ast.ImportFrom(module="time" | "asyncio", names=names) if any(each.name == "sleep" for each in names):
                yield f"{name}:{node.lineno}: imports sleep"


def test_no_test_sleeps() -> None:
    offences = [
        offence
        for name, text in texts()
        if name.startswith("tests/") and name.endswith(".py") and not name.startswith("tests/integration/")
        for offence in sleeps(name, ast.parse(text))
    ]
    assert not offences, listed(offences)


def test_the_rule_notices_sleeping() -> None:
    for line in ("time.sleep(0)", "asyncio.sleep(0.1)", "from time import sleep", "asyncio.sleep(x)"):
        assert list(sleeps("x", ast.parse(line)))
    assert not list(sleeps("x", ast.parse("asyncio.sleep(0)\nnetwork.sleep(5)")))


def test_tests_stand_where_their_module_does() -> None:
    """tests/<package>/ exists only for packages, and for the kinds of tests that CONTRIBUTING.md lists."""
    kinds = {"architecture", "scenarios", "paper", "properties", "model", "planted", "traces", "integration", "tools"}
    kinds |= {"spread_client"}  # shares no code with the package
    found = {path.name for path in Path(ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert not found - kinds - set(PACKAGES)


def test_the_table_of_packages_is_honest() -> None:
    """docs/architecture.md has every package, in the order of the import rule; what is planned has no code."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| (yes)? *\| (there|begun|planned) \|$", text, re.MULTILINE)
    assert tuple(name for name, _, _ in rows) == PACKAGES
    assert {name for name, automata, _ in rows if automata} == AUTOMATA
    existing = {module.package for module in modules()}
    assert {name for name, _, state in rows if state != "planned"} == existing - {""}
