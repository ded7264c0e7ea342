"""Rules are checked set by set up to a number of servers."""

from __future__ import annotations

import pytest

from isotone.core.errors import LocalProtocolError
from isotone.corel.quorum import EXHAUSTIVE_MAX, Majority, check_quorum


def servers(count: int) -> tuple[str, ...]:
    return tuple(f"s{number:02}" for number in range(count))


def test_as_many_servers_as_can_be_checked_and_not_one_more() -> None:
    check_quorum(Majority(servers(EXHAUSTIVE_MAX)), servers(EXHAUSTIVE_MAX))
    with pytest.raises(LocalProtocolError, match="cannot be checked"):
        check_quorum(Majority(servers(EXHAUSTIVE_MAX + 1)), servers(EXHAUSTIVE_MAX + 1))
