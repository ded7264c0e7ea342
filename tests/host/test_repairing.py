"""A damaged record is found again by its checksum, from what other servers know; what is not, is not made up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.core.contract import Storage, StoredLog
from isotone.core.errors import InputError
from isotone.corel import records as r
from isotone.corel.configuration import Configuration
from isotone.corel.journal import LOG
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message, Origin
from isotone.corel.quorum import Majority, Primary
from isotone.corel.versions import marked
from isotone.host.backup import back_up
from isotone.host.correction import corrections
from isotone.host.inspect import read_storage, verify
from isotone.host.repairing import scrub
from isotone.host.scrub import create
from tests.corel.cluster import Cluster
from tests.corel.test_repair_recoveries import adopted, in_parcels, pending, two_minorities

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

    def forcings(self) -> list[tuple[int, Configuration]]:
        return []

    def state(self) -> bytes:
        return b""


def damaged_store(path: Path, *numbers: int, wide: int = 2, records: Sequence[bytes] = RECORDS) -> Path:
    """With two bits flipped in these records; one if it is not ``wide``."""
    create(path, "c", Storage(logs={LOG: StoredLog(1, records)}))
    (segment,) = (path / "logs" / LOG).glob("*.segment")
    sound = segment.read_bytes()
    data, end = bytearray(sound), 0
    for number, record in enumerate(records, 1):
        end = sound.index(record, end) + len(record)
        if number in numbers:
            data[end - 1] ^= 1
            if wide > 1:
                data[end - min(wide, len(record))] ^= 128
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
    assert list(read_storage(store).logs[LOG].records)[1:5] == RECORDS[1:5]


COLLIDING = (1 | 0xEDB88320 << 1).to_bytes(5, "little")
"""What differs in these bits has the same CRC."""


class Mistaken(Peer):
    """Behind the end of the damaged server's queue it has another message of the same length and checksum."""

    def messages(self, after: int, count: int) -> list[Message]:
        true = super().messages(after, count)
        if after != 5:
            return true
        record = bytes(a ^ b for a, b in zip(true[0].records[0], COLLIDING.ljust(8, b"\0"), strict=True))
        return [Message(A, 6, 6, (record,)), *true[1:]]


def test_of_two_that_fit_none_is_taken(tmp_path: Path) -> None:
    (right, *_), (wrong, *_) = Peer().messages(5, 1), Mistaken().messages(5, 1)
    one, other = (r.encode_record(r.Received((each,), True)) for each in (right, wrong))
    assert one != other and crc32(one) == crc32(other) and one == RECORDS[7]
    store = damaged_store(tmp_path / "c", 8)
    outcome = scrub(store, Mistaken(), SERVERS)
    assert (outcome.repaired, outcome.left) == ([], [8])
    assert "2 different records fit" in outcome.reasons[0] and "remove this server" in outcome.reasons[0]
    assert scrub(store, Peer(), SERVERS).repaired == [8], "the only one is taken"
    assert list(read_storage(store).logs[LOG].records) == RECORDS


class Replicated(Peer):
    """A server that took part in all of it."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def messages(self, after: int, count: int) -> list[Message]:
        queue = self._ledger.queue
        return queue.between(after, min(queue.end, after + count)) if queue.forgotten <= after <= queue.end else []

    def primaries(self) -> list[Primary]:
        return [self._ledger.history.last, *self._ledger.history.pending]

    def forcings(self) -> list[tuple[int, Configuration]]:
        return [(self._ledger.fence, self._ledger.queue.configuration)]


@pytest.mark.parametrize("story", [adopted, in_parcels, two_minorities, pending])
def test_recoveries_that_changed_the_order_are_repaired_all_at_once(
    tmp_path: Path, story: Callable[[], Cluster]
) -> None:
    cluster = story()
    log, founders = tuple(cluster["c"].log), tuple(sorted(cluster.founders))
    numbers = [at for at, data in enumerate(log, 1) if _changed_the_order(r.decode_record(data))]
    store = damaged_store(tmp_path / "c", *numbers, records=log)
    outcome = scrub(store, Replicated(cluster["a"].replica.ledger), founders, Majority(founders))
    assert len(numbers) > 3 and (outcome.repaired, outcome.left) == (numbers, []), outcome.reasons
    assert tuple(read_storage(store).logs[LOG].records) == log


def _changed_the_order(record: r.Record) -> bool:
    """Or brought what was ordered elsewhere."""
    return isinstance(record, r.Arranged | r.Inserted) or (isinstance(record, r.Received) and not record.yellow)


def test_a_log_of_a_newer_version_is_refused_by_its_number(tmp_path: Path) -> None:
    """Neither repaired nor copied: only the program that wrote it knows what it means."""
    newer = (*RECORDS[:6], marked(2, b"news"))
    create(tmp_path / "c", "c", Storage(logs={LOG: StoredLog(1, newer)}))
    outcome = scrub(tmp_path / "c", Peer(), SERVERS)
    assert not outcome.repaired and "version 2 of a replica's log; this program reads 1" in outcome.reasons[0]
    with pytest.raises(InputError, match="version 2 of a replica's log"):
        back_up(tmp_path / "c", "c", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_one_flipped_bit_is_put_right_by_the_checksum_alone(tmp_path: Path) -> None:
    """Also where no server can tell what stood there."""
    store = damaged_store(tmp_path / "c", 1, 6, 12, wide=1)
    outcome = scrub(store, Nobody(), SERVERS)
    assert (outcome.repaired, outcome.left) == ([1, 6, 12], []), outcome.reasons
    assert list(read_storage(store).logs[LOG].records) == RECORDS and verify(store).is_sound


class Nobody(Peer):
    """No peer answers."""

    def messages(self, after: int, count: int) -> list[Message]:
        return []

    def primaries(self) -> list[Primary]:
        return []


@given(st.binary(min_size=1, max_size=200), st.data())
def test_every_flipped_bit_is_found(record: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(record) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    damaged = record[:place] + bytes((record[place] ^ bit,)) + record[place + 1 :]
    assert record in set(corrections(damaged, crc32(record)))


def test_two_flipped_bits_and_long_records_are_not_guessed() -> None:
    record = b"a record of some bytes"
    assert not list(corrections(bytes((record[0] ^ 3,)) + record[1:], crc32(record)))
    long = bytes(64 * 1024 + 1)
    assert not list(corrections(b"\x01" + long[1:], crc32(long)))


def test_what_is_corrected_has_the_checksum() -> None:
    wrong = bytes(range(256)) * 4
    found = [each for checksum in range(0, 2**32, 2**24) for each in corrections(wrong, checksum)]
    assert all(crc32(each) % 2**24 == 0 and len(each) == len(wrong) for each in found)
