"""What a gateway lets its site stamp, and who gets content late."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.links.contract import frame_of
from isotone.evs.links.hop import Hop
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.overlay.interest import InterestChanged
from isotone.evs.transport.gateway import Gateway
from isotone.evs.transport.held_bulk import Held
from isotone.evs.transport.incoming import Arrival, Incoming
from tests.evs.transport.cluster import Cluster

A, B, C = range(3)


def gateway_of(name: str, links: str = "a-b a-c") -> Gateway:
    transport = Cluster("a b c", links).transport(name)
    assert transport.gateway is not None
    return transport.gateway


def window(size: int) -> Hop:
    return cast(Hop, SimpleNamespace(congestion=SimpleNamespace(window=size), waiting_bytes=0, room=size))


def test_a_site_stamps_what_its_narrowest_link_takes_and_nothing_while_one_is_full() -> None:
    gateway = gateway_of("a")
    wide, narrow = gateway.trunks
    wide.link, narrow.link = window(1_600_000), window(160_000)
    assert gateway.stamping_room(0) == (10_000, 10_000)
    narrow.queue(A, frame_of(1, b"waits"))
    assert gateway.stamping_room(0) == (0, 0)


def test_fragments_wait_while_they_wait_further_on() -> None:
    gateway = gateway_of("a")
    for trunk in gateway.trunks:
        trunk.link = window(160_000)
    gateway.held_bulk.heard(B, Held(A, 1, is_held=True))
    assert gateway.stamping_room(0) == (10_000, 0)


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
