"""The link towards a site: metadata waits for company."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from isotone.core.services import Service
from isotone.evs.links.contract import FramesOffered
from isotone.evs.links.hop import Hop
from isotone.evs.links.tcp.wire import Hello
from isotone.evs.transport.trunk import METADATA_COMPANY, Trunk
from tests.evs.ordering.test_metadata import SITE, stream

HOLD_US = 1_000


def test_metadata_leaves_when_it_is_many_or_waited_long_enough_and_not_before() -> None:
    offered: list[FramesOffered] = []

    def handle(event: FramesOffered) -> list[object]:
        offered.append(event)
        return []

    window = SimpleNamespace(window=100_000)
    link = cast(Hop, SimpleNamespace(room=1 << 20, waiting_bytes=0, congestion=window, handle=handle))
    trunk = Trunk(name="a~b", site=SITE, link=link, caller=Hello("b", 1), metadata_hold_us=HOLD_US)
    units = stream(Service.AGREED, METADATA_COMPANY + 1)
    for unit in units[: METADATA_COMPANY - 1]:
        trunk.queue_metadata(unit, passing=False)
        trunk.pump(0)
    assert not offered and trunk.metadata_wait_us(400) == 600
    trunk.queue_metadata(units[-2], passing=False)
    trunk.pump(0)
    assert len(offered) == 1 and trunk.metadata_wait_us(0) is None
    trunk.queue_metadata(units[-1], passing=False)
    for at in (5_000, 5_999, 6_000):
        assert len(offered) == 1
        trunk.pump(at)
    assert len(offered) == 2
