"""What a gateway lets its site stamp, and who gets content late."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.links.contract import frame_of
from isotone.evs.links.hop import Hop
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.pruning import Cleared, Peeked, decode_cleared
from isotone.evs.ordering.stamper import BULK_FRAME, PLACE
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.ordering.updates import Update, decode_update
from isotone.evs.overlay.interest import InterestChanged
from isotone.evs.transport.gateway import Gateway
from isotone.evs.transport.held_bulk import Held
from isotone.evs.transport.incoming import Arrival, Incoming
from isotone.evs.transport.pressure import LinkRoom, link_bit
from isotone.evs.transport.trunk import PACKET_BYTES, PLACES_QUANTA
from tests.evs.overlay.needing import sites_needing
from tests.evs.transport.cluster import Cluster

A, B, C = range(3)


def gateway_of(name: str, links: str = "a-b a-c") -> Gateway:
    transport = Cluster("a b c", links).transport(name)
    assert transport.gateway is not None
    return transport.gateway


def window(size: int) -> Hop:
    return cast(Hop, SimpleNamespace(congestion=SimpleNamespace(window=size), waiting_bytes=0, room=size))


def test_a_site_stamps_what_its_narrowest_link_takes_and_nothing_over_one_that_is_full() -> None:
    gateway = gateway_of("a")
    wide, narrow = gateway.trunks
    wide.link, narrow.link = window(1_600_000), window(160_000)
    assert gateway.link_room(0) == LinkRoom(0, 10_000, 10_000)
    narrow.queue(A, frame_of(1, b"waits"))
    assert gateway.link_room(0) == LinkRoom(link_bit(narrow.site), 100_000, 0)


def test_a_site_stamps_nothing_while_a_link_has_no_room_for_metadata() -> None:
    gateway = gateway_of("a")
    wide, narrow = gateway.trunks
    wide.link, narrow.link = window(1_600_000), window(16 * PACKET_BYTES)
    narrow.link.room = 0  # type: ignore[misc]
    for sequence in range(1, 10_000):
        narrow.queue_metadata(agreed(A, sequence, 1_000_000 * sequence), passing=True)
        narrow.pump(0)
        if narrow._places_bytes > PLACES_QUANTA * PACKET_BYTES:
            break
        assert not gateway.link_room(0).full, "it is no content"
    assert gateway.link_room(0).full == PLACE


def test_fragments_wait_while_they_wait_further_on() -> None:
    gateway = gateway_of("a")
    for trunk in gateway.trunks:
        trunk.link = window(160_000)
    gateway.held_bulk.heard(B, Held(A, 1, is_held=True))
    assert gateway.link_room(0) == LinkRoom(0, 10_000, 0)


def test_only_word_of_ones_own_fragments_slows_them_down() -> None:
    gateway = gateway_of("b", "a-b b-c")
    to_c = next(trunk for trunk in gateway.trunks if trunk.site == C)
    for at in range(0, 1_000_000, 10_000):
        gateway.bulk_pace.spent(1_000, at)
    gateway.take_held(to_c, Held(A, 1, is_held=True), 1_000_000)
    assert gateway.bulk_pace.rate is None, "those of a only pass here"
    gateway.take_held(to_c, Held(B, 1, is_held=True), 1_000_000)
    assert gateway.bulk_pace.rate is not None
    with pytest.raises(RemoteProtocolError):
        gateway.take_held(to_c, Held(C, 1, is_held=True), 1_000_000)


def test_content_goes_to_a_site_when_it_joins_and_not_when_it_leaves() -> None:
    gateway = gateway_of("a")
    unit = Unit(UnitKind.BUNDLE, Service.AGREED, A, 0, 1, 5, 0, b"content", (), (0, 0))
    to_c = next(trunk for trunk in gateway.trunks if trunk.site == C)
    gateway.interest.change(InterestChanged(0, "c", "g", interested=True))
    gateway.pruner.pruned(unit, ("g",), 1 << B)
    for interested, waits in ((False, False), (True, True)):
        gateway.interest_changed(InterestChanged(1, "c", "g", interested=interested), (0, 0))
        assert (to_c.waiting_bytes > 0) is waits
    assert all(trunk.waiting_bytes == 0 for trunk in gateway.trunks if trunk is not to_c)


def test_content_that_others_are_owed_only_passes_by() -> None:
    unit = Unit(UnitKind.BUNDLE, Service.AGREED, A, 0, 1, 5, 0, b"content", (), (0, 0))
    for_b, for_both = (Arrival(unit, frame_of(1, b"frame"), mask) for mask in (1 << B, 1 << B | 1 << C))
    for site, kept in ((A, []), (B, [for_b, for_both]), (C, [for_both])):
        incoming = Incoming(contents=[for_b, for_both])
        incoming.keep_contents_for(site)
        assert incoming.contents == kept


# --- updates, clearances and held bulk -----------------------------------------------------------------------------


def agreed(site: int, sequence: int, lamport: int, kind: UnitKind = UnitKind.BUNDLE) -> Unit:
    return Unit(kind, Service.AGREED, site, site, sequence, lamport, 0, b"content", (), (0, 0))


def test_an_update_rides_with_units_of_the_site_and_not_with_those_of_others() -> None:
    for own, published in ((True, 2), (False, 1)):
        gateway = gateway_of("a")
        lines, half = Lines.of(3), gateway.publisher.delta_us // 2
        gateway.forward_born([agreed(B, 1, 10)], 0, 0)
        gateway.publish(0, promise=(0, 10), line=0, lines=lines)
        assert gateway.publisher.published == 1
        gateway.forward_born([agreed(B, 2, 20)], half, 0)
        if own:
            gateway.forward_born([agreed(A, 1, 15)], half, 0)
        gateway.publish(half, promise=(1, 20), line=0, lines=lines)
        assert gateway.publisher.published == published


def test_clearances_keep_their_distance() -> None:
    gateway = gateway_of("a")
    lines, delta = Lines.of(3), gateway.publisher.delta_us
    for line in lines.sites:
        line.promise(0, 10)
    assert gateway.update_wait_us(0, lines.heard) is None
    gateway.pruner.pruned(agreed(A, 1, 10), ("g",), 1)
    assert gateway.update_wait_us(0, lines.heard) == 0
    gateway.publish(0, promise=(0, 0), line=0, lines=lines)
    assert gateway.update_wait_us(1, lines.heard) is None, "it was cleared"
    gateway.pruner.pruned(agreed(A, 2, 20), ("g",), 1)
    for line in lines.sites:
        line.promise(0, 20)
    assert gateway.update_wait_us(1, lines.heard) == delta - 1
    gateway.publish(delta - 1, promise=(0, 0), line=0, lines=lines)
    assert gateway.pruner.is_due(20)
    assert gateway.update_wait_us(delta + 5, lines.heard) == 0
    gateway.publish(delta, promise=(0, 0), line=0, lines=lines)
    assert not gateway.pruner.is_due(20)


def test_fragments_wait_for_their_pace_or_for_a_link_that_has_others_of_theirs() -> None:
    for held in ("pace", "link"):
        gateway = gateway_of("a")
        for trunk in gateway.trunks:
            trunk.link = window(160_000)
        assert gateway.link_room(0) == LinkRoom(0, 10_000, 10_000)
        if held == "pace":
            gateway.bulk_pace.rate = 1.0
            gateway.bulk_pace.spent(500, 0)
            assert gateway.update_wait_us(0, 0) == 500
        else:
            gateway.trunks[0].queue(A, frame_of(BULK_FRAME, b"waits"))
        assert gateway.link_room(0) == LinkRoom(0, 10_000, 0)
        assert gateway.link_room(500).bulk_room == (10_000 if held == "pace" else 0)


def test_a_gateway_on_the_way_says_that_bulk_waits_above_a_quantum_and_again_when_none_does() -> None:
    gateway = gateway_of("b", "a-b b-c")
    to_a, to_c = sorted(gateway.trunks, key=lambda trunk: trunk.site)
    to_c.link, to_a.link = window(16 * 100), window(160_000)
    to_c.link.room = 0  # type: ignore[misc]
    to_c.queue(A, frame_of(BULK_FRAME, bytes(100)))
    assert gateway._hold() == []
    to_c.queue(A, frame_of(BULK_FRAME, bytes(1)))
    assert gateway._hold() == [to_a] and gateway.held_bulk.said(A)
    assert gateway._hold() == [], "it was said"
    to_c._bulk_bytes[A] = 1
    assert gateway._hold() == [], "some still wait"
    to_c._bulk_bytes[A] = 0
    assert gateway._hold() == [to_a] and not gateway.held_bulk.said(A)
    gateway.held_bulk.heard(C, Held(A, 1, is_held=True))
    assert gateway._hold() == [to_a] and gateway.held_bulk.said(A), "further on they wait too"


def test_bulk_of_the_site_is_what_its_pace_counts() -> None:
    gateway = gateway_of("a")
    gateway.bulk_pace.rate = 1.0
    gateway.forward_born([agreed(A, 1, 10), agreed(B, 1, 11, UnitKind.FRAGMENT)], 0, 0)
    assert gateway.bulk_pace.wait_us(0) == 0
    gateway.forward_born([agreed(A, 2, 12, UnitKind.FRAGMENT)], 0, 0)
    assert gateway.bulk_pace.wait_us(0) > 0


def test_a_join_that_was_received_counts_though_a_leave_is_delivered_later() -> None:
    gateway = gateway_of("a")
    joined = Unit(UnitKind.BUNDLE, Service.AGREED, B, 1, 1, 50, 0, b"", (), (0, 0))
    gateway._peek = lambda unit: Peeked(joins=("g",))
    gateway.interest_stated("b", [])
    gateway.note_joins([joined], 0)
    assert "b" in sites_needing(gateway.interest, "g")
    gateway.interest_changed(InterestChanged(1, "b", "g", interested=False), (49, 9))
    assert "b" in sites_needing(gateway.interest, "g"), "it joined again since"
    gateway.interest_stated("b", [])
    assert "b" in sites_needing(gateway.interest, "g")
    gateway.interest_changed(InterestChanged(1, "b", "g", interested=False), joined.position)
    assert "b" not in sites_needing(gateway.interest, "g")
    gateway.interest_stated("b", [])
    assert "b" not in sites_needing(gateway.interest, "g")


def test_a_line_that_was_overtaken_does_not_take_the_place_of_a_newer_one() -> None:
    """Links have no order, and of the lines of a site that wait for room only the last is kept."""
    gateway = gateway_of("b", "a-b b-c")
    to_c = next(trunk for trunk in gateway.trunks if trunk.site == C)
    to_c.link = window(16 * PACKET_BYTES)
    to_c.link.room = 0  # type: ignore[misc]
    for update in (Update(A, 9, 90, 80), Update(A, 7, 70, 60), Update(A, 9, 90, 70)):
        gateway.forward_update(update)
    for cleared in (Cleared(A, 90), Cleared(A, 70, ((5, 4),))):
        gateway.forward_update(cleared)
    waiting = [frame.body() for frame in to_c._updates.values()]
    assert decode_update(waiting[0], sites=3) == Update(A, 9, 90, 80)
    assert decode_cleared(waiting[1], sites=3) == Cleared(A, 90)
