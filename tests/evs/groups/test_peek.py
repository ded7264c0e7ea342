"""What the transport reads of bodies; and what the groups tell it about sites."""

from __future__ import annotations

from isotone.core.services import Service
from isotone.evs.groups import ChangeInterest, StateInterest, peek
from isotone.evs.ordering.pruning import Peeked
from isotone.evs.ordering.units import UnitKind
from isotone.evs.overlay.topology import Site
from tests.evs.groups.bench import A1, A2, A3, B2, D1, D2, D3, Bench, started, view_id

SITES = (Site("x", ("d1",), "d1"), Site("y", ("d2", "d3"), "d2"))


def test_a_bundle_is_for_its_groups() -> None:
    bench = started(A1)
    assert peek(bench.sending(A1, "x", groups=("#a#d1", "g", "h"))) == Peeked(("#a#d1", "g", "h"))


def test_joins_are_seen_and_everything_else_is_for_everybody() -> None:
    bench = started(A1)
    assert peek(bench.joining(A1)) == Peeked(None, ("g",))
    units = [bench.leaving(A1), bench.killing(A1), bench.bringing(D1)]
    units += [bench.unit(D1, kind, Service.AGREED, b"\x93\x50") for kind in UnitKind]
    units += [bench.unit(D1, UnitKind.BUNDLE, Service.AGREED, b"\x00" * 60)]
    assert [peek(unit) for unit in units] == [Peeked()] * len(units)


def in_two_sites() -> Bench:
    bench = Bench().connect(A1)
    bench.view(1, D1, D2, D3, sites=SITES)
    own = bench.own_groups()
    bench.units(own, bench.bringing(D2), bench.bringing(D3))
    assert bench.actions == [StateInterest(view_id(1), "x", ()), StateInterest(view_id(1), "y", ())]
    return bench


def test_the_first_member_of_a_site_and_the_last_are_told() -> None:
    bench = in_two_sites()
    bench.units(bench.joining(A2), bench.joining(A3), bench.joining(B2))
    assert bench.actions == [ChangeInterest(view_id(1), "y", "g", True)]
    bench.units(bench.leaving(A2), bench.leaving(A3))
    assert bench.actions == []
    bench.units(bench.killing(B2))
    assert bench.actions == [ChangeInterest(view_id(1), "y", "g", False)]


def test_all_groups_of_all_sites_are_stated_when_they_are_known() -> None:
    bench = in_two_sites()
    bench.units(bench.joining(A1), bench.joining(A2), bench.joining(A3, "h"))
    bench.signal(2, D1, D2, D3)
    bench.view(2, D1, D2, D3, sites=SITES)
    assert bench.actions == [StateInterest(view_id(2), "x", ("g",)), StateInterest(view_id(2), "y", ("g", "h"))]


def test_one_site_has_nothing_to_state() -> None:
    bench = started(A1, members=(D1, D2))
    assert bench.units(bench.joining(A2)) == []
