"""docs/settings.md: its files load, every key is in it, and every default is the one that holds."""

from __future__ import annotations

import re
import tomllib
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from isotone.daemon.settings import read
from isotone.daemon.settings.loading import NOT_IN_FILES
from isotone.daemon.settings.tables import DaemonSettings, Table

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
BLOCKS = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
FULL = BLOCKS[-1]
DEFAULT = re.compile(r"#.*\bDefault: (.+)$")


def tables(
    kind: type[Table] = DaemonSettings, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], type[Table]]]:
    """Every table that may stand in a file, by the names in its header."""
    yield path, kind
    for name, hint in typing.get_type_hints(kind).items():
        for inner in (hint, *typing.get_args(hint)):
            if isinstance(inner, type) and not isinstance(inner, types.GenericAlias) and issubclass(inner, Table):
                yield from tables(inner, (*path, name))


def described() -> dict[tuple[str, ...], str]:
    """Every key of the full example with its line, the first time that it stands there."""
    found: dict[tuple[str, ...], str] = {}
    table: tuple[str, ...] = ()
    for line in FULL.splitlines():
        if header := re.match(r"\[\[?([\w.]+)\]\]?", line):
            table = tuple(header[1].split("."))
        elif pair := re.match(r"(\w+) = ", line):
            found.setdefault((*table, pair[1]), line)
    return found


def keys() -> list[tuple[tuple[str, ...], msgspec.structs.FieldInfo]]:
    return [
        ((*path, field.name), field)
        for path, kind in tables()
        for field in msgspec.structs.fields(kind)
        if field.name not in NOT_IN_FILES and not any(inner == (*path, field.name) for inner, _ in tables())
    ]


@pytest.mark.parametrize("text", BLOCKS)
def test_every_example_loads(text: str) -> None:
    assert read(text, "docs/settings.md").settings.daemon


def test_every_key_is_documented_and_no_other() -> None:
    assert [".".join(path) for path, _ in keys() if path not in described()] == []
    assert sorted(described()) == sorted(path for path, _ in keys())


@pytest.mark.parametrize(("path", "field"), keys(), ids=lambda each: ".".join(each) if isinstance(each, tuple) else "")
def test_the_default_is_the_one_that_holds(path: tuple[str, ...], field: msgspec.structs.FieldInfo) -> None:
    line = described()[path]
    said = DEFAULT.search(line)
    if said is None:
        shown = tomllib.loads(line)[path[-1]]
    else:
        shown = None if said[1] == "none" else tomllib.loads(f"x = {said[1]}")["x"]
    default = None if field.required else field.default
    assert (list(default) if isinstance(default, tuple) else default) == shown


def test_every_table_is_documented() -> None:
    assert {path for path, _ in tables() if path} == {
        tuple(header.split(".")) for header in re.findall(r"^\[\[?([\w.]+)\]\]?", FULL, re.MULTILINE)
    }


def test_every_key_has_words_or_says_enough_itself() -> None:
    silent = {path for path, line in described().items() if "#" not in line}
    assert {".".join(path) for path in silent} <= {
        "site.name",
        "trace.directory",
        "spread.enabled",
        "spread.port",
        "spread.sessions_max",
        "spread.groups_per_session_max",
        "admin.enabled",
        "admin.listen",
        "admin.port",
    }
