"""From spool to Parquet, so that a kill between any two steps loses no row and shows none twice.

Write a temporary file, sync it, rename it, sync the directory, drop the spool. Before the rename only the spool
counts; after it both hold the same rows and the reader takes each (run, node, incarnation, index) once.
``python -m isotone.trace.rotation SPOOL`` does it in a process of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from isotone.trace.events import Row
from isotone.trace.layout import sync_directory, temporary_path
from isotone.trace.parquet import write_part
from isotone.trace.spool import SpoolPart, rotated_path

NICE = 10
"""Of the process that does nothing else: nobody waits for it."""


def rotate(spool: Path, *, is_stopped: Callable[[], bool] = lambda: False) -> Path:
    """Turn a spool that nobody writes any more into its Parquet file; raises `OSError` as the disk does.

    Once it ``is_stopped`` it is given up, also with `OSError`; the spool is as it was.
    """
    part = SpoolPart(spool)
    target = rotated_path(spool)
    temporary = temporary_path(target)
    try:
        write_part(temporary, part.header, _until(part.rows(), is_stopped, spool), lambda: part.tail)
        _sync_file(temporary)
    except Exception:
        temporary.unlink(missing_ok=True)
        raise
    os.replace(temporary, target)
    sync_directory(target.parent)
    os.unlink(spool)
    return target


def _until(rows: Iterator[Row], is_stopped: Callable[[], bool], spool: Path) -> Iterator[Row]:
    for row in rows:
        if is_stopped():
            raise InterruptedError(f"{spool}: not in Parquet: it was given up")
        yield row


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _WithoutPandas:
    """Arrow looks for pandas, and loads it if it is there: that takes longer than all the rest, and is for nothing."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Whoever asks hears that it is not installed."""
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError(name)


if __name__ == "__main__":
    sys.meta_path.insert(0, _WithoutPandas)
    os.nice(NICE)
    rotate(Path(sys.argv[1]))
