"""The streaming source ``isotone-traces``: that trace files have grown. What is in them others read, as a whole.

Spark's workers import this module alone, so it is a small one.

Implements: [DESIGN 5], conformance. Deviations: none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from isotone.pipeline.bronze import found_files

NAME = "isotone-traces"
SCHEMA = "path string, bytes bigint"
LOOK_EVERY_S = 0.5
"""Spark asks for the latest offset a hundred times a second; the files are looked at so often."""


class TraceSource(DataSource):
    """``format("isotone-traces")``: a row for each file that there is, whenever one has grown."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._paths = tuple(Path(each) for each in json.loads(options["paths"]))

    @classmethod
    def name(cls) -> str:
        """As ``format`` takes it."""
        return NAME

    def schema(self) -> str:
        """A row for each file: its path and its size."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The only way to read it."""
        return TraceReader(self._paths)


class TraceReader(DataSourceStreamReader):
    """An offset is how many files there are, their bytes, and when the last of them changed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._last: dict[str, int] = {}
        self._looked_at = 0.0

    def initialOffset(self) -> dict[str, int]:
        """Before anything was written."""
        return {"files": 0, "bytes": 0, "changed": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """How many files there are now, how large together, and when one changed last."""
        del start, limit
        if not self._last or time.monotonic() - self._looked_at > LOOK_EVERY_S:
            sizes = [(size, changed) for _, size, changed in _sizes(self._paths)]
            newest = max((changed for _, changed in sizes), default=0)
            self._last = {"files": len(sizes), "bytes": sum(size for size, _ in sizes), "changed": newest}
            self._looked_at = time.monotonic()
        return self._last

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One: it is a list of files."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int]]:
        """In a task: the files as they are."""
        for path, size, _ in _sizes(self._paths):
            yield path, size


def _sizes(paths: Sequence[Path]) -> Iterator[tuple[str, int, int]]:
    for path in found_files(paths, []):
        try:
            told = path.stat()
        except OSError:  # it was replaced by another one
            continue
        yield str(path), told.st_size, told.st_mtime_ns
