"""When a line update leaves: at once when idle, in company when busy, never later than delta, never for nothing."""

from __future__ import annotations

import pytest

from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.ordering.updates import (
    LAZY,
    SHARE,
    UPDATE_FRAME_BYTES,
    UPDATE_PACKET_BYTES,
    Publisher,
    Update,
    decode_update,
    delta_us,
    encode_update,
)

DELTA = 20_000


def unit(lamport: int, service: Service = Service.AGREED, kind: UnitKind = UnitKind.BUNDLE) -> Unit:
    return Unit(kind, service, 0, 0, lamport, lamport, 0)


def publisher(**given: object) -> Publisher:
    return Publisher(1, DELTA, **given)  # type: ignore[arg-type]


def test_nothing_is_said_when_nobody_waits() -> None:
    each = publisher(promise=(3, 50), line=50)
    assert each.wait_us(0) is None and each.due(0, riding=True) is None
    each.saw(unit(7))
    assert each.due(0, riding=False) == Update(1, 3, 50, 50)
    each.promise, each.line = (3, 90), 90
    assert each.wait_us(10**9) is None, "what is known is covered"


def test_at_once_when_idle_then_within_delta_and_sooner_in_company() -> None:
    each = publisher(promise=(0, 1))
    each.saw(unit(1))
    assert each.due(100, riding=False) is not None, "idle"
    each.saw(unit(2))
    each.promise = (0, 2)
    assert each.due(100 + DELTA // 2 - 1, riding=True) is None, "half of delta between updates, even in company"
    assert each.wait_us(100 + DELTA // 4) == DELTA - DELTA // 4
    assert each.due(100 + DELTA - 1, riding=False) is None
    assert each.due(100 + DELTA // 2, riding=True) == Update(1, 0, 2, 0)


def test_a_unit_of_the_site_is_a_promise_about_itself() -> None:
    each = publisher()
    each.saw(unit(5))
    assert each.lacks_promise
    each.left(unit(6))
    assert not each.lacks_promise and each.wait_us(0) is None


@pytest.mark.parametrize(
    ("service", "kind", "reports"),
    [
        (Service.RELIABLE, UnitKind.BUNDLE, False),
        (Service.CAUSAL, UnitKind.BUNDLE, False),
        (Service.AGREED, UnitKind.FRAGMENT, False),
        (Service.AGREED, UnitKind.BUNDLE, True),
    ],
)
def test_who_waits_for_nothing_is_told_lazily(service: Service, kind: UnitKind, reports: bool) -> None:
    each = publisher(promise=(0, 1), _sent_at=0)
    each.saw(unit(1, service, kind))
    assert each.wait_us(0) == (DELTA if reports else LAZY * DELTA)


def test_reports_are_urgent_for_safe_alone() -> None:
    for service, patience in ((Service.AGREED, LAZY * DELTA), (Service.SAFE, DELTA)):
        each = publisher(promise=(0, 1), published_promise=1, line=1, _sent_at=0)
        each.saw(unit(1, service))
        assert each.wait_us(0) == patience, service


@pytest.mark.parametrize(("sites", "rate"), [(2, 187_500), (4, 187_500), (6, 1_250_000), (20, 10_000_000)])
def test_delta_keeps_updates_within_their_share_of_the_slowest_link(sites: int, rate: int) -> None:
    """At worst every other site sends one alone, or two in company, in each delta."""
    delta = delta_us(sites=sites, rate_bytes_per_second=rate)
    worst = (sites - 1) * max(UPDATE_PACKET_BYTES, 2 * UPDATE_FRAME_BYTES)
    assert worst * 1_000_000 / delta <= rate / SHARE * 1.001


def test_delta_is_at_most_a_quarter_of_the_diameter_of_the_thesis_chain() -> None:
    """Reference: [Spread Figure 5.3]: 1.5 Mbit/s, 30 ms a link, four sites."""
    assert delta_us(sites=4, rate_bytes_per_second=187_500) <= 0.25 * 90_000


def test_updates_survive_the_wire_and_bad_ones_are_refused() -> None:
    update = Update(2, 3, 4, 5)
    body = encode_update(update).body()
    assert decode_update(body, sites=3) == update
    for bad, sites in ((body, 2), (body[:-1], 3)):
        with pytest.raises(RemoteProtocolError):
            decode_update(bad, sites=sites)
