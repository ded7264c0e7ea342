"""Traces of many small runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from isotone.trace.events import Row
from isotone.trace.parquet import require_pyarrow, write_parquet


def write_together(place: Path, runs: Mapping[str, list[Row]]) -> None:
    """All runs in one file: many small ones would take most of a test's time."""
    arrow = require_pyarrow()
    tables = []
    for run, rows in runs.items():
        write_parquet(place / "one", run, rows)
        tables.append(arrow.parquet.read_table(place / "one").replace_schema_metadata(None))
    arrow.parquet.write_table(arrow.concat_tables(tables), place / "all.parquet")
    (place / "one").unlink()
