"""Names: their lengths, and Spread's characters."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from isotone.core.errors import LocalProtocolError
from isotone.core.names import check_client_name, check_daemon_name, check_group_name, is_private_group

CHECKS = [(check_client_name, 64), (check_daemon_name, 64), (check_group_name, 64)]


@pytest.mark.parametrize(("check", "length_max"), CHECKS)
def test_lengths(check: Callable[[str], str], length_max: int) -> None:
    assert check("a") == "a"
    assert check("a" * length_max) == "a" * length_max
    for name in ("", "a" * (length_max + 1)):
        with pytest.raises(LocalProtocolError, match=f"1 to {length_max} characters"):
            check(name)


@pytest.mark.parametrize(("check", "length_max"), CHECKS)
def test_characters(check: Callable[[str], str], length_max: int) -> None:
    for code in range(256):
        name = f"a{chr(code)}b"
        if 0x24 <= code <= 0x7E:
            assert check(name) == name
        else:
            with pytest.raises(LocalProtocolError, match="not allowed"):
                check(name)
    with pytest.raises(LocalProtocolError):
        check("名")


def test_the_characters_that_separate_ids_are_known() -> None:
    # The text forms of ids rest on these: '#' and '!' stand below 0x24.
    for separator in "#! ":
        with pytest.raises(LocalProtocolError):
            check_daemon_name(f"a{separator}b")


def test_private_groups_pass_by_their_parts() -> None:
    assert check_group_name("#alice#d1") == "#alice#d1"
    assert check_group_name(f"#{'a' * 64}#{'d' * 64}")
    assert is_private_group("#alice#d1") and not is_private_group("alice")
    for name in ("#", "#alice", "#alice#", "##d1", "#alice#d1#2", f"#{'a' * 65}#d1", f"#alice#{'d' * 65}"):
        with pytest.raises(LocalProtocolError):
            check_group_name(name)
