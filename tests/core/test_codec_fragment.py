"""The format of fragments: pinned, cut without copying, refused when they cannot lie in a message."""

from __future__ import annotations

import pytest

from isotone.core.bundles import bundle_of
from isotone.core.codec import Fragment, encode_bundle, parse_fragment, split
from isotone.core.codec.fragment import FRAGMENT_HEADER_BYTES, MESSAGE_BYTES_MAX, WHOLE_OVERHEAD_MAX
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import SEQUENCE_MAX, ClientId, DaemonId
from isotone.core.services import Service


def wire(fragment: Fragment) -> bytes:
    return fragment.header() + bytes(fragment.body)


@pytest.mark.parametrize("size", [0, 1, 69, 70, 71, 500])
@pytest.mark.parametrize("limit", [1, 7, 70, 71, 1000])
def test_what_is_cut_comes_back_in_order(size: int, limit: int) -> None:
    message = bytes(number % 251 for number in range(size))
    fragments = split(message, limit, number=5)
    received = [parse_fragment(wire(each)) for each in fragments]
    assert received == fragments and all(each.is_inside for each in received)
    assert all(len(each.body) == limit for each in fragments[:-1])
    assert b"".join(each.body for each in received) == message


def test_nothing_is_copied() -> None:
    message = bytes(1_000)
    assert all(memoryview(each.body).obj is message for each in split(message, 300, number=1))
    data = wire(Fragment(1, 0, 5, b"piece"))
    assert memoryview(parse_fragment(data).body).obj is data


def test_the_layout_is_pinned() -> None:
    expected = bytes.fromhex("0500000000000000 07000000 1e000000") + b"piece"
    assert wire(Fragment(5, 7, 30, b"piece")) == expected and FRAGMENT_HEADER_BYTES == 16


def test_a_message_over_the_limit_is_refused_at_the_sender() -> None:
    with pytest.raises(LocalProtocolError, match="101 bytes is over the limit of 100 bytes"):
        split(bytes(101), 50, number=1, message_bytes_max=100)
    assert len(split(bytes(100), 50, number=1, message_bytes_max=100)) == 2
    with pytest.raises(LocalProtocolError):
        split(bytes(MESSAGE_BYTES_MAX + 1), 1 << 16, number=1)


MALFORMED = {
    "nothing": b"",
    "a byte short of a header": wire(Fragment(1, 0, 0, b""))[:-1],
    "beyond the end": wire(Fragment(1, 26, 30, b"piece")),
    "far beyond the end": wire(Fragment(1, 2**32 - 1, 2**32 - 1, b"piece")),
    "no piece of a message that has bytes": wire(Fragment(1, 0, 30, b"")),
    "a piece of an empty message": wire(Fragment(1, 0, 0, b"p")),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_fragments_are_refused(name: str) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_fragment(MALFORMED[name])


def test_the_longest_names_are_within_the_overhead() -> None:
    sender = ClientId(DaemonId("d" * 64, SEQUENCE_MAX), "c" * 64, SEQUENCE_MAX)
    groups = [f"#{number:064}#{'d' * 64}".replace("0", "$") for number in range(100)]
    encoded = b"".join(encode_bundle(bundle_of(sender, 1, Service.FIFO, groups, [b"x" * 500]), None))
    stamped_name = 64 + 1  # what is cut is not stamped; the bound would bear it
    assert len(encoded) == 500 + WHOLE_OVERHEAD_MAX - stamped_name - 1
