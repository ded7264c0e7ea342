"""[ISIS 4.2], step by step and by its correctness argument: site view managers whose messages the test carries."""

from __future__ import annotations

from isotone.isis import wire as w
from isotone.isis.site_views import SiteViews
from tests.paper.isis_cluster import LIVES, SITES, carry, gone_through, hello, manage, said, views

FIVE = ("a", "b", "c", "d", "e")


def led_by_b() -> SiteViews:
    """a fell silent, and b has interrogated c."""
    manager = views("b")
    hello(manager, "c.1", 900_000)
    manager.tick(1_000_000)
    ((target, asked),) = said(manager, w.Interrogate)
    assert target == "c" and isinstance(asked, w.Interrogate)
    manager.on_promise("c.1", w.Promise(asked.ballot, manager.committed, w.NO_BALLOT, ()), 1_000_000)
    return manager


def operational(*names: str) -> dict[str, SiteViews]:
    """Of the five sites, those that are up; all five are in the last site view."""
    return {name: views(name, names=FIVE) for name in names}


def test_4_2_step_1_the_manager_proposes_an_extension() -> None:
    manager = led_by_b()
    ((target, proposal),) = said(manager, w.Proposal)
    assert target == "c" and isinstance(proposal, w.Proposal)
    assert [view.members for view in proposal.extension] == [("b.1", "c.1")]
    assert manager.is_dead("a.1") and not manager.is_declared_dead("a.1")  # it takes nothing from a any more


def test_4_2_step_2_a_site_ceases_to_accept_messages_of_who_is_not_in_the_proposal() -> None:
    site, view = views("c"), w.SiteView(2, ("b.1", "c.1"), LIVES)
    assert not site.is_dead("a.1")
    site.on_proposal("b.1", w.Proposal((1, "b"), site.committed, (view,)))
    assert site.is_dead("a.1") and not site.is_declared_dead("a.1")


def test_4_2_step_2a_a_site_saves_the_proposal_and_acknowledges() -> None:
    site, view = views("c"), w.SiteView(2, ("b.1", "c.1"), LIVES)
    site.on_proposal("b.1", w.Proposal((1, "b"), site.committed, (view,)))
    assert site.extension == (view,) and site.dirty
    assert said(site, w.Acknowledged) == [("b", w.Acknowledged((1, "b"), 2))]


def test_4_2_step_2b_a_site_that_knows_more_says_what_is_missing() -> None:
    site, view = views("c"), w.SiteView(2, ("b.1", "c.1"), LIVES)
    site.on_proposal("b.1", w.Proposal((2, "b"), site.committed, (view,)))
    site.on_proposal("a.1", w.Proposal((1, "a"), site.committed, ()))
    ((_, refusal),) = said(site, w.NegativelyAcknowledged)
    assert isinstance(refusal, w.NegativelyAcknowledged) and refusal.extension == (view,)


def test_4_2_step_3a_all_acknowledgements_commit() -> None:
    manager = led_by_b()
    assert not manager.installed
    manager.on_acknowledged("c.1", w.Acknowledged((1, "b"), 2))
    assert [view.members for view in manager.installed] == [("b.1", "c.1")]
    assert said(manager, w.Commit)


def test_4_2_step_3b_a_negative_acknowledgement_makes_it_begin_again_with_what_was_missing() -> None:
    manager, missing = led_by_b(), w.SiteView(2, ("b.1", "c.1"), (("a", 3), ("b", 1), ("c", 1)))
    manager.on_negative("c.1", w.NegativelyAcknowledged((3, "c"), manager.committed, (missing,)), 1_000_000)
    manager.on_acknowledged("c.1", w.Acknowledged((1, "b"), 2))
    assert not manager.installed  # the first attempt is over
    manager.said.clear()
    hello(manager, "c.1", 1_900_000)
    manager.tick(2_000_000)
    ((_, asked),) = said(manager, w.Interrogate)
    assert isinstance(asked, w.Interrogate) and asked.ballot > (3, "c")
    manager.on_promise("c.1", w.Promise(asked.ballot, manager.committed, (3, "c"), (missing,)), 2_000_000)
    ((_, proposal),) = said(manager, w.Proposal)
    assert isinstance(proposal, w.Proposal) and proposal.extension == (missing,)


def test_4_2_step_3b_another_failure_lengthens_the_proposal() -> None:
    sites = operational("a", "b", "c", "d")
    manage(sites, 1_000_000, lost=(("b", w.Proposal),))  # b acknowledges nothing
    del sites["b"]
    manage(sites, 3_000_000)
    assert gone_through(sites["a"])[-1] == ("a.1", "c.1", "d.1") and len(gone_through(sites["a"])) == 2
    assert gone_through(sites["a"]) == gone_through(sites["c"]) == gone_through(sites["d"])


def test_4_2_step_4_a_pending_extension_goes_on_behind_which_the_old_manager_is_out() -> None:
    pending = w.SiteView(2, ("a.1", "c.1"), LIVES)  # a proposed it, without b, and fell silent
    manager = views("c")
    hello(manager, "b.2", 900_000, live=False)
    manager.tick(1_000_000)
    ((_, asked),) = said(manager, w.Interrogate)
    assert isinstance(asked, w.Interrogate)
    manager.on_promise("b.2", w.Promise(asked.ballot, manager.committed, (1, "a"), (pending,)), 1_000_000)
    assert manager.extension[0] == pending and manager.last.members == ("c.1", "b.2")


def test_4_2_step_5_a_committed_extension_is_told_again_with_the_view_behind_it() -> None:
    """b has the commit of a, who failed; c has it not, and gets it as a prefix of the next proposal."""
    second = w.SiteView(2, SITES, LIVES)
    manager, other = views("b"), views("c")
    manager.learn((second,))
    hello(manager, "c.1", 900_000)
    manager.tick(1_000_000)
    ((_, asked),) = said(manager, w.Interrogate)
    assert isinstance(asked, w.Interrogate)
    manager.on_promise("c.1", w.Promise(asked.ballot, other.committed, w.NO_BALLOT, ()), 1_000_000)
    ((_, proposal),) = said(manager, w.Proposal)
    assert isinstance(proposal, w.Proposal)
    assert proposal.committed[-1] == second and [each.members for each in proposal.extension] == [("b.1", "c.1")]
    other.on_proposal("b.1", proposal)
    assert gone_through(other) == [SITES]
    manager.learn((second,))  # a committed prefix is ignored
    assert gone_through(manager) == [SITES]


def test_4_2_of_two_extensions_of_one_manager_the_longer_goes_on() -> None:
    """a saved a proposal of c; then c added a view that b saved alone, and that c may have committed."""
    first, second = w.SiteView(2, SITES, LIVES), w.SiteView(3, ("b.1", "c.1"), LIVES)
    manager = views("a", life=2)
    manager.saved, manager.extension = (1, "c"), (first,)
    hello(manager, "b.2", 900_000, live=False)
    manager.tick(1_000_000)
    ((_, asked),) = said(manager, w.Interrogate)
    assert isinstance(asked, w.Interrogate)
    manager.on_promise("b.2", w.Promise(asked.ballot, manager.committed, (1, "c"), (first, second)), 1_000_000)
    assert manager.extension[:2] == (first, second)


def test_4_2_correctness_1_a_manager_that_stays_takes_all_through_the_same_views() -> None:
    sites = operational("a", "b", "c", "d")
    manage(sites, 1_000_000)
    del sites["c"]
    manage(sites, 3_000_000)
    assert gone_through(sites["a"]) == [("a.1", "b.1", "c.1", "d.1"), ("a.1", "b.1", "d.1")]
    assert gone_through(sites["a"]) == gone_through(sites["b"]) == gone_through(sites["d"])


def test_4_2_correctness_2_what_any_site_has_committed_the_next_manager_commits_everywhere() -> None:
    sites = operational("a", "b", "c", "d")
    manage(sites, 1_000_000, lost=(("c", w.Commit), ("d", w.Commit)))
    assert gone_through(sites["b"]) == [("a.1", "b.1", "c.1", "d.1")] and not sites["c"].installed
    del sites["a"]
    manage(sites, 3_000_000)
    assert gone_through(sites["b"]) == [("a.1", "b.1", "c.1", "d.1"), ("b.1", "c.1", "d.1")]
    assert gone_through(sites["b"]) == gone_through(sites["c"]) == gone_through(sites["d"])


def test_4_2_correctness_3_a_proposal_that_the_next_manager_never_saw_is_found_with_those_who_did() -> None:
    sites = operational("a", "b", "c", "d")
    manage(sites, 1_000_000, lost=(("b", w.Proposal), ("c", w.Proposal), ("d", w.Acknowledged)))
    assert sites["d"].extension and not sites["b"].extension
    proposed = sites["d"].extension
    del sites["a"]
    manage(sites, 3_000_000)
    assert tuple(sites["b"].installed)[: len(proposed)] == proposed
    assert gone_through(sites["b"])[-1] == ("b.1", "c.1", "d.1")
    assert gone_through(sites["b"]) == gone_through(sites["c"]) == gone_through(sites["d"])


def test_4_2_the_oldest_of_those_who_are_there_manages() -> None:
    sites = operational("b", "c", "d")
    for site in sites.values():
        site.tick(1_000_000)
    carry(sites, 1_000_000)
    managing = {name for name, site in sites.items() if site._manages(1_010_000)}
    assert managing == {"b"}


def test_4_2_footnote_3_a_minority_proposes_nothing() -> None:
    alone = views("a")
    alone.tick(10_000_000)
    alone.tick(20_000_000)
    assert not said(alone, w.Proposal) and alone.view.number == 1 and alone.live


def test_4_2_who_is_not_in_a_committed_view_is_dead() -> None:
    site = views("a")
    site.learn((w.SiteView(2, ("b.1", "c.1"), LIVES),))
    assert site.doomed
    told = views("a")
    told.on_dead(w.Dead(2))
    assert told.doomed


def test_4_2_a_recovery_waits_for_the_read_lock_of_every_member_and_a_failure_does_not() -> None:
    sites = operational("a", "b", "c", "d")
    manage(sites, 1_000_000)
    sites["c"].read_locks = 1
    sites["e"] = views("e", names=FIVE, life=2)
    manage(sites, 3_000_000)
    assert sites["a"].view.members == ("a.1", "b.1", "c.1", "d.1")
    del sites["d"]
    manage(sites, 5_000_000)
    assert sites["a"].view.members == ("a.1", "b.1", "c.1")
    sites["c"].read_locks = 0
    manage(sites, 7_000_000)
    assert sites["a"].view.members == ("a.1", "b.1", "c.1", "e.2")


def test_4_2_a_read_lock_keeps_the_view_from_growing() -> None:
    site = views("b")
    site.read_locks = 1
    site.on_lock_asked("a.1", w.LockAsked((1, "a")), 10)
    assert not said(site, w.LockGranted) and not site.may_read_lock(11)
    site.read_locks = 0
    site.on_lock_asked("a.1", w.LockAsked((1, "a")), 20)
    assert said(site, w.LockGranted)


def test_4_2_after_all_failed_a_majority_goes_on_with_the_last_view_of_any() -> None:
    """The cold start: b was in a later view than the others before all failed."""
    later = w.SiteView(2, ("b.1", "c.1", "d.1"), tuple((name, 1) for name in FIVE))
    sites = {name: views(name, names=FIVE, life=2) for name in ("a", "b", "c")}
    sites["b"].committed = (*sites["b"].committed, later)
    manage(sites, 1_000_000)
    assert all(site.live for site in sites.values())
    assert {site.view.number for site in sites.values()} == {3} and sites["a"].view.life("a") == 2
