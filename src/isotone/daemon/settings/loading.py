"""From a TOML text to settings, or to everything that is wrong with it.

First the shape: each key is known and has a value of its kind. Then `validation` looks at what belongs together.
"""

from __future__ import annotations

import re
import tomllib
import types
import typing
from pathlib import Path as FilePath
from typing import Any

import msgspec

from isotone.core.errors import MachineError
from isotone.daemon.settings.places import Path, Places
from isotone.daemon.settings.problems import Finding, Problem, SettingsError, did_you_mean, key_text
from isotone.daemon.settings.tables import DaemonSettings, Table
from isotone.daemon.settings.validation import findings, warnings

_AT_LINE = re.compile(r"^(.*) \(at line (\d+), column (\d+)\)$", re.DOTALL)
_AT_END = re.compile(r"^(.*) \(at end of document\)$", re.DOTALL)
NOT_IN_FILES = frozenset({"dev"})
_KINDS = {int: "a whole number", str: 'a text in quotes ("…")', bool: "true or false", float: "a number"}


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, where they came from, and what is allowed but doubtful."""

    settings: DaemonSettings
    file: str
    written: frozenset[str]
    """The keys that stand in the file; all others have their default."""
    lines: dict[str, int]
    warnings: tuple[Problem, ...] = ()


def load(path: str | FilePath) -> DaemonSettings:
    """The settings in this file; raises `SettingsError` or `MachineError`."""
    return load_in_full(path).settings


def load_in_full(path: str | FilePath) -> Loaded:
    """The same, with what is known about the file."""
    try:
        data = FilePath(path).read_bytes()
    except FileNotFoundError:
        remedy = "write one (docs/settings.md has an example), or use --dev on one machine"
        raise SettingsError([_plain(str(path), 0, "there is no such file", remedy)]) from None
    except OSError as error:
        raise MachineError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError([_plain(str(path), line, "the file is not UTF-8", "save it as UTF-8")]) from None
    return read(text, str(path))


def read(text: str, file: str = "settings") -> Loaded:
    """Settings from a text; ``file`` is what errors call it."""
    text = text.replace("\r\n", "\n")
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([_syntax_problem(text, file, str(error))]) from None
    places = Places(text)
    shape = _Shape()
    settings = shape.table(raw, DaemonSettings, ())
    found = [*shape.findings, *shape.unknown]
    if isinstance(settings, DaemonSettings):
        found += findings(settings, frozenset(shape.written))
    problems = _placed(found, places, file)
    if problems or not isinstance(settings, DaemonSettings):
        raise SettingsError(problems)
    doubts = _placed(warnings(settings), places, file)
    lines = {key_text(path): places.line(path) for path in shape.written}
    return Loaded(
        settings=settings,
        file=file,
        written=frozenset(lines),
        lines=lines,
        warnings=tuple(doubts),
    )


def _placed(found: list[Finding], places: Places, file: str) -> list[Problem]:
    problems = [
        Problem(file=file, line=places.line(each.path), key=key_text(each.path), what=each.what, remedy=each.remedy)
        for each in found
    ]
    return sorted(problems, key=lambda problem: problem.line)


def _plain(file: str, line: int, what: str, remedy: str) -> Problem:
    return Problem(file=file, line=line, key="", what=what, remedy=remedy)


def _syntax_problem(text: str, file: str, message: str) -> Problem:
    """As the parser tells it: the place is at the end of its words."""
    remedy = "correct the TOML there"
    if found := _AT_LINE.match(message):
        return _plain(file, int(found[2]), f"{found[1]} in column {found[3]}", remedy)
    if found := _AT_END.match(message):
        return _plain(file, text.count("\n") + 1, f"{found[1]} at the end of the file", remedy)
    return _plain(file, 1, message, remedy)


class _Shape:
    """Goes over the parsed file beside the types of the tables, and notes everything that does not fit."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.unknown: list[Finding] = []  # keys; what is around them can still be judged
        self.written: dict[Path, None] = {}

    def table(self, raw: object, kind: type[Table], path: Path) -> Table | None:
        """A table, or nothing if something in it is wrong."""
        if not isinstance(raw, dict):
            header = f"[[{key_text(path[:-1])}]]" if isinstance(path[-1], int) else f"[{key_text(path)}]"
            self._wrong(path, f"a table is expected, not {_said(raw)}", f"write {header} and its keys below")
            return None
        hints = typing.get_type_hints(kind)
        known = [name for name in kind.__struct_fields__ if name not in NOT_IN_FILES]
        before = len(self.findings)
        values: dict[str, Any] = {}
        for key, value in raw.items():
            if key not in known:
                self.unknown.append(Finding((*path, key), "there is no such key", did_you_mean(key, known)))
            else:
                values[key] = self._value(value, hints[key], (*path, key))
        for field in msgspec.structs.fields(kind):
            if field.required and field.name not in raw:
                self._wrong(path, f"{field.name} is missing", f"add {field.name} = …")
        return kind(**values) if len(self.findings) == before else None

    def _value(self, raw: object, kind: Any, path: Path) -> object:
        if isinstance(kind, type) and issubclass(kind, Table):
            return self.table(raw, kind, path)
        self.written[path] = None
        arguments = typing.get_args(kind)
        if typing.get_origin(kind) is tuple:
            return self._array(raw, arguments, path)
        if typing.get_origin(kind) is typing.Literal:
            return self._choice(raw, arguments, path)
        if isinstance(kind, types.UnionType):
            kind = arguments[0]
        if type(raw) is not kind:
            self._wrong(path, f"{_KINDS[kind]} is expected, not {_said(raw)}", "correct the value")
        return raw

    def _array(self, raw: object, arguments: tuple[Any, ...], path: Path) -> tuple[object, ...]:
        kind, is_open = arguments[0], arguments[-1] is Ellipsis
        if not isinstance(raw, list):
            shown = f"write [[{key_text(path)}]]" if isinstance(kind, type) and issubclass(kind, Table) else "use […]"
            self._wrong(path, f"a list is expected, not {_said(raw)}", shown)
            return ()
        if not is_open and len(raw) != len(arguments):
            self._wrong(path, f"{len(arguments)} values are expected, not {len(raw)}", "correct the list")
        return tuple(self._value(each, kind, (*path, place)) for place, each in enumerate(raw))

    def _choice(self, raw: object, choices: tuple[Any, ...], path: Path) -> object:
        if raw not in choices or not isinstance(raw, str):
            allowed = " or ".join(f'"{each}"' for each in choices)
            self._wrong(path, f"{_said(raw)} is not possible here", f"use {allowed}")
        return raw

    def _wrong(self, path: Path, what: str, remedy: str) -> None:
        self.findings.append(Finding(path, what, remedy))


def _said(raw: object) -> str:
    """A value of the file in few words."""
    if isinstance(raw, dict):
        return "a table"
    if isinstance(raw, list):
        return "a list"
    if isinstance(raw, bool):
        return "true" if raw else "false"
    return f'"{raw[:40]}"' if isinstance(raw, str) else str(raw)
