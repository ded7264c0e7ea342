"""Acknowledgements, green lines of all servers, and the counting of attempts and commits."""

from __future__ import annotations

import pytest

from isotone.core.errors import RemoteProtocolError
from isotone.corel.establishing import Establishing
from isotone.corel.ordering import Acknowledgements, Greens
from isotone.corel.quorum import Primary


def test_order_rule_1_asks_all() -> None:
    told = Acknowledgements({"a": 3, "b": 3, "c": 3})
    told.take("a", 5)
    told.take("b", 9)
    assert told.by_all() == 3
    told.take("c", 4)
    assert told.by_all() == 4
    for server, place in (("c", 3), ("d", 9)):
        with pytest.raises(RemoteProtocolError):
            told.take(server, place)
    assert told.by_all() == 4


def test_white_asks_the_servers_of_the_green_prefix() -> None:
    greens = Greens({"a": 0, "b": 0})
    greens.take("a", 7)
    greens.take("x", 1)
    assert greens.white(("a", "b")) == 0 and greens.white(("a", "x")) == 1
    greens.take("b", 5)
    greens.take("b", 2)
    assert greens.white(("a", "b")) == 5 and greens.white(("a", "b", "y")) == 0


def test_each_server_counts_once_and_in_its_phase() -> None:
    establishing = Establishing(Primary(4, ("a", "b")))
    with pytest.raises(RemoteProtocolError, match="before all attempted"):
        establishing.on_commit("a", 4)
    assert not establishing.on_attempt("a", 4)
    for server, number in (("a", 4), ("c", 4), ("b", 5)):
        with pytest.raises(RemoteProtocolError):
            establishing.on_attempt(server, number)
    assert establishing.on_attempt("b", 4)
    assert not establishing.on_commit("b", 4)
    assert establishing.on_commit("a", 4)
