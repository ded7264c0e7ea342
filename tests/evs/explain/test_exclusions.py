"""Why was that daemon excluded: the evidence and its times."""

from __future__ import annotations

import msgspec

from isotone.core.versions import VersionRange
from isotone.detector.evidence import Reason
from isotone.evs.explain import Ruling
from isotone.evs.membership import MembershipSettings, PeersChanged
from isotone.sim.process import SERVICE_LABEL
from tests.evs.explain.house import House


def test_a_member_is_one_and_so_are_we() -> None:
    house = House("a b").start()
    assert house.exclusion("a", "b").ruling is Ruling.MEMBER
    assert house.exclusion("a", "a").ruling is Ruling.OURSELVES
    assert house.exclusion("a", "z").ruling is Ruling.UNKNOWN


def test_a_site_that_is_cut_off_is_suspected_of_silence_with_its_times() -> None:
    house = House("a b c").start()
    house.run(300)
    cut_at = house.now("a")
    house.world.partition("ab", "c")
    house.until(lambda: house.is_together("ab"))
    answer = house.exclusion("a", "c")
    assert answer.ruling is Ruling.SUSPECTED
    assert answer.since is not None and cut_at < answer.since <= house.now("a")
    assert [each.reason for each in answer.evidence][-1] is Reason.SILENCE
    assert answer.evidence[-1].at <= cut_at + 30_000  # the last that came was under way
    assert answer.silent_us is not None and answer.silent_us >= house.now("a") - cut_at - 30_000
    assert "Waited" in answer.text


def test_a_crashed_daemon_is_accused_by_its_refused_port() -> None:
    house = House("a b c").start()
    house.world.crash("c")
    house.until(lambda: house.is_together("ab"))
    reasons = [each.reason for each in house.exclusion("a", "c").evidence]
    assert Reason.SILENCE in reasons and len(reasons) > 1, reasons


def test_a_one_way_link_is_told_apart_from_silence_at_the_end_that_hears() -> None:
    house = House("a b c").start()
    house.world.cut("c", "a", one_way=True)
    house.until(lambda: house.exclusion("a", "c").ruling is Ruling.SUSPECTED)
    house.run(2_000)
    answer = house.exclusion("c", "a")  # hears a once in a while, and never gets an answer
    assert answer.ruling in (Ruling.SUSPECTED, Ruling.UNPROVEN)
    assert ("a", "c") in answer.unreached
    assert "it does not reach this daemon" in answer.text
    answer = house.exclusion("a", "c")  # hears nothing
    assert answer.ruling is Ruling.SUSPECTED and answer.evidence[-1].reason is Reason.SILENCE
    assert "does not reach" not in answer.text


def test_who_is_reached_but_not_by_all_of_the_view_is_excluded_by_the_pair() -> None:
    house = House("a b c").start()
    house.world.cut("a", "c")
    house.until(lambda: house.is_together("ab") and house.exclusion("b", "c").ruling is Ruling.UNREACHED)
    house.run(3_000)
    assert house.is_together("ab")
    answer = house.exclusion("b", "c")
    assert answer.ruling is Ruling.UNREACHED
    assert set(answer.unreached) == {("c", "a"), ("a", "c")}
    assert "a does not reach c" in answer.text and "c does not reach a" in answer.text
    assert answer.attached == str(house.stack("c").membership.view)
    assert house.exclusion("a", "c").ruling is Ruling.SUSPECTED
    assert house.exclusion("c", "b").ruling in (Ruling.ELSEWHERE, Ruling.PENALTY)


def test_disjoint_versions_are_refused_with_a_reason_on_both_sides() -> None:
    house = House("a b c")
    membership = msgspec.structs.replace(house.settings.membership, versions=VersionRange(7, 8))
    house.own["c"] = msgspec.structs.replace(house.settings, membership=membership)
    for name in house.home:
        house.world.restart(name)
    house.until(lambda: house.is_together("ab"))
    for here, there in (("a", "c"), ("c", "a")):
        answer = house.exclusion(here, there)
        assert answer.ruling is Ruling.REFUSED
        assert "none in common" in answer.text and "7 to 8" in answer.text
        assert answer.since is not None


def test_an_identity_that_is_taken_is_refused_with_a_reason() -> None:
    house = House("a b c")
    house.identities["c"] = "b"
    for name in "ab":
        house.world.restart(name)
    house.until(lambda: house.is_together("ab"))
    house.world.restart("c")
    house.run(500)
    answer = house.exclusion("a", "c")
    assert answer.ruling is Ruling.REFUSED
    assert "the identity of c is that of b" in answer.text
    assert "has the identity of b" in house.exclusion("b", "b").text


def test_a_daemon_that_the_settings_took_out_is_refused_and_hears_it() -> None:
    house = House("a b c").start()
    for name in "ab":
        house.world.tell(name, SERVICE_LABEL, PeersChanged(0, removed=("c",)))
    house.until(lambda: house.is_together("ab"))
    assert house.exclusion("a", "c").ruling is Ruling.REMOVED
    house.until(lambda: house.exclusion("c", "a").ruling is Ruling.REFUSES)
    assert "removed from the settings" in house.exclusion("c", "a").text


def test_a_daemon_that_says_good_bye_is_gone() -> None:
    house = House("a b c").start()
    house.world.stop("c")
    house.until(lambda: house.is_together("ab"))
    assert house.exclusion("a", "c").ruling is Ruling.GONE


def test_a_daemon_that_was_never_met_and_one_under_a_penalty() -> None:
    house = House("a b c", settings=MembershipSettings(penalty_us=3_000_000))
    house.world.restart("a")
    house.world.restart("b")
    house.until(lambda: house.is_together("ab"))
    assert house.exclusion("a", "c").ruling in (Ruling.UNPROVEN, Ruling.SUSPECTED)
    house.world.restart("c")
    house.until(house.is_together)
    house.world.partition("ab", "c")
    house.until(lambda: house.exclusion("a", "c").ruling is Ruling.SUSPECTED)
    house.world.heal()
    house.until(lambda: house.exclusion("a", "c").ruling is Ruling.PENALTY)
    answer = house.exclusion("a", "c")
    assert answer.until is not None and answer.until > house.now("a")
    house.until(house.is_together)


def test_while_the_next_view_forms_its_members_are_coming() -> None:
    house = House("a b c").start()
    house.world.crash("c")
    rulings: list[Ruling] = []
    for _ in range(1_000):
        house.run(2)
        ruling = house.exclusion("a", "b").ruling
        if not rulings or rulings[-1] is not ruling:
            rulings.append(ruling)
    assert rulings == [Ruling.MEMBER, Ruling.LEAVING, Ruling.COMING, Ruling.MEMBER]
