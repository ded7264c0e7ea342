"""On which line each key of a TOML text stands, since the parser of the standard library does not tell.

The text must be valid TOML: the parser went over it before. Only the structure is read, values are skipped. A place is
a path of keys and, in arrays and arrays of tables, of indexes from 0: ``("daemon", 1, "port")``.
"""

from __future__ import annotations

import re
from typing import Final

Path = tuple[str | int, ...]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_GAP: Final = re.compile(r"[ \t]*")
_SPACE: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SCALAR: Final = re.compile(r"[^,\]}#\n]*")
_BASIC: Final = re.compile(r'"(?:\\.|[^"\\\n])*"')
_LITERAL: Final = re.compile(r"'[^'\n]*'")
_LONG_BASIC: Final = re.compile(r'"""(?:\\.|[^\\])*?"""+', re.DOTALL)
_LONG_LITERAL: Final = re.compile(r"'''.*?'''+", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_ESCAPES: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


class Places:
    """The lines of all keys of one text; the first line is 1."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        scanner = _Scanner(text, self._lines)
        scanner.scan()

    def line(self, path: Path) -> int:
        """Of this key, or of the innermost table around it that is there; 1 if there is none."""
        for end in range(len(path), 0, -1):
            if (line := self._lines.get(path[:end])) is not None:
                return line
        return 1

    def __contains__(self, path: Path) -> bool:
        return path in self._lines


class _Scanner:
    def __init__(self, text: str, lines: dict[Path, int]) -> None:
        self._text = text
        self._lines = lines
        self._at = 0
        self._line = 1
        self._counted = 0  # the line of this position is `_line`
        self._tables: dict[Path, int] = {}  # arrays of tables: how many there are so far

    def scan(self) -> None:
        table: Path = ()
        self._skip(_SPACE)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_SPACE)

    # --- structure -------------------------------------------------------------------------------------------------

    def _header(self) -> Path:
        line, is_array = self._here(), self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        keys = self._keys()
        self._at += 2 if is_array else 1
        path: Path = ()
        for place, key in enumerate(keys):
            path = (*path, key)
            self._lines.setdefault(path, line)
            if is_array and place == len(keys) - 1:
                self._tables[path] = self._tables.get(path, 0) + 1
            if path in self._tables:
                path = (*path, self._tables[path] - 1)
        self._lines[path] = line
        return path

    def _pair(self, table: Path) -> None:
        line = self._here()
        path = table
        for key in self._keys():
            path = (*path, key)
            self._lines.setdefault(path, line)
        self._at += 1  # the sign of equality
        self._skip(_GAP)
        self._value(path)

    def _value(self, path: Path) -> None:
        sign = self._text[self._at]
        if sign == "[":
            self._array(path)
        elif sign == "{":
            self._inline_table(path)
        elif sign in "\"'":
            self._string()
        else:
            self._skip(_SCALAR)

    def _array(self, path: Path) -> None:
        self._at += 1
        count = 0
        self._skip(_SPACE)
        while self._text[self._at] != "]":
            self._lines[*path, count] = self._here()
            self._value((*path, count))
            count += 1
            self._skip_comma()
        self._at += 1

    def _inline_table(self, path: Path) -> None:
        self._at += 1
        self._skip(_SPACE)
        while self._text[self._at] != "}":
            self._pair(path)
            self._skip_comma()
        self._at += 1

    def _skip_comma(self) -> None:
        self._skip(_SPACE)
        if self._text[self._at] == ",":
            self._at += 1
        self._skip(_SPACE)

    # --- keys and strings ------------------------------------------------------------------------------------------

    def _keys(self) -> list[str]:
        """One key, or several with dots between them; ends at the sign behind."""
        keys = []
        while True:
            self._skip(_GAP)
            keys.append(self._key())
            self._skip(_GAP)
            if self._text[self._at] != ".":
                return keys
            self._at += 1

    def _key(self) -> str:
        if self._text[self._at] == '"':
            return _ESCAPE.sub(_unescaped, self._skip(_BASIC)[1:-1])
        if self._text[self._at] == "'":
            return self._skip(_LITERAL)[1:-1]
        return self._skip(_BARE)

    def _string(self) -> None:
        for start, pattern in (('"""', _LONG_BASIC), ("'''", _LONG_LITERAL), ('"', _BASIC), ("'", _LITERAL)):
            if self._text.startswith(start, self._at):
                self._skip(pattern)
                return

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        assert found is not None, f"valid TOML, but not at position {self._at}"
        self._at = found.end()
        return found.group()

    def _here(self) -> int:
        """The line of the position; positions only grow, so that each line end is counted once."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else _ESCAPES[found[3]]
