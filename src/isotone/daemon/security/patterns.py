"""Patterns of names: ``*`` stands for any text, everything else for itself (brackets may be part of a name)."""

from __future__ import annotations

import re
from collections.abc import Iterable


class Patterns:
    """Some of them, compiled into one."""

    def __init__(self, patterns: Iterable[str]) -> None:
        parts = ["".join(".*" if part == "*" else re.escape(part) for part in re.split(r"(\*)", p)) for p in patterns]
        self._pattern = re.compile("|".join(f"(?:{part})" for part in parts), re.DOTALL) if parts else None

    def match(self, name: str) -> bool:
        """Whether the whole name is like one of them."""
        return self._pattern is not None and self._pattern.fullmatch(name) is not None
