"""[ISIS], step by step: the protocols of 4.1 to 4.5 played by hand, and the examples of 1 and 3.2."""

from __future__ import annotations

from itertools import pairwise

from isotone.core.contract import Action
from isotone.isis import events as e
from isotone.isis import wire as w
from isotone.isis.life import Life
from isotone.isis.settings import IsisSettings
from isotone.isis.site_views import SiteViews

NAMES = ("a", "b", "c")
SITES = ("a.1", "b.1", "c.1")
LIVES = (("a", 1), ("b", 1), ("c", 1))


class Cluster:
    """Operational sites whose frames are carried when the test says so."""

    def __init__(self, *, group: str = "g") -> None:
        self.lives = {site: Life(IsisSettings(site[0], NAMES), site) for site in SITES}
        self.heard: dict[str, list[Action]] = {site: [] for site in SITES}
        self.cut: set[tuple[str, str]] = set()  # nothing goes this way now
        self.enter(w.SiteView(1, SITES, LIVES))
        for site in SITES:
            self.ask(site, e.JoinWanted(0, "p", group))
            self.run()

    def enter(self, view: w.SiteView) -> None:
        for site in view.members:
            self.lives[site].enter_view(view)
            self.lives[site].settle(transmit=True)
        self.run()

    def fail(self, *failed: str) -> None:
        """The survivors install a site view without these."""
        for site in failed:
            del self.lives[site]
        self.cut = set()
        number = next(iter(self.lives.values())).site.view.number + 1
        self.enter(w.SiteView(number, tuple(self.lives), LIVES))

    def ask(self, site: str, event: e.JoinWanted | e.BroadcastWanted | e.FlushWanted | e.AnswerGiven) -> None:
        self.lives[site].ask(event)
        self.lives[site].settle(transmit=True)

    def cast(self, site: str, primitive: e.Primitive, body: bytes, **more: object) -> None:
        self.ask(site, e.BroadcastWanted(0, "p", "g", primitive, body, **more))  # type: ignore[arg-type]

    def step(self) -> bool:
        """One round: every site sends what it may, and hears it."""
        moved = False
        for source, life in list(self.lives.items()):
            number = life.site.view.number
            channels = life.site.channels
            held = {peer: channels.peers.pop(peer) for peer in list(channels.peers) if (source, peer) in self.cut}
            frames = channels.pump(number)
            channels.peers.update(held)
            for frame in frames:
                if (target := self.lives.get(frame.target)) is not None:
                    target.site.channels.receive(frame, target.site.view.number)
                    target.settle(transmit=True)
                    moved = True
            self.heard[source] += life.take()
        return moved

    def run(self) -> None:
        while self.step():
            pass

    def bodies(self, site: str) -> list[bytes]:
        return [each.body for each in self.heard[site] if isinstance(each, e.Deliver)]

    def story(self, site: str) -> list[object]:
        """Messages, and who failed, in their order."""
        told: list[object] = []
        for each in self.heard[site]:
            if isinstance(each, e.Deliver):
                told.append(each.body)
            elif isinstance(each, e.DeliverView) and each.failed:
                told.append(each.failed)
        return told


A, C, G = e.Primitive.ABCAST, e.Primitive.CBCAST, e.Primitive.GBCAST


def views(name: str, *, committed: w.SiteView | None = None, life: int = 1) -> SiteViews:
    found = SiteViews(IsisSettings(name, NAMES), life=life)
    found.committed = (committed or w.SiteView(1, SITES, LIVES),)
    return found


def said(sender: SiteViews, kind: type) -> list[tuple[str, object]]:
    return [(target, body) for target, body in sender.said if isinstance(body, kind)]


def hello(receiver: SiteViews, site: str, at: int, *, live: bool = True, number: int = 1) -> None:
    receiver.on_hello(site, w.Hello(live, number), at)


# --- 4.2 --------------------------------------------------------------------------------------------------------------


def led_by_b() -> SiteViews:
    """a fell silent, and b has interrogated c."""
    manager = views("b")
    hello(manager, "c.1", 900_000)
    manager.tick(1_000_000)
    ((target, asked),) = said(manager, w.Interrogate)
    assert target == "c" and isinstance(asked, w.Interrogate)
    manager.on_promise("c.1", w.Promise(asked.ballot, manager.committed, w.NO_BALLOT, ()), 1_000_000)
    return manager


def test_4_2_step_1_the_manager_proposes_an_extension() -> None:
    manager = led_by_b()
    ((target, proposal),) = said(manager, w.Proposal)
    assert target == "c" and isinstance(proposal, w.Proposal)
    assert [view.members for view in proposal.extension] == [("b.1", "c.1")]
    assert manager.is_dead("a.1") and not manager.is_declared_dead("a.1")


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


def test_4_2_steps_4_and_5_a_pending_extension_goes_on_and_grows() -> None:
    pending = w.SiteView(2, ("a.1", "c.1"), LIVES)  # a proposed it, without b, and fell silent
    manager = views("c")
    hello(manager, "b.2", 900_000, live=False)
    manager.tick(1_000_000)
    ((_, asked),) = said(manager, w.Interrogate)
    assert isinstance(asked, w.Interrogate)
    manager.on_promise("b.2", w.Promise(asked.ballot, manager.committed, (1, "a"), (pending,)), 1_000_000)
    assert manager.extension[0] == pending and manager.last.members == ("c.1", "b.2")


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


def test_4_2_a_read_lock_keeps_the_view_from_growing() -> None:
    site = views("b")
    site.read_locks = 1
    site.on_lock_asked("a.1", w.LockAsked((1, "a")), 10)
    assert not said(site, w.LockGranted) and not site.may_read_lock(11)
    site.read_locks = 0
    site.on_lock_asked("a.1", w.LockAsked((1, "a")), 20)
    assert said(site, w.LockGranted)


# --- 4.3.1 ------------------------------------------------------------------------------------------------------------


def test_4_3_1_steps_1_to_4() -> None:
    cluster = Cluster()
    cluster.cast("a.1", A, b"x", label="q")
    assert cluster.bodies("b.1") == []  # (2) undeliverable until the sender has all priorities
    cluster.run()
    assert all(cluster.bodies(site) == [b"x"] for site in SITES)


def test_4_3_1_overlapping_abcasts_have_one_order() -> None:
    cluster = Cluster()
    for place, site in enumerate(SITES):
        cluster.cast(site, A, b"%d" % place, label="q")
    cluster.run()
    assert cluster.bodies("a.1") == cluster.bodies("b.1") == cluster.bodies("c.1")
    assert sorted(cluster.bodies("a.1")) == [b"0", b"1", b"2"]


def test_4_3_1_a_destination_takes_over() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}  # only b hears of it
    cluster.cast("a.1", A, b"x", label="q")
    cluster.step()
    cluster.fail("a.1")
    assert cluster.story("b.1") == cluster.story("c.1") == [b"x", ("a.1/p",)]


# --- 4.3.2 ------------------------------------------------------------------------------------------------------------


def test_4_3_2_what_precedes_travels_along() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"first")
    cluster.run()
    assert cluster.bodies("b.1") == [b"first"] and cluster.bodies("c.1") == []
    cluster.cast("b.1", C, b"second")
    cluster.run()
    assert cluster.bodies("c.1") == [b"first", b"second"]  # steps (1), (5): by way of b
    cluster.cut = set()
    cluster.run()
    assert cluster.bodies("c.1") == [b"first", b"second"]  # step (4): the copy from a is discarded


def test_3_4_a_minimal_broadcast_takes_nothing_along() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"first")
    cluster.run()
    cluster.cast("b.1", C, b"second", number=-1)
    cluster.run()
    assert cluster.bodies("c.1") == [b"second"]


def test_4_3_2_atomic_after_the_failure_of_the_sender() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"x")
    cluster.run()
    cluster.fail("a.1")
    assert cluster.bodies("c.1") == [b"x"]


# --- 4.3.3, 1, 3.1 ----------------------------------------------------------------------------------------------------


def test_1_every_data_manager_sees_the_update_before_the_failure() -> None:
    """Of the three outcomes of section 1 only one is seen, and by all."""
    for cut in ((), (("a.1", "b.1"),), (("a.1", "b.1"), ("a.1", "c.1"))):
        cluster = Cluster()
        cluster.cut = set(cut)
        cluster.cast("a.1", C, b"update")
        cluster.run()
        cluster.fail("a.1")
        seen = [("a.1/p",)] if len(cut) == 2 else [b"update", ("a.1/p",)]
        assert cluster.story("b.1") == cluster.story("c.1") == seen


def test_4_3_3_a_gbcast_is_ordered_against_everything() -> None:
    cluster = Cluster()
    for place, site in enumerate(SITES):
        cluster.cast(site, A, b"a%d" % place, label=f"q{place}")
        cluster.cast(site, C, b"c%d" % place)
        cluster.cast(site, G, b"g%d" % place)
    cluster.run()
    parts = []
    for site in SITES:
        told = cluster.bodies(site)
        assert len(told) == 9
        marks = [place for place, body in enumerate(told) if body.startswith(b"g")]
        cuts = [0, *marks, len(told)]
        parts.append([frozenset(told[low:high]) for low, high in pairwise(cuts)])
    assert parts[0] == parts[1] == parts[2]


def test_3_6_a_gbcast_from_outside_has_one_place_among_all_messages() -> None:
    """Also when it met a member that its sender did not know: then it is tried again, with the view of the group."""
    cluster = Cluster()
    for site in ("b.1", "c.1"):
        cluster.ask(site, e.JoinWanted(0, "p", "h"))
        cluster.run()
        cluster.ask("a.1", e.BroadcastWanted(0, "q", "h", G, f"from outside to {site}".encode()))
        cluster.run()
    assert cluster.bodies("b.1") == [b"from outside to b.1", b"from outside to c.1"]
    assert cluster.bodies("c.1") == [b"from outside to c.1"]


def test_4_3_3_a_participant_restarts_a_gbcast() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", G, b"now")
    cluster.step()
    cluster.fail("a.1")
    assert cluster.story("b.1") == cluster.story("c.1") == [b"now", ("a.1/p",)]


def test_4_3_3_whoever_joins_has_the_view_before_any_other_member() -> None:
    """D-newcomer: else all others could deliver the view and fail, and the newcomer would not find it again."""
    cluster = Cluster()
    for site in ("b.1", "c.1"):
        cluster.ask(site, e.JoinWanted(0, "p", "h"))
        if site == "b.1":
            cluster.run()
    for _ in range(20):
        if cluster.lives["c.1"].gbcasts.at_head:
            break
        cluster.step()
    cluster.cut = {("a.1", "c.1")}
    cluster.run()
    assert cluster.lives["b.1"].site.groups["h"].members == ("b.1/p",)
    cluster.cut = set()
    cluster.run()
    assert cluster.lives["b.1"].site.groups["h"] == cluster.lives["c.1"].site.groups["h"]
    assert cluster.lives["c.1"].site.groups["h"].members == ("b.1/p", "c.1/p")


# --- 3.2 --------------------------------------------------------------------------------------------------------------


def improbable(*, uniform: bool) -> Cluster:
    """The exercise of 3.2: a alone has both ABCASTs with high priorities, delivers, and fails before anybody knows."""
    cluster = Cluster()
    cluster.lives["a.1"].site.highest += 5
    cluster.cut = {("b.1", "c.1")}
    cluster.cast("b.1", A, b"y", label="q", uniform=uniform)
    cluster.step()
    cluster.cast("a.1", A, b"x", label="q", uniform=uniform)
    cluster.step()
    cluster.cut = {("a.1", "b.1"), ("a.1", "c.1")}
    cluster.run()
    cluster.fail("a.1")
    return cluster


def test_3_2_the_replicated_queue_is_the_same_at_all_that_stay() -> None:
    for uniform in (False, True):
        cluster = improbable(uniform=uniform)
        assert cluster.bodies("b.1") == cluster.bodies("c.1") and sorted(cluster.bodies("b.1")) == [b"x", b"y"]


def test_3_2_the_improbable_order_of_a_process_that_fails_needs_the_extra_phase() -> None:
    without = improbable(uniform=False)
    assert without.bodies("a.1") == [b"y", b"x"] and without.bodies("b.1") == [b"x", b"y"]
    extra = improbable(uniform=True)
    assert b"x" not in extra.bodies("a.1")  # nobody delivers before all know the priority


# --- 4.4, 4.5, 4.1 ----------------------------------------------------------------------------------------------------


def test_4_4_everything_is_forgotten_and_no_duplicate_follows() -> None:
    cluster = Cluster()
    cluster.cast("a.1", C, b"x")
    cluster.cast("b.1", A, b"y", label="q")
    cluster.run()
    for _ in range(4):
        for life in cluster.lives.values():
            life.collect()
            life.settle(transmit=True)
        cluster.run()
    for life in cluster.lives.values():
        assert not life.site.store and not life.cbcasts.buffer and not life.cbcasts.delivered
    old = w.Causal("a.1:1", "a.1/p", "g", w.Label("", 1), ("c.1/p",), ("c.1",), b"x")
    told = len(cluster.bodies("c.1"))
    c = cluster.lives["c.1"]
    c.cbcasts.on_packet("a.1", w.Packet((old,)))
    assert len(cluster.bodies("c.1")) == told or c.site.forgotten.has("a.1:1")


def test_4_5_flush_waits_until_all_is_sent() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"x")
    cluster.ask("a.1", e.FlushWanted(0, 7))
    cluster.run()
    assert e.FlushDone(7) not in cluster.heard["a.1"]
    cluster.cut = set()
    cluster.run()
    assert e.FlushDone(7) in cluster.heard["a.1"]


def test_4_1_a_failure_reply_comes_for_whoever_will_not_answer() -> None:
    cluster = Cluster()
    cluster.cast("a.1", A, b"call", label="q", token=3, call=True)
    cluster.run()
    call = next(each for each in cluster.heard["b.1"] if isinstance(each, e.Deliver))
    cluster.ask("b.1", e.AnswerGiven(0, "p", call.message, b"yes"))
    cluster.run()
    cluster.fail("c.1")
    answers = [each for each in cluster.heard["a.1"] if isinstance(each, e.AnswerHeard)]
    assert [(each.process, each.failed) for each in answers] == [("b.1/p", False), ("c.1/p", True)]
