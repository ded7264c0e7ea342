"""What a process leaves that is killed: a copy of a directory before each step by which this one changes the disk.

A kill undoes nothing and tidies nothing up, so what stood on the disk between two steps is all there is to see. A file
that is written in one go is left in part as well.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

CHANGES = ("fsync", "mkdir", "rename", "replace", "rmdir", "unlink")
"""Of ``os``; pathlib and shutil call them there."""


class Moment(NamedTuple):
    """Before which step, and the directory as it was."""

    step: str
    place: Path


class _Camera:
    def __init__(self, of: Path, into: Path) -> None:
        self.taken: list[Moment] = []
        self._of = of
        self._into = into
        self._last: object = None
        self._open: Path | None = None

    def before(self, step: str) -> None:
        """Keep what is there, if it is not what was there the last time; and as if the last file were half written."""
        now = sorted((str(path), path.lstat().st_ino, path.lstat().st_size) for path in self._of.rglob("*"))
        if now == self._last:
            return
        self._last = now
        self._keep(step)
        if self._open is not None and self._open.exists():
            half = self._keep(f"{step}, of {self._open.name} the half") / self._open.relative_to(self._of)
            os.truncate(half, half.stat().st_size // 2)
        self._open = None

    def writes(self, path: Path) -> None:
        """A file is opened to be written."""
        self.before(f"open {path.name}")
        if path.is_relative_to(self._of):
            self._open = path

    def _keep(self, step: str) -> Path:
        place = self._into / f"{len(self.taken):03d}"
        shutil.copytree(self._of, place)
        self.taken.append(Moment(step, place))
        return place


@contextmanager
def moments(of: Path, into: Path) -> Iterator[list[Moment]]:
    """While this process changes ``of``, copies go to ``into``; the last one is of the end."""
    camera = _Camera(of, into)
    with pytest.MonkeyPatch.context() as patched:
        is_looking = False

        def look(do: Callable[..., Any], *arguments: Any) -> None:
            nonlocal is_looking
            if not is_looking:  # copying is no step
                is_looking = True
                do(*arguments)
                is_looking = False

        def step(name: str, change: Callable[..., Any]) -> Callable[..., Any]:
            def changed(*arguments: Any, **options: Any) -> Any:
                look(camera.before, f"{name} {arguments[0]}")
                return change(*arguments, **options)

            return changed

        for name in CHANGES:
            patched.setattr(os, name, step(name, getattr(os, name)))
        plainly = io.open

        def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if "r" not in mode:
                look(camera.writes, Path(file))
            return plainly(file, mode, *arguments, **options)

        patched.setattr(io, "open", opened)
        yield camera.taken
        look(camera.before, "end")
