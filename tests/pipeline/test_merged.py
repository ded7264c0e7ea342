"""What is told of parts that are gone, as of one: no longer than it must be, and nothing that still counts is lost."""

from __future__ import annotations

import json
from typing import Any

from isotone.pipeline.merged import Note, files_in, merge_kept

Part = tuple[int, int, int]
"""Number, first index, and the index behind the last."""


def _part(number: int, first: int, behind: int, **about: Any) -> list[Note]:
    place = {"run": "r", "node": "d1", "incarnation": 1, "file": f"{number}"}
    told = {"part": number, "spool": False, "problem": "", "level": "full", "boot": "b", "kept": True, **about}
    span = {"first_sequence": behind, "at": first * 10, "lamport": behind * 10, "reason": "send"}
    notes: list[Note] = [{**place, "kind": "_part", "index": -1, "at": 0, "extra": json.dumps(told)}]
    if behind > first:
        notes.append({**place, "kind": "_span", "index": first, "extra": str(behind - first), **span})
    return notes


def _merged(*parts: list[Note]) -> tuple[list[tuple[str, int]], list[tuple[str, int, int, str]]]:
    """The parts that are left, each with how many files it stands for; and the spans."""
    notes = merge_kept([note for part in parts for note in part]).notes
    left = [(note["file"], files_in(note)) for note in notes if note["kind"] == "_part"]
    spans = [(note["file"], note["index"], note["first_sequence"], note["extra"]) for note in notes if "reason" in note]
    return left, spans


def test_all_but_the_last_are_told_of_as_one() -> None:
    left, spans = _merged(_part(1, 0, 3), _part(2, 3, 5), _part(3, 5, 5))
    assert (left, spans) == ([("3", 1), ("2.merged", 2)], [("2.merged", 0, 5, "5")])


def test_a_hole_between_parts_stays() -> None:
    assert _merged(_part(1, 0, 3), _part(2, 4, 6), _part(3, 6, 6))[1] == [
        ("2.merged", 0, 3, "3"),
        ("2.merged", 4, 6, "2"),
    ]


def test_what_was_merged_is_merged_again() -> None:
    before = merge_kept([*_part(1, 0, 3), *_part(2, 3, 5), *_part(3, 5, 6)])
    assert before.names == {"1": "2.merged", "2": "2.merged"}
    after = _merged(before.notes, _part(4, 6, 7))
    assert after == ([("4", 1), ("3.merged", 3)], [("3.merged", 0, 6, "6"), ("4", 6, 7, "1")])


def test_one_that_comes_back_is_none_of_those_that_are_told_of() -> None:
    before = merge_kept([*_part(1, 0, 3), *_part(2, 3, 5), *_part(3, 5, 6)])
    assert {note["file"] for note in before.notes}.isdisjoint({"1", "2"})


def test_parts_that_do_not_follow_each_other_stay_apart() -> None:
    left, _ = _merged(_part(1, 0, 3), _part(3, 5, 6), _part(4, 6, 7))
    assert left == [("1", 1), ("3", 1), ("4", 1)]


def test_a_joined_span_begins_as_the_first_and_ends_as_the_last() -> None:
    notes = merge_kept([*_part(1, 0, 3), *_part(2, 3, 5), *_part(3, 5, 5)]).notes
    [span] = [note for note in notes if note["kind"] == "_span"]
    assert (span["at"], span["lamport"]) == (0, 50)


def test_what_may_still_count_is_left() -> None:
    """Damage, another boot or level; and what was there the time before."""
    for about in ({"problem": "torn"}, {"boot": "c"}, {"level": "rows"}, {"kept": False}):
        left, _ = _merged(_part(1, 0, 3), _part(2, 3, 5, **about), _part(3, 5, 6))
        assert left == [("1", 1), ("2", 1), ("3", 1)], about
    bad: Note = {"run": "", "node": "", "incarnation": 0, "file": "2", "kind": "_problem", "index": -1}
    assert len(_merged(_part(1, 0, 3), [*_part(2, 3, 5), bad], _part(3, 5, 6))[0]) == 3


def test_of_lost_files_one_is_told_of() -> None:
    notes: list[Note] = [{"file": name, "kind": "_lost", "node": "", "incarnation": 0, "index": -1} for name in "abc"]
    [left] = merge_kept(notes).notes
    assert (left["file"], files_in(left)) == ("c.merged", 3)
    assert merge_kept([*notes[:1]]).notes == notes[:1]
