"""A daemon that its representative leaves out, again and again, looks for another way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from isotone.core.ids import DaemonId
from isotone.evs.membership.messages import Join
from isotone.evs.membership.node import Node
from isotone.evs.membership.peers import Peer
from isotone.evs.membership.segment import DECLINED_MAX, Segment
from isotone.evs.membership.settings import MembershipSettings
from isotone.evs.membership.states import Reason, State

A, B = DaemonId("a", 1), DaemonId("b", 1)


def test_a_representative_may_leave_us_out_a_few_times() -> None:
    node = SimpleNamespace(
        me=B,
        site="ab",
        at=5_000_000,
        state=State.REP,
        settings=MembershipSettings(),
        watch=SimpleNamespace(reaches=lambda name: True, reached=["a"]),
        card=lambda: None,
        send_all=lambda names, message: None,
    )
    segment = Segment(cast(Node, node))
    segment.representative = "a"
    left: list[Reason] = []
    segment.enter_seg = lambda reason, culprit="": left.append(reason)  # type: ignore[method-assign]
    peer = cast(Peer, SimpleNamespace(name="a", site="ab", address="a.1"))
    join = cast(Join, SimpleNamespace(of_segment=True, card=SimpleNamespace(daemon=A), proposed=("a",)))
    for _ in range(DECLINED_MAX):
        assert not left
        node.at += 1_000
        segment.on_join(peer, join)
    assert left == [Reason.REPRESENTATIVE_DECLINES]
