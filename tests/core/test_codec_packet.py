"""Packets and frames: a pinned header, checked fields, frames that are views."""

from __future__ import annotations

import struct

import msgspec
import pytest

from isotone.core.codec import (
    Frame,
    FrameKind,
    PacketHeader,
    PacketKind,
    iter_frames,
    pack_frame,
    pack_header_into,
    read_packet,
    short_digest,
    unpack_header,
)
from isotone.core.codec.packet import HEADER, PAYLOAD_BYTES_MAX
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import SEQUENCE_MAX, DaemonId
from isotone.core.versions import VersionRange

SAMPLE = PacketHeader(
    version=1,
    kind=PacketKind.SEQUENCED,
    flags=2,
    link=3,
    epoch=4,
    coordinator=5,
    sender=6,
    sequence=7,
    length=8,
)


def packed(header: PacketHeader) -> bytes:
    buffer = bytearray(HEADER.size)
    pack_header_into(buffer, 0, header)
    return bytes(buffer)


def test_the_layout_is_pinned() -> None:
    expected = "694e 01 01 0200 0300 0400000000000000 05000000 06000000 0700000000000000 08000000"
    assert packed(SAMPLE) == bytes.fromhex(expected)
    assert HEADER.size == 36


def test_a_header_anywhere_in_a_buffer() -> None:
    buffer = bytearray(100)
    pack_header_into(buffer, 41, SAMPLE)
    assert unpack_header(buffer, 41) == SAMPLE
    assert unpack_header(memoryview(buffer), 41) == SAMPLE
    assert buffer[:41] == bytes(41) and buffer[77:] == bytes(23)
    with pytest.raises(RemoteProtocolError):
        unpack_header(buffer, 65)
    with pytest.raises(LocalProtocolError):
        pack_header_into(buffer, 65, SAMPLE)


def test_the_largest_numbers_are_allowed() -> None:
    largest = PacketHeader(
        version=1,
        kind=PacketKind.SEQUENCED,
        flags=2**16 - 1,
        link=2**16 - 1,
        epoch=SEQUENCE_MAX,
        coordinator=2**32 - 1,
        sender=2**32 - 1,
        sequence=SEQUENCE_MAX,
        length=PAYLOAD_BYTES_MAX,
    )
    assert unpack_header(packed(largest)) == largest
    smallest = PacketHeader(1, PacketKind.UNSEQUENCED, 0, 0, 0, 0, 0, 0, 0)
    assert unpack_header(packed(smallest), payload_max=0) == smallest
    first = msgspec.structs.replace(SAMPLE, sequence=1)
    assert unpack_header(packed(first), payload_max=8) == first
    with pytest.raises(RemoteProtocolError):
        unpack_header(packed(first), payload_max=7)


def test_a_datagram_is_one_packet_exactly() -> None:
    header, payload = read_packet(packed(SAMPLE) + b"12345678")
    assert (header, payload) == (SAMPLE, b"12345678")
    for data in (b"1234567", b"123456789", b""):
        with pytest.raises(RemoteProtocolError):
            read_packet(packed(SAMPLE) + data)


def test_versions_are_those_that_the_reader_knows() -> None:
    with pytest.raises(RemoteProtocolError, match="version 1; known here: 2 to 3"):
        unpack_header(packed(SAMPLE), versions=VersionRange(2, 3))
    newer = msgspec.structs.replace(SAMPLE, version=3)
    assert unpack_header(packed(newer), versions=VersionRange(2, 3)) == newer


def altered(offset: int, form: str, value: int) -> bytes:
    data = bytearray(packed(SAMPLE))
    struct.pack_into(form, data, offset, value)
    return bytes(data)


MALFORMED = {
    "wrong magic": altered(0, "<H", 0x694E),
    "version zero": altered(2, "<B", 0),
    "version of the future": altered(2, "<B", 2),
    "kind zero": altered(3, "<B", 0),
    "unknown kind": altered(3, "<B", 3),
    "an unsequenced packet with a sequence": altered(3, "<B", 2),
    "a sequenced packet without one": altered(24, "<Q", 0),
    "sequence out of range": altered(24, "<Q", 2**63),
    "epoch out of range": altered(8, "<Q", 2**63),
    "payload over the limit": altered(32, "<I", PAYLOAD_BYTES_MAX + 1),
    "a byte short": packed(SAMPLE)[:-1],
    "nothing": b"",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_headers_are_refused(name: str) -> None:
    with pytest.raises(RemoteProtocolError):
        unpack_header(MALFORMED[name])


@pytest.mark.parametrize(
    "changes",
    [
        {"sequence": 0},
        {"sequence": SEQUENCE_MAX + 1},
        {"kind": PacketKind.UNSEQUENCED},
        {"epoch": 2**63},
        {"epoch": -1},
        {"version": 0},
        {"version": 256},
        {"flags": 65536},
        {"link": -1},
        {"sender": 2**32},
        {"length": PAYLOAD_BYTES_MAX + 1},
    ],
)
def test_a_wrong_header_never_gets_onto_the_wire(changes: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError):
        packed(msgspec.structs.replace(SAMPLE, **changes))


def test_frames_are_views_into_their_packet() -> None:
    payload = pack_frame(FrameKind.CONTROL, 3, flags=9) + b"abc" + pack_frame(FrameKind.BUNDLE, 1) + b"d"
    frames = list(iter_frames(payload))
    assert frames == [
        Frame(FrameKind.CONTROL, 9, memoryview(b"abc")),
        Frame(FrameKind.BUNDLE, 0, memoryview(b"d")),
    ]
    assert all(frame.body.obj is payload for frame in frames)
    assert list(iter_frames(b"")) == []


@pytest.mark.parametrize(
    "tail",
    [
        b"\x00\x00\x00\x00\x01\x00\x00\x00x",  # kind 0
        b"\x04\x00\x00\x00\x01\x00\x00\x00x",  # a kind that nobody knows
        b"\x01\x00\x01\x00\x01\x00\x00\x00x",  # reserved
        b"\x01\x00\x00\x00\x00\x00\x00\x00",  # empty
        b"\x01\x00\x00\x00\x02\x00\x00\x00x",  # a byte short
        b"\x01\x00\x00\x00\xff\xff\xff\xffx",
        b"\x01\x00\x00\x00\x01\x00\x00",  # half a head
    ],
)
def test_a_packet_with_one_bad_frame_hands_out_none(tail: bytes) -> None:
    good = pack_frame(FrameKind.BUNDLE, 1) + b"d"
    with pytest.raises(RemoteProtocolError):
        iter_frames(good + tail)  # before anything is taken from it


def test_frames_out_of_range_are_our_own_fault() -> None:
    for size, flags in ((2**32, 0), (-1, 0), (1, 256)):
        with pytest.raises(LocalProtocolError):
            pack_frame(FrameKind.BUNDLE, size, flags=flags)


def test_short_digests_are_pinned() -> None:
    assert short_digest(DaemonId("d1", 1)) == 0x50A4846B
    assert short_digest(DaemonId("d1", 2)) == 0x2C563016
