"""Values by names or patterns (``chat*``): the first that fits decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

Value = TypeVar("Value")

_REMEMBERED_MAX = 4096


class ByPattern(Mapping[str, Value], Generic[Value]):
    """A mapping from every name that fits one of the patterns. Iterates over the patterns."""

    def __init__(self, rules: Sequence[tuple[str, Value]]) -> None:
        self._rules = tuple(rules)
        self._found: dict[str, int] = {}  # the place of the rule for names that were asked for, -1 for none

    def __getitem__(self, name: str) -> Value:
        place = self._place(name)
        if place < 0:
            raise KeyError(name)
        return self._rules[place][1]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._place(name) >= 0

    def __iter__(self) -> Iterator[str]:
        return iter(pattern for pattern, _ in self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByPattern) and self._rules == other._rules

    def __hash__(self) -> int:
        return hash(self._rules)

    def __repr__(self) -> str:
        return f"ByPattern({list(self._rules)!r})"

    def _place(self, name: str) -> int:
        place = self._found.get(name)
        if place is None:
            if len(self._found) >= _REMEMBERED_MAX:
                self._found.clear()
            place = next((i for i, (pattern, _) in enumerate(self._rules) if fnmatchcase(name, pattern)), -1)
            self._found[name] = place
        return place
