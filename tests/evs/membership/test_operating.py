"""A representative looks for others less and less often while it finds nobody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from isotone.evs.membership.gather import Gather
from isotone.evs.membership.node import Node
from isotone.evs.membership.operating import Operating
from isotone.evs.membership.settings import MembershipSettings
from isotone.evs.membership.states import Reason


def representative() -> Operating:
    """Of a daemon view outside of which somebody is reached."""
    node = SimpleNamespace(
        at=0,
        members=(),
        settings=MembershipSettings(lookup_us=100, lookup_max_us=350),
        network=SimpleNamespace(installed=True),
        waiting=(),
        enter=lambda state, reason: None,
        smaller_representatives=lambda: [SimpleNamespace(daemon="somebody")],
    )
    operating = Operating(cast(Node, node))
    operating.gather = cast(Gather, SimpleNamespace(proposal=lambda: ()))
    operating.submit_waiting = lambda: None  # type: ignore[method-assign]
    return operating


def pause_us(operating: Operating) -> int:
    """From a gathering in vain to the next that is worth it."""
    began = operating.node.at
    operating.enter_again(Reason.REACHED_OTHERS)
    while not operating._has_prospect():
        operating.node.at += 10
    return operating.node.at - began


def test_each_vain_gathering_doubles_the_pause_and_a_daemon_view_ends_that() -> None:
    operating = representative()
    for _ in range(2):
        operating.enter(Reason.REACHED_OTHERS)
        assert operating._has_prospect(), "who has just come into a daemon view looks at once"
        assert [pause_us(operating) for _ in range(4)] == [100, 200, 350, 350]
