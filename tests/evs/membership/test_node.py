"""What all states of a daemon share: who is told, and what waits for the next daemon view."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import cast

from isotone.core.ids import DaemonId
from isotone.core.services import Service
from isotone.evs.membership.node import Node
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import UnitKind


def draft(body: bytes) -> Draft:
    return Draft("session", UnitKind.BUNDLE, Service.FIFO, body)


def test_what_was_submitted_to_a_daemon_view_that_ends_goes_before_what_came_since() -> None:
    node = cast(Node, SimpleNamespace(waiting=deque(), waiting_bytes=0))
    Node.wait(node, [draft(b"3"), draft(b"4")])
    Node.wait(node, [draft(b"1"), draft(b"2")], first=True)
    Node.wait(node, [draft(b"5")])
    assert b"".join(each.body for each in node.waiting) == b"12345" and node.waiting_bytes == 5


def told_by(me: DaemonId, coordinator: DaemonId | None, smaller: str = "") -> list[str]:
    """Whom a daemon tells that something changed."""
    told: list[str] = []
    node = SimpleNamespace(
        me=me,
        network=None if coordinator is None else SimpleNamespace(id=SimpleNamespace(coordinator=coordinator)),
        smaller_representatives=lambda: [SimpleNamespace(name=name) for name in smaller],
        send_all=lambda names, message: told.extend(names),
        card=lambda: None,
    )
    Node.report(cast(Node, node))
    return told


def test_a_change_is_told_to_ones_coordinator_and_to_those_who_might_take_us_in() -> None:
    a, c = DaemonId("a", 1), DaemonId("c", 1)
    assert told_by(c, a) == ["a"]
    assert told_by(a, a) == [], "not to oneself"
    assert told_by(c, a, smaller="ab") == ["a", "b"]
    assert told_by(c, None, smaller="b") == ["b"]
