"""Which links a draft crosses, as the daemon that stamps it knows."""

from __future__ import annotations

from isotone.core.services import Service
from isotone.evs.ordering.pruning import Peeked
from isotone.evs.ordering.stamper import LINKS, PLACE, Draft
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.overlay.interest import Interest, InterestChanged
from isotone.evs.overlay.routes import Routes
from isotone.evs.transport.crossing import SMALL_BYTES, Crossing
from isotone.evs.transport.pressure import link_bit
from isotone.evs.transport.settings import everybody
from tests.evs.transport.cluster import Cluster

B, C = 1, 2


def named(unit: Unit) -> Peeked:
    return Peeked((bytes(unit.body).decode(),))


def crossing(links: str) -> Crossing:
    topology = Cluster("a b c", links).view.topology
    made = Crossing("a", Interest.unknown(Routes(topology)), named)
    for site in "abc":
        made.interest.state(site, ())
    return made


def to(group: str, kind: UnitKind = UnitKind.BUNDLE) -> Draft:
    return Draft("s", kind, Service.FIFO, group.encode())


def test_content_crosses_the_links_behind_which_somebody_needs_it() -> None:
    made = crossing("a-b a-c")
    assert made.crossed(to("g")) == PLACE, "nobody needs it"
    made.interest.change(InterestChanged(0, "c", "g", interested=True))
    assert made.crossed(to("g")) == link_bit(C) | PLACE
    made.interest.change(InterestChanged(0, "a", "h", interested=True))
    assert made.crossed(to("h")) == PLACE, "only here"


def test_content_for_a_far_site_crosses_the_link_on_the_way() -> None:
    made = crossing("a-b b-c")
    made.interest.change(InterestChanged(0, "c", "g", interested=True))
    assert made.crossed(to("g")) == link_bit(B) | PLACE


def test_a_site_whose_interest_is_not_known_needs_everything() -> None:
    made = crossing("a-b a-c")
    made.interest.forget("b")
    assert made.crossed(to("g")) == link_bit(B) | PLACE


def test_what_is_for_everybody_crosses_all_links_but_little_words_among_groups_are_as_places() -> None:
    made = crossing("a-b a-c")
    assert made.crossed(to("g", UnitKind.FRAGMENT)) == made.crossed(to("g", UnitKind.MEMBERSHIP)) == LINKS | PLACE
    assert made.crossed(to("g" * SMALL_BYTES, UnitKind.GROUPS)) == PLACE
    assert made.crossed(to("g" * (SMALL_BYTES + 1), UnitKind.GROUPS)) == LINKS | PLACE
    assert Crossing("a", made.interest, everybody).crossed(to("g")) == LINKS | PLACE


def test_where_there_are_many_sites_links_share_bits() -> None:
    assert link_bit(3) == link_bit(67) and link_bit(63) == 1 << 63
