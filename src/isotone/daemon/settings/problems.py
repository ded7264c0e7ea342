"""What is wrong with settings: file, line, key, what, and the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

import msgspec

from isotone.core.errors import InputError
from isotone.daemon.settings.places import Path


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong."""

    file: str
    line: int
    key: str
    what: str
    remedy: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        key = f" {self.key}:" if self.key else ""
        return f"{place}:{key} {self.what}; {self.remedy}"


class Finding(msgspec.Struct, frozen=True):
    """The same before its line is looked up."""

    path: Path
    what: str
    remedy: str


class SettingsError(InputError):
    """The settings cannot be used; all that is wrong with them, in the order of their lines."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


def key_text(path: Path) -> str:
    """A path as people write it: ``daemon[1].port``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A remedy for a word that is not known."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    return f"known are: {', '.join(names)}" if names else "remove it"
