"""Parts that have long been gone: what is known of them is told as of one, so that it does not grow for ever.

A cluster is one run that never ends, and its daemons remove parts every few hours. What was told of a part that is gone
counts for how its record ends only if something was wrong with it, or if it is the last. So parts that follow each
other, all of one boot and level and nothing wrong with any, are told of as one, up to the last, which stays by itself.
The one has their spans and rows, and a name that no file has: any of them may come back, and is read again then. Only
parts that were gone the time before are merged: until then a file that was read meanwhile may have listed them.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from isotone.pipeline import schema

MERGED = ".merged"
"""Behind the name of the last of those that are told of as one."""
Note = dict[str, Any]
"""A row of bronze that tells of a file, by column."""


class Merged(NamedTuple):
    """The notes that are left, and under which names."""

    notes: list[Note]
    names: Mapping[str, str]
    """From a file that is not told of by itself any more to the name that has its rows."""


def merge_kept(notes: Iterable[Note]) -> Merged:
    """Of notes of one run on files that are gone: those that were gone before, merged as far as they can be."""
    some = list(notes)
    chains = [*_chains(some), *_lost(some)]
    names = {note["file"]: _name(chain) for chain in chains for note in chain}
    ones = [_one(chain) for chain in chains]
    spans = [{**note, "file": names.get(note["file"], note["file"])} for note in some if note["kind"] == schema.SPAN]
    others = [note for note in some if note["kind"] != schema.SPAN and note["file"] not in names]
    return Merged([*others, *ones, *_joined(spans)], names)


def files_in(note: Note) -> int:
    """How many files a note on a part, or on a lost file, stands for."""
    return int(json.loads(note.get("extra") or "{}").get("files", 1))


def _chains(notes: list[Note]) -> Iterator[list[Note]]:
    """Parts that can be told of as one."""
    wrong = {note["file"] for note in notes if note["kind"] == schema.PROBLEM}
    records: defaultdict[tuple[str, int], list[_Part]] = defaultdict(list)
    for note in notes:
        if note["kind"] == schema.PART:
            about = json.loads(note["extra"])
            is_plain = about.get("kept", False) and not about["problem"] and note["file"] not in wrong
            order = (about["part"], about["spool"], note["file"])
            like = (is_plain, about["level"], about["boot"])
            records[note["node"], note["incarnation"]].append(
                _Part(order, about.get("from", about["part"]), like, note)
            )
    for parts in records.values():
        chain: list[_Part] = []
        for part in sorted(parts, key=lambda each: each.order):
            if chain and not chain[-1].goes_on_with(part):
                yield from _worth_it(chain)
                chain = []
            chain.append(part)
        yield from _worth_it(chain)


class _Part(NamedTuple):
    order: tuple[int, bool, str]
    first: int
    """The number of the first part that it stands for."""
    like: tuple[bool, str, str]
    """Whether nothing was wrong, the level and the boot."""
    note: Note

    def goes_on_with(self, other: _Part) -> bool:
        """Whether the other follows, and both can be told of as one."""
        return self.like[0] and self.like == other.like and other.first in (self.order[0], self.order[0] + 1)


def _worth_it(chain: list[_Part]) -> Iterator[list[Note]]:
    if len(chain) > 2:  # the last stays by itself
        yield [part.note for part in chain[:-1]]


def _lost(notes: list[Note]) -> Iterator[list[Note]]:
    """Of lost files one is enough to say that some are."""
    found = sorted((note for note in notes if note["kind"] == schema.LOST), key=lambda note: str(note["file"]))
    if len(found) > 1:
        yield found


def _name(chain: list[Note]) -> str:
    return str(chain[-1]["file"]).removesuffix(MERGED) + MERGED


def _one(chain: list[Note]) -> Note:
    """The last of them, for all."""
    first, last = (json.loads(note.get("extra") or "{}") for note in (chain[0], chain[-1]))
    about = last | {"files": sum(map(files_in, chain))}
    if "part" in first:
        about["from"] = first.get("from", first["part"])
    return {**chain[-1], "file": _name(chain), "extra": json.dumps(about)}


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
