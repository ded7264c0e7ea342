from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given

from isotone.core.errors import InputError, MachineError
from isotone.core.services import Service
from isotone.trace.columns import COLUMNS
from isotone.trace.events import Row, Sent
from isotone.trace.layout import PartHeader, Tail
from isotone.trace.parquet import (
    BATCH_MESSAGES,
    BATCH_ROWS,
    ParquetFile,
    require_pyarrow,
    schema,
    write_parquet,
    write_part,
)
from isotone.trace.reader import read
from isotone.trace.writer import Level, TraceWriter
from tests.trace.rows import sends
from tests.trace.strategies import records


def test_every_entry_round_trips(tmp_path: Path) -> None:
    @given(records(max_size=20))
    def check(rows: list[Row]) -> None:
        write_parquet(tmp_path / "x.parquet", "r", rows)
        found = ParquetFile(tmp_path / "x.parquet")
        assert found.header is None and found.tail.closed
        assert list(found.rows()) == rows

    check()


def test_more_rows_than_a_batch(tmp_path: Path) -> None:
    rows = sends(BATCH_ROWS + 5)
    write_parquet(tmp_path / "x.parquet", "r", rows)
    assert list(ParquetFile(tmp_path / "x.parquet").rows()) == rows


def test_the_file_has_the_columns_and_types(tmp_path: Path) -> None:
    write_parquet(tmp_path / "x.parquet", "r", sends(1))
    table = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    assert table.schema.names == list(COLUMNS)
    types = {field.name: str(field.type).replace("item: ", "").replace("element: ", "") for field in table.schema}
    assert types == dict(COLUMNS)
    (row,) = table.to_pylist()
    assert (row["run"], row["version"], row["service"], row["clients"]) == ("r", 1, "AGREED", ["#c#d1#1#1"])


@pytest.mark.parametrize("closed", [True, False])
def test_a_part_keeps_its_header_and_how_it_ended(tmp_path: Path, closed: bool) -> None:
    header = PartHeader("r", "d1", 1, 4, "buffered", "boot")
    for problem in ("", "the disk refused ♥"):
        write_part(tmp_path / "x.parquet", header, sends(2), lambda: Tail(closed, problem))  # noqa: B023  # used at once
        found = ParquetFile(tmp_path / "x.parquet")
        assert found.header == header
        assert found.tail == Tail(closed, problem)


def test_files_that_another_program_wrote(tmp_path: Path) -> None:
    """Without our metadata, with another order of columns and several runs."""
    write_parquet(tmp_path / "a.parquet", "a", sends(1))
    write_parquet(tmp_path / "b.parquet", "b", sends(2))
    tables = [
        pyarrow.parquet.read_table(tmp_path / name).replace_schema_metadata() for name in ("a.parquet", "b.parquet")
    ]
    table = pyarrow.concat_tables(tables)
    table = table.select(table.schema.names[::-1])
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    found = ParquetFile(tmp_path / "x.parquet")
    assert found.runs() == ["a", "b"]
    assert list(found.rows("b")) == sends(2)


def write_changed(path: Path, **columns: Any) -> None:
    write_parquet(path, "r", sends(1))
    table = pyarrow.parquet.read_table(path)
    for name, value in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pyarrow.array([value], type=schema().field(name).type))
    pyarrow.parquet.write_table(table, path)


NO_VIEW = dict.fromkeys(("epoch", "coordinator", "next_epoch", "next_coordinator", "lamport", "stamper"))
A_VIEW = {"epoch": 1, "coordinator": "d#1", "next_epoch": 0, "next_coordinator": "#0", "lamport": 0, "stamper": "#0"}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"version": 2}, "x.parquet: trace version 2 is unknown here"),
        ({"version": None}, "x.parquet: not a trace version: None"),
        ({"kind": "dance"}, "x.parquet: unknown kind 'dance'"),
        ({"node": None}, "x.parquet: a row without node"),
        ({"digests": None}, "x.parquet: kind 'send' needs the column 'digests'"),
        ({"run": None}, "x.parquet: a row of the run None, in a file of 'r'"),
        ({"run": "other"}, "x.parquet: a row of the run 'other', in a file of 'r'"),
        ({"index": -1}, "x.parquet: incarnation, index and at are numbers from 0"),
        ({"at": -1}, "x.parquet: incarnation, index and at are numbers from 0"),
        ({"clients": [None]}, "x.parquet: kind 'send': .* cannot stand"),
        ({"lengths": [None]}, "x.parquet: kind 'send': .* cannot stand"),
        ({"lengths": [-1]}, "x.parquet: kind 'send': 'lengths' is below 0"),
        ({"digests": []}, "x.parquet: kind 'send': lengths and digests are not of one number"),
        ({"first_sequence": -3}, "x.parquet: kind 'send': 'first_sequence' is below 0"),
        ({"kind": "transsig", "view": NO_VIEW}, "x.parquet: kind 'transsig': .* cannot stand in the column 'view'"),
        ({"kind": "transsig", "view": A_VIEW | {"epoch": -1}}, "x.parquet: kind 'transsig': .* cannot stand"),
        ({"kind": "gap", "extra": '{"a":' * 100_000}, "x.parquet: the column extra is not a JSON object"),
        ({"service": "BEST"}, "x.parquet: kind 'send': 'BEST' cannot stand"),
    ],
)
def test_wrong_rows_are_named(tmp_path: Path, columns: dict[str, Any], said: str) -> None:
    write_changed(tmp_path / "x.parquet", **columns)
    with pytest.raises(InputError, match=said):
        list(ParquetFile(tmp_path / "x.parquet").rows())


def test_a_newer_file_is_refused_before_its_rows(tmp_path: Path) -> None:
    write_parquet(tmp_path / "x.parquet", "r", sends(1))
    table = pyarrow.parquet.read_table(tmp_path / "x.parquet").replace_schema_metadata({"isotone_trace": "2"})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(InputError, match="trace version 2 is unknown here"):
        ParquetFile(tmp_path / "x.parquet")


def test_what_is_not_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"run": ["r"]}), path)
    with pytest.raises(InputError, match="not a trace: columns missing: version, node"):
        ParquetFile(path)
    path.write_bytes(b"hello")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        ParquetFile(path)
    with pytest.raises(InputError, match="not a readable Parquet file"):
        ParquetFile(tmp_path / "nowhere.parquet")


def test_without_pyarrow_it_says_what_to_install_and_spools_remain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MachineError, match=r"install isotone\[trace\]"):
        require_pyarrow()
    rows = sends(3)
    writer = TraceWriter(tmp_path, "r", "d1", 1, level=Level.FULL, rotate_bytes=1)
    for row in rows:
        writer.append(row)
        writer.flush()
    writer.close()
    assert not writer.problem
    assert sorted(path.name for path in (tmp_path / "r").iterdir())[0] == "d1-1-000000.spool"
    assert list(read([tmp_path])) == rows


def changed(path: Path, count: int = 2, metadata: dict[bytes, bytes] | None = None, **columns: Any) -> Path:
    """A trace with other metadata, and with columns of any type."""
    write_parquet(path, "r", sends(count))
    table = pyarrow.parquet.read_table(path)
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, values)
    if metadata is not None:
        table = table.replace_schema_metadata(metadata)
    pyarrow.parquet.write_table(table, path)
    return path


@pytest.mark.parametrize(
    ("name", "values", "form"),
    [
        ("index", ["0", "1"], "string"),
        ("index", [float("nan")] * 2, "double"),
        ("clients", [[1], [1]], r"list<.*int64>"),
        ("run", [5, 5], "int64"),
        ("view", ["x", "y"], "string"),
    ],
)
def test_columns_of_another_type_are_named(tmp_path: Path, name: str, values: list[Any], form: str) -> None:
    path = changed(tmp_path / "x.parquet", **{name: pyarrow.array(values)})
    with pytest.raises(InputError, match=rf"x\.parquet: not a trace: the column '{name}' is {form}, not "):
        ParquetFile(path)


def test_columns_that_are_not_ours_are_refused(tmp_path: Path) -> None:
    path = changed(tmp_path / "x.parquet")
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(table.append_column("more", pyarrow.array([1, 2])), path)
    with pytest.raises(InputError, match="columns unknown or twice: more"):
        ParquetFile(path)
    pyarrow.parquet.write_table(table.append_column("at", pyarrow.array([1, 2])), path)
    with pytest.raises(InputError, match="columns unknown or twice: run, "):
        ParquetFile(path)


PART = b'{"run": "r", "node": "d1", "incarnation": 1, "part": 0, "level": "full", "version": %d}'


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({b"isotone_trace": b"9" * 5000}, "not a trace version: '9{18}'"),
        ({b"isotone_run": b"\xff\xfe"}, "damaged: .*utf-8"),
        ({b"isotone_part": b"{}"}, "the description of the part is wrong"),
        ({b"isotone_part": PART.replace(b"d1", b"\xff") % 1}, "the description of the part is wrong"),
        ({b"isotone_part": PART.replace(b'"part": 0', b'"part": -1') % 1}, "the description of the part is wrong"),
        ({b"isotone_part": PART % 9}, "trace version 9 is unknown"),
    ],
)
def test_wrong_metadata_is_named(tmp_path: Path, metadata: dict[bytes, bytes], said: str) -> None:
    path = changed(tmp_path / "x.parquet", metadata=metadata)
    with pytest.raises(InputError, match=rf"x\.parquet: {said}"):
        ParquetFile(path)


def test_rows_are_never_dropped_in_silence(tmp_path: Path) -> None:
    again = pyarrow.array([0, 0], type=pyarrow.int64())
    whole = ParquetFile(changed(tmp_path / "x.parquet", index=again))
    with pytest.raises(InputError, match=r"x\.parquet: a second row 0 of 'd1'#1"):
        list(whole.rows())
    part = ParquetFile(changed(tmp_path / "x.parquet", index=again, metadata={b"isotone_part": PART % 1}))
    with pytest.raises(InputError, match=r"x\.parquet: row 0 stands behind row 0"):
        list(part.rows())
    other = {b"isotone_part": PART.replace(b"d1", b"d2") % 1}
    with pytest.raises(InputError, match=r"x\.parquet: a row of 'd1'#1 in a part of another record"):
        list(ParquetFile(changed(tmp_path / "x.parquet", metadata=other)).rows())
    nulls = pyarrow.array([None, "r"], type=pyarrow.string())
    with pytest.raises(InputError, match=r"x\.parquet: a row without run"):
        ParquetFile(changed(tmp_path / "x.parquet", run=nulls, metadata={})).runs()


def test_text_that_is_not_unicode(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = pyarrow.parquet.read_table(changed(path))
    flipped = pyarrow.Array.from_buffers(
        pyarrow.string(), 2, [*pyarrow.array(["a", "b"]).buffers()[:2], pyarrow.py_buffer(b"\xff\xff")]
    )
    pyarrow.parquet.write_table(table.set_column(table.schema.get_field_index("node"), "node", flipped), path)
    with pytest.raises(InputError, match=r"x\.parquet: damaged: .*utf-8"):
        list(ParquetFile(path).rows())


def test_memory_is_bounded_however_many_messages_a_row_stands_for(tmp_path: Path) -> None:
    """Rows are turned into columns a few at a time: by their number, and by that of their messages."""
    each = BATCH_MESSAGES // 4
    entry = Sent("#c#d1#1#1", 1, Service.AGREED, ("g",), (1,) * each, (7,) * each)
    rows = [Row("d1", 1, index, index, entry) for index in range(9)]
    path = tmp_path / "t.parquet"
    write_parquet(path, "r", rows)
    file = pyarrow.parquet.ParquetFile(path)
    assert [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)] == [4, 4, 1]
    assert list(ParquetFile(path).rows()) == rows
