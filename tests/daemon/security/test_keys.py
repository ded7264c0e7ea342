"""Keys in files and in text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from isotone.core.errors import InputError
from isotone.daemon.security.keys import (
    Roster,
    generate_authority,
    generate_key,
    parse_authority,
    parse_certificate,
    parse_public,
    public_text,
    read_authority,
    read_key,
    sign_key,
)
from tests.daemon.security.guarded import key_of


def test_a_key_is_written_for_its_owner_alone_and_read_again(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        pair = generate_key(tmp_path / "d1.key")
    finally:
        os.umask(mask)
    assert (tmp_path / "d1.key").stat().st_mode & 0o777 == 0o600
    assert read_key(tmp_path / "d1.key") == pair
    assert parse_public(pair.text) == pair.public
    assert pair.text in (tmp_path / "d1.key").read_text()
    assert pair.private.hex() not in repr(pair) and repr(pair.private) not in repr(pair)


def test_no_key_is_written_over(tmp_path: Path) -> None:
    pair = generate_key(tmp_path / "key")
    with pytest.raises(InputError, match="not written over"):
        generate_key(tmp_path / "key")
    assert read_key(tmp_path / "key") == pair
    with pytest.raises(InputError, match="cannot be written"):
        generate_key(tmp_path / "missing" / "key")


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    generate_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(InputError, match="chmod 600"):
        read_key(tmp_path / "key")


@pytest.mark.parametrize("text", ["", "x25519-private:short", "nonsense", "ed25519-private:" + "A" * 44, "\x00\xff"])
def test_what_is_no_key_is_refused_with_a_remedy(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text, encoding="latin-1")
    path.chmod(0o600)
    with pytest.raises(InputError, match="key"):
        read_key(path)
    with pytest.raises(InputError, match="keygen"):
        read_key(tmp_path / "missing")


def test_text_that_is_no_key_is_refused() -> None:
    for text in ("", "x25519:", "x25519:AAAA", "ed25519:" + "A" * 44, key_of("a").text[:-4]):
        with pytest.raises(InputError):
            parse_public(text)


def test_the_roster_believes_the_list_first_and_signatures_else(tmp_path: Path) -> None:
    authority = generate_authority(tmp_path / "authority")
    assert read_authority(tmp_path / "authority") == authority
    assert parse_authority(authority.text) == authority.public
    one, other = key_of("one").public, key_of("other").public
    certificate = parse_certificate(sign_key(authority, "c", "one", one))
    listed = Roster("c", {"one": other}, authority.public)
    assert listed.problem("one", other, b"") == ""
    assert listed.problem("one", one, certificate) == "wrong key", "a listed key is the only one for its name"
    signed = Roster("c", {}, authority.public)
    assert signed.problem("one", one, certificate) == ""
    assert signed.problem("two", one, certificate) == "wrong certificate"
    assert Roster("d", {}, authority.public).problem("one", one, certificate) == "wrong certificate"
    assert Roster("c").problem("one", one, certificate) == "unknown daemon"
    for revoked in ("one", public_text(one)):
        roster = Roster("c", {"one": one}, authority.public, frozenset([revoked]))
        assert roster.problem("one", one, certificate) == "revoked"
