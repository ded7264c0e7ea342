"""Segment files cut at every byte, with flipped bits and holes: what is found is a prefix, or says what is damaged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.core.choice import Choice
from isotone.core.contract import Append, CutHead, CutTail, StoredLog
from isotone.core.errors import LocalProtocolError, MachineError
from isotone.host.inspect import dump, verify
from isotone.host.replay import read_log
from isotone.host.scrub import repair
from isotone.host.segments import Found, segment_paths
from isotone.host.store import LOGS, Store
from isotone.host.writes import StoreWrite
from tests.host.store_model import SMALL, Model, read, written

LOG = "log"


def history(choice: Choice, length: int) -> list[list[StoreWrite]]:
    """Group commits with a few cuts."""
    batches: list[list[StoreWrite]] = []
    number = 0
    while number < length:
        batch: list[StoreWrite] = []
        for _ in range(1 + choice.below(3)):
            number += 1
            match choice.below(8):
                case 0:
                    batch.append(CutTail(LOG, 1 + choice.below(number)))
                case 1:
                    batch.append(CutHead(LOG, 1 + choice.below(max(1, number // 2))))
                case _:
                    batch.append(Append(LOG, b"%d." % number * (1 + choice.below(30))))
        batches.append(batch)
    return batches


def flat(batches: Sequence[Sequence[StoreWrite]]) -> list[StoreWrite]:
    return [write for batch in batches for write in batch]


def found_in(path: Path) -> Found:
    return read_log(path / LOGS / LOG)


def as_pair(found: Found) -> tuple[int, list[bytes]]:
    assert not found.damaged
    return found.first, [found.records[number] for number in range(found.first, found.next)]


def poke(path: Path, place: int, value: int) -> None:
    """Change one byte."""
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([value]))


@pytest.mark.parametrize("seed", range(3))
def test_a_file_that_ends_anywhere_holds_a_prefix(tmp_path: Path, seed: int) -> None:
    batches = history(Choice(f"torn {seed}"), 14)
    written(tmp_path, batches)
    states = Model().after_each(LOG, flat(batches))
    last = segment_paths(tmp_path / LOGS / LOG)[-1][1]
    reached = len(states) - 1
    for size in range(last.stat().st_size, -1, -1):
        os.truncate(last, size)
        found = found_in(tmp_path)
        assert reached - 1 <= found.operation <= reached and as_pair(found) == states[found.operation], f"{size} bytes"
        reached = found.operation


def test_the_torn_tail_is_cut_and_the_log_goes_on(tmp_path: Path) -> None:
    written(tmp_path, [[Append(LOG, b"one")], [Append(LOG, b"two")]])
    path = segment_paths(tmp_path / LOGS / LOG)[-1][1]
    path.write_bytes(path.read_bytes()[: -48 - 2])  # the note about the last sync, and a part of the last record
    store = Store(tmp_path)
    opened = store.open("writer")
    assert opened.cut_bytes and not opened.problems
    assert opened.storage.logs[LOG] == StoredLog(1, (b"one",))
    store.commit([Append(LOG, b"three")])
    store.close()
    assert read(tmp_path).logs[LOG] == StoredLog(1, (b"one", b"three"))


def test_nothing_of_a_torn_tail_comes_back(tmp_path: Path) -> None:
    written(tmp_path, [[Append(LOG, b"one")], [Append(LOG, b"torn"), Append(LOG, b"behind")]])
    path = segment_paths(tmp_path / LOGS / LOG)[-1][1]
    os.truncate(path, path.stat().st_size - 48)  # the machine stops before it is said that the last commit is durable
    poke(path, path.read_bytes().index(b"torn"), 0)  # and the first of its blocks is lost
    assert read(tmp_path).logs[LOG] == StoredLog(1, (b"one",))
    store = Store(tmp_path)
    store.open("writer")
    store.commit([Append(LOG, b"next")])  # as long as what was torn
    for log in store._logs.values():
        log.close()
    store._state.close()
    assert read(tmp_path).logs[LOG] == StoredLog(1, (b"one", b"next"))


def test_a_last_file_that_was_only_begun_is_nothing(tmp_path: Path) -> None:
    model = written(tmp_path, [[Append(LOG, b"x" * 400)]] * 3)
    index, path = segment_paths(tmp_path / LOGS / LOG)[-1]
    for content in (b"", b"ISOSEG", bytes(512)):
        path.with_name(f"{index + 1:016d}.segment").write_bytes(content)
        assert as_pair(found_in(tmp_path)) == model.logs[LOG]
        assert read(tmp_path).logs[LOG].records == tuple(model.logs[LOG][1])
        assert len(segment_paths(tmp_path / LOGS / LOG)) == index


def check_damage(found: Found, model: Model) -> None:
    """Nothing is lost without being named, and what is not named is right."""
    first, records = model.logs[LOG]
    assert (found.first, found.next) == (first, first + len(records))
    for number, record in enumerate(records, start=first):
        assert found.records.get(number, record) == record
        assert (number in found.records) != (number in found.damaged)


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_is_noticed_wherever_it_is(tmp_path: Path, seed: int) -> None:
    choice = Choice(f"flip {seed}")
    model = written(tmp_path, history(choice, 20))
    for _, path in segment_paths(tmp_path / LOGS / LOG):
        data = path.read_bytes()
        for place in range(seed, len(data), 8):
            poke(path, place, data[place] ^ 1 << choice.below(8))
            found = found_in(tmp_path)
            check_damage(found, model)
            assert len(found.damaged) <= 1
            poke(path, place, data[place])
    check_damage(found_in(tmp_path), model)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 1 << 30), start=st.floats(0, 1), length=st.integers(1, 700), fill=st.sampled_from(b"\0\xa5\xff")
)
def test_a_hole_hides_nothing(
    tmp_path_factory: pytest.TempPathFactory, seed: int, start: float, length: int, fill: int
) -> None:
    path = tmp_path_factory.mktemp("store")
    choice = Choice(seed)
    model = written(path, history(choice, 24))
    files = segment_paths(path / LOGS / LOG)
    index, file = choice.pick(files)
    data = bytearray(file.read_bytes())
    end = len(data) - 48 if (index, file) == files[-1] else len(data)  # the last note about a sync stays
    place = int(start * (end - 1))
    data[place : min(end, place + length)] = bytes([fill]) * (min(end, place + length) - place)
    file.write_bytes(data)
    check_damage(found_in(path), model)


def test_a_file_that_is_gone_is_noticed(tmp_path: Path) -> None:
    model = written(tmp_path, [[Append(LOG, bytes([number]) * 300)] for number in range(12)])
    files = segment_paths(tmp_path / LOGS / LOG)
    assert len(files) > 3
    for _, path in (files[0], files[2]):
        kept = path.read_bytes()
        path.unlink()
        found = found_in(tmp_path)
        check_damage(found, model)
        assert found.damaged and found.problems
        path.write_bytes(kept)
    files[-1][1].write_bytes(bytes(2000))
    with pytest.raises(MachineError, match=r"nothing in this file can be read.*isotone replica remove"):
        found_in(tmp_path)


def damaged_store(path: Path) -> Model:
    model = written(path, [[Append(LOG, bytes([number]) * 300)] for number in range(8)])
    file = segment_paths(path / LOGS / LOG)[1][1]
    data = bytearray(file.read_bytes())
    data[512 + 48 + 7] ^= 4  # in a body
    data[512 + 348 + 3] ^= 4  # in a head
    file.write_bytes(data)
    return model


def test_damage_is_told_and_repaired_with_the_right_bytes(tmp_path: Path) -> None:
    model = damaged_store(tmp_path)
    records = dict(enumerate(model.logs[LOG][1], start=1))
    stored = read(tmp_path).logs[LOG]
    one, two = stored.damaged
    assert stored.records[one - 1] == stored.records[two - 1] == b""
    store = Store(tmp_path)
    assert any("must not vote" in problem for problem in store.open("writer").problems)
    store.close()
    report = verify(tmp_path)
    assert not report.is_sound and report.logs[0].damaged == (one, two)
    (advice,) = (problem for problem in report.problems if "must not vote" in problem)
    assert "isotone replica scrub; or remove this server, and add one under a new name" in advice
    assert "backup" not in advice and "restore" not in advice, "that would fence the others"
    assert dict(dump(tmp_path, LOG, one - 1, one)) == {one - 1: records[one - 1], one: None}
    with pytest.raises(LocalProtocolError, match="not the bytes"):
        repair(tmp_path, LOG, {one: records[two]})
    with pytest.raises(LocalProtocolError, match="is not damaged"):
        repair(tmp_path, LOG, {1: records[1]})
    with pytest.raises(LocalProtocolError, match="no 9"):
        repair(tmp_path, LOG, {9: b""})
    assert repair(tmp_path, LOG, {one: records[one]}) == (two,)
    assert repair(tmp_path, LOG, {two: records[two]}) == ()
    assert read(tmp_path).logs[LOG] == StoredLog(1, tuple(model.logs[LOG][1]))
    assert dict(dump(tmp_path, LOG)) == records


def test_a_record_that_looks_like_a_file_is_a_record(tmp_path: Path) -> None:
    written(tmp_path / "a", [[Append(LOG, b"inner")], [CutTail(LOG, 1)]])
    inner = segment_paths(tmp_path / "a" / LOGS / LOG)[0][1].read_bytes()
    model = written(tmp_path / "b", [[Append(LOG, b"outer")], [Append("other", inner)], [Append("other", b"end")]])
    file = segment_paths(tmp_path / "b" / LOGS / "other")[0][1]
    data = bytearray(file.read_bytes())
    data[512] ^= 1  # the head of the record that holds a file
    file.write_bytes(data)
    found = read_log(tmp_path / "b" / LOGS / "other")
    assert (found.first, found.next, found.damaged) == (1, 3, (1,))
    assert found.records == {2: model.logs["other"][1][1]}
    shutil.rmtree(tmp_path / "a")


def test_small_segments_are_many_files(tmp_path: Path) -> None:
    written(tmp_path, [[Append(LOG, b"x" * (SMALL // 2))]] * 6)
    assert len(segment_paths(tmp_path / LOGS / LOG)) >= 3
