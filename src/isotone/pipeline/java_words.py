"""Of the pages that Java says about an error, the line that matters.

Implements: nothing of the papers. Deviations: none.
"""

from __future__ import annotations

import re

GIST_MAX = 300
_CAUSE = "Caused by: "
_PYTHON = "Traceback (most recent call last):"
_EMPTY = re.compile(rf"An error occurred while calling \S+|JVM stacktrace:|Driver stacktrace:|{re.escape(_PYTHON)}")
"""How Java's words begin, and say nothing."""
_ERROR = re.compile(r"(Exception in thread \"[^\"]*\" )?(\w+\.)+\w*(Exception|Error)\b")


def gist(words: str) -> str:
    """The innermost cause; without one the first error; else the first line that says something."""
    lines = [line.removeprefix(": ").rstrip() for line in words.splitlines()]
    telling = [line for line in lines if line and not line[0].isspace() and not _EMPTY.fullmatch(line)]
    causes = [line for line in telling if line.startswith(_CAUSE)]
    errors = [line for line in telling if _ERROR.match(line)]
    chosen = next(iter(causes[-1:] or errors or telling), words.strip().partition("\n")[0])
    if chosen.endswith(_PYTHON):  # the error of a Python process is said behind its calls
        behind = telling[telling.index(chosen) + 1 :]
        chosen = chosen.removesuffix(_PYTHON) + next(iter(behind), "")
    chosen = chosen.removeprefix(_CAUSE)
    return chosen if len(chosen) <= GIST_MAX else f"{chosen[: GIST_MAX - 1]}…"
