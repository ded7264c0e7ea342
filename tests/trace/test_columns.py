from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given

from isotone.core.errors import InputError
from isotone.trace.columns import COLUMNS, ENTRY_COLUMNS, columns_of, entry_of
from isotone.trace.events import Ended, Entry, Gap, JoinRequested, LinkFailed, Stabilised
from isotone.trace.vocabulary import entry_types
from tests.trace.strategies import entries, entries_of


@pytest.mark.parametrize("kind", entry_types())
def test_every_kind_round_trips(kind: str) -> None:
    @given(entries_of(entry_types()[kind]))
    def check(entry: Entry) -> None:
        columns = columns_of(entry)
        assert columns["kind"] == kind
        assert set(columns) <= set(ENTRY_COLUMNS)
        assert entry_of(columns) == entry

    check()


@given(entries)
def test_columns_that_a_kind_does_not_use_may_be_null(entry: Entry) -> None:
    assert entry_of(dict.fromkeys(COLUMNS) | columns_of(entry)) == entry


def test_what_has_no_column_is_json() -> None:
    assert columns_of(Stabilised((("d1", "d2"), ("d3",))))["extra"] == '{"components":[["d1","d2"],["d3"]]}'
    assert columns_of(Gap(3))["extra"] == '{"lost":3}'
    assert columns_of(Ended(True)) == {"kind": "end", "extra": '{"quiet":true}'}
    columns = columns_of(LinkFailed("d1#1", "n", "ring", "silent"))
    assert (columns["clients"], columns["network"], columns["reason"]) == (["d1#1"], "n", "silent")
    assert columns["extra"] == '{"link":"ring"}'


LATER_LAYER = """
import msgspec
from isotone.core.services import Service
from isotone.trace.columns import columns_of, entry_of
from isotone.trace.events import Entry, Row
from isotone.trace.jsonl import JsonLines, jsonl_lines

class Colour(msgspec.Struct, frozen=True):
    name: str
    depth: int

class Painted(Entry, frozen=True, tag="painted"):
    client: str
    receivers: tuple[str, ...]  # its column is taken by client
    reason: int  # not the type of the column
    service: Service
    colour: Colour
    counts: dict[int, int]
    data: bytes

entry = Painted("#c#d1#1#1", ("a", "b"), 4, Service.SAFE, Colour("red", 2), {1: 2}, b"\\xff\\x00")
columns = columns_of(entry)
assert columns["clients"] == ["#c#d1#1#1"] and columns["service"] == "SAFE", columns
assert entry_of(columns) == entry
row = Row("d1", 1, 0, 0, entry)
assert list(JsonLines("x", jsonl_lines("r", [row])).rows()) == [row]
"""


def test_an_entry_that_a_later_layer_adds_needs_no_change_here() -> None:
    # In a process of its own: whatever derives from Entry is part of the vocabulary from then on.
    subprocess.run([sys.executable, "-c", LATER_LAYER], check=True)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"kind": "dance"}, "unknown kind 'dance'"),
        ({}, "unknown kind None"),
        ({"kind": "join", "clients": ["a"]}, "needs the column 'groups'"),
        ({"kind": "join", "clients": ["a", "b"], "groups": ["g"]}, "cannot stand in the column 'clients'"),
        ({"kind": "gap"}, "needs 'lost' in the column extra"),
        ({"kind": "gap", "extra": "[]"}, "not a JSON object"),
        ({"kind": "gap", "extra": '{"lost":"many"}'}, "Expected `int`"),
        ({"kind": "stranssig", "clients": ["d"], "view": {"epoch": 1}}, "cannot stand in the column 'view'"),
        (columns_of(JoinRequested("a", "g")) | {"groups": None}, "needs the column 'groups'"),
    ],
)
def test_wrong_columns_are_named(columns: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said.replace("[", r"\[")):
        entry_of(columns)
