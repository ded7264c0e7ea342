from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given

from isotone.core.errors import InputError
from isotone.core.ids import DaemonId, DaemonViewId, GroupViewId
from isotone.core.services import Service
from isotone.trace.events import Crashed, Gap, Row, SignalDelivered, Truncated
from isotone.trace.jsonl import JsonLines, jsonl_line, jsonl_lines, read_jsonl, write_jsonl
from tests.trace.rows import sent
from tests.trace.strategies import records

HEADER = '{"isotone_trace": 1, "run": "r"}'
SSEND = '{"node": "d1", "kind": "ssend", "daemon": "d", "first_sequence": 1, "service": "FIFO", %s}'


@given(records(max_size=30))
def test_round_trip(rows: list[Row]) -> None:
    lines = list(jsonl_lines("run of ♥", rows))
    assert all(line.endswith(b"\n") and b"\n" not in line[:-1] for line in lines)
    found = JsonLines("x", lines)
    assert found.run == "run of ♥"
    assert list(found.rows()) == rows


def test_rows_are_flat_and_readable() -> None:
    assert jsonl_line(sent("d1", 0, at=12)).decode() == (
        '{"node":"d1","incarnation":1,"index":0,"at":12,"kind":"send","client":"#c#d1#1#1","first_sequence":1,'
        '"service":"AGREED","groups":["g"],"lengths":[3],"digests":[1]}'
    )
    view = GroupViewId(DaemonViewId(7, DaemonId("d1", 3)))
    assert '"view":"7!d1#3"' in jsonl_line(Row("d1", 1, 0, 0, SignalDelivered(("a",), "g", view))).decode()


def test_comments_blank_lines_defaults_and_more_header(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        f'# a fixture\n\n{HEADER[:-1]}, "raises": ["EVS-2.5"]}}\n  # rows\n'
        '{"node": "d1", "kind": "crash", "daemon": "d1#1"}\n\n'
        '{"node": "d2", "kind": "gap", "lost": 2, "index": 7}\n'
        '{"node": "d2", "kind": "truncated", "reason": "x"}'
    )
    found = read_jsonl(path)
    assert found.header["raises"] == ["EVS-2.5"]
    assert list(found.rows()) == [
        Row("d1", 1, 0, 0, Crashed("d1#1")),
        Row("d2", 1, 7, 1, Gap(2)),
        Row("d2", 1, 8, 2, Truncated("x")),
    ]


def test_write_then_read(tmp_path: Path) -> None:
    rows = [sent("d1", 0), sent("d2", 0)]
    write_jsonl(tmp_path / "x.jsonl", "r", rows, seed=4)
    found = read_jsonl(tmp_path / "x.jsonl")
    assert (found.run, found.header["seed"], list(found.rows())) == ("r", 4, rows)


CUT = Truncated("the file was cut")


def test_cut_at_any_line_every_record_that_may_go_on_is_truncated() -> None:
    rows = [sent("d1", 0), sent("d2", 0), Row("d1", 1, 1, 8, Crashed("d1#1")), sent("d1", 0, incarnation=2, at=9)]
    *lines, end = jsonl_lines("r", rows)
    assert end == b'{"end":4}\n'
    assert list(JsonLines("x", lines).rows()) == [*rows, Row("d1", 2, 1, 9, CUT), Row("d2", 1, 1, 0, CUT)]
    assert list(JsonLines("x", lines[:-1]).rows()) == [*rows[:3], Row("d2", 1, 1, 0, CUT)]
    assert list(JsonLines("x", lines[:1]).rows()) == []


def test_the_last_line_must_be_right() -> None:
    *lines, end = jsonl_lines("r", [sent("d1", 0), sent("d2", 0)])
    for odd in (b'{"end":3}', b'{"end":2.0}', b'{"end":"2"}'):
        with pytest.raises(InputError, match="x:4: 2 rows, and the end says"):
            list(JsonLines("x", [*lines, odd]).rows())
    with pytest.raises(InputError, match="x:5: a line behind the end"):
        list(JsonLines("x", [*lines, end, lines[1]]).rows())
    with pytest.raises(InputError, match="x:2: a row needs 'node'"):
        list(JsonLines("x", [HEADER, '{"end": 0}']).rows())


def test_a_disk_that_fills_leaves_the_old_file_and_no_half(tmp_path: Path) -> None:
    def failing() -> Iterator[Row]:
        yield sent("d1", 0)
        raise OSError(28, "No space left on device")

    path = tmp_path / "x.jsonl"
    for before in ([], [path]):
        with pytest.raises(OSError, match="No space"):
            write_jsonl(path, "r", failing())
        assert list(tmp_path.iterdir()) == before
        write_jsonl(path, "r", [sent("d1", 0)])
        assert list(read_jsonl(path).rows()) == [sent("d1", 0)]


def test_a_link_stays_and_a_device_is_written_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "x.jsonl")
    write_jsonl(tmp_path / "link.jsonl", "r", [sent("d1", 0)])
    assert (tmp_path / "link.jsonl").is_symlink()
    assert list(read_jsonl(tmp_path / "x.jsonl").rows()) == [sent("d1", 0)]
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_jsonl(tmp_path / "pipe", "r", [])
    assert os.read(reading, 1000).endswith(b'{"end":0}\n')
    os.close(reading)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "x: the first line of a trace"),
        ('{"node": "d1"}', "x: the first line of a trace"),
        ("not json", "x:1: not a JSON object"),
        ('{"isotone_trace": 2}', "x: trace version 2 is unknown here; the newest known is 1"),
        ('{"isotone_trace": "1"}', "x: not a trace version"),
        ('{"isotone_trace": true}', "x: not a trace version"),
        ('{"isotone_trace": 1, "run": 5}', "x: the run is a text"),
    ],
)
def test_wrong_headers(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        JsonLines("x", text.splitlines())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[]", "not a JSON object"),
        ('{"node": "d1"', "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('{"kind": "crash"}', "a row needs 'node'"),
        ('{"node": "d1"}', "a row needs 'kind'"),
        ('{"node": 1, "kind": "crash"}', "the node is a text"),
        ('{"node": "d1", "kind": "dance"}', "unknown kind 'dance'"),
        ('{"node": "d1", "kind": ["crash"]}', "unknown kind"),
        ('{"node": "d1", "kind": "crash"}', "missing required field `daemon`"),
        ('{"node": "d1", "kind": "crash", "daemon": 5}', "Expected `str`"),
        ('{"node": "d1", "kind": "crash", "deamon": "d1#1"}', "has no field 'deamon'"),
        ('{"node": "d1", "kind": "crash", "daemon": "d", "at": -1}', "'at' is a number from 0"),
        (f'{{"node": "d1", "kind": "crash", "daemon": "d", "at": {2**63}}}', "'at' is a number from 0 to 922"),
        ('{"node": "d1", "kind": "crash", "daemon": "d", "index": true}', "'index' is a number from 0"),
        ('{"node": "d1", "kind": "crash", "daemon": "d", "incarnation": "x"}', "'incarnation' is a number from 0"),
        ('{"node": "d1", "kind": "stranssig", "daemon": "d", "view": "7"}', "'7' is not a daemon view id"),
        ('{"node": "d1", "kind": "stranssig", "daemon": "d", "view": 7}', "7 is not a daemon view id"),
        ('{"node": "d1", "kind": "transsig", "receivers": [], "group": "g", "view": "7!x"}', "not a group view id"),
        ('{"node": "d1", "kind": "gap", "lost": -4}', "'lost' is below 0: -4"),
        (SSEND % '"lengths": [1, 2], "digests": [3]', "lengths and digests are not of one number"),
        (SSEND % '"lengths": [1, -2], "digests": [3, 4]', "'lengths' is below 0"),
        (SSEND % f'"lengths": [1, {2**31}], "digests": [3, 4]', "'lengths' is above 2147483647: 2147483648"),
        (SSEND % f'"lengths": [1], "digests": [{2**64}]', "'digests' is above 18446744073709551615"),
        (f'{{"node": "d1", "kind": "gap", "lost": {2**63}}}', "'lost' is above 9223372036854775807"),
        ('{"node": "d1", "kind": "ssend", "service": "BEST"}', "'BEST' is not a service"),
        ('{"node": "d1", "kind": "ssend", "service": ["FIFO"]}', "is not a service"),
    ],
)
def test_wrong_rows_name_the_line(line: str, said: str) -> None:
    found = JsonLines("x", [HEADER, "", line])
    with pytest.raises(InputError, match=f"^x:3: .*{said}"):
        list(found.rows())


def test_a_second_row_of_one_index_is_refused() -> None:
    line = '{"node": "d1", "kind": "crash", "daemon": "d", "index": 4}'
    with pytest.raises(InputError, match="x:3: a second row 4 of 'd1'"):
        list(JsonLines("x", [HEADER, line, line]).rows())


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.jsonl: No such file"):
        read_jsonl(tmp_path / "nowhere.jsonl")


def test_services_are_written_by_name() -> None:
    assert {service.name for service in Service} == {"UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE"}
