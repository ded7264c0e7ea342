"""Large messages as fragments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.core.choice import Choice
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.evs.links.fragments import (
    FRAGMENT_HEADER_BYTES,
    MESSAGE_BYTES_MAX,
    Fragment,
    Reassembly,
    fragment_limit,
    parse_fragment,
    split,
)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=4), st.integers(1, 64), st.data())
def test_messages_come_back_whatever_the_order(messages: list[bytes], limit: int, data: st.DataObject) -> None:
    pieces = [piece for number, message in enumerate(messages) for piece in split(message, limit, number=number)]
    reassembly = Reassembly()
    joined = {}
    for piece in data.draw(st.permutations(pieces)):
        parsed = parse_fragment(piece.header() + bytes(piece.body))
        assert len(parsed.body) <= limit
        message = reassembly.add("source", parsed)
        if message is not None:
            joined[piece.number] = message
    assert [joined[number] for number in range(len(messages))] == messages
    assert reassembly.held_bytes == 0


def test_the_message_is_complete_with_its_last_fragment() -> None:
    """DESIGN 3: it stands at the stamp of its last fragment."""
    pieces = split(b"abcdefg", 3, number=1)
    reassembly = Reassembly()
    assert [reassembly.add("a", piece) for piece in pieces] == [None, None, b"abcdefg"]


def test_no_bytes_are_one_fragment() -> None:
    (only,) = split(b"", 1000, number=1)
    assert Reassembly().add("a", only) == b""


def test_16_mib_pass_and_one_byte_more_is_refused_at_the_sender() -> None:
    message = bytes(MESSAGE_BYTES_MAX)
    pieces = split(message, 65_536, number=1)
    assert len(pieces) == 256 and all(
        isinstance(piece.body, memoryview) and piece.body.obj is message for piece in pieces
    )
    reassembly = Reassembly()
    results = [reassembly.add("a", piece) for piece in reversed(pieces)]
    assert results[-1] == message and not any(results[:-1])
    with pytest.raises(LocalProtocolError, match="16777217 bytes is over the limit of 16777216 bytes"):
        split(bytes(MESSAGE_BYTES_MAX + 1), 65_536, number=1)
    split(bytes(MESSAGE_BYTES_MAX + 1), 65_536, number=1, message_bytes_max=MESSAGE_BYTES_MAX + 1)


def test_sources_do_not_mix_and_can_be_forgotten() -> None:
    reassembly = Reassembly()
    one, two = split(b"abcd", 2, number=1)
    assert reassembly.add("a", one) is None
    assert reassembly.add("b", Fragment(1, 0, 4, b"xy")) is None
    assert reassembly.held_bytes == 4
    reassembly.forget("b")
    assert reassembly.held_bytes == 2
    assert reassembly.add("a", two) == b"abcd"


def test_memory_is_bounded_and_a_promise_costs_nothing() -> None:
    reassembly = Reassembly(message_bytes_max=1000, open_max=2, memory_max=1500)
    reassembly.add("a", Fragment(1, 0, 1000, bytes(700)))
    assert reassembly.held_bytes == 700
    with pytest.raises(RemoteProtocolError, match="no memory"):
        reassembly.add("b", Fragment(1, 0, 1000, bytes(900)))
    reassembly.add("a", Fragment(2, 0, 1000, b"x"))
    with pytest.raises(RemoteProtocolError, match="unfinished messages"):
        reassembly.add("a", Fragment(3, 0, 1000, b"x"))
    assert reassembly.add("a", Fragment(3, 0, 2, b"xy")) == b"xy"
    assert reassembly.held_bytes == 701


@pytest.mark.parametrize(
    "bad",
    [
        Fragment(1, 0, MESSAGE_BYTES_MAX + 1, b"x"),
        Fragment(1, 9, 10, b"xy"),
        Fragment(1, 3, 10, b""),
        Fragment(7, 0, 4, b"ab"),  # came before
        Fragment(7, 2, 5, b"ab"),  # another total
        Fragment(7, 1, 4, b"abc"),  # overlaps
    ],
)
def test_contradictions_are_refused(bad: Fragment) -> None:
    reassembly = Reassembly()
    reassembly.add("a", Fragment(7, 0, 4, b"ab"))
    with pytest.raises(RemoteProtocolError):
        reassembly.add("a", bad)
    assert reassembly.add("a", Fragment(7, 2, 4, b"cd")) == b"abcd"


def test_a_gap_that_an_overlap_hides_is_refused() -> None:
    reassembly = Reassembly()
    reassembly.add("a", Fragment(7, 0, 4, b"ab"))
    with pytest.raises(RemoteProtocolError, match="overlap"):
        reassembly.add("a", Fragment(7, 1, 4, b"bc"))


def test_random_bytes_are_fragments_or_refused() -> None:
    choice = Choice("fragments")
    reassembly = Reassembly(message_bytes_max=64, memory_max=256)
    for _ in range(5000):
        data = bytes(choice.below(256) if choice.chance(0.1) else choice.below(3) for _ in range(choice.below(40)))
        try:
            fragment = parse_fragment(data)
            reassembly.add(choice.below(3), fragment)
        except RemoteProtocolError:
            continue
        assert len(data) >= FRAGMENT_HEADER_BYTES
        assert reassembly.held_bytes <= 256


def test_fragments_are_packets_on_slow_paths_and_bundles_on_fast_ones() -> None:
    assert fragment_limit(187_500, packet_bytes=1300) == 1300
    assert fragment_limit(1_250_000, packet_bytes=1300) == 6250
    assert fragment_limit(125_000_000, packet_bytes=1300) == 64 * 1024
