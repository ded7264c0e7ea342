from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given

from isotone.core.errors import InputError
from isotone.core.services import Service
from isotone.trace.events import Crashed, DaemonSent, Gap, Row
from isotone.trace.layout import PartHeader, Tail, part_path
from isotone.trace.records import END, frame
from isotone.trace.spool import MAGIC, SpoolFile, SpoolPart, begin_spool, encode_row
from tests.trace.rows import sends
from tests.trace.strategies import records

HEADER = PartHeader("r", "d1", 1, 0, "full", "boot")


def spool_of(directory: Path, data: bytes) -> SpoolPart:
    path = part_path(directory, HEADER, ".spool")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return SpoolPart(path)


def test_every_entry_round_trips(tmp_path: Path) -> None:
    @given(records())
    def check(rows: list[Row]) -> None:
        part = spool_of(tmp_path, begin_spool(HEADER) + b"".join(map(encode_row, rows)) + frame(END))
        assert part.header == HEADER
        assert list(part.rows()) == rows
        assert part.tail == Tail(closed=True)

    check()


def test_torn_at_every_byte_the_rows_before_are_whole(tmp_path: Path) -> None:
    rows = sends(3)
    begin = begin_spool(HEADER)
    encoded = [encode_row(row) for row in rows]
    whole = begin + b"".join(encoded) + frame(END)
    ends = [len(begin), *(len(begin) + sum(map(len, encoded[: count + 1])) for count in range(3))]
    for size in range(len(whole)):
        part = spool_of(tmp_path, whole[:size])
        assert (part.header.run, part.header.node, part.header.incarnation, part.header.part) == ("r", "d1", 1, 0)
        count = sum(end <= size for end in ends[1:])
        assert list(part.rows()) == rows[:count], size
        assert not part.tail.closed
        assert bool(part.tail.problem) == (size not in ends), size


def test_a_flipped_bit_anywhere_in_the_rows_is_noticed(tmp_path: Path) -> None:
    rows = sends(2)
    begin = begin_spool(HEADER)
    whole = begin + b"".join(map(encode_row, rows)) + frame(END)
    for place in range(len(begin), len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        part = spool_of(tmp_path, bytes(damaged))
        found = list(part.rows())
        assert found == rows[: len(found)]
        assert len(found) < 2 or not part.tail.closed


def test_zeros_that_a_file_system_left_are_no_rows(tmp_path: Path) -> None:
    part = spool_of(tmp_path, begin_spool(HEADER) + encode_row(sends(1)[0]) + bytes(4096))
    assert list(part.rows()) == sends(1)
    assert not part.tail.closed and part.tail.problem


def test_what_is_not_a_spool(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.spool: this is not a spool of a trace"):
        spool_of(tmp_path, b"PAR1 and so on")
    with pytest.raises(InputError, match="trace version 258 is unknown here"):
        spool_of(tmp_path, MAGIC + b"\x01\x02" + begin_spool(HEADER)[10:])
    odd = tmp_path / "odd.spool"
    odd.write_bytes(MAGIC)
    with pytest.raises(InputError, match="the name is not that of a spool"):
        SpoolPart(odd)


def test_rows_of_another_vocabulary(tmp_path: Path) -> None:
    dance = frame(bytes.fromhex("930102") + b"\x81\xa4kind\xa5dance")
    with pytest.raises(InputError, match="unknown kind 'dance'"):
        list(spool_of(tmp_path, begin_spool(HEADER) + dance).rows())
    crash = frame(bytes.fromhex("930102") + b"\x81\xa4kind\xa5crash")
    with pytest.raises(InputError, match=r"not of the vocabulary: .*daemon"):
        list(spool_of(tmp_path, begin_spool(HEADER) + crash).rows())
    with pytest.raises(InputError, match="not of the vocabulary"):
        list(spool_of(tmp_path, begin_spool(HEADER) + frame(b"\x01\x02")).rows())


def test_a_header_that_is_not_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the header of the spool is wrong"):
        spool_of(tmp_path, begin_spool(HEADER)[:11] + frame(b"\x80"))


@pytest.mark.parametrize(
    ("change", "said"),
    [({"version": 9}, "trace version 9 is unknown"), ({"incarnation": -1}, "header"), ({"part": -1}, "header")],
)
def test_a_header_with_wrong_numbers(tmp_path: Path, change: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        spool_of(tmp_path, begin_spool(msgspec.structs.replace(HEADER, **change)))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\x93\x00\x00" + b"\x91" * 3000, "not of the vocabulary"),
        (b"\x93\x00\x00\x81\xa4kind\xa1\xff", "not of the vocabulary"),
        (b"\x93\x00\x00\x82\xa4kind\xa5crash\xa6daemon\xa1\xff", "not of the vocabulary"),
        (msgspec.msgpack.encode((-1, 0, Crashed("d"))), "not of the vocabulary"),
        (msgspec.msgpack.encode((0, -1, Crashed("d"))), "not of the vocabulary"),
        (msgspec.msgpack.encode((0, 0, Gap(-1))), "'lost' is below 0"),
        (msgspec.msgpack.encode((0, 0, DaemonSent("d", 1, Service.FIFO, (1,), ()))), "not of one number"),
    ],
)
def test_a_right_checksum_proves_nothing(tmp_path: Path, body: bytes, said: str) -> None:
    part = spool_of(tmp_path, begin_spool(HEADER) + frame(body) + frame(END))
    with pytest.raises(InputError, match=rf"\.spool: .*{said}"):
        list(part.rows())
    with pytest.raises(InputError, match="the header of the spool is wrong"):
        spool_of(tmp_path, begin_spool(HEADER)[:11] + frame(body))


def test_a_row_that_comes_twice_or_too_late(tmp_path: Path) -> None:
    first, second = map(encode_row, sends(2))
    for rows in (first + first, second + first):
        with pytest.raises(InputError, match="row 0 stands behind row"):
            list(spool_of(tmp_path, begin_spool(HEADER) + rows + frame(END)).rows())


@pytest.mark.parametrize("behind", [encode_row(sends(2)[1]), bytes(1)])
def test_what_stands_behind_the_end_is_said(tmp_path: Path, behind: bytes) -> None:
    part = spool_of(tmp_path, begin_spool(HEADER) + encode_row(sends(1)[0]) + frame(END) + behind)
    assert list(part.rows()) == sends(1)
    assert part.tail == Tail(closed=False, problem="bytes behind its end")


def test_a_spool_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    first = SpoolFile(tmp_path, HEADER)
    first.close()
    with pytest.raises(FileExistsError):
        SpoolFile(tmp_path, HEADER)


def test_that_rows_are_being_lost_is_known_in_the_next_part_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "r").mkdir()
    file = SpoolFile(tmp_path, HEADER)
    with monkeypatch.context() as patch:
        patch.setattr(SpoolFile, "_write_all", lambda *_: False)
        assert not file.write(b"x")
    following = file.next_part()
    lossy, clean = SpoolPart(following.path), SpoolPart(following.path)
    assert (list(lossy.rows()), lossy.tail) == ([], Tail(closed=False, problem="the disk refused what came then"))
    assert following.write(encode_row(sends(1)[0]))
    assert (list(clean.rows()), clean.tail) == (sends(1), Tail(closed=False))
    file.close()
    following.close()
