"""All settings as they hold, each with where it comes from: a line of the file, or the default."""

from __future__ import annotations

import msgspec

from isotone.daemon.settings.loading import NOT_IN_FILES, Loaded
from isotone.daemon.settings.places import Path
from isotone.daemon.settings.problems import key_text
from isotone.daemon.settings.tables import Table

Plain = str | int | bool | list[str] | None


class Effective(msgspec.Struct, frozen=True):
    """One key with its value; line 0 is the default."""

    key: str
    value: Plain
    line: int = 0

    @property
    def origin(self) -> str:
        """In words."""
        return f"line {self.line}" if self.line else "default"


def effective_settings(loaded: Loaded) -> list[Effective]:
    """In the order of the tables."""
    return _of_table(loaded.settings, (), loaded)


def _of_table(table: Table, path: Path, loaded: Loaded) -> list[Effective]:
    found: list[Effective] = []
    for name in table.__struct_fields__:
        if path or name not in NOT_IN_FILES:
            found += _of_value(getattr(table, name), (*path, name), loaded)
    return found


def _of_value(value: object, path: Path, loaded: Loaded) -> list[Effective]:
    if isinstance(value, Table):
        return _of_table(value, path, loaded)
    if isinstance(value, tuple) and any(isinstance(each, Table) for each in value):
        rows = [_of_table(each, (*path, place), loaded) for place, each in enumerate(value)]
        return [row for each in rows for row in each]
    plain = list(value) if isinstance(value, tuple) else value
    assert plain is None or isinstance(plain, str | int | list)
    key = key_text(path)
    return [Effective(key, plain, loaded.lines.get(key, 0))]
