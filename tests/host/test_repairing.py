"""A damaged record is found again by its checksum, from what other servers know; what is not, is not made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.core.contract import Storage, StoredLog
from isotone.corel import records as r
from isotone.corel.journal import LOG
from isotone.corel.message import Message, Origin
from isotone.corel.quorum import Primary
from isotone.host.inspect import read_storage, verify
from isotone.host.repairing import scrub
from isotone.host.scrub import create

A = Origin("a", 1)
SERVERS = ("a", "b", "c")
MESSAGES = [Message(A, number, number, (b"record %d" % number,)) for number in range(1, 9)]
PRIMARY = Primary(1, SERVERS)
STEPS = [
    r.Lived(1),
    r.Attempted(1),
    r.Committed(PRIMARY),
    r.Established(PRIMARY),
    r.Received(tuple(MESSAGES[:1]), True),
    r.Received(tuple(MESSAGES[1:5]), True),
    r.Greened(3),
    r.Received(tuple(MESSAGES[5:6]), True),
    r.Greened(6),
    r.Lived(2),
    r.Forgotten(2),
    r.Received(tuple(MESSAGES[6:8]), False),
]
RECORDS = [r.encode_record(step) for step in STEPS]


class Peer:
    """Has the whole order."""

    def __init__(self, forgotten: int = 0) -> None:
        self._forgotten = forgotten

    def messages(self, after: int, count: int) -> list[Message]:
        return MESSAGES[after : after + count] if after >= self._forgotten else []

    def primaries(self) -> list[Primary]:
        return [PRIMARY]


def damaged_store(path: Path, *numbers: int) -> Path:
    create(path, "c", Storage(logs={LOG: StoredLog(1, RECORDS)}))
    (segment,) = (path / "logs" / LOG).glob("*.segment")
    sound = segment.read_bytes()
    data, end = bytearray(sound), 0
    for number, record in enumerate(RECORDS, 1):
        end = sound.index(record, end) + len(record)
        if number in numbers:
            data[end - 1] ^= 1
    segment.write_bytes(data)
    return path


@pytest.mark.parametrize("number", range(1, len(STEPS) + 1))
def test_every_kind_of_step_is_found_again(tmp_path: Path, number: int) -> None:
    store = damaged_store(tmp_path / "c", number)
    assert verify(store).logs[0].damaged == (number,)
    outcome = scrub(store, Peer(), SERVERS)
    assert (outcome.repaired, outcome.left) == ([number], []), outcome.reasons
    assert list(read_storage(store).logs[LOG].records) == RECORDS and verify(store).is_sound


def test_several_at_once(tmp_path: Path) -> None:
    store = damaged_store(tmp_path / "c", 3, 6, 7, 12)
    assert scrub(store, Peer(), SERVERS).repaired == [3, 6, 7, 12]
    assert list(read_storage(store).logs[LOG].records) == RECORDS


def test_what_nobody_knows_is_left_and_said(tmp_path: Path) -> None:
    store = damaged_store(tmp_path / "c", 1, 6)
    outcome = scrub(store, Peer(forgotten=4), SERVERS)
    assert (outcome.repaired, outcome.left) == ([1], [6])
    assert "remove this server, and add a new one" in outcome.reasons[0]
    assert not verify(store).is_sound
