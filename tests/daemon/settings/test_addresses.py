"""Hosts and ports as texts."""

from __future__ import annotations

import pytest

from isotone.core.errors import InputError
from isotone.daemon.settings.addresses import is_any, is_ip, is_loopback, join_address, split_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("a:1", "a", 1),
        ("10.0.0.1:65535", "10.0.0.1", 65535),
        ("[::1]:4803", "::1", 4803),
        ("x.example", "x.example", 9),
        ("::1", "::1", 9),
        ("[fe80::1]", "fe80::1", 9),
    ],
)
def test_a_text_is_parted(text: str, host: str, port: int) -> None:
    assert split_address(text, default_port=9) == (host, port)


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:x", "a:0", "a:65536", "a b:1", "http://a:1", "[::1]:x", "a:٣"])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(InputError):
        split_address(text)


def test_joined_and_parted_again() -> None:
    for host in ("a.example", "10.0.0.1", "::1"):
        assert split_address(join_address(host, 7)) == (host, 7)


def test_kinds_of_hosts() -> None:
    assert [is_loopback(each) for each in ("127.0.0.2", "::1", "localhost", "10.0.0.1", "0.0.0.0", "x")] == [
        True
    ] * 3 + [False] * 3
    assert [is_any(each) for each in ("0.0.0.0", "::", "127.0.0.1", "x")] == [True, True, False, False]
    assert [is_ip(each) for each in ("0.0.0.0", "::", "x")] == [True, True, False]
