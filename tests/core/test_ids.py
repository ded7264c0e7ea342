"""Ids: one text form that parses back, a total order, and no other text taken."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import (
    NO_DAEMON,
    NO_DAEMON_VIEW,
    NO_STAMP,
    SEQUENCE_MAX,
    ClientId,
    DaemonId,
    DaemonViewId,
    GroupViewId,
    MessageId,
    Stamp,
    parse_client_id,
    parse_daemon_id,
    parse_daemon_view_id,
    parse_group_view_id,
)

numbers = st.integers(0, SEQUENCE_MAX)
names = st.text(st.characters(min_codepoint=0x24, max_codepoint=0x7E), min_size=1, max_size=19)
daemons = st.builds(DaemonId, names, numbers)
clients = st.builds(ClientId, daemons, names, numbers)
daemon_views = st.builds(DaemonViewId, numbers, daemons)
stamps = st.builds(Stamp, numbers, daemons)
group_views = st.builds(GroupViewId, daemon_views, daemon_views | st.just(NO_DAEMON_VIEW), stamps | st.just(NO_STAMP))


@given(daemons)
def test_daemon_ids_parse_back(daemon: DaemonId) -> None:
    assert parse_daemon_id(str(daemon)) == daemon


@given(clients)
def test_client_ids_parse_back(client: ClientId) -> None:
    assert parse_client_id(str(client)) == client
    assert str(client).startswith(f"{client.private_group}#")


@given(daemon_views)
def test_daemon_view_ids_parse_back(view: DaemonViewId) -> None:
    assert parse_daemon_view_id(str(view)) == view


@given(group_views)
def test_group_view_ids_parse_back(view: GroupViewId) -> None:
    assert parse_group_view_id(str(view)) == view


@given(st.lists(group_views, max_size=6))
def test_different_ids_have_different_texts(views: list[GroupViewId]) -> None:
    assert len({str(view) for view in views}) == len(set(views))


def test_text_forms_are_pinned() -> None:
    d1, d2 = DaemonId("d1", 3), DaemonId("d2", 1)
    assert str(d1) == "d1#3"
    assert str(ClientId(d1, "alice", 17)) == "#alice#d1#3#17"
    assert ClientId(d1, "alice", 17).private_group == "#alice#d1"
    assert str(Stamp(120, d1)) == "120!d1#3"
    assert str(DaemonViewId(7, d1)) == "7!d1#3"
    assert str(GroupViewId(DaemonViewId(7, d1))) == "7!d1#3"
    assert str(GroupViewId(DaemonViewId(7, d1), DaemonViewId(9, d2), Stamp(120, d1))) == "7!d1#3!9!d2#1!120!d1#3"
    assert str(GroupViewId(DaemonViewId(7, d1), stamp=Stamp(120, d1))) == "7!d1#3!0!#0!120!d1#3"


def test_the_order_is_by_the_parts_from_left_to_right() -> None:
    low, high = DaemonId("a", 2), DaemonId("b", 1)
    steps = [
        GroupViewId(DaemonViewId(1, high)),
        GroupViewId(DaemonViewId(2, low)),
        GroupViewId(DaemonViewId(2, low), stamp=Stamp(1, high)),
        GroupViewId(DaemonViewId(2, low), stamp=Stamp(2, low)),
        GroupViewId(DaemonViewId(2, low), DaemonViewId(3, low)),
        GroupViewId(DaemonViewId(2, low), DaemonViewId(3, low), Stamp(9, low)),
        GroupViewId(DaemonViewId(2, high)),
        GroupViewId(DaemonViewId(3, low)),
    ]
    assert all(left < right for left, right in pairwise(steps))
    assert DaemonId("a", 9) < DaemonId("a", 10) < DaemonId("b", 0)
    assert ClientId(low, "z", 9) < ClientId(high, "a", 1)
    assert ClientId(low, "a", 9) < ClientId(low, "b", 1)
    assert MessageId(ClientId(low, "a", 1), 9) < MessageId(ClientId(low, "a", 1), 10)
    assert Stamp(1, high) < Stamp(2, low) < Stamp(2, high)


def test_the_ids_of_nothing_stand_before_all_others() -> None:
    daemon = DaemonId("$", 0)
    assert daemon > NO_DAEMON
    assert Stamp(0, daemon) > NO_STAMP
    assert DaemonViewId(0, daemon) > NO_DAEMON_VIEW


MALFORMED: list[tuple[Callable[[str], object], str]] = [
    (parse_daemon_id, ""),
    (parse_daemon_id, "d1"),
    (parse_daemon_id, "d1#"),
    (parse_daemon_id, "d1#x"),
    (parse_daemon_id, "d1#-1"),
    (parse_daemon_id, "d1#٣"),
    (parse_daemon_id, "d1#" + "9" * 20),
    (parse_client_id, "alice#d1#3#17"),
    (parse_client_id, "#alice#d1#3"),
    (parse_client_id, "#alice#d1#3#17#1"),
    (parse_client_id, "#alice#d1#3#"),
    (parse_daemon_view_id, "7"),
    (parse_daemon_view_id, "7!"),
    (parse_daemon_view_id, "x!d1#3"),
    (parse_group_view_id, ""),
    (parse_group_view_id, "7"),
    (parse_group_view_id, "7!d1#3!9"),
    (parse_group_view_id, "7!d1#3!9!d2#1!120"),
    (parse_group_view_id, "7!d1#3!9!d2#1!x!d1#3"),
]


@pytest.mark.parametrize(("parse", "text"), MALFORMED)
def test_other_texts_are_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        parse(text)
