"""Application packing of peers: full containers, a flush when nothing more is there, the same messages behind it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.bench.lan.packing import container, cut, packed, per_container, split
from isotone.core.errors import RemoteProtocolError


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=60), st.integers(16, 200))
def test_containers_hold_the_messages_in_order_and_no_more_than_their_limit(bodies: list[bytes], limit: int) -> None:
    containers = list(packed(bodies, limit))
    assert [body for each in containers for body in split(each)] == bodies
    for each in containers:
        assert len(each) <= limit or len(split(each)) == 1


def test_a_container_is_filled_before_the_next_begins_and_the_last_is_flushed() -> None:
    each = per_container(64, 8192)
    sizes = [len(split(data)) for data in packed([bytes(64)] * (2 * each + 5), 8192)]
    assert sizes == [each, each, 5]


def test_nothing_to_add_is_nothing_to_send() -> None:
    assert list(packed([], 8192)) == []


def test_a_message_above_the_limit_goes_alone() -> None:
    assert [len(split(data)) for data in packed([bytes(10), bytes(9000), bytes(10)], 8192)] == [1, 1, 1]


@pytest.mark.parametrize(
    "data", [b"", b"\x01", b"\xff\xff\xff\xff", container([b"abc"])[:-1], container([b"abc"]) + b"x"]
)
def test_what_is_no_container_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        split(data)


def test_lengths_that_differ_and_empty_messages_are_cut_right() -> None:
    assert cut(b"abcdef", (1, 2, 3)) == [b"a", b"bc", b"def"]
    assert cut(b"ab", (0, 1, 0, 1)) == [b"", b"a", b"", b"b"]
    assert cut(b"", (0, 0)) == [b"", b""]
    assert cut(b"aabb", (2, 2)) == [b"aa", b"bb"]
