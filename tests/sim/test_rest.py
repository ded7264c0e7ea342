"""Daemon views that rest, that change without cause, and that stay apart."""

from __future__ import annotations

from isotone.core.choice import Choice
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.sim.evs_clients import Clients
from isotone.sim.evs_nodes import CLIENTS
from isotone.sim.rest import REST_US, Rest, draw_lasting_cuts, draw_walls
from isotone.sim.world import World

NAMES = ("a", "b", "c")
SECOND = 1_000_000


class ToldRest(Rest):
    """Daemon views as a script says them: at a time, who is in which."""

    def __init__(self, world: World, script: dict[int, str], sites: dict[str, str] | None = None) -> None:
        super().__init__(world, sites or dict.fromkeys(NAMES, "s"))
        self._script = script

    def _views(self) -> dict[str, DaemonViewId]:
        words = [words for at, words in self._script.items() if at <= self._world.now][-1].split()
        ids = {
            letter: DaemonViewId(place + len(words), DaemonId(word[0], 1))
            for place, word in enumerate(words)
            for letter in word
        }
        return {name: ids[name] for name in NAMES if name in ids}


def world_with(*cuts: tuple[str, str, bool]) -> World:
    world = World(seed=1)
    for name in NAMES:
        world.add_process(name, lambda boot: {CLIENTS: Clients(boot.daemon)}, site="s")
    for source, target, one_way in cuts:
        world.cut(source, target, one_way=one_way)
    return world


def test_one_view_is_at_rest_when_it_has_stayed_for_a_while() -> None:
    world = world_with()
    assert ToldRest(world, {0: "a bc", 2 * SECOND: "abc"}).unrest_within(5 * SECOND) == []
    assert REST_US <= world.now - 2 * SECOND <= REST_US + SECOND


def test_views_that_keep_changing_never_rest() -> None:
    script = {second * SECOND: ("abc", "ab c")[second // 3 % 2] for second in range(60)}
    (problem,) = ToldRest(world_with(("a", "c", False)), script).unrest_within(10 * SECOND)[:1]
    assert "do not rest" in problem


def test_who_reaches_all_of_the_others_view_must_not_stay_apart() -> None:
    found = ToldRest(world_with(), {0: "ab c"}).unrest_within(SECOND)
    assert found[1:] == ["a and c stay apart", "b and c stay apart"]


def test_who_is_cut_off_from_one_member_may_stay_apart_also_one_way() -> None:
    for one_way in (False, True):
        assert ToldRest(world_with(("a", "c", one_way)), {0: "ab c"}).unrest_within(SECOND) == []


def test_a_daemon_without_an_installed_view_is_not_at_rest() -> None:
    assert ToldRest(world_with(), {0: "ab"}).unrest_within(SECOND)


def test_a_view_that_changes_after_all_had_settled() -> None:
    assert ToldRest(world_with(), {0: "abc"}).unrest_from_now() == []
    (problem,) = ToldRest(world_with(), {0: "abc", SECOND: "ab c"}).unrest_from_now()
    assert "without any cause" in problem


def test_some_seeds_have_cuts_that_last() -> None:
    drawn = [draw_lasting_cuts(Choice(seed), NAMES) for seed in range(100)]
    assert 15 <= sum(map(bool, drawn)) <= 45
    assert {one_way for cuts in drawn for _, _, one_way in cuts} == {True, False}
    assert draw_lasting_cuts(Choice(1), ("a",)) == ()


def test_sites_that_a_gateway_connects_must_not_stay_apart() -> None:
    sites = {"a": "s", "b": "s", "c": "t"}
    assert ToldRest(world_with(("a", "c", False)), {0: "ab c"}, sites).unrest_within(SECOND)
    both = world_with(("a", "c", False), ("b", "c", True))
    assert ToldRest(both, {0: "ab c"}, sites).unrest_within(SECOND) == []


def test_walls_leave_one_pair_or_two_between_sites() -> None:
    sites = {"a": "s", "b": "s", "c": "t", "d": "t", "e": "t"}
    drawn = [draw_walls(Choice(f"walls/{seed}"), sites) for seed in range(100)]
    raised = [walls for walls in drawn if walls]
    assert 10 <= len(raised) <= 40
    across = 6
    assert {across - len(walls) for walls in raised} == {1, 2}
    assert all(sites[one] != sites[other] for walls in raised for one, other in walls)
    assert draw_walls(Choice("walls"), {"a": "s", "b": "t"}) == ()
