"""Addresses as users write them."""

from __future__ import annotations

import pytest

from isotone.client.addresses import Place, normalised, parse_address
from isotone.core.errors import LocalProtocolError


@pytest.mark.parametrize(
    ("text", "place", "full"),
    [
        ("localhost:4803", Place("localhost", 4803), "localhost:4803"),
        ("localhost", Place("localhost", 4803), "localhost:4803"),
        ("10.0.0.1:65535", Place("10.0.0.1", 65535), "10.0.0.1:65535"),
        ("[::1]:17", Place("::1", 17), "[::1]:17"),
        ("[fe80::1]", Place("fe80::1", 4803), "[fe80::1]:4803"),
        ("unix:/run/isotone", Place(path="/run/isotone"), "unix:/run/isotone"),
    ],
)
def test_addresses(text: str, place: Place, full: str) -> None:
    assert parse_address(text) == place
    assert normalised(text) == (full,) and normalised([text, text]) == (full, full)
    assert parse_address(full) == place


@pytest.mark.parametrize(
    "text", ["", ":4803", "host:", "host:0", "host:65536", "host:x", "::1", "[::1", "[::1]4803", "unix:", "a b:1"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(LocalProtocolError, match="is no address"):
        parse_address(text)


def test_at_least_one() -> None:
    with pytest.raises(LocalProtocolError, match="at least one"):
        normalised([])
