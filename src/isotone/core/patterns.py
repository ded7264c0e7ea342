"""Patterns of names: ``*`` stands for any text, everything else for itself: ``[`` and ``?`` may be in names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

Value = TypeVar("Value")

_REMEMBERED_MAX = 4096


class Patterns:
    """Some of them, compiled into one."""

    def __init__(self, patterns: Iterable[str]) -> None:
        parts = [".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns]
        self._pattern = re.compile("|".join(f"(?:{part})" for part in parts), re.DOTALL) if parts else None

    def match(self, name: str) -> bool:
        """Whether the whole name is like one of them."""
        return self._pattern is not None and self._pattern.fullmatch(name) is not None


class ByPattern(Mapping[str, Value], Generic[Value]):
    """A mapping from every name that fits one of the patterns: the first decides. Iterates over the patterns."""

    def __init__(self, rules: Sequence[tuple[str, Value]]) -> None:
        self._rules = tuple(rules)
        self._patterns = [Patterns([pattern]) for pattern, _ in self._rules]
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
        if isinstance(other, ByPattern):
            return self._rules == other._rules
        return isinstance(other, Mapping) and self._rules == tuple(other.items())

    def __hash__(self) -> int:
        return len(self._rules)

    def __repr__(self) -> str:
        return f"ByPattern({list(self._rules)!r})"

    def _place(self, name: str) -> int:
        place = self._found.get(name)
        if place is None:
            if len(self._found) >= _REMEMBERED_MAX:
                self._found.clear()
            place = next((i for i, pattern in enumerate(self._patterns) if pattern.match(name)), -1)
            self._found[name] = place
        return place
