"""Bundles on the wire: one layout, no copy, no loop over messages, every limit kept on both sides."""

from __future__ import annotations

import struct
import tracemalloc

import msgspec
import pytest

from isotone.core.bundles import BUNDLE_BYTES_MAX, GROUPS_MAX, MESSAGES_MAX, Bundle, bundle_of
from isotone.core.codec import decode_bundle, encode_bundle
from isotone.core.codec.bundle import HEAD
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import NO_STAMP, SEQUENCE_MAX, ClientId, DaemonId, Stamp
from isotone.core.services import Service

ALICE = ClientId(DaemonId("d1", 3), "alice", 17)
STAMP = Stamp(9, DaemonId("d2", 4))


def small(**changes: object) -> Bundle:
    bundle = bundle_of(ALICE, 5, Service.SAFE, ["g", "h"], [b"one", b"", b"three"], types=[1, 0, 65535], flags=2)
    return msgspec.structs.replace(bundle, **changes)


def wire(bundle: Bundle, stamp: Stamp | None = STAMP) -> bytes:
    return b"".join(encode_bundle(bundle, stamp))


def test_groups_keep_the_order_of_the_sender() -> None:
    bundle = small(groups=("h", "g"))
    assert decode_bundle(memoryview(wire(bundle)))[0] == bundle


def test_the_layout_is_pinned() -> None:
    head = "01 05 0200 0300 0d00 08000000 0500000000000000 1100000000000000 0300000000000000"
    stamp = "0900000000000000 0400000000000000"
    names = b"alice d1 d2 g h"
    head = head.replace("0d00", f"{len(names):02x}00")
    columns = "03000000 00000000 05000000 0100 0000 ffff"
    expected = bytes.fromhex(head) + bytes.fromhex(stamp) + names + bytes.fromhex(columns) + b"onethree"
    assert wire(small()) == expected
    assert HEAD.size == 52


@pytest.mark.parametrize("stamp", [None, STAMP, Stamp(SEQUENCE_MAX, DaemonId("~" * 19, SEQUENCE_MAX))])
def test_round_trip(stamp: Stamp | None) -> None:
    assert decode_bundle(wire(small(), stamp)) == (small(), stamp)
    private = small(groups=("#alice#d1", "g"))
    assert decode_bundle(bytearray(wire(private, stamp))) == (private, stamp)


def test_extremes_round_trip() -> None:
    groups = [f"{number:031}".replace("0", "$") for number in range(GROUPS_MAX)]
    sender = ClientId(DaemonId("$" * 19, SEQUENCE_MAX), "~" * 10, SEQUENCE_MAX)
    bodies = [b"x" * 8] * MESSAGES_MAX
    bundle = bundle_of(sender, SEQUENCE_MAX - MESSAGES_MAX + 1, Service.UNRELIABLE, groups, bodies, flags=65535)
    assert bundle.last_sequence == SEQUENCE_MAX
    assert len(bundle.payload) == BUNDLE_BYTES_MAX
    assert decode_bundle(wire(bundle)) == (bundle, STAMP)


def test_the_payload_is_never_copied() -> None:
    payload = bytes(BUNDLE_BYTES_MAX)
    bundle = bundle_of(ALICE, 1, Service.FIFO, ["g"], [payload])
    parts = encode_bundle(bundle, STAMP)
    assert parts[-1] is payload
    data = memoryview(b"".join(parts))
    tracemalloc.start()
    decoded, _ = decode_bundle(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(decoded.payload, memoryview) and decoded.payload.obj is data.obj
    assert peak < 4096


@pytest.mark.parametrize("end", range(len(wire(small()))))
def test_every_prefix_is_refused(end: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_bundle(wire(small())[:end])


def test_anything_behind_it_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        decode_bundle(wire(small()) + b"x")


def altered(offset: int, form: str, value: int, stamp: Stamp | None = STAMP) -> bytes:
    data = bytearray(wire(small(), stamp))
    struct.pack_into(form, data, offset, value)
    return bytes(data)


COLUMN = 52 + len(b"alice d1 d2 g h")

MALFORMED = {
    "unknown layout": altered(0, "<B", 2),
    "unknown service": altered(1, "<B", 6),
    "no messages": altered(4, "<H", 0),
    "more messages than the table has": altered(4, "<H", 4),
    "too many messages": altered(4, "<H", MESSAGES_MAX + 1),
    "names longer than they are": altered(6, "<H", 16),
    "names beyond the end": altered(6, "<H", 65535),
    "payload beyond the end": altered(8, "<I", 9),
    "payload of four gigabytes": altered(8, "<I", 2**32 - 1),
    "sequence zero": altered(12, "<Q", 0),
    "last sequence out of range": altered(12, "<Q", SEQUENCE_MAX - 1),
    "sequence out of range": altered(12, "<Q", 2**64 - 1),
    "session out of range": altered(20, "<Q", 2**63),
    "incarnation out of range": altered(28, "<Q", 2**63),
    "Lamport time out of range": altered(36, "<Q", 2**63),
    "stamping incarnation out of range": altered(44, "<Q", 2**63),
    "half a stamp": altered(44, "<Q", 1, stamp=None),
    "lengths above the payload": altered(COLUMN, "<I", 4),
    "lengths below the payload": altered(COLUMN, "<I", 2),
    "huge length": altered(COLUMN, "<I", 2**32 - 1),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_heads_are_refused(name: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_bundle(MALFORMED[name])


@pytest.mark.parametrize(
    "names",
    [
        b"",
        b"alice",
        b"alice d1 ",
        b" d1 g",
        b"alice  g",
        b"alice d1 g ",
        b"alice d1 h h",
        b"alice d1 g g",
        b"a" * 65 + b" d1 g",
        b"alice " + b"d" * 65 + b" g",
        b"alice d1 " + b"g" * 65,
        b"alice d1 #bob",
        b"alice d1 #bob#",
        b"alice d1 #bob#d1#2",
        b"alice d1 a#b",
        b"#lice d1 g",
        b"alice d1 g\n",
        b"alice d1 g\0",
        b"alice d1 \x7f",
        b"alice d1 \xc3\xa9",
        b"alice d1 \xff",
        b"alice d1 " + b" ".join(b"%03d" % number for number in range(GROUPS_MAX + 1)),
    ],
)
def test_malformed_names_are_refused(names: bytes) -> None:
    head = HEAD.pack(1, 4, 0, 1, len(names), 1, 1, 1, 1, 0, 0)
    with pytest.raises(RemoteProtocolError):
        decode_bundle(head + names + b"\1\0\0\0\0\0x")


def test_a_bundle_over_the_limit_given_is_refused_on_both_sides() -> None:
    bundle = bundle_of(ALICE, 1, Service.FIFO, ["g"], [b"x" * 101])
    with pytest.raises(LocalProtocolError):
        encode_bundle(bundle, None, payload_max=100)
    data = wire(bundle)
    with pytest.raises(RemoteProtocolError):
        decode_bundle(data, payload_max=100)
    assert decode_bundle(data, payload_max=101)[0] == bundle


@pytest.mark.parametrize(
    "changes",
    [
        {"groups": ()},
        {"groups": ("g", "g")},
        {"groups": ("not allowed",)},
        {"groups": ("a\ud800",)},
        {"groups": tuple(f"{number:03}" for number in range(GROUPS_MAX + 1))},
        {"sender": ClientId(DaemonId("", 1), "alice", 1)},
        {"sender": ClientId(DaemonId("d1", 1), "al ice", 1)},
        {"sender": ClientId(DaemonId("d 1", 1), "alice", 1)},
        {"sender": ClientId(DaemonId("d1", 2**63), "alice", 1)},
        {"sender": ClientId(DaemonId("d1", -1), "alice", 1)},
        {"sender": ClientId(DaemonId("d1", 1), "alice", 2**70)},
        {"first_sequence": 0},
        {"first_sequence": SEQUENCE_MAX},
        {"lengths": (), "types": ()},
        {"lengths": (3, 0, 4)},
        {"lengths": (9, -1, 0)},
        {"types": (1, 2)},
        {"types": (1, 2, 65536)},
        {"flags": 65536},
        {"flags": -1},
    ],
)
def test_a_wrong_bundle_never_gets_onto_the_wire(changes: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_bundle(small(**changes), None)


@pytest.mark.parametrize(
    "stamp", [NO_STAMP, Stamp(0, STAMP.daemon), Stamp(2**63, STAMP.daemon), Stamp(3, DaemonId("", 1))]
)
def test_a_wrong_stamp_never_gets_onto_the_wire(stamp: Stamp) -> None:
    with pytest.raises(LocalProtocolError):
        encode_bundle(small(), stamp)
