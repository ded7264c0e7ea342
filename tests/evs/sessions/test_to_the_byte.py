"""Bounds of bundles and of credit hold to the byte."""

from __future__ import annotations

from isotone.core.codec.bundle import ENTRY_BYTES
from isotone.evs.sessions.requests import Requests
from isotone.evs.sessions.submission import cuts
from tests.evs.sessions.test_parts import add, requests

PLENTY = 1 << 20


def test_a_bundle_may_be_full_and_no_byte_more() -> None:
    for start in ([], [100], [60, 40]):  # pieces before it count for nothing
        before = 1 if start else 0
        full, over = ([*start, 50, 50], [*start, 50, 51])
        assert len(list(cuts(full, bundle_bytes_max=100, packed_bytes_max=PLENTY))) == before + 1
        assert len(list(cuts(over, bundle_bytes_max=100, packed_bytes_max=PLENTY))) == before + 2


def test_the_heads_of_its_messages_count_too() -> None:
    room = 100 + 2 * ENTRY_BYTES
    assert list(cuts([50, 50], bundle_bytes_max=PLENTY, packed_bytes_max=room)) == [(0, 2)]
    assert list(cuts([50, 51], bundle_bytes_max=PLENTY, packed_bytes_max=room)) == [(0, 1), (1, 2)]


def cost_of(body: bytes) -> int:
    made: Requests = requests(credit=0, window=0)
    add(made, body)
    return made.want_credit()


def test_a_request_of_just_the_window_waits_for_ordinary_credit() -> None:
    cost = cost_of(bytes(500))
    for window, wanted in ((cost, 0), (cost - 1, cost)):
        made = requests(credit=0, window=window)
        add(made, bytes(500))
        assert made.want_credit() == wanted
