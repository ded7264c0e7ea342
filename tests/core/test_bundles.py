"""Bundles: consecutive messages, one buffer, and equal sends that are equal bundles."""

from __future__ import annotations

import pytest

from isotone.core.bundles import Bundle, bundle_of
from isotone.core.ids import ClientId, DaemonId, MessageId
from isotone.core.services import Service

ALICE = ClientId(DaemonId("d1", 3), "alice", 17)


def sample(groups: list[str] | None = None) -> Bundle:
    return bundle_of(ALICE, 5, Service.SAFE, groups or ["g"], [b"one", b"", b"three"], types=[1, 2, 3])


def test_messages_are_numbered_consecutively() -> None:
    bundle = sample()
    assert bundle.count == 3
    assert bundle.last_sequence == 7
    assert list(bundle.message_ids()) == [MessageId(ALICE, sequence) for sequence in (5, 6, 7)]


def test_bodies_are_views_into_the_one_payload() -> None:
    bundle = sample()
    assert bundle.payload == b"onethree"
    assert bundle.bodies() == [b"one", b"", b"three"]
    assert all(body.obj is bundle.payload for body in bundle.bodies())


def test_a_single_message_is_not_copied() -> None:
    body = b"only one"
    assert bundle_of(ALICE, 1, Service.FIFO, ["g"], [body]).payload is body


def test_equal_sends_are_equal_bundles() -> None:
    assert sample(["h", "g", "h"]) == sample(["g", "h"])
    assert sample(["h", "g", "h"]).groups == ("g", "h")
    assert hash(sample()) == hash(sample())


def test_types_default_to_zero_for_each_message() -> None:
    bundle = bundle_of(ALICE, 1, Service.FIFO, ["g"], [b"a", b"b"])
    assert bundle.types == (0, 0)
    assert bundle.flags == 0


def test_an_empty_bundle_is_our_own_bug() -> None:
    with pytest.raises(AssertionError):
        bundle_of(ALICE, 1, Service.FIFO, ["g"], [])
