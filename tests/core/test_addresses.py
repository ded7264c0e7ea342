"""Addresses as users, settings and daemons write them: one rule for all."""

from __future__ import annotations

import pytest

from isotone.core.addresses import (
    Place,
    full_addresses,
    host_of,
    is_any,
    is_ip,
    is_loopback,
    join_address,
    parse_address,
    split_address,
)
from isotone.core.errors import InputError, LocalProtocolError


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
    assert parse_address(text, default_port=4803) == place and str(place) == full
    assert full_addresses(text) == (full,) and full_addresses([text, text]) == (full, full)
    assert parse_address(full) == place


WRONG = ["", ":1", "a:", "a:x", "a:0", "a:65536", "a b:1", "http://a:1", "::1", "::1:4803", "[::1", "[::1]4803"]


@pytest.mark.parametrize("text", [*WRONG, "[a]:1", "unix:", "unix:a\0b", "a:\u0663", "a:000001", "a\0:1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InputError, match="is no address"):
        parse_address(text, default_port=9)
    with pytest.raises(LocalProtocolError, match="is no address"):
        full_addresses(text)


def test_without_a_default_the_port_is_needed() -> None:
    for text in ("a", "[::1]", "unix:/x"):
        with pytest.raises(InputError, match="is no address"):
            split_address(text)


def test_any_port_is_for_those_who_listen() -> None:
    assert split_address("localhost:0", port_min=0) == ("localhost", 0)


def test_at_least_one() -> None:
    with pytest.raises(LocalProtocolError, match="at least one"):
        full_addresses([])


def test_joined_and_parted_again() -> None:
    for host in ("a.example", "10.0.0.1", "::1"):
        assert split_address(join_address(host, 7)) == (host, 7)
        assert host_of(join_address(host, 7)) == host
    assert host_of("unix:/x") == "unix:/x" and host_of("nonsense") == "nonsense"


def test_kinds_of_hosts() -> None:
    near, far = ("127.0.0.2", "::1", "localhost"), ("10.0.0.1", "0.0.0.0", "x", "x.localhost")
    assert [is_loopback(each) for each in (*near, *far)] == [True] * 3 + [False] * 4
    assert [is_any(each) for each in ("0.0.0.0", "::", "127.0.0.1", "x")] == [True, True, False, False]
    assert [is_ip(each) for each in ("0.0.0.0", "::", "x")] == [True, True, False]
