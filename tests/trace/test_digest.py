"""Flipped bits: a Parquet file or a spool with one is named, and no row of it is another than was written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from isotone.core.choice import Choice
from isotone.core.errors import InputError
from isotone.trace import digest
from isotone.trace.parquet import ParquetFile, write_parquet
from isotone.trace.reader import read
from isotone.trace.spool import SpoolPart
from tests.trace.rows import sends
from tests.trace.test_reader import write_record

FLIPS = 250


def flipped(data: bytes, choice: Choice) -> bytes:
    bit = choice.below(8 * len(data))
    found = bytearray(data)
    found[bit // 8] ^= 1 << bit % 8
    return bytes(found)


def test_a_flipped_bit_in_a_parquet_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    write_parquet(path, "r", sends(50))
    data, choice = path.read_bytes(), Choice("parquet")
    for number in range(FLIPS):
        spoilt = tmp_path / f"{number}.parquet"
        spoilt.write_bytes(flipped(data, choice))
        with pytest.raises(InputError, match=re.escape(spoilt.name)):
            list(ParquetFile(spoilt).rows())
    assert list(ParquetFile(path).rows()) == sends(50)


def test_of_a_spool_with_a_flipped_bit_only_rows_before_it_count(tmp_path: Path) -> None:
    write_record(tmp_path, sends(50))
    (path,) = (tmp_path / "r").glob("*.spool")
    data, choice = path.read_bytes(), Choice("spool")
    named = 0
    for _ in range(FLIPS):
        path.write_bytes(flipped(data, choice))
        try:
            part = SpoolPart(path)
            rows = list(part.rows())
        except InputError:
            named += 1
            continue
        assert rows == sends(50)[: len(rows)]
        named += bool(part.tail.problem) or not part.tail.closed
    assert named > FLIPS * 0.9  # a few bits of the file are of no meaning


def test_a_file_of_another_program_has_no_seal(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    write_parquet(path, "r", sends(5))
    path.write_bytes(path.read_bytes().replace(digest.KEY, b"another_digest"))
    assert list(read([path])) == sends(5)
