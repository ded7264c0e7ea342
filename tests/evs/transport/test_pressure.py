"""What gateways say of their room, to their site and to each other: every word is newer than the one before."""

from __future__ import annotations

from typing import cast

from isotone.evs.links.ring import Ring
from isotone.evs.ordering.stamper import LINKS, PLACE
from isotone.evs.transport.held_bulk import HeldBulk
from isotone.evs.transport.injection import Injection
from isotone.evs.transport.pressure import LinkRoom, decode_pressure

NO_RING = cast(Ring, None)  # nothing here offers it anything


def test_who_hears_every_word_of_a_gateway_about_bulk_believes_the_last() -> None:
    gateway, before = HeldBulk(), HeldBulk()
    for is_held in (True, False, True, False):
        assert before.heard(1, gateway.change(0, is_held=is_held)), "each is news"
        assert before.is_held(0) is gateway.said(0) is is_held


def test_a_site_knows_which_links_of_its_gateway_have_room() -> None:
    gateway, daemon = Injection(NO_RING), Injection(NO_RING)
    for full, bulk_room in ((1, 0), (0, 0), (2 | PLACE, 0), (0, 7), (LINKS | PLACE, 0)):
        gateway.press(LinkRoom(full, 7, bulk_room))
        daemon.pressed(*decode_pressure(gateway._queue[-1].body()))
        assert daemon.link_room.full == full and (daemon.link_room.bulk_room == 0) == (bulk_room == 0)


def test_a_word_that_was_overtaken_is_not_believed() -> None:
    daemon = Injection(NO_RING)
    daemon.pressed(2, LinkRoom())
    daemon.pressed(1, LinkRoom(LINKS, 0, 0))
    assert daemon.link_room == LinkRoom()
