"""Which indices of each record a file has, as few ranges: so that nothing has to be sorted to find holes and doubles.

Runs on workers, on whole columns. A *span* is a range of indices that are all there, each once: the first, where the
record goes on behind it, when it began and ended, what kind of row is its last, and how many rows it has.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from typing import Any

from isotone.pipeline.schema import SPAN

Record = tuple[str, str, int]
"""Run, node, incarnation."""
Span = tuple[int, int, int, int, str, int]
"""First index, index behind the last, first and last time, kind of the last row, number of rows (a gap is one)."""


LOST_MAX = 1 << 62
"""Whoever says that more was lost than any record could have has lost all that follows."""


class Spans:
    """Collects those of one file, batch by batch."""

    def __init__(self) -> None:
        self._found: dict[Record, list[Span]] = {}

    def add(self, arrays: Mapping[str, Any]) -> None:
        """The rows of a batch, by column."""
        for record, span in _spans(arrays):
            known = self._found.setdefault(record, [])
            if known and known[-1][1] == span[0]:
                first, _, began, _, _, count = known.pop()
                span = (first, span[1], began, span[3], span[4], count + span[5])
            known.append(span)

    def are_doubled(self) -> bool:
        """Whether an index of a record is there twice; where a gap may say more than was lost, nobody can tell."""
        pairs = [pair for spans in self._found.values() for pair in pairwise(sorted(spans))]
        return any(later[0] < before[1] for before, later in pairs if before[4] != "gap")

    def columns(self) -> dict[str, list[Any]]:
        """All of them as columns of bronze: the times as ``at`` and ``lamport``, the kind as ``reason``.

        The number of rows is ``extra``.
        """
        rows = [(*record, *span[:-1], str(span[-1])) for record, spans in self._found.items() for span in spans]
        names = ("run", "node", "incarnation", "index", "first_sequence", "at", "lamport", "reason", "extra")
        columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
        return {**columns, "kind": [SPAN] * len(rows)}


def _spans(arrays: Mapping[str, Any]) -> Iterator[tuple[Record, Span]]:
    numpy, compute = import_module("numpy"), import_module("pyarrow.compute")
    index, incarnation, at = (arrays[name].to_numpy(zero_copy_only=False) for name in ("index", "incarnation", "at"))
    if not len(index):
        return
    texts = [compute.dictionary_encode(arrays[name]) for name in ("run", "node")]
    keys = [incarnation, *(text.indices.to_numpy() for text in texts)]
    order = numpy.lexsort((index, *keys))
    after = index + _steps(arrays)
    index, after, at, keys = index[order], after[order], at[order], [key[order] for key in keys]
    breaks = index[1:] != after[:-1]
    for key in keys:
        breaks |= key[1:] != key[:-1]
    begins = numpy.flatnonzero(numpy.concatenate(([True], breaks)))
    ends = numpy.append(begins[1:], len(index)) - 1
    runs, nodes = (text.dictionary.to_pylist() for text in texts)
    for begin, end in zip(begins.tolist(), ends.tolist()):
        record = runs[keys[1][begin]], nodes[keys[2][begin]], int(keys[0][begin])
        kind = arrays["kind"][int(order[end])].as_py()
        yield record, (int(index[begin]), int(after[end]), int(at[begin]), int(at[end]), kind, end - begin + 1)


def _steps(arrays: Mapping[str, Any]) -> Any:
    """How far behind each row its record goes on: one, but for a gap as much as it says was lost."""
    numpy, compute = import_module("numpy"), import_module("pyarrow.compute")
    steps = numpy.ones(len(arrays["kind"]), dtype=numpy.int64)
    for place in compute.indices_nonzero(compute.equal(arrays["kind"], "gap")).to_pylist():
        steps[place] = _lost(arrays["extra"][place].as_py())
    return steps


def _lost(extra: str | None) -> int:
    with suppress(ValueError, TypeError, LookupError):
        lost = json.loads(extra or "{}")["lost"]
        return min(max(1, lost), LOST_MAX) if type(lost) is int else 1
    return 1
