"""Groups in what speakers say: bodies come back, and who lacks content that he is owed is found out."""

from __future__ import annotations

import pytest

from isotone.core.services import Service
from isotone.evs.ordering.pruning import Peeked
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.overlay.interest import InterestChanged
from isotone.sim.speaker_groups import Change, Contents, Members, pack, unpack
from tests.evs.transport.cluster import Cluster

VIEW = Cluster("ab c", "a-c").view


def said(sequence: int, daemon: int, group: str, change: Change = Change.NONE) -> Unit:
    body = pack(sequence, (2, 0), group, change) + b"xy"
    site = VIEW.site_index(VIEW.site_of(VIEW.members[daemon].name).name)
    return Unit(UnitKind.BUNDLE, Service.AGREED, site, daemon, sequence, sequence, 0, body)


def test_bodies_come_back() -> None:
    spoken = unpack(said(7, 0, "g", Change.LEAVE).body)
    assert (spoken.first, spoken.lengths, spoken.bodies) == (7, (2, 0), [b"xy", b""])
    assert (spoken.group, spoken.change) == ("g", Change.LEAVE)


def test_the_transport_sees_groups_and_joins() -> None:
    contents = Contents()
    assert contents.peek(said(1, 0, "g")) == Peeked(("g",))
    assert contents.peek(said(2, 0, "")) == Peeked(None)
    assert contents.peek(said(3, 0, "g", Change.JOIN)) == Peeked(None, ("g",))
    assert contents.peek(said(4, 0, "g", Change.LEAVE)) == Peeked(None)
    assert contents.whole(said(1, 0, "g").pruned()) == said(1, 0, "g")


def test_a_site_has_members_from_the_first_join_to_the_last_leave() -> None:
    members = Members(VIEW, "c")
    told = []
    changes = [(0, Change.JOIN), (1, Change.JOIN), (0, Change.LEAVE), (1, Change.LEAVE), (1, Change.LEAVE)]
    for sequence, (daemon, change) in enumerate(changes, start=1):
        unit = said(sequence, daemon, "g", change)
        told += members.deliver(unit, unit, 0)
    assert told == [InterestChanged(0, "ab", "g", interested) for interested in (True, False)]


def test_who_lacks_what_he_is_owed_stops_the_run() -> None:
    members = Members(VIEW, "c")
    unit = said(1, 0, "g")
    members.deliver(unit.pruned(), unit, 0)
    join = said(2, 2, "g", Change.JOIN)
    members.deliver(join, join, 0)
    members.deliver(unit, unit, 0)
    with pytest.raises(AssertionError, match="c lacks content"):
        members.deliver(unit.pruned(), unit, 0)
