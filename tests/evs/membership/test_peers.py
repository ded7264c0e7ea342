"""Who is who: identities, names, versions, incarnations and addresses."""

from __future__ import annotations

from isotone.core.contract import Address
from isotone.core.ids import DaemonId
from isotone.core.versions import VersionRange
from isotone.evs.membership.messages import Card, Contact
from isotone.evs.membership.peers import CLAIM_US, CLAIMS_MAX, Learned, Peers
from isotone.evs.membership.settings import KnownDaemon, MembershipSettings
from tests.evs.membership.solo import card, identity

ME = DaemonId("me", 2)


def peers() -> Peers:
    return Peers(ME, identity("me"), MembershipSettings())


def learn(table: Peers, told: Card, source: str = "", at: int = 0) -> Learned:
    return table.learn(told, Address(source or f"{told.name}.1"), at)[0]


def test_a_stranger_becomes_known_and_its_news_are_told_apart() -> None:
    table = peers()
    assert learn(table, card()) is Learned.NEWCOMER
    assert learn(table, card()) is Learned.SAME
    assert learn(table, card(count=2, cut=("y",))) is Learned.NEWS
    assert learn(table, card(count=1)) is Learned.SAME, "it was overtaken"
    assert table.by_name["x"].card == card(count=2, cut=("y",))


def test_a_later_incarnation_takes_the_place_of_an_earlier_one() -> None:
    table = peers()
    learn(table, card(count=9))
    table.by_name["x"].two_way = True
    assert learn(table, card(incarnation=2)) is Learned.NEWCOMER
    assert not table.by_name["x"].two_way and table.by_name["x"].daemon == DaemonId("x", 2)
    assert learn(table, card(incarnation=1, count=10)) is Learned.STALE


def test_addresses_follow_the_packets() -> None:
    table = peers()
    learn(table, card())
    learn(table, card(count=2), source="x.7")
    assert table.by_name["x"].address == "x.7"
    assert Address("x.1") not in table.by_address and table.by_address[Address("x.7")].name == "x"


def test_another_daemon_with_our_name_is_refused_and_we_know_it() -> None:
    table = peers()
    learned, reason = table.learn(card("me", 1, identity=identity("other")), Address("o.1"), 0)
    assert learned is Learned.REFUSED and "another daemon" in reason and table.conflict(1) == reason
    assert table.conflict(CLAIM_US) == "", "nobody has claimed it for a while"


def test_another_daemon_with_our_identity_is_refused() -> None:
    table = peers()
    learned, reason = table.learn(card("x", 1, identity=identity("me")), Address("x.1"), 0)
    assert learned is Learned.REFUSED and "identity of me" in reason


def test_our_own_words_and_those_of_an_earlier_incarnation_are_echoes() -> None:
    table = peers()
    assert learn(table, card("me", 2)) is Learned.ECHO
    assert learn(table, card("me", 1)) is Learned.ECHO
    assert learn(table, card("me", 3)) is Learned.REFUSED


def test_two_daemons_with_one_identity() -> None:
    table = peers()
    learn(table, card())
    learned, reason = table.learn(card("y", 1, identity=identity("x")), Address("y.1"), 5)
    assert learned is Learned.REFUSED and reason == "the identity of y is that of x"
    assert learn(table, card("y", 1, identity=identity("x")), at=CLAIM_US + 1) is Learned.NEWCOMER


def test_two_daemons_with_one_name() -> None:
    table = peers()
    learn(table, card())
    learned, reason = table.learn(card("x", 5, identity=identity("other")), Address("z.1"), 5)
    assert learned is Learned.REFUSED and "taken" in reason
    assert table.by_name["x"].incarnation == 1 and table.by_name["x"].refused == ""
    assert learn(table, card("x", 5, identity=identity("other")), source="z.1", at=CLAIM_US + 1) is Learned.NEWCOMER


def test_a_copy_of_an_incarnation_is_refused_and_moves_nobody() -> None:
    table = peers()
    learn(table, card())
    table.by_name["x"].two_way = True
    learned, reason = table.learn(card("x", count=9, address="z.1"), Address("z.1"), 5)
    assert learned is Learned.REFUSED and reason == "the name and the identity of x are those of a daemon at x.1"
    x = table.by_name["x"]
    assert x.address == "x.1" and x.two_way and not x.refused and x.card == card()
    assert [(where, claim.name, claim.reason) for where, claim in table.recent_claims(6)] == [("z.1", "x", reason)]
    assert table.recent_claims(5 + CLAIM_US) == []


def test_a_copy_of_ourselves_is_known_by_its_address() -> None:
    table = Peers(ME, identity("me"), MembershipSettings(), Address("me.1"))
    assert learn(table, card("me", 2)) is Learned.ECHO
    assert table.learn(card("me", 2, address="z.1"), Address("z.1"), 0)[0] is Learned.REFUSED
    assert table.conflict(1) == "another daemon at z.1 has the name and the identity of me"


def test_an_earlier_incarnation_that_lives_on_elsewhere_learns_why() -> None:
    table = peers()
    learn(table, card(incarnation=2, address="x.2"), source="x.2")
    assert table.learn(card(), Address("x.1"), 5) == (Learned.REFUSED, "a later incarnation of x is at x.2")
    assert table.by_name["x"].address == "x.2" and not table.by_name["x"].refused


def test_late_words_of_an_earlier_incarnation_refuse_nobody() -> None:
    table = Peers(ME, identity("me"), MembershipSettings(versions=VersionRange(2, 2)))
    learn(table, card(incarnation=2, low=2, high=2))
    assert learn(table, card(incarnation=1, low=1, high=1)) is Learned.STALE
    assert not table.by_name["x"].refused


def test_claims_are_bounded() -> None:
    table = peers()
    for number in range(CLAIMS_MAX + 3):
        table.learn(card("me", 1, identity=identity("other")), Address(f"o.{number}"), number)
    assert len(table.claims) == CLAIMS_MAX and "o.0" not in table.claims


def test_disjoint_versions_are_refused_until_they_meet() -> None:
    table = Peers(ME, identity("me"), MembershipSettings(versions=VersionRange(2, 3)))
    learn(table, card("x", low=1, high=2))
    learned, reason = table.learn(card("x", low=1, high=1, count=2), Address("x.1"), 0)
    assert learned is Learned.REFUSED and "none in common" in reason
    assert table.by_name["x"].refused == reason
    assert learn(table, card("x", low=3, high=4, count=3)) is Learned.NEWS
    assert table.by_name["x"].refused == "" and table.range_of("x") == VersionRange(3, 4)


def test_who_was_removed_stays_out() -> None:
    table = peers()
    learn(table, card())
    assert table.remove("x") is not None
    table.unwanted.add("x")
    assert learn(table, card("x", count=2)) is Learned.REFUSED
    assert not table.mention(Contact("x", 1, "s", "x.1"), 0)


def test_a_hint_moves_only_who_is_not_reached() -> None:
    table = peers()
    assert table.configure(KnownDaemon("x", "s", Address("x.1")))
    assert table.mention(Contact("x", 1, "s", "x.2"), 0) and table.by_name["x"].address == "x.2"
    learn(table, card("x", 2), source="x.3")
    table.by_name["x"].two_way = True
    assert not table.mention(Contact("x", 3, "s", "x.4"), 0)
    table.by_name["x"].two_way = False
    assert not table.mention(Contact("x", 1, "s", "x.5"), 0), "an earlier incarnation's address"
    assert table.mention(Contact("x", 2, "s", "x.6"), 0)
    assert table.mention(Contact("new", 1, "s", "n.1"), 0)
