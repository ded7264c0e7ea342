"""Stamps, overtaking and cuts, on one daemon view that is built by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from isotone.core.boundary import Indicate, Message
from isotone.core.bundles import bundle_of
from isotone.core.choice import Choice
from isotone.core.contract import Action
from isotone.core.ids import ClientId, DaemonId, DaemonViewId
from isotone.core.services import Service
from isotone.spec.oracle.cut import cut
from isotone.spec.oracle.model import DATA, JOIN, LEAVE, Daemon, Entry, Transition, ViewState, World
from isotone.spec.oracle.ordering import advance
from isotone.spec.oracle.overtaking import may_overtake, overtake
from isotone.spec.oracle.settings import OracleSettings
from isotone.spec.oracle.stamping import stamp

R, F, C, A, S = list(Service)[1:]


class Scene:
    """Three daemons at the beginning of a view, with one client each in one group."""

    def __init__(self, seed: int = 0) -> None:
        self.world = World(Choice(seed), OracleSettings(drop_chance=0.0), Counter())
        self.daemons = [Daemon(DaemonId(f"d{place}", 1), clock=0, epoch=0) for place in (1, 2, 3)]
        self.view = ViewState(1, DaemonViewId(1, self.daemons[0].id), self.daemons, base=10)
        self.view.origins, self.view.concerns = [[]], [{}]
        self.sent: Counter[ClientId] = Counter()
        for place, daemon in enumerate(self.daemons):
            self.view.origin_of[daemon.id] = 0
            daemon.view, daemon.place, daemon.bit = self.view, place, 1 << place
            self.world.alive[daemon.id.name] = daemon
            daemon.enter_order(base=10)
            daemon.groups.connect(self.client(place))
        for daemon in self.daemons:
            self.go(daemon, 1)
        for place in range(3):
            self.join(place)
        for daemon in self.daemons:
            self.go(daemon, len(self.view.log))

    def client(self, place: int) -> ClientId:
        return ClientId(self.daemons[place].id, "c", 1)

    def join(self, place: int, group: str = "g", name: str = "c") -> Entry:
        daemon = self.daemons[place]
        daemon.pending.append((JOIN, ClientId(daemon.id, name, 1), group, 1))
        return self._stamp(daemon)

    def leave(self, place: int, group: str = "g") -> Entry:
        self.daemons[place].pending.append((LEAVE, self.client(place), group, 1))
        return self._stamp(self.daemons[place])

    def send(self, place: int, service: Service, *groups: str) -> Entry:
        daemon, client = self.daemons[place], self.client(place)
        self.sent[client] += 1
        bundle = bundle_of(client, self.sent[client], service, groups or ("g",), [b"x"])
        daemon.pending.append((DATA, client, bundle, 1))
        return self._stamp(daemon)

    def _stamp(self, daemon: Daemon) -> Entry:
        before = list(self.view.log)
        stamp(self.world, daemon, self.view, 1)
        (entry,) = [entry for entry in self.view.log if entry not in before]
        return entry

    def go(self, daemon: Daemon, limit: int) -> list[Action]:
        out: list[Action] = []
        self.view.received[daemon.place] = limit
        advance(self.world, daemon, self.view, limit, out)
        return out

    def overtake(self, daemon: Daemon, entry: Entry) -> None:
        assert may_overtake(daemon, self.view, entry)
        overtake(self.world, daemon, entry, [])

    def may(self, place: int, entry: Entry) -> bool:
        return may_overtake(self.daemons[place], self.view, entry)

    def cut(self, *places: int) -> Transition:
        together = [self.daemons[place] for place in places]
        target = ViewState(2, DaemonViewId(2, together[0].id), together, base=99)
        return cut(self.world, self.view, target, together, settles=True)


def told(actions: list[Action]) -> list[Message]:
    return [each.indication for each in actions if isinstance(each, Indicate) and isinstance(each.indication, Message)]


# --- stamps --------------------------------------------------------------------------------------------------------


def test_concurrent_bundles_stand_by_lamport_time_and_daemon() -> None:
    scene = Scene()
    later, first, second = scene.send(2, A), scene.send(0, A), scene.send(0, A)
    assert [entry.stamp for entry in (first, later, second)] == sorted(e.stamp for e in (first, later, second))
    assert first.lamport == later.lamport, "ties are broken by daemon"
    assert scene.view.log[-3:] == [first, later, second]
    assert scene.world.taken["late_stamp"] == 1


def test_nothing_enters_below_what_somebody_agreed_on() -> None:
    scene = Scene()
    scene.send(0, A)
    scene.go(scene.daemons[0], len(scene.view.log))
    entry = scene.send(1, A)
    assert scene.view.log[-1] is entry


def test_a_stamp_is_above_all_that_was_delivered_early() -> None:
    scene = Scene()
    entries = [scene.send(0, R) for _ in range(3)]
    scene.overtake(scene.daemons[1], entries[-1])
    assert scene.send(1, R).stamp > entries[-1].stamp


# --- overtaking ----------------------------------------------------------------------------------------------------


def test_safe_waits_until_every_daemon_has_it() -> None:
    scene = Scene()
    entry = scene.send(0, S)
    end = len(scene.view.log)
    scene.view.received = [end, end, end - 1]
    out: list[Action] = []
    assert not advance(scene.world, scene.daemons[0], scene.view, end, out)
    assert told(out) == []
    scene.view.received[2] = end
    assert advance(scene.world, scene.daemons[0], scene.view, end, out)
    assert told(out) == [entry.message] and scene.view.safe_line == end


def test_agreed_never_overtakes_by_itself_and_fifo_waits_for_its_client() -> None:
    scene = Scene()
    scene.send(1, A)
    first, second = scene.send(0, R), scene.send(0, F)
    assert scene.may(2, first) and not scene.may(2, second)
    scene.overtake(scene.daemons[2], first)
    assert scene.may(2, second)


def test_fifo_waits_for_what_a_reliable_one_overtook() -> None:
    scene = Scene()
    scene.send(1, A)
    scene.send(0, A)
    reliable, fifo = scene.send(0, R), scene.send(0, F)
    scene.overtake(scene.daemons[2], reliable)
    assert not scene.may(2, fifo)


def test_causal_waits_for_its_past_and_for_nothing_else() -> None:
    scene = Scene()
    unrelated, cause = scene.send(2, A), scene.send(0, R)
    scene.overtake(scene.daemons[1], cause)
    effect = scene.send(1, C)
    assert effect.stamp > cause.stamp and effect.stamp > unrelated.stamp
    assert not scene.may(2, effect)
    scene.overtake(scene.daemons[2], cause)
    assert scene.may(2, effect)


def test_causality_passes_through_bundles_that_overtook_their_own_past() -> None:
    """c1 sends two; c2 hears the second alone and answers: the first precedes the answer all the same."""
    scene = Scene()
    first, second = scene.send(0, R), scene.send(0, R)
    scene.overtake(scene.daemons[1], second)
    answer = scene.send(1, C)
    scene.overtake(scene.daemons[2], second)
    assert not scene.may(2, answer)
    scene.overtake(scene.daemons[2], first)
    assert scene.may(2, answer)


def test_a_weak_bundle_waits_for_the_joins_that_its_sender_saw() -> None:
    """Else a member of the sender's view could miss it: Reference: [Spread 2.17]."""
    scene = Scene()
    scene.join(2, name="late")
    scene.go(scene.daemons[0], len(scene.view.log))
    entry = scene.send(0, R)
    assert not scene.may(2, entry)
    scene.go(scene.daemons[2], len(scene.view.log) - 1)
    assert scene.may(2, entry)


def test_a_late_unreliable_one_is_dropped() -> None:
    scene = Scene()
    scene.send(0, Service.UNRELIABLE)
    reliable = scene.send(0, R)
    scene.overtake(scene.daemons[1], reliable)
    assert told(scene.go(scene.daemons[1], len(scene.view.log))) == []
    assert scene.world.taken["dropped_unreliable"] == 1


# --- cuts ----------------------------------------------------------------------------------------------------------


def cuts(scene_of: Callable[[Scene], tuple[int, ...]]) -> Iterator[tuple[Scene, Transition, list[Entry]]]:
    """Many free choices of one cut: the scene, the transition, and all that is delivered in its view."""
    for seed in range(40):
        scene = Scene(seed)
        places = scene_of(scene)
        transition = scene.cut(*places)
        yield scene, transition, [*scene.view.log[: transition.line], *transition.early, *transition.tail]


def test_a_cut_keeps_what_was_stamped_or_delivered_by_those_who_move() -> None:
    def arrange(scene: Scene) -> tuple[int, ...]:
        scene.send(0, S)
        scene.overtake(scene.daemons[1], scene.send(2, R))
        scene.send(2, A)
        return 0, 1

    lost = 0
    for scene, _, kept in cuts(arrange):
        own, early, strange = sorted(scene.view.log[-3:], key=lambda entry: (entry.stamper, entry.stamp))
        assert own in kept and early in kept
        lost += strange not in kept
    assert lost, "what only strangers stamped may be lost"


def test_an_unstable_safe_bundle_stands_behind_the_signal() -> None:
    def arrange(scene: Scene) -> tuple[int, ...]:
        scene.send(0, S)
        return 0, 1

    for scene, transition, _ in cuts(arrange):
        assert transition.line < len(scene.view.log) and transition.tail == scene.view.log[-1:]


def test_what_depends_on_a_hole_is_lost_with_it() -> None:
    def arrange(scene: Scene) -> tuple[int, ...]:
        scene.send(1, A, "h")
        scene.go(scene.daemons[2], len(scene.view.log))
        scene.send(2, C, "h")
        scene.send(2, R, "h")
        return (0,)

    alone = 0
    for scene, _, kept in cuts(arrange):
        cause, effect, unordered = scene.view.log[-3:]
        assert effect not in kept or cause in kept
        alone += unordered in kept and cause not in kept
    assert alone, "a RELIABLE bundle depends on nothing"


def test_everyone_owes_what_was_delivered_as_safe() -> None:
    def arrange(scene: Scene) -> tuple[int, ...]:
        for service in (A, S, A):
            scene.send(1, service)
        scene.view.received = [len(scene.view.log)] * 3
        scene.go(scene.daemons[1], len(scene.view.log) - 1)
        return (0,)

    for scene, _, kept in cuts(arrange):
        assert scene.view.log[-3] in kept and scene.view.log[-2] in kept


def test_a_leave_that_somebody_agreed_on_stands_before_the_signal_and_a_join_perhaps() -> None:
    def arrange_leave(scene: Scene) -> tuple[int, ...]:
        scene.leave(1)
        scene.go(scene.daemons[1], len(scene.view.log))
        return (0,)

    def arrange_join(scene: Scene) -> tuple[int, ...]:
        scene.join(1, name="new")
        scene.go(scene.daemons[1], len(scene.view.log))
        return (0,)

    for scene, transition, _ in cuts(arrange_leave):
        assert transition.line == len(scene.view.log)
    assert {len(scene.view.log) - transition.line for scene, transition, _ in cuts(arrange_join)} == {0, 1}


def test_own_agreed_bundles_behind_a_change_in_transition_are_perhaps_withheld_from_others() -> None:
    def arrange(scene: Scene) -> tuple[int, ...]:
        scene.send(0, S)
        scene.join(0, name="new")
        scene.send(0, A)
        return (0,)

    seen = set()
    for scene, transition, kept in cuts(arrange):
        own, is_free = scene.view.log[-1], scene.view.log[-1].withheld is None
        assert own in kept and own.withheld in (None, transition)
        assert is_free or scene.view.cap == len(scene.view.log) - 1
        seen.add((is_free, own in scene.cut(1, 2).tail))
    assert seen == {(False, False), (True, False), (True, True)}, "others may have it, in another view"
