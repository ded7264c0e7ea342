"""Fragments: cut and joined without loss, and refused when they do not fit together."""

from __future__ import annotations

import struct

import msgspec
import pytest

from isotone.core.bundles import BUNDLE_BYTES_MAX, Bundle, bundle_of
from isotone.core.codec import Fragment, cut_bundle, decode_fragment, encode_bundle, encode_fragment, join_fragments
from isotone.core.codec.fragment import HEAD, MESSAGE_BYTES_MAX, WHOLE_OVERHEAD_MAX
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import SEQUENCE_MAX, ClientId, DaemonId, Stamp
from isotone.core.services import Service

ALICE = ClientId(DaemonId("d1", 3), "alice", 17)
STAMP = Stamp(9, DaemonId("d2", 4))


def large(size: int) -> Bundle:
    payload = bytes(number % 251 for number in range(size))
    return bundle_of(ALICE, 5, Service.AGREED, ["g", "h"], [payload], types=[7], flags=1)


def wire(fragment: Fragment, stamp: Stamp | None = STAMP) -> bytes:
    return b"".join(encode_fragment(fragment, stamp))


@pytest.mark.parametrize("size", [0, 1, 3, 69, 70, 71, 500])
@pytest.mark.parametrize("piece_max", [1, 7, 70, 71, 142, 1000])
def test_what_is_cut_joins_again(size: int, piece_max: int) -> None:
    bundle = large(size)
    fragments = cut_bundle(bundle, piece_max=piece_max)
    assert all(len(each.piece) == piece_max for each in fragments[:-1])
    assert 1 <= len(fragments[-1].piece) <= piece_max
    assert [each.index for each in fragments] == list(range(fragments[0].count))
    received = [decode_fragment(wire(each))[0] for each in fragments]
    assert received == fragments
    assert join_fragments(received) == bundle


def test_a_message_far_over_the_bundle_limit_and_without_copying_its_tail() -> None:
    bundle = large(5 * BUNDLE_BYTES_MAX + 17)
    fragments = cut_bundle(bundle, piece_max=BUNDLE_BYTES_MAX)
    assert len(fragments) == 6
    assert all(memoryview(each.piece).obj is bundle.payload for each in fragments[1:])
    assert join_fragments(fragments) == bundle


def test_each_fragment_carries_its_own_stamp_or_none() -> None:
    fragment = cut_bundle(large(100), piece_max=60)[1]
    assert decode_fragment(wire(fragment, None)) == (fragment, None)
    for lamport in (1, SEQUENCE_MAX):
        stamp = Stamp(lamport, DaemonId("d" * 19, SEQUENCE_MAX))
        assert decode_fragment(wire(fragment, stamp)) == (fragment, stamp)


def test_the_layout_is_pinned() -> None:
    fragment = Fragment(ALICE, 5, Service.AGREED, 1, 3, 30, b"piece")
    head = "01 04 0b00 01000000 03000000 1e000000 0500000000000000 1100000000000000 0300000000000000"
    stamp = "0900000000000000 0400000000000000"
    assert wire(fragment) == bytes.fromhex(head) + bytes.fromhex(stamp) + b"alice d1 d2" + b"piece"


def test_only_a_single_message_within_the_limit_is_cut() -> None:
    two = bundle_of(ALICE, 1, Service.FIFO, ["g"], [b"a", b"b"])
    with pytest.raises(LocalProtocolError):
        cut_bundle(two, piece_max=10)
    for piece_max in (0, BUNDLE_BYTES_MAX + 1):
        with pytest.raises(LocalProtocolError):
            cut_bundle(large(10), piece_max=piece_max)
    with pytest.raises(LocalProtocolError):
        cut_bundle(large(101), piece_max=50, message_max=100)


def test_the_largest_numbers_are_allowed_and_no_larger_ones() -> None:
    sender = ClientId(DaemonId("d1", SEQUENCE_MAX), "alice", SEQUENCE_MAX)
    total = MESSAGE_BYTES_MAX + WHOLE_OVERHEAD_MAX
    largest = Fragment(sender, SEQUENCE_MAX, Service.SAFE, 2, 3, total, bytes(BUNDLE_BYTES_MAX))
    assert decode_fragment(wire(largest)) == (largest, STAMP)
    with pytest.raises(RemoteProtocolError):
        decode_fragment(wire(largest), message_max=MESSAGE_BYTES_MAX - 1)
    with pytest.raises(LocalProtocolError):
        wire(msgspec.structs.replace(largest, total=total + 1))
    with pytest.raises(LocalProtocolError):
        wire(msgspec.structs.replace(largest, piece=bytes(BUNDLE_BYTES_MAX + 1)))
    tiny = Fragment(ALICE, 1, Service.UNRELIABLE, 2, 3, 3, b"x")
    assert decode_fragment(wire(tiny, None)) == (tiny, None)
    with pytest.raises(LocalProtocolError):
        wire(msgspec.structs.replace(tiny, piece=b"xx"))


def test_a_message_at_the_limit_with_the_longest_names_fits() -> None:
    sender = ClientId(DaemonId("d" * 19, SEQUENCE_MAX), "c" * 10, SEQUENCE_MAX)
    groups = [f"#{number:010}#{'d' * 19}".replace("0", "$") for number in range(100)]
    bundle = bundle_of(sender, 1, Service.FIFO, groups, [b"x" * 500])
    fragments = cut_bundle(bundle, piece_max=1000, message_max=500)
    received = [decode_fragment(wire(each), message_max=500)[0] for each in fragments]
    assert join_fragments(received, message_max=500) == bundle


def replaced(fragments: list[Fragment], place: int, **changes: object) -> list[Fragment]:
    return [msgspec.structs.replace(each, **changes) if at == place else each for at, each in enumerate(fragments)]


FRAGMENTS = cut_bundle(large(200), piece_max=90)
OTHER = ClientId(DaemonId("d1", 3), "bob", 17)
STAMPED = b"".join(encode_bundle(large(30), STAMP))

UNFIT = {
    "none": [],
    "the first alone": FRAGMENTS[:1],
    "one twice": [FRAGMENTS[0], FRAGMENTS[1], FRAGMENTS[1]],
    "in another order": [FRAGMENTS[1], FRAGMENTS[0], FRAGMENTS[2]],
    "another sender's": replaced(FRAGMENTS, 1, sender=OTHER),
    "another message's": replaced(FRAGMENTS, 1, sequence=6),
    "another service's": replaced(FRAGMENTS, 1, service=Service.SAFE),
    "another total": replaced(FRAGMENTS, 1, total=300),
    "a short piece": replaced(FRAGMENTS, 1, piece=FRAGMENTS[1].piece[:-1]),
    "all another sender's": [msgspec.structs.replace(each, sender=OTHER) for each in FRAGMENTS],
    "all another message's": [msgspec.structs.replace(each, sequence=6) for each in FRAGMENTS],
    "no bundle inside": [Fragment(ALICE, 5, Service.AGREED, 0, 1, 5, b"piece")],
    "a stamped bundle inside": [Fragment(ALICE, 5, Service.AGREED, 0, 1, len(STAMPED), STAMPED)],
}


@pytest.mark.parametrize("name", UNFIT)
def test_fragments_that_do_not_fit_together_are_refused(name: str) -> None:
    with pytest.raises(RemoteProtocolError):
        join_fragments(UNFIT[name])


def test_the_limit_of_a_message_holds_for_the_receiver_too() -> None:
    with pytest.raises(RemoteProtocolError):
        join_fragments(FRAGMENTS, message_max=199)
    assert join_fragments(FRAGMENTS, message_max=200) == large(200)


def altered(offset: int, form: str, value: int) -> bytes:
    data = bytearray(wire(FRAGMENTS[1]))
    struct.pack_into(form, data, offset, value)
    return bytes(data)


MALFORMED = {
    "unknown layout": altered(0, "<B", 0),
    "unknown service": altered(1, "<B", 6),
    "names beyond the end": altered(2, "<H", 60000),
    "index out of count": altered(4, "<I", 3),
    "no fragments": altered(8, "<I", 0),
    "more fragments than bytes": altered(8, "<I", 2**32 - 1),
    "piece larger than the rest leaves": altered(8, "<I", FRAGMENTS[1].total - 80),
    "total over the limit": altered(12, "<I", 2**32 - 1),
    "sequence zero": altered(16, "<Q", 0),
    "sequence out of range": altered(16, "<Q", 2**63),
    "session out of range": altered(24, "<Q", 2**63),
    "Lamport time out of range": altered(40, "<Q", 2**63),
    "names of an unstamped fragment": altered(40, "<Q", 0),
    "no piece": wire(FRAGMENTS[1])[: HEAD.size + len(b"alice d1 d2")],
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_fragments_are_refused(name: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_fragment(MALFORMED[name])


@pytest.mark.parametrize(
    "changes",
    [
        {"index": 3},
        {"index": -1},
        {"count": 0},
        {"total": 2**33},
        {"total": MESSAGE_BYTES_MAX * 2},
        {"sequence": 0},
        {"sequence": 2**63},
        {"piece": b""},
        {"sender": ClientId(DaemonId("d 1", 1), "alice", 1)},
    ],
)
def test_a_wrong_fragment_never_gets_onto_the_wire(changes: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_fragment(msgspec.structs.replace(FRAGMENTS[1], **changes), None)
