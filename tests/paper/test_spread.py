"""[Spread 5]: each rule, lemma and theorem, on the delivery rules themselves and on whole clusters.

[Spread 4] is in test_spread_network.py, Table 5.1 and Figure 5.4 are in tests/sim/test_figures.py.
"""

from __future__ import annotations

import pytest

from isotone.core.services import Service
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.units import Unit, UnitKind
from tests.evs.transport.cluster import Cluster

R, F, C, A, S = list(Service)[1:]


def unit(service: Service, sequence: int, lamport: int, *, site: int = 0, previous: int = 0) -> Unit:
    past = () if service.is_agreed else (0, 0)
    return Unit(UnitKind.BUNDLE, service, site, site, sequence, lamport, previous, b"body", past)


def two_sites() -> Delivery:
    return Delivery(Lines.of(2))


# --- 5.1: the lines ------------------------------------------------------------------------------------------------


def test_the_agreed_line_is_the_least_over_all_sites() -> None:
    """Reference: [Spread 5.1], AgreedLine."""
    delivery = two_sites()
    delivery.take([unit(A, 1, 7)])
    assert delivery.lines.agreed == 0
    delivery.lines.sites[1].promise(0, 4)
    assert delivery.lines.agreed == 4


def test_a_line_is_where_everything_below_was_received() -> None:
    """Reference: [Spread 5.1], C: a hole in a site's sequence holds its line."""
    delivery = two_sites()
    delivery.take([unit(A, 2, 9)])
    assert delivery.lines.sites[0].line == 0
    delivery.take([unit(A, 1, 3)])
    assert delivery.lines.sites[0].line == 9


def test_the_stable_line_is_the_least_that_any_site_reported() -> None:
    """Reference: [Spread 5.1], HA and ARU."""
    lines = Lines.of(2)
    lines.report(0, 9)
    assert lines.stable == 0
    lines.report(1, 5)
    assert lines.stable == 5 and not lines.report(1, 4), "reports only rise"


# --- 5.1: the four rules -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", [R, F, C, A, S])
def test_rule_1_below_the_stable_line_everything_is_delivered_and_discarded(service: Service) -> None:
    """Reference: [Spread 5.1, rule 1; Figure 5.1, lines 1 to 8; Figure 5.2]."""
    delivery = two_sites()
    each = unit(service, 1, 5)
    delivered = delivery.take([each])
    delivery.lines.sites[1].promise(0, 5)
    for site in (0, 1):
        assert delivery.kept_bytes == 4
        delivery.lines.report(site, 5)
        delivered += delivery.lines_moved()
    assert delivered == [each] and delivery.kept_bytes == 0


@pytest.mark.parametrize("service", [R, F, C, A])
def test_rule_2_below_the_agreed_line_everything_but_safe_is_delivered(service: Service) -> None:
    """Reference: [Spread 5.1, rule 2; Figure 5.1, lines 9 to 15]."""
    delivery = two_sites()
    each = unit(service, 1, 5, previous=0)
    delivered = delivery.take([each])
    delivery.lines.sites[1].promise(0, 5)
    assert delivered + delivery.lines_moved() == [each]


def test_rule_2_stops_at_a_safe_message() -> None:
    delivery = two_sites()
    safe, behind = unit(S, 1, 5), unit(A, 2, 6)
    assert delivery.take([safe, behind]) == []
    delivery.lines.sites[1].promise(0, 6)
    assert delivery.lines_moved() == []
    delivery.lines.report(0, 6)
    delivery.lines.report(1, 6)
    assert delivery.lines_moved() == [safe, behind]


def test_rule_3_fifo_needs_only_what_its_session_sent_before() -> None:
    """Reference: [Spread 5.1, rule 3; Figure 5.1, lines 16 to 24]."""
    delivery = two_sites()
    first, second = unit(F, 1, 5), unit(F, 3, 7, previous=1)
    assert delivery.take([second]) == [], "the one before it is missing"
    assert delivery.take([first]) == [first, second], "others of the site may be missing"


@pytest.mark.parametrize("sequence", [1, 4])
def test_rule_4_reliable_is_delivered_as_soon_as_it_came(sequence: int) -> None:
    """Reference: [Spread 5.1, rule 4]."""
    each = unit(R, sequence, 9, previous=sequence - 1)
    assert two_sites().take([each]) == [each]


def test_rule_4_unreliable_is_delivered_at_once_or_never() -> None:
    """Reference: [Spread 5.1, rule 4]."""
    delivery = two_sites()
    late, prompt = (Unit(UnitKind.BUNDLE, Service.UNRELIABLE, 0, 0, 0, time, 0, b"", (0, 0)) for time in (4, 5))
    assert delivery.take([prompt]) == [prompt]
    assert delivery.take([late]) == [] and delivery.unreliable_late == 1


# --- 5.1.1 ---------------------------------------------------------------------------------------------------------


def busy() -> Cluster:
    """Three sites, all services, sends that cross each other."""
    cluster = Cluster("ab cd e", "a-c c-e", seed=5)
    for turn in range(120):
        cluster.send("abcde"[turn * 7 % 5], list(Service)[1 + turn % 5], turn % 40)
        cluster.world.run_for((turn * 37) % 9_000)
    assert cluster.run() and not cluster.failed()
    return cluster


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return busy()


def test_lemma_5_1_stamps_follow_causality(cluster: Cluster) -> None:
    """Reference: [Spread Lemma 5.1]. What was delivered somewhere before a send there has the lower stamp."""
    for name in cluster.names:
        highest = 0
        for each in cluster.speaker(name).heard:
            if cluster.view.members[each.daemon].name == name and not each.service.is_agreed:
                assert each.lamport > highest, "a weak message of one's own is delivered when it is stamped"
            highest = max(highest, each.lamport)


def test_theorem_5_1_fifo(cluster: Cluster) -> None:
    """Reference: [Spread Theorem 5.1]."""
    for name in cluster.names:
        seen: dict[int, int] = {}
        for each in cluster.speaker(name).heard:
            if each.service.is_fifo:
                assert each.lamport > seen.get(each.daemon, 0)
            if each.service.is_fifo:
                seen[each.daemon] = each.lamport


def test_theorem_5_2_causal(cluster: Cluster) -> None:
    """Reference: [Spread Theorem 5.2], judged by the checkers of the specification."""
    assert not {label for label in cluster.violations() if label.startswith(("EVS-2.11", "EVS-2.12"))}


def test_theorem_5_3a_agreed_messages_are_causal(cluster: Cluster) -> None:
    """Reference: [Spread Theorem 5.3 (a)]."""
    assert cluster.violations() == {}


def test_theorem_5_3b_nothing_lower_follows_an_agreed_message(cluster: Cluster) -> None:
    """Reference: [Spread Theorem 5.3 (b)]."""
    for name in cluster.names:
        agreed = (0, 0)
        for each in cluster.speaker(name).heard:
            assert each.position > agreed
            if each.service.is_agreed:
                agreed = each.position


def test_ties_of_time_are_broken_alike_everywhere(cluster: Cluster) -> None:
    """Reference: [Spread Theorem 5.3, proof]."""
    orders = [
        [each.position for each in cluster.speaker(name).heard if each.service.is_agreed] for name in cluster.names
    ]
    assert all(order == orders[0] for order in orders)
    times = [time for time, _ in orders[0]]
    assert len(set(times)) < len(times), "there were ties"


# --- 5: what the introduction promises -----------------------------------------------------------------------------


def test_messages_are_born_ordered(cluster: Cluster) -> None:
    """Reference: [Spread 5.1]. A message has the same stamp wherever it is delivered."""
    stamps: dict[bytes, tuple[int, int, int]] = {}
    for name in cluster.names:
        for each in cluster.speaker(name).heard:
            key = bytes([each.daemon]) + bytes(each.body[:8])
            assert stamps.setdefault(key, (*each.position, each.sequence)) == (*each.position, each.sequence)


def test_stability_releases_memory(cluster: Cluster) -> None:
    """Reference: [Spread 5], first purpose of stability."""
    assert all(cluster.transport(name).delivery.kept_bytes == 0 for name in cluster.names)


def test_safe_is_delivered_only_after_it_reached_every_daemon() -> None:
    """Reference: [Spread 5], second purpose of stability."""
    cluster = Cluster("ab c", "a-c")
    cluster.run()
    cluster.send("a", Service.SAFE)
    while not any(cluster.speaker(name).heard for name in cluster.names):
        cluster.world.run_for(100)
    received = [cluster.transport(name).delivery.lines.sites[0].contiguous for name in cluster.names]
    assert received == [1, 1, 1]


def test_an_agreed_message_needs_a_word_of_every_site_not_of_every_daemon() -> None:
    """Reference: [Spread 5.1]."""
    cluster = Cluster("abcd e", "a-e")
    cluster.run()
    cluster.send("e", Service.AGREED)
    cluster.run()
    gateway = cluster.transport("a").gateway
    assert gateway is not None and gateway.publisher.published <= 3
    assert all(len(cluster.speaker(name).heard) == 1 for name in cluster.names)
