"""Parts that have long been gone: what is known of them is told as of one, so that it does not grow for ever.

A cluster is one run that never ends, and its daemons remove parts every few hours. What was told of a part that is gone
counts for how its record ends only if something was wrong with it, or if it is the last. So of parts that follow each
other, all of one boot and level and nothing wrong with any, the last stands for all: it gets their spans and rows. Only
parts that were gone the time before are merged: until then a file that was read meanwhile may have listed them.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from isotone.pipeline import schema

Note = dict[str, Any]
"""A row of bronze that tells of a file, by column."""


class Merged(NamedTuple):
    """The notes that are left, and which file stands for which others."""

    notes: list[Note]
    stands_for: Mapping[str, str]
    """From the name of a file that is not told of any more to that of the one that has its rows."""


def merge_kept(notes: Iterable[Note]) -> Merged:
    """Of notes of one run on files that are gone: those that were gone before, merged as far as they can be."""
    some = list(notes)
    names = _chains(some) | _lost(some)
    spans = [{**note, "file": names.get(note["file"], note["file"])} for note in some if note["kind"] == schema.SPAN]
    counts = _counts(some, names)
    others = [
        _counted(note, counts) for note in some if note["kind"] != schema.SPAN and note["file"] not in names
    ]  # fmt: skip
    return Merged([*others, *_joined(spans)], names)


def files_in(note: Note) -> int:
    """How many files a note on a part, or on a lost file, stands for."""
    return int(json.loads(note.get("extra") or "{}").get("files", 1))


def _chains(notes: list[Note]) -> dict[str, str]:
    """Parts that another stands for."""
    wrong = {note["file"] for note in notes if note["kind"] == schema.PROBLEM}
    records: defaultdict[tuple[str, int], list[tuple[Any, ...]]] = defaultdict(list)
    for note in notes:
        if note["kind"] == schema.PART:
            about = json.loads(note["extra"])
            is_plain = about.get("kept", False) and not about["problem"] and note["file"] not in wrong
            order = (about["part"], about["spool"], note["file"])
            records[note["node"], note["incarnation"]].append((*order, is_plain, about["level"], about["boot"]))
    found: dict[str, str] = {}
    for parts in records.values():
        for this, following in reversed(list(pairwise(sorted(parts)))):
            if this[3] and this[3:] == following[3:]:
                found[this[2]] = found.get(following[2], following[2])
    return found


def _lost(notes: list[Note]) -> dict[str, str]:
    """Of lost files one is enough to say that some are."""
    *others, last = sorted(note["file"] for note in notes if note["kind"] == schema.LOST) or [""]
    return dict.fromkeys(others, last)


def _counts(notes: Iterable[Note], names: Mapping[str, str]) -> dict[str, int]:
    """How many files each of those stands for that stand for others."""
    found = dict.fromkeys(names.values(), 0)
    for note in notes:
        name = names.get(note["file"], note["file"])
        if name in found and note["kind"] in (schema.PART, schema.LOST):
            found[name] += files_in(note)
    return found


def _counted(note: Note, counts: Mapping[str, int]) -> Note:
    if note["file"] not in counts or note["kind"] not in (schema.PART, schema.LOST):
        return note
    about = json.loads(note.get("extra") or "{}") | {"files": counts[note["file"]]}
    return {**note, "extra": json.dumps(about)}


def _joined(spans: Iterable[Note]) -> list[Note]:
    """Where one ends where the next begins, in one file and record, they are one."""
    found: list[Note] = []
    for span in sorted(spans, key=lambda each: (each["file"], each["node"], each["incarnation"], each["index"])):
        before = found[-1] if found else None
        if before is not None and _place(before, "first_sequence") == _place(span, "index"):
            rows = str(int(before["extra"]) + int(span["extra"]))
            begin = {"index": before["index"], "at": before["at"], "extra": rows}
            found[-1] = {**span, **begin}
        else:
            found.append(span)
    return found


def _place(span: Note, column: str) -> tuple[Any, ...]:
    return (span["file"], span["node"], span["incarnation"], span[column])
